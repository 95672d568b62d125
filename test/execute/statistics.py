#!/usr/bin/env python3
"""Batch norm behind layers that have the batch elsewhere than first: whose samples its statistics are of, under each split.

    statistics.py --divisi PATH [--only SUBSTRING] [--jobs N]

x [samples, positions, features] is transposed to [positions, samples, features], multiplied, and comes to batch norm as the permutation of the
case says; a convolution or a sum follows. The first loss of a program must be that of ONNX's reference evaluator on the whole
batch, or the mean of those on its halves where statistics are local. Prints `N passed, N failed`. Needs the package onnx.
"""

import functools
import json
import pathlib
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models"))
sys.dont_write_bytecode = True
import lines  # noqa: E402

SAMPLES, POSITIONS, FEATURES, CHANNELS = 12, 6, 5, 4
TOLERANCE = 1e-5
# What follows batch norm, and the permutation before it.
MODELS = {"convolution": (1, 2, 0), "sum": (1, 2, 0), "batch in the middle": (0, 1, 2)}
# Flags; devices; whether each half has its own statistics.
WAYS = [("", 1, False), ("--mesh data=2", 2, False), ("--mesh data=2 --batch-norm-stats local", 2, True), ("--microbatches 2", 1, True),
        ("--mesh data=2 --sync local --average-every 2", 2, True), ("--mesh stage=2 --microbatches 1", 2, False)]


# Ways in which running statistics are evaluated while a model trains: flags, devices, parts of the batch with statistics of their own.
EVALUATED = [("--microbatches 2", 1, 2), ("--mesh stage=2 --cut norm --microbatches 2", 2, 2), ("--mesh stage=2 --cut norm --microbatches 1", 2, 1),
             ("--mesh stage=2 --cut norm --microbatches 2 --schedule zb-h1", 2, 2), ("--mesh stage=2,data=2 --cut norm --microbatches 2", 4, 2),
             ("--mesh stage=2 --cut norm --microbatches 3 --round-robin 2,1", 3, 3), ("--mesh stage=2 --cut norm --schedule pipedream", 2, 1),
             ("--mesh stage=2 --cut norm --schedule pipedream --round-robin 2,1", 3, 1)]


