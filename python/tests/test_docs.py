"""The tutorial runs as it is written."""

import pathlib
import re
import warnings

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: DIVISI_PYTHON names an interpreter that has it")
pytest.importorskip("onnxscript", reason="onnxscript is not installed")

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "python.md"


def blocks():
    """(line, code) of each block of Python."""
    text = PAGE.read_text()
    for match in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield text.count("\n", 0, match.start(1)), match[1]


def test_tutorial(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names, left_out = {"__name__": "tutorial"}, []
    for line, code in blocks():
        needed = re.match(r"# needs (\w+)", code)
        if needed:
            try:
                __import__(needed[1])
            except ImportError:
                left_out.append(needed[1])
                continue
        with warnings.catch_warnings():
            warnings.simplefilter("error", category=__import__("divisi").Warning)
            exec(compile("\n" * line + code, str(PAGE), "exec"), names)
    assert len(list(blocks())) >= 10
    assert "--data input: expected F32 [N, 20]" in capsys.readouterr().out
    if left_out:
        warnings.warn(f"blocks were left out that need {', '.join(left_out)}, which is not installed", stacklevel=1)
