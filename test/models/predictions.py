#!/usr/bin/env python3
"""What --predict writes, and --eval-only says, against NumPy's float64, without labels and however the program is split.

    predictions.py --divisi PATH [--only stages] [--jobs N]

29 samples in batches of 12, so that the last batch is incomplete: a perceptron whose loss is added by --loss; a model with a loss of its
own, three rows for each sample and two outputs, one of them integers; batch norm, by the statistics and weights of a checkpoint that another
plan wrote. Tolerance: 1e-5 of the largest number. Needs numpy and onnx; ends with `N passed, N failed`.
"""

import json
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import lines
from metrics import CASE, forward, of_classes
from optimizers import read_weights

BATCH, SAMPLES, TOLERANCE = 12, 29, 1e-5
WAYS = {
    "one device": "",
    "data=2": "--mesh data=2",
    "padded": "--mesh data=5",
    "model=2": "--mesh model=2",
    "zero 3": "--mesh data=2,model=2 --zero 3",
    "stages": "--mesh stage=2 --microbatches 4",
    "stages of two": "--mesh stage=2,data=2 --microbatches 2",
    "stages in turn": "--mesh stage=2 --round-robin 2,1 --microbatches 4",
    "asynchronous": "--mesh stage=2 --schedule pipedream",
    "microbatches": "--microbatches 4",
}


def devices(way):
    if "--round-robin" in way:
        return sum(map(int, way.split()[3].split(",")))
    return int(np.prod([int(part[-1]) for part in way.split()[1].split(",")])) if "--mesh" in way else 1


def start(divisi, way):
    return [divisi, "run", "--devices", devices(way)] if devices(way) > 1 else []


def close(got, want, what):
    """[(passed, text)]"""
    if got.shape != want.shape:
        return [(False, f"{what} has the shape {got.shape}, expected {want.shape}")]
    error = float(np.abs(got - want).max() / np.abs(want).max())
    return [(error <= TOLERANCE, f"{what}: error {error:.1e}")]


def perceptron(divisi, folder, way):
    draw = np.random.default_rng(5)
    shape = json.loads((CASE / "reference.json").read_text())["inputs"]["x"]["shape"]
    x = draw.normal(size=(SAMPLES, *shape[1:])).astype("float32")
    output = onnx.load(CASE / "model.onnx").graph.output[0].name
    lines.call(divisi, "compile", CASE / "model.onnx", "-o", folder / "p", "--loss", "cross_entropy", "--label", "label", "--predict", output, *way.split())
    np.save(folder / "x.npy", x)
    program = [*start(divisi, way), folder / "p", "--threads", "1"]
    lines.call(*program, "--data", f"x={folder}/x.npy", "--predict", folder / "out.npy")
    want = forward(read_weights(folder / "p.safetensors"), x.astype(float))
    yield from close(np.load(folder / "out.npy"), want, "outputs")
    label = draw.integers(0, want.shape[1], SAMPLES)
    np.save(folder / "label.npy", label)
    lines.call(*program, "--eval-only", "--log", folder / "log", *(f"--eval={name}={folder}/{name}.npy" for name in ("x", "label")))
    found = json.loads((folder / "log").read_text().splitlines()[-1])
    scores = of_classes(want, label)
    yield abs(found["loss"] - np.log(scores["perplexity"])) < TOLERANCE and abs(found["accuracy"] - scores["accuracy"]) < TOLERANCE, f"evaluation alone: {found['loss']:.6g}, accuracy {found['accuracy']:.6g}"


def save(folder, nodes, inputs, outputs, weights):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(*i) for i in inputs], [helper.make_tensor_value_info(*o) for o in outputs],
                              [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "m.onnx")


def rows_of_samples(divisi, folder, way):
    draw = np.random.default_rng(6)
    w = draw.normal(size=(5, 4)).astype("float32")
    save(folder,
         [helper.make_node("Reshape", ["x", "flat"], ["rows"]), helper.make_node("MatMul", ["rows", "w"], ["scores"]),
          helper.make_node("ArgMax", ["scores"], ["best"], axis=1, keepdims=0), helper.make_node("Reshape", ["goal", "wide"], ["goals"]), helper.make_node("Sub", ["scores", "goals"], ["apart"]),
          helper.make_node("Mul", ["apart", "apart"], ["square"]), helper.make_node("ReduceMean", ["square"], ["loss"], keepdims=0)],
         [("x", TensorProto.FLOAT, [BATCH, 3, 5]), ("goal", TensorProto.FLOAT, [BATCH, 3, 4])],
         [("loss", TensorProto.FLOAT, []), ("scores", TensorProto.FLOAT, [BATCH * 3, 4]), ("best", TensorProto.INT64, [BATCH * 3])],
         {"w": w, "flat": np.array([BATCH * 3, 5]), "wide": np.array([BATCH * 3, 4])})
    lines.call(divisi, "compile", folder / "m.onnx", "-o", folder / "p", "--output", "loss", "--predict", "scores", "--predict", "best", *way.split())
    x = draw.normal(size=(SAMPLES, 3, 5)).astype("float32")
    np.save(folder / "x.npy", x)
    lines.call(*start(divisi, way), folder / "p", "--data", f"x={folder}/x.npy", "--predict", f"scores={folder}/scores.npy", "--predict", f"best={folder}/best.npy")
    want = x.reshape(-1, 5).astype(float) @ w
    yield from close(np.load(folder / "scores.npy"), want, "scores")
    best = np.load(folder / "best.npy")
    yield best.dtype == np.int64 and np.array_equal(best, want.argmax(1)), "classes of all rows"


