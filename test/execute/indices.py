#!/usr/bin/env python3
"""Trains small models whose operators choose elements by indices that are read, computed, or cast from floats, and compares with
ONNX's reference: valid indices, negative ones too, give its loss; others end the program after the step, with the name of the
node and the index, and nothing is saved. On one device, in microbatches, on two ranks, and in a pipeline of two stages.

    indices.py --divisi PATH [--plans one,data] [--operators Gather]

Needs numpy and onnx. Ends with `N passed, N failed`.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

BATCH, SIZE, WIDTH = 8, 6, 4  # rows of a batch, size of the dimension that is indexed, size of the others

# Flags of the compiler, and how many ranks run it.
PLANS = {
    "one": ([], 1),
    "microbatches": (["--microbatches", "4"], 1),
    "data": (["--mesh", "data=2"], 2),
    "pipeline": (["--mesh", "stage=2", "--microbatches", "2"], 2),
}


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs, [output], name=output + "_node", **attributes)


# Each operator reads the indices "i" and its source "table" or the features "h", and computes "out".
# op: (nodes, shape of the indices, kind of the indices)
OPERATORS = {
    "Gather": ([node("Gather", ["table", "i"], "out", axis=0)], [BATCH, 3], "index"),
    "GatherElements": ([node("GatherElements", ["h", "i"], "out", axis=1)], [BATCH, 3], "index"),
    "GatherND": (
        [node("Unsqueeze", ["i", "minus_one"], "vectors"), node("GatherND", ["h", "vectors"], "out", batch_dims=1)],
        [BATCH, 3],
        "index",
    ),
    "GatherND_vectors": ([node("GatherND", ["table", "i"], "out")], [BATCH, 2], "vector"),
    "ScatterElements": (
        [node("ScatterElements", ["h", "i", "updates"], "out", axis=1, reduction="add")],
        [BATCH, 3],
        "index",
    ),
    "ScatterND": (
        [
            node("Unsqueeze", ["i", "minus_one"], "vectors"),
            node("ScatterND", ["table_copy", "vectors", "h4"], "scattered", reduction="add"),
            node("MatMul", ["h", "scattered"], "out"),
        ],
        [BATCH],
        "index",
    ),
    "SoftmaxCrossEntropyLoss": (
        [node("SoftmaxCrossEntropyLoss", ["h", "i"], "out", reduction="mean", ignore_index=-100)],
        [BATCH],
        "label",
    ),
}

WHOLE = {"GatherND_vectors", "ScatterND"}  # need the whole batch at once: no microbatches

# The origin of the indices: an integer input, arithmetic on one, or a float input.
SOURCES = {
    "read": ([], TensorProto.INT64, lambda wanted: wanted.astype(np.int64)),
    "computed": ([node("Sub", ["raw", "seven"], "i")], TensorProto.INT64, lambda wanted: wanted.astype(np.int64) + 7),
    "cast": (
        [node("Cast", ["raw"], "i", to=TensorProto.INT64)],
        TensorProto.FLOAT,
        lambda wanted: wanted.astype(np.float32),
    ),
}


def model(operator, source):
    nodes, shape, _ = OPERATORS[operator]
    makes, dtype, _ = SOURCES[source]
    draw = np.random.default_rng(1)
    weights = {
        "w1": draw.normal(size=(5, SIZE)).astype(np.float32),
        "w2": draw.normal(size=(5, 3)).astype(np.float32),
        "w3": draw.normal(size=(SIZE, WIDTH)).astype(np.float32),
        "table": draw.normal(size=(SIZE, WIDTH)).astype(np.float32),
        "minus_one": np.array([-1]),
        "seven": np.array(7),
        "half": np.array(0.5, np.float32),
        "one": np.array(1, np.float32),
    }
    features = [
        node("MatMul", ["x", "w1"], "h"),
        node("MatMul", ["x", "w2"], "updates"),
        node("MatMul", ["h", "w3"], "h4"),
        node("Mul", ["table", "half"], "table_copy"),
    ]
    is_loss = OPERATORS[operator][2] == "label"
    tail = [
        node("Mul", ["out", "one" if is_loss else "out"], "square"),
        node("ReduceMean", ["square"], "part", keepdims=0),
        node("ReduceMean", ["h"], "rest", keepdims=0),
        node("ReduceMean", ["table"], "other", keepdims=0),
        node("Add", ["part", "rest"], "sum"),
        node("Add", ["sum", "other"], "loss"),
    ]
    if not makes:  # the input itself is the index
        makes, raw = [], "i"
    else:
        raw = "raw"
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [BATCH, 5]),
        helper.make_tensor_value_info(raw, dtype, shape),
    ]
    wanted, needed = {"loss"}, []
    for n in reversed([*features, *makes, *nodes, *tail]):
        if wanted & set(n.output):
            needed.insert(0, n)
            wanted |= set(n.input)
    inits = [numpy_helper.from_array(v, k) for k, v in weights.items() if k in wanted]
    loss = helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])
    graph = helper.make_graph(needed, operator, inputs, [loss], inits)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    made.ir_version = 8
    return made, raw


def rows(operator, source, kind):
    """The indices of a batch, and the one that is out of range."""
    _, shape, what = OPERATORS[operator]
    high = WIDTH if what == "vector" else SIZE  # of every component of a vector
    draw = np.random.default_rng(2)
    values = draw.integers(0, high, size=shape)
    if operator == "ScatterND" or operator == "ScatterElements":
        values = np.resize(np.arange(high), shape)
    bad = None
    if kind == "negative":
        values.flat[::2] = -1 - values.flat[::2] if what != "label" else -100  # of labels: ignored
    elif kind == "above":
        bad = SIZE + 3
    elif kind == "below":
        bad = -1 if what == "label" else -SIZE - 2
    if bad is not None:
        values.flat[-1] = bad
    return values, bad


def expected(made, raw, data):
    return float(ReferenceEvaluator(made).run(None, {"x": data["x"], raw: data[raw]})[0])


def check(divisi, work, operator, source, plan):
    made, raw = model(operator, source)
    file, program = work / "model.onnx", work / "model"
    onnx.save(made, file)
    flags, ranks = PLANS[plan]
    done = subprocess.run(
        [divisi, "compile", file, "-o", program, "--lr", "0.001", *flags], capture_output=True, text=True
    )
    if done.returncode:
        return [f"does not compile: {done.stderr[-300:]}"]
    wrong = []
    for kind in ("valid", "negative", "above", "below"):
        values, bad = rows(operator, source, kind)
        draw = np.random.default_rng(3)
        data = {"x": draw.normal(size=(BATCH, 5)).astype(np.float32), raw: SOURCES[source][2](values)}
        words = []
        for name, array in data.items():
            np.save(work / f"{name}.npy", array)
            words += ["--data", f"{name}={work / name}.npy"]
        log, saved = work / "log.jsonl", work / "saved.safetensors"
        for path in (log, saved):
            path.unlink(missing_ok=True)
        launch = [divisi, "run", "--devices", str(ranks)] if ranks > 1 else []
        words += ["--steps", "2", "--quiet", "--log", log, "--save-weights", saved]
        run = subprocess.run([*launch, program, *words], capture_output=True, text=True, timeout=120)
        if bad is None:
            if run.returncode:
                wrong.append(f"{kind}: exit {run.returncode}: {run.stderr[-300:]}")
                continue
            loss = [json.loads(line)["loss"] for line in log.read_text().splitlines() if '"step":1,' in line][0]
            want = expected(made, raw, data)
            if not abs(loss - want) <= 1e-5 * max(1, abs(want)):
                wrong.append(f"{kind}: loss {loss}, expected {want}")
            continue
        # An input is checked when it is read, and the error names its file; a computed index after the step, and the
        # error names its node.
        named = f"{raw}.npy" if source == "read" and operator != "GatherND_vectors" else "_node"
        last = [n.name for n in made.graph.node if "i" in n.input or "vectors" in n.input]
        if run.returncode == 0 or saved.exists():
            wrong.append(f"{kind}: exit {run.returncode}, saved: {saved.exists()}")
        elif str(bad) not in run.stderr or named not in run.stderr:
            wrong.append(f"{kind}: says neither {bad} nor {named}: {run.stderr[-300:]}")
        elif named == "_node" and not any(name in run.stderr for name in last):
            wrong.append(f"{kind}: names none of {last}: {run.stderr[-300:]}")
    return wrong


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    p.add_argument("--plans", default=",".join(PLANS), help="comma-separated: " + ", ".join(PLANS))
    p.add_argument("--operators", default=",".join(OPERATORS), help="comma-separated: " + ", ".join(OPERATORS))
    o = p.parse_args()
    passed = failed = 0
    divisi = pathlib.Path(o.divisi).resolve()
    with tempfile.TemporaryDirectory() as folder:
        for operator in o.operators.split(","):
            for source in SOURCES:
                for plan in o.plans.split(","):
                    if operator in WHOLE and "--microbatches" in PLANS[plan][0]:
                        continue
                    wrong = check(divisi, pathlib.Path(folder), operator, source, plan)
                    passed, failed = passed + (not wrong), failed + bool(wrong)
                    for line in wrong:
                        print(f"FAIL {operator} {source} {plan}: {line}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
