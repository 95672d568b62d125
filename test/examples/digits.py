#!/usr/bin/env python3
"""Trains examples/digits as its README says, and evaluates the saved model with another ONNX runtime.

    digits.py --divisi PATH

Prints `N passed, N failed`. Needs the packages in ../requirements.txt.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

DIGITS = pathlib.Path(__file__).resolve().parents[2] / "examples/digits"
# Lowest held-out accuracy after 20 epochs: below what PyTorch reaches with any shuffling seed.
CASES = {"model.onnx": 0.97, "mlp.onnx": 0.95}


def call(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command[0]}: exit {done.returncode}: {(done.stderr or done.stdout).strip()[-500:]}")


def accuracy_elsewhere(path):
    """Held-out accuracy of a saved model by ONNX's reference evaluator, over whole batches."""
    model = onnx.load(path)
    onnx.checker.check_model(model)
    evaluator = ReferenceEvaluator(model)
    images, labels = np.load(DIGITS / "xt.npy"), np.load(DIGITS / "yt.npy")
    batch = model.graph.input[0].type.tensor_type.shape.dim[0].dim_value
    rows = len(images) // batch * batch
    parts = [evaluator.run(["logits"], {"image": part})[0] for part in np.split(images[:rows], rows // batch)]
    return float((np.concatenate(parts).argmax(1) == labels[:rows]).mean())


def check(divisi, model, least, work):
    """An error text, or ""."""
    program, log, trained = work / "digits", work / "log.jsonl", work / "trained.onnx"
    call(divisi, "compile", DIGITS / model, "-o", program, "--loss", "cross_entropy", "--label", "label",
         "--optimizer", "sgd", "--lr", 0.05, "--momentum", 0.9)  # fmt: skip
    call(program, "--data", f"image={DIGITS / 'x.npy'}", "--data", f"label={DIGITS / 'y.npy'}", "--epochs", 20,
         "--eval", f"image={DIGITS / 'xt.npy'}", "--eval", f"label={DIGITS / 'yt.npy'}",
         "--log", log, "--save", trained)  # fmt: skip
    evaluations = [row for row in map(json.loads, log.read_text().splitlines()) if row.get("eval")]
    if len(evaluations) != 20:
        return f"{len(evaluations)} evaluations in the log for 20 epochs"
    here, elsewhere = evaluations[-1]["accuracy"], accuracy_elsewhere(trained)
    print(f"{model}: held-out accuracy {here:.4f}, by ONNX's reference evaluator {elsewhere:.4f}")
    if not here > least:
        return f"accuracy {here:.4f}, expected more than {least}"
    if abs(here - elsewhere) > 0.01:  # the reference evaluator leaves out the last partial batch
        return "the saved model does not know what the program knows"
    return None


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True, type=lambda text: pathlib.Path(text).resolve())
    o = p.parse_args()
    failed = 0
    for model, least in CASES.items():
        with tempfile.TemporaryDirectory() as work:
            try:
                problem = check(o.divisi, model, least, pathlib.Path(work))
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
        if problem:
            print(f"FAIL {model}: {problem}")
            failed += 1
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
