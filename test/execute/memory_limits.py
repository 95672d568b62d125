#!/usr/bin/env python3
"""A program under limits of its address space (ulimit -v): it trains or reports why it cannot, and never hangs.

    memory_limits.py --divisi PATH

Needs only Python. Ends with `N passed, N failed`.
"""

import argparse
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

MODEL = pathlib.Path(__file__).resolve().parent.parent / "models" / "mlp"
REMEDY = "ulimit -v"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    o = p.parse_args()
    passed, failed, explained, trained = 0, 0, 0, 0
    with tempfile.TemporaryDirectory() as work:
        program = pathlib.Path(work) / "p"
        subprocess.run([o.divisi, "compile", str(MODEL / "model.onnx"), "-o", str(program), "--optimizer", "adamw"], check=True)
        data = [w for n in ("x", "label") for w in ("--data", f"{n}={MODEL / 'data' / n}.npy")]
        for threads in (1, 2, 4):
            for megabytes in [*range(20, 1600, 60), 4000]:
                limit = megabytes << 20
                try:
                    done = subprocess.run([str(program), *data, "--steps", "5", "--quiet"], capture_output=True, text=True, timeout=20,
                                          env=os.environ | {"OMP_NUM_THREADS": str(threads)},
                                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
                except subprocess.TimeoutExpired:
                    print(f"FAIL {threads} threads, {megabytes} MB: it hangs")
                    failed += 1
                    continue
                good = done.returncode == 0 or (done.returncode > 0 and len(done.stderr.splitlines()) >= 1)
                passed, failed = passed + good, failed + (not good)
                explained += done.returncode == 1 and REMEDY in done.stderr
                trained += done.returncode == 0
                if not good:
                    print(f"FAIL {threads} threads, {megabytes} MB: exit code {done.returncode}: {done.stderr!r}")
    if trained < 10 or explained < 10:
        print(f"FAIL {trained} runs trained, {explained} said what to do")
        failed += 1
    print(f"{trained} runs trained, {explained} said what to do")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
