"""Runs the cases of a test: each is called with a folder of its own, and its results are printed."""

import os
import pathlib
import subprocess
import tempfile

FAILURES = (AssertionError, OSError, subprocess.SubprocessError, KeyError, ValueError)


def peak_memory(command, code=0):
    """The largest resident memory of a program that ends with this code, in MiB."""
    process = subprocess.Popen([str(word) for word in command])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == code, f"exit code {process.returncode}"
    return usage.ru_maxrss / 1024


def run(cases, call):
    """Calls `call` with each case (a function or a name) and a folder. It returns a text, or yields several, each of which counts.
    Prints `N passed, N failed`; returns the exit code."""
    passed, failed = 0, 0
    for case in cases:
        name = getattr(case, "__name__", case)
        with tempfile.TemporaryDirectory() as folder:
            try:
                said = call(case, pathlib.Path(folder).resolve())
                for text in [said] if isinstance(said, str) else said:
                    print(f"ok   {name}: {text}", flush=True)
                    passed += 1
            except FAILURES as error:
                print(f"FAIL {name}: {error}", flush=True)
                failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0
