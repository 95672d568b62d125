#!/usr/bin/env python3
"""The cost of checks of computed indices: a step of an embedding model with and without them, alternating.

    index_checks.py --divisi PATH [--rounds 7] [--steps 60]

The indices are `raw - 1`, so that the step itself must look at them; the program without checks is compiled from a dump whose check is
taken out. Prints both medians of a step and their ratio. Needs onnx and numpy.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WORDS, WIDTH, BATCH, LENGTH, CLASSES = 50000, 64, 64, 128, 100


def make(folder):
    draw = np.random.default_rng(0)
    weights = {"emb": draw.standard_normal((WORDS, WIDTH)).astype("f") / 10, "w": draw.standard_normal((WIDTH, CLASSES)).astype("f") / 10}
    constants = {"one": np.array(1), "axes": np.array([1])}
    nodes = [("Sub", ["raw", "one"], "ids"), ("Gather", ["emb", "ids"], "rows"), ("ReduceMean", ["rows", "axes"], "mean"),
             ("MatMul", ["mean", "w"], "logits"), ("SoftmaxCrossEntropyLoss", ["logits", "label"], "loss")]
    nodes = [helper.make_node(op, i, [o], name=o, **({"keepdims": 0} if op == "ReduceMean" else {})) for op, i, o in nodes]
    inputs = [helper.make_tensor_value_info("raw", TensorProto.INT64, [BATCH, LENGTH]), helper.make_tensor_value_info("label", TensorProto.INT64, [BATCH])]
    graph = helper.make_graph(nodes, "embedding", inputs, [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])],
                              [numpy_helper.from_array(v, k) for k, v in {**weights, **constants}.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), folder / "m.onnx")
    np.save(folder / "raw.npy", draw.integers(1, WORDS + 1, (BATCH * 4, LENGTH)))
    np.save(folder / "label.npy", draw.integers(0, CLASSES, BATCH * 4))


def without_check(dump):
    """The dump without the result that has the attribute graph.check."""
    dump, count = re.subn(r", tensor<i64> \{graph\.check = [^}]*\}\}", "", dump, count=1)
    dump, results = re.subn(r"return (%\w+), %\w+ : tensor<f32>, tensor<i64>", r"return \1 : tensor<f32>", dump, count=1)
    assert count == results == 1, "the dump has no check"
    return dump


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--steps", type=int, default=60)
    o = p.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make(folder)
        dump = subprocess.run([o.divisi, "compile", folder / "m.onnx", "--emit=graph"], check=True, capture_output=True, text=True).stdout
        for kind, text in {"checked": dump, "unchecked": without_check(dump)}.items():
            (folder / f"{kind}.mlir").write_text(text)
            subprocess.run([o.divisi, "compile", folder / f"{kind}.mlir", "-o", folder / kind], check=True, stderr=subprocess.DEVNULL)
        times = {"checked": [], "unchecked": []}
        for turn in range(o.rounds):
            for kind in sorted(times, reverse=turn % 2 == 1):
                log = folder / "log"
                data = [w for n in ("raw", "label") for w in ("--data", f"{n}={folder / n}.npy")]
                subprocess.run([folder / kind, *data, "--init", "1", "--steps", str(o.steps), "--quiet", "--log", log], check=True, stdout=subprocess.DEVNULL)
                rows = [json.loads(line) for line in log.read_text().splitlines()]
                times[kind].append(statistics.median([row["step_ms"] for row in rows if "step_ms" in row][3:]))
    for kind, values in times.items():
        print(f"{kind}: median {statistics.median(values):.3f} ms [{min(values):.3f}-{max(values):.3f}]")
    print(f"ratio of medians {statistics.median(times['checked']) / statistics.median(times['unchecked']):.4f}, "
          f"of minima {min(times['checked']) / min(times['unchecked']):.4f}")


if __name__ == "__main__":
    main()
