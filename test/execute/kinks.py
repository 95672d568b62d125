#!/usr/bin/env python3
"""Gradients where functions have kinks, ties or zeros under roots, against what PyTorch 2 gives there (recorded: torch.Tensor.grad
of the operator that exports to the node, summed with weights 0.5, 0.75, 1, ...). And the accuracy where several classes have the
largest logit: the first one counts, as in NumPy.

    kinks.py --divisi PATH

Needs numpy and onnx. Ends with `N passed, N failed`.
"""

import argparse
import functools
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

KINKS = [-2, -1, -0.5, 0, 0.5, 1, 2]
HARD = [-4, -3, -1, 0, 1, 3, 4]
TIES = [[1, 1, 0], [3, 4, 4], [2, 2, 2]]
ZERO = [[0, 0], [3, -4]]  # a row whose norm is zero
ROWS = {"rows": np.array([1])}


def node(op, inputs, output="y", **attributes):
    return helper.make_node(op, inputs, [output], **attributes)


def number(value):
    return np.array(value, np.float32)




def untaken(nodes, constants, x, expected):
    """The case where(x > 0, f(x), 0), whose f has an infinite derivative at a zero of x: by its definition it has the gradient 0 there (PyTorch's
    own kernels of losses have it too; its composed form is NaN)."""
    constants = constants | {"zero": number(0)}
    return [*nodes, node("Greater", ["x", "zero"], "positive"), node("Where", ["positive", "f", "zero"])], constants, x, expected


# name: (nodes from x to y, constants, x, gradient of x)
CASES = {
    "abs": ([node("Abs", ["x"])], {}, KINKS, [-0.5, -0.75, -1, 0, 1.5, 1.75, 2]),
    "relu": ([node("Relu", ["x"])], {}, KINKS, [0, 0, 0, 0, 1.5, 1.75, 2]),
    "clip": (
        [node("Clip", ["x", "low", "high"])],
        {"low": number(-1), "high": number(1)},
        KINKS,
        [0, 0.75, 1, 1.25, 1.5, 1.75, 0],
    ),
    "maximum": ([node("Max", ["x", "zero"])], {"zero": number(0)}, KINKS, [0, 0, 0, 0.625, 1.5, 1.75, 2]),
    "minimum": ([node("Min", ["x", "zero"])], {"zero": number(0)}, KINKS, [0.5, 0.75, 1, 0.625, 0, 0, 0]),
    "prelu": (
        [node("PRelu", ["x", "slope"])],
        {"slope": number([0.25])},
        KINKS,
        [0.125, 0.1875, 0.25, 0.3125, 1.5, 1.75, 2],
    ),
    "leaky_relu": (
        [node("LeakyRelu", ["x"], alpha=0.125)],
        {},
        KINKS,
        [0.0625, 0.09375, 0.125, 0.15625, 1.5, 1.75, 2],
    ),
    "hardsigmoid": ([node("HardSigmoid", ["x"], alpha=1 / 6)], {}, HARD, [0, 0, 0.1666667, 0.2083333, 0.25, 0, 0]),
    "hardswish": ([node("HardSwish", ["x"])], {}, HARD, [0, 0, 0.1666667, 0.625, 1.25, 1.75, 2]),
    "amax": (
        [node("ReduceMax", ["x", "rows"], keepdims=0)],
        ROWS,
        TIES,
        [[0.25, 0.25, 0], [0, 0.375, 0.375], [0.3333333, 0.3333333, 0.3333333]],
    ),
    "amin": (
        [node("ReduceMin", ["x", "rows"], keepdims=0)],
        ROWS,
        TIES,
        [[0, 0, 0.5], [0.75, 0, 0], [0.3333333, 0.3333333, 0.3333333]],
    ),
    "prod": (
        [node("ReduceProd", ["x", "rows"], keepdims=0)],
        ROWS,
        [[1, 0, 2], [0, 4, 0], [2, 2, 2]],
        [[0, 1, 0], [0, 0, 0], [4, 4, 4]],
    ),
    "norm": ([node("ReduceL2", ["x", "rows"], keepdims=0)], ROWS, ZERO, [[0, 0], [0.45, -0.6]]),
    "norm_1": ([node("ReduceL1", ["x", "rows"], keepdims=0)], ROWS, ZERO, [[0, 0], [0.75, -0.75]]),
    "norm_plus": (  # normalize, with a larger epsilon: x / max(norm, 0.5)
        [
            node("ReduceL2", ["x", "rows"], "n", keepdims=1),
            node("Clip", ["n", "least"], "c"),
            node("Div", ["x", "c"]),
        ],
        {**ROWS, "least": number(0.5)},
        ZERO,
        [[1, 1.5], [0.248, 0.186]],
    ),
    "fake_quantize": (  # the straight-through estimator, to 0 .. 255 with a zero point of 2
        [node("QuantizeLinear", ["x", "scale", "zero"], "q"), node("DequantizeLinear", ["q", "scale", "zero"])],
        {"scale": number(0.5), "zero": np.array(2, np.uint8)},
        KINKS,
        [0, 0.75, 1, 1.25, 1.5, 1.75, 2],
    ),
    "fake_quantize_signed": (  # to -128 .. 127
        [node("QuantizeLinear", ["x", "scale", "zero"], "q"), node("DequantizeLinear", ["q", "scale", "zero"])],
        {"scale": number(0.01), "zero": np.array(0, np.int8)},
        KINKS,
        [0, 0.75, 1, 1.25, 1.5, 1.75, 0],
    ),
    "pow": ([node("Pow", ["x", "exponent"])], {"exponent": number(1.5)}, [0, 0.5, 2], [0, 0.7954951, 2.1213202]),
    "clamped_log": ([node("Log", ["x"], "l"), node("Max", ["l", "least"])], {"least": number(-100)}, [0, 0.5, 2], [0, 1.5, 0.5]),
    "untaken_log": untaken([node("Log", ["x"], "f")], {}, [0, 0.5, 2], [0, 1.5, 0.5]),
    "untaken_sqrt": untaken([node("Sqrt", ["x"], "f")], {}, [0, 0.25, 4], [0, 0.75, 0.25]),
    "untaken_pow": untaken([node("Pow", ["x", "exponent"], "f")], {"exponent": number(-1.5)}, [0, 1, 4], [0, -1.125, -0.046875]),
    "untaken_reciprocal": untaken([node("Reciprocal", ["x"], "f")], {}, [0, 0.5, 2], [0, -3, -0.25]),
    "untaken_quotient": untaken([node("Div", ["three", "x"], "f")], {"three": number(3)}, [0, 1, 2], [0, -2.25, -0.75]),
    "untaken_atanh": untaken([node("Add", ["x", "one"], "s"), node("Atanh", ["s"], "f")], {"one": number(1)}, [0, -0.5, -1], [0, 0, 0]),
}


