#!/usr/bin/env python3
"""What feeding costs: steps of some 5 ms on batches of Python's memory, beside the same batches in .npy files.

    feed.py --divisi PATH [--ranks 1] [--steps 600] [--rounds 5] [--limit 0.02]

A perceptron on rows of 1024 numbers, whose hidden layer makes a step take some 5 ms; the iterable gives arrays that are there, so that the feeding alone is measured. Two figures: the time that rank 0
took to wait for batches and to copy them, as a share of all steps, and the time of a step more than with files (medians of rounds that alternate). Exits with 1 if the first is above the limit. Needs NumPy, onnx and the package (python/).
"""

import argparse
import itertools
import pathlib
import statistics
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import divisi  # noqa: E402

BATCH, FEATURES, CLASSES = 64, 1024, 10


def compile_program(o, work, hidden):
    draw = np.random.default_rng(0)
    weights = {"w1": draw.normal(0, 0.03, (FEATURES, hidden)), "w2": draw.normal(0, 0.03, (hidden, CLASSES))}
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["a"]), helper.make_node("Relu", ["a"], ["h"]), helper.make_node("MatMul", ["h", "w2"], ["logits"])]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [BATCH, size]) for name, size in (("x", FEATURES), ("logits", CLASSES))]
    graph = helper.make_graph(nodes, "mlp", values[:1], values[1:], [numpy_helper.from_array(v.astype("float32"), n) for n, v in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), work / "model.onnx")
    more = {"devices": o.ranks, "strategy": "data"} if o.ranks > 1 else {}
    return divisi.compile(work / "model.onnx", work / f"program{hidden}", loss="cross_entropy", label="label", optimizer="sgd", lr=1e-3, divisi=o.divisi, **more)


def measure(history):
    """Milliseconds of a step, and the share of feeding in all of them, without the first steps."""
    steps = history.steps[len(history.steps) // 10 :]
    return statistics.median(line.step_ms for line in steps), sum(line.feed_ms or 0 for line in steps) / sum(line.step_ms for line in steps)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    p.add_argument("--ranks", type=int, default=1)
    p.add_argument("--steps", type=int, default=600)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--limit", type=float, default=0.02)
    o = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        draw = np.random.default_rng(1)
        x, label = draw.normal(size=(BATCH * 50, FEATURES)).astype("float32"), draw.integers(0, CLASSES, BATCH * 50)
        np.save(work / "x.npy", x)
        np.save(work / "label.npy", label)
        files = {name: work / f"{name}.npy" for name in ("x", "label")}
        batches = [(x[i : i + BATCH], label[i : i + BATCH]) for i in range(0, len(x), BATCH)]
        hidden = 512
        while True:  # until a step takes 5 ms
            program = compile_program(o, work, hidden)
            found, _ = measure(program.fit(files, steps=60, shuffle=False, quiet=True, threads=1))
            if found > 4 or hidden >= 8192:
                break
            hidden = min(8192, max(hidden + 256, int(hidden * 5 / found) // 64 * 64))
        fed, plain, shares = [], [], []
        for _ in range(o.rounds):
            plain.append(measure(program.fit(files, steps=o.steps, shuffle=False, quiet=True, threads=1))[0])
            ms, share = measure(program.fit(itertools.cycle(batches), steps=o.steps, quiet=True, threads=1))
            fed.append(ms)
            shares.append(share)
    more = statistics.median(fed) / statistics.median(plain) - 1
    share = statistics.median(shares)
    print(f"{o.ranks} rank(s), step {statistics.median(plain):.2f} ms from files, {statistics.median(fed):.2f} ms from Python's memory ({100 * more:+.1f} %, rounds: "
          + ", ".join(f"{100 * (a / b - 1):+.1f}" for a, b in zip(fed, plain)) + f"); feeding took {100 * share:.2f} % of the time (rounds: "
          + ", ".join(f"{100 * w:.2f}" for w in shares) + ")")
    return 1 if share > o.limit else 0


if __name__ == "__main__":
    sys.exit(main())