def after_training(divisi, folder, way):
    draw = np.random.default_rng(7)
    sizes = {"bn.weight": 1, "bn.bias": 0, "bn.running_mean": 0, "bn.running_var": 1}
    weights = {name: np.full(6, value, "float32") for name, value in sizes.items()} | {"fc.weight": draw.normal(size=(3, 6)).astype("float32")}
    save(folder,
         [helper.make_node("BatchNormalization", ["x", *sizes], ["y"], epsilon=1e-5), helper.make_node("Gemm", ["y", "fc.weight"], ["scores"], transB=1)],
         [("x", TensorProto.FLOAT, [BATCH, 6])], [("scores", TensorProto.FLOAT, [BATCH, 3])], weights)
    compile = [divisi, "compile", folder / "m.onnx", "--loss", "cross_entropy", "--label", "label", "--lr", "0.1"]
    lines.call(*compile, "-o", folder / "trained")
    lines.call(*compile, "-o", folder / "p", "--predict", "scores", *way.split())
    x = (draw.normal(size=(SAMPLES, 6)) * 3 + 1).astype("float32")
    np.save(folder / "x.npy", x)
    np.save(folder / "label.npy", draw.integers(0, 3, SAMPLES))
    lines.call(folder / "trained", *(f"--data={name}={folder}/{name}.npy" for name in ("x", "label")), "--epochs", "5", "--checkpoint", folder / "c",
               "--save-weights", folder / "after.safetensors")
    lines.call(*start(divisi, way), folder / "p", "--data", f"x={folder}/x.npy", "--predict", folder / "out.npy", "--checkpoint", folder / "c", "--resume",
               *(["--resume-anyway"] if "microbatches" in way or "pipedream" in way else []))  # batch norm trains otherwise there
    w = {name: value.astype(float) for name, value in read_weights(folder / "after.safetensors").items()}
    y = (x - w["bn.running_mean"]) / np.sqrt(w["bn.running_var"] + 1e-5) * w["bn.weight"] + w["bn.bias"]
    yield not np.array_equal(w["bn.running_mean"], weights["bn.running_mean"]), "statistics have moved"
    yield from close(np.load(folder / "out.npy"), y @ w["fc.weight"].T, "outputs")


def refusals(divisi, folder):
    output = onnx.load(CASE / "model.onnx").graph.output[0].name
    compile = [divisi, "compile", CASE / "model.onnx", "--loss", "cross_entropy", "--label", "label"]
    lines.call(*compile, "-o", folder / "none")
    lines.call(*compile, "-o", folder / "p", "--predict", output)
    np.save(folder / "x.npy", np.zeros((3, 2), "float32"))
    for command, text in (
        ([*compile, "-o", folder / "q", "--predict", "nothing"], f"--predict nothing names no output of the model beside its loss; there are: {output}"),
        ([folder / "none", "--predict", "o.npy"], "compile it with --predict NAME"),
        ([folder / "p", "--predict", "y=o.npy"], f"the program writes no output 'y'; the outputs are {output}"),
        ([folder / "p", "--predict", "o.npy"], "no file for input 'x': give --data x=FILE.npy"),
        ([folder / "p", "--predict", folder / "no" / "o.npy"], "there is no folder"),
        ([folder / "p", "--predict", "o.npy", "--steps", "2"], "--steps excludes --predict"),
        ([folder / "p", "--predict", "o.npy", "--checkpoint", "c"], "--predict --checkpoint needs --resume"),
        ([folder / "p", "--predict", folder / "o.npy", "--data", f"x={folder}/x.npy"], "--data x: expected"),
    ):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=folder)
        yield done.returncode != 0 and text in done.stderr and done.stderr.count("\n") <= 2, f"{text}: {done.stderr.strip()[-300:]}"
    yield not (folder / "o.npy").exists(), "no file is left"


def main():
    o = lines.parser(__doc__.splitlines()[0]).parse_args()
    tests = [(f"{case.__name__}, {name}", lambda folder, case=case, way=way: case(o.divisi, folder, way))
             for case in (perceptron, rows_of_samples, after_training) for name, way in WAYS.items()]
    return lines.run([*tests, ("refusals", lambda folder: refusals(o.divisi, folder))], o)


if __name__ == "__main__":
    sys.exit(main())