def model_of(kind, samples, running=None):
    """`running`: evaluates with this mean and variance."""
    rng = np.random.default_rng(3)
    weights = {"w": rng.standard_normal((FEATURES, CHANNELS)), "scale": 1 + 0.1 * rng.standard_normal(CHANNELS),
               "bias": rng.standard_normal(CHANNELS), "kernel": rng.standard_normal((3, CHANNELS, 3))}
    mean, variance = running or (np.zeros(CHANNELS), np.ones(CHANNELS))
    weights |= {"mean": mean, "variance": variance}
    nodes = [helper.make_node("Transpose", ["x"], ["turned"], perm=[1, 0, 2], name="turn"),
             helper.make_node("MatMul", ["turned", "w"], ["hidden"], name="linear")]
    if kind == "batch in the middle":  # [positions, samples, channels] -> rows of all positions
        weights["rows"] = np.array([-1, CHANNELS])
        nodes.append(helper.make_node("Reshape", ["hidden", "rows"], ["normal"], name="flat"))
    else:
        nodes.append(helper.make_node("Transpose", ["hidden"], ["normal"], perm=MODELS[kind], name="channels"))
    training = {} if running else {"training_mode": 1}
    nodes.append(helper.make_node("BatchNormalization", ["normal", "scale", "bias", "mean", "variance"],
                                  ["y", "new_mean", "new_variance"] if training else ["y"], name="norm", **training))
    if kind == "convolution":
        nodes.append(helper.make_node("Conv", ["y", "kernel"], ["z"], name="conv"))
    last = "z" if kind == "convolution" else "y"
    nodes += [helper.make_node("Tanh", [last], ["t"], name="tanh"), helper.make_node("Mul", ["t", "y" if last == "y" else "t"], ["square"], name="square"),
              helper.make_node("ReduceMean", ["square"], ["loss"], keepdims=0, name="mean")]
    used = {name for node in nodes for name in node.input}
    constants = [numpy_helper.from_array(np.asarray(v, np.int64 if n == "rows" else np.float32), n) for n, v in weights.items() if n in used]
    graph = helper.make_graph(nodes, "views", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [samples, POSITIONS, FEATURES])],
                              [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def check(divisi, kind, flags, devices, local, folder):
    x = np.random.default_rng(5).standard_normal((SAMPLES, POSITIONS, FEATURES)).astype(np.float32)
    x[: SAMPLES // 2] *= 3
    parts = np.split(x, 2) if local else [x]
    wanted = np.mean([float(ReferenceEvaluator(model_of(kind, len(part))).run(["loss"], {"x": part})[0]) for part in parts])
    model, program, log = folder / "m.onnx", folder / "p", folder / "log"
    onnx.save(model_of(kind, SAMPLES), model)
    np.save(folder / "x.npy", x)
    start = [divisi, "run", "--devices", str(devices)] if devices > 1 else []
    refused = kind == "batch in the middle" and local  # parts of the rows are no parts of the batch
    for command in ([divisi, "compile", model, "-o", program, *flags.split()],
                    [*start, program, "--data", f"x={folder / 'x.npy'}", "--steps", "1", "--no-shuffle", "--quiet", "--log", log]):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        if done.returncode:
            line = done.stderr.strip().splitlines()[-1]
            return "" if refused and "node 'norm'" in line and "needs the samples along the first dimension" in line else line
    if refused:
        return "not refused"
    loss = next(row["loss"] for row in map(json.loads, log.read_text().splitlines()) if "loss" in row)
    return "" if abs(loss - wanted) < TOLERANCE * abs(wanted) else f"loss {loss}, expected {wanted}"


def evaluated(divisi, flags, devices, parts, folder):
    """Losses of evaluations with the running statistics after each of three steps, which change nothing else."""
    x = np.random.default_rng(5).standard_normal((SAMPLES, POSITIONS, FEATURES)).astype(np.float32)
    model, program, log = folder / "m.onnx", folder / "p", folder / "log"
    onnx.save(model_of("sum", SAMPLES), model)
    np.save(folder / "x.npy", x)
    running, wanted = (np.zeros(CHANNELS), np.ones(CHANNELS)), []
    for _ in range(3):  # the mean of what the parts' statistics would make of them
        renewed = []
        for part in np.split(x, parts):
            trained = model_of("sum", len(part))
            for constant in trained.graph.initializer:
                if constant.name in ("mean", "variance"):
                    constant.CopyFrom(numpy_helper.from_array(running[constant.name == "variance"].astype(np.float32), constant.name))
            renewed.append(ReferenceEvaluator(trained).run(["new_mean", "new_variance"], {"x": part}))
        running = tuple(np.mean(both, axis=0) for both in zip(*renewed))
        wanted.append(float(ReferenceEvaluator(model_of("sum", SAMPLES, running)).run(["loss"], {"x": x})[0]))
    start = [divisi, "run", "--devices", devices] if devices > 1 else []
    lines.call(divisi, "compile", model, "-o", program, "--lr", 0, *flags.split())
    lines.call(*start, program, f"--data=x={folder / 'x.npy'}", f"--eval=x={folder / 'x.npy'}", "--eval-every", 1, "--steps", 3, "--no-shuffle", "--quiet",
               "--log", log)  # fmt: skip
    found = [row["loss"] for row in map(json.loads, log.read_text().splitlines()) if row.get("eval")]
    good = len(found) == 3 and np.allclose(found, wanted, rtol=TOLERANCE) and len({round(loss, 4) for loss in wanted}) == 3
    return [(bool(good), f"losses {found}, expected {wanted}")]


def result(divisi, kind, flags, devices, local, folder):
    wrong = check(divisi, kind, flags, devices, local, folder)
    return [(not wrong, wrong or "as the reference says")]


def main():
    o = lines.parser(__doc__.splitlines()[0]).parse_args()
    tests = [(f"{kind}: {way[0] or 'one device'}", functools.partial(result, o.divisi, kind, *way)) for kind in MODELS for way in WAYS]
    tests += [(f"evaluated: {way[0]}", functools.partial(evaluated, o.divisi, *way)) for way in EVALUATED]
    return lines.run(tests, o)


if __name__ == "__main__":
    sys.exit(main())
