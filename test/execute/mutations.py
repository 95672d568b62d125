#!/usr/bin/env python3
"""Damages ONNX files (bit flips, truncations, bytes of other places) and gives them to the compiler, which must accept them or
refuse them with one line that begins with `error:` and exit code 1: never crash, hang or stay silent.

    mutations.py --divisi PATH [--count 10000] [--seed 0] [--jobs 2]

Ends with `N passed, N failed`.
"""

import argparse
import concurrent.futures
import pathlib
import random
import subprocess
import sys
import tempfile

MODELS = pathlib.Path(__file__).resolve().parent.parent / "models"
TIMEOUT = 60


def mutated(raw, draw):
    """A damaged copy. Most damage falls outside of the weights, which are the larger part of a file."""
    data = bytearray(raw)
    kind = draw.random()
    if kind < 0.2:
        return bytes(data[: draw.randrange(len(data))])
    for _ in range(draw.choice([1, 1, 2, 8])):
        near_end = draw.random() < 0.5
        at = len(data) - 1 - draw.randrange(min(4096, len(data))) if near_end else draw.randrange(min(16384, len(data)))
        data[at] = data[draw.randrange(len(data))] if kind > 0.8 else data[at] ^ 1 << draw.randrange(8)
    return bytes(data)


def check(divisi, path, number, seed, work):
    """An error text, or ""."""
    draw = random.Random(f"{seed}-{number}")
    file = pathlib.Path(work) / f"{number}.onnx"
    file.write_bytes(mutated(path.read_bytes(), draw))
    command = [divisi, "compile", str(file), "--emit", "graph", "-o", "/dev/null"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return f"{path.parent.name} #{number}: no end after {TIMEOUT} s"
    finally:
        file.unlink()
    errors = [l for l in done.stderr.decode(errors="replace").splitlines() if not l.startswith("warning: ")]
    if done.returncode == 0 and not errors:
        return None
    if done.returncode == 1 and len(errors) == 1 and errors[0].startswith("error: "):
        return None
    return f"{path.parent.name} #{number}: exit {done.returncode}: {errors[:2]}"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    p.add_argument("--count", type=int, default=10000)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--jobs", type=int, default=2)
    o = p.parse_args()
    models = sorted(MODELS.glob("*/model*.onnx"))
    failed = 0
    with tempfile.TemporaryDirectory() as work, concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        jobs = [pool.submit(check, o.divisi, models[k % len(models)], k, o.seed, work) for k in range(o.count)]
        for k, job in enumerate(jobs):
            wrong = job.result()
            if wrong:
                failed += 1
                print(f"FAIL {wrong}", flush=True)
            if k % 1000 == 999:
                print(f"{k + 1} of {o.count}", flush=True)
    print(f"{o.count - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
