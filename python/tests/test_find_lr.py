"""The learning rate range test through the package, on arrays and iterables; and what ends by Ctrl-C."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from conftest import batches

import divisi


def test_rates(linear, data):
    before = linear.weights()["w"]
    for given, more in ((data, {"shuffle": False}), (batches(data), {})):
        flags = {"no_shuffle": True} if more else {}
        found = linear.find_lr(given, steps=60, quiet=True, **flags)
        rates = [line.lr for line in found.steps]
        assert rates == pytest.approx([1e-7 * 1e8 ** (i / 59) for i in range(len(rates))], rel=1e-6) and 30 < len(rates) <= 60
        assert 1e-7 < found.fastest <= found.least <= 10 and f"{found.fastest:.9g}" in found.advice
        assert found.fastest in [pytest.approx(rate) for rate in rates] and found.least in [pytest.approx(rate) for rate in rates]
    np.testing.assert_array_equal(linear.weights()["w"], before)
    assert linear.find_lr(data, steps=5, quiet=True).fastest is None
    with pytest.raises(TypeError, match="takes no 'checkpoint'"):
        linear.find_lr(data, checkpoint="kept")
    with pytest.raises(divisi.Error, match="steps: expected a whole number"):
        linear.find_lr(data, steps=0)


def running(path):
    """The processes whose command line has this path."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if str(path).encode() in file.read():
                    found.append(int(pid))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]


@pytest.mark.parametrize("ranks", [1, 2])
def test_ctrl_c_leaves_no_process(work, linear_file, tmp_path, ranks):
    """A prediction of many rows that is interrupted."""
    flags = {"devices": ranks, "strategy": "data"} if ranks > 1 else {}
    program = divisi.compile(linear_file, work / f"interrupted{ranks}", loss="mse", label="y", predict=["pred"], **flags)
    np.save(tmp_path / "x.npy", np.zeros((20_000_000, 3), np.float32))
    script = textwrap.dedent(f"""
        import signal, sys
        signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start background jobs that ignore it
        sys.path[:0] = {sys.path!r}
        import divisi
        program = divisi.Program({str(program.path)!r})
        print("ready", flush=True)
        program.predict({{"x": {str(tmp_path / "x.npy")!r}}})
    """)
    child = subprocess.Popen([sys.executable, "-B", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    deadline = time.monotonic() + 30
    while len(running(program.path)) < ranks + (ranks > 1) + 1 and time.monotonic() < deadline:  # and the script itself
        time.sleep(0.02)
    time.sleep(0.2)
    assert child.poll() is None
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=30)
    assert "KeyboardInterrupt" in said and not running(program.path), said
