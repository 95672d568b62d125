#!/usr/bin/env python3
"""Kills training runs at chosen moments, resumes them, and compares every loss with an uninterrupted run: bit by bit.

    resume.py --divisi PATH [--kills N]

Needs only Python. Ends with `N passed, N failed`.
"""

import argparse
import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

MODELS = pathlib.Path(__file__).resolve().parent.parent / "models"
STEPS = 400
CASES = {
    "mlp": ("x", "label", ["--optimizer", "adamw", "--lr", "1e-3"]),
    "lenet": ("image", "label", ["--optimizer", "sgd", "--lr", "1e-3", "--momentum", "0.9"]),
}


def losses(path):
    """Text of the loss of each step: later lines of a step (after a resume) must agree with earlier ones."""
    found = {}
    for line in path.read_text().splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue  # the line that was being written
        if "step" in row and "loss" in row and not row.get("eval"):
            old = found.setdefault(row["step"], repr(row["loss"]))
            assert old == repr(row["loss"]), f"step {row['step']}: {old} and then {row['loss']!r}"
    return found


def command(program, case, folder, log):
    inputs = CASES[case][:2]
    data = [w for n in inputs for w in ("--data", f"{n}={MODELS / case / 'data' / n}.npy")]
    checkpoint = ["--checkpoint", str(folder), "--every", "7", "--resume"]
    return [str(program), *data, "--steps", str(STEPS), "--seed", "3", "--log", str(log), "--quiet", *checkpoint]


def check(divisi, case, kills, work, draw):
    program = work / case
    model = str(MODELS / case / "model.onnx")
    subprocess.run([divisi, "compile", model, "-o", str(program), *CASES[case][2]], check=True)
    whole = work / "whole.jsonl"
    start = time.monotonic()
    subprocess.run(command(program, case, work / "whole", whole), check=True)
    duration = time.monotonic() - start
    logs, killed = [], 0
    for k in range(kills + 1):
        log = work / f"part{k}.jsonl"
        logs.append(log)
        process = subprocess.Popen(command(program, case, work / "parts", log))
        if k < kills:
            time.sleep(duration * draw.uniform(0.1, 0.6))
            process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
    expected, found = losses(whole), {}
    assert len(expected) == STEPS, f"{len(expected)} losses in the uninterrupted run"
    for log in logs:
        if log.is_file():
            for step, loss in losses(log).items():
                assert expected[step] == loss, f"step {step}: {loss} after a resume, {expected[step]} without"
                found[step] = loss
    assert len(found) == STEPS, f"{STEPS - len(found)} steps are in no log"
    assert killed, "no run was killed in time"
    return f"{killed} kills, {STEPS} losses the same"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    p.add_argument("--kills", type=int, default=4)
    o = p.parse_args()
    draw, passed, failed = random.Random(1), 0, 0
    for case in CASES:
        with tempfile.TemporaryDirectory() as work:
            try:
                print(f"ok   {case}: {check(o.divisi, case, o.kills, pathlib.Path(work), draw)}", flush=True)
                passed += 1
            except (AssertionError, subprocess.CalledProcessError, KeyError) as error:
                print(f"FAIL {case}: {error}", flush=True)
                failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
