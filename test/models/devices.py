#!/usr/bin/env python3
"""The reference models on several devices: the losses of PyTorch, and weights that are really sharded.

    devices.py --divisi PATH [--all]

Runs check.py for each way to split, with every second model and one of the optimizers (--all: all models, both, and ways on two devices). Under a strategy that splits weights, the plan of every model must split at least one.
Ends with `N passed, N failed`.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
BOTH = "sgd,adamw"
WAYS = {
    "--devices 2 --strategy data": "sgd",
    "--devices 4 --strategy data": "adamw",
    "--devices 2 --strategy operator": "adamw",
    "--devices 4 --strategy operator": "sgd",
    "--devices 4 --mesh data=2,model=2": "sgd",
    "--devices 2 --zero 1": "adamw",
    "--devices 4 --mesh data=2,model=2 --zero 3": "adamw",
}

CONTAINED = ("--devices 2 --strategy data", "--devices 2 --strategy operator")


def loss_flags(case):
    loss = json.loads((case / "reference.json").read_text()).get("loss")
    return ["--loss", loss["kind"], "--label", loss["label"]] if loss else []


def split_weights(divisi, case, way):
    """Parameters that the plan shards along the axis model."""
    done = subprocess.run([divisi, "compile", str(case / "model.onnx"), *loss_flags(case), *way.split(), "--emit=plan"],
                          check=True, capture_output=True, text=True)
    places = re.findall(r'dist\.place "(\S+)" : \[(.*)\]', done.stdout)
    return [name for name, dims in places if "model" in dims]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    p.add_argument("--all", action="store_true", help="all models and both optimizers each way, and ways whose parts are in others")
    o = p.parse_args()
    cases = sorted(f.parent for f in HERE.glob("*/reference.json"))
    passed = failed = 0
    for number, (way, optimizers) in enumerate((way, optimizers) for way, optimizers in WAYS.items() if o.all or way not in CONTAINED):
        trained = cases if o.all else cases[number % 2::2]
        devices, extra = re.fullmatch(r"--devices (\d)(.*)", way).groups()
        command = [sys.executable, str(HERE / "check.py"), "--divisi", o.divisi, "--devices", devices, "--launcher", ("local", "mpirun")[number % 2],
                   f"--compile-args={extra.strip()}", "--optimizers", BOTH if o.all else optimizers, "--cases", ",".join(case.name for case in trained)]
        done = subprocess.run(command, capture_output=True, text=True)
        for line in done.stdout.splitlines():
            if not line.startswith(("ok  ", "FAIL")):
                continue
            good = line.startswith("ok")
            passed, failed = passed + good, failed + (not good)
            print(f"{'ok  ' if good else 'FAIL'} {way}: {line[5:]}", flush=True)
        if done.returncode and "passed" not in done.stdout:
            print(done.stdout + done.stderr)
            failed += 1
        if "operator" in way or "model=" in way:
            for case in cases:
                split = split_weights(o.divisi, case, way)
                passed, failed = passed + bool(split), failed + (not split)
                print(f"{'ok  ' if split else 'FAIL'} {way}: {case.name} splits {len(split)} tensors", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