def weights_of(path):
    raw = path.read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + size])
    begin, end = header["x"]["data_offsets"]
    return np.frombuffer(raw[8 + size + begin : 8 + size + end], np.float32).reshape(header["x"]["shape"])


def check(divisi, work, name):
    nodes, constants, x, expected = CASES[name]
    x, expected = number(x), number(expected)
    shape = expected.shape[:1] if nodes[-1].op_type.startswith("Reduce") else expected.shape
    weight = number(0.5 + 0.25 * np.arange(np.prod(shape))).reshape(shape)
    tail = [
        node("Mul", ["y", "weight"], "weighted"),
        node("ReduceSum", ["weighted"], "sum", keepdims=0),
        node("ReduceSum", ["none"], "nothing", keepdims=0),
        node("Add", ["sum", "nothing"], "loss"),
    ]
    values = {"weight": weight, **constants}
    known = [node("Constant", [], k, value=numpy_helper.from_array(v)) for k, v in values.items()]
    graph = helper.make_graph(
        [*known, *nodes, *tail],
        name,
        [helper.make_tensor_value_info("none", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])],
        [numpy_helper.from_array(x, "x")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 8
    onnx.save(model, work / "model.onnx")
    np.save(work / "none.npy", np.zeros(1, np.float32))
    program, saved = work / "model", work / "saved.safetensors"
    for command in (
        [divisi, "compile", work / "model.onnx", "-o", program, "--lr", "1"],
        [program, "--data", f"none={work / 'none.npy'}", "--steps", "1", "--quiet", "--save-weights", saved],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return f"exit {done.returncode}: {done.stderr[-300:]}"
    found = x - weights_of(saved)
    return "" if np.allclose(found, expected, rtol=1e-4, atol=1e-5) else f"{found.tolist()}, not {expected.tolist()}"


def accuracy_of_ties(divisi, work):
    """Logits that are small integers, so that many are equal."""
    rng = np.random.default_rng(3)
    x, w = (rng.integers(-1, 2, size).astype(np.float32) for size in ((64, 4), (4, 6)))
    label = np.where(rng.integers(0, 2, 64), (x @ w).argmax(1), rng.integers(0, 6, 64))
    expected = np.mean((x @ w).argmax(1) == label)
    graph = helper.make_graph(
        [node("MatMul", ["x", "w"], "logits"), helper.make_node("SoftmaxCrossEntropyLoss", ["logits", "label"], ["loss"])],
        "ties",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [16, 4]), helper.make_tensor_value_info("label", TensorProto.INT64, [16])],
        [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])],
        [numpy_helper.from_array(w, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), work / "model.onnx")
    data = []
    for name, rows in ("x", x), ("label", label):
        np.save(work / f"{name}.npy", rows)
        for kind in "--data", "--eval":
            data += [kind, f"{name}={work / name}.npy"]
    for flags in [], ["--devices", "2", "--mesh", "model=2"]:
        run = [divisi, "run", "--devices", flags[1] if flags else "1", work / "model", *data, "--steps", "4", "--log", work / "log.jsonl", "--quiet"]
        for command in [divisi, "compile", work / "model.onnx", "-o", work / "model", "--lr", "0", *flags], run:
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                return f"exit {done.returncode}: {done.stderr[-300:]}"
        found = [row["accuracy"] for row in map(json.loads, (work / "log.jsonl").read_text().splitlines()) if row.get("eval")][-1]
        if not np.isclose(found, expected):
            return f"accuracy {found}, not {expected}"
    return ""


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    divisi = pathlib.Path(p.parse_args().divisi).resolve()
    failed = 0
    tests = {name: functools.partial(check, name=name) for name in CASES} | {"accuracy of ties": accuracy_of_ties}
    for name, test in tests.items():
        with tempfile.TemporaryDirectory() as folder:
            wrong = test(divisi, pathlib.Path(folder))
        failed += bool(wrong)
        if wrong:
            print(f"FAIL {name}: {wrong}", flush=True)
    print(f"{len(tests) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
