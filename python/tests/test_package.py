"""The package as it is installed: a wheel that holds the code and says that it is typed, and needs NumPy alone."""

import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

FOLDER = pathlib.Path(__file__).resolve().parents[1]


def test_wheel(tmp_path):
    setuptools = pytest.importorskip("setuptools", minversion="77", reason="setuptools 77 or later is not installed")
    assert setuptools
    source = tmp_path / "source"  # building leaves files beside what is built
    shutil.copytree(FOLDER, source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--wheel-dir", tmp_path, source], check=True)
    (wheel,) = tmp_path.glob("divisi-*-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(next(n for n in names if n.endswith(".dist-info/METADATA"))).decode()
        archive.extractall(tmp_path / "installed")
    assert {f"divisi/{f.name}" for f in (FOLDER / "divisi").glob("*.py")} | {"divisi/py.typed"} == {
        name for name in names if ".dist-info/" not in name
    }
    required = [line for line in metadata.splitlines() if line.startswith("Requires-Dist:") and "extra ==" not in line]
    assert [line.split()[1].split(">")[0] for line in required] == ["numpy"]
    # It is imported without anything but NumPy.
    code = "import sys, divisi; print(divisi.__file__); assert not {'torch', 'onnx', 'onnxscript'} & set(sys.modules)"
    env = os.environ | {"PYTHONPATH": str(tmp_path / "installed")}
    done = subprocess.run([sys.executable, "-c", code], env=env, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(str(tmp_path / "installed"))


def test_what_export_needs_is_named(monkeypatch, tmp_path):
    import importlib.util

    import divisi

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(divisi.Error, match="divisi.export needs the package torch, which is not installed"):
        divisi.export(None, None, tmp_path / "m.onnx")
