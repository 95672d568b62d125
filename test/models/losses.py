#!/usr/bin/env python3
"""Every --loss, and losses in the file, against PyTorch's formulas in NumPy's float64: three steps of SGD, the weights after them, and an evaluation.

    losses.py --divisi PATH [--only huber] [--jobs N]

A linear layer, or a log_softmax of one, under each loss: ignored labels, label smoothing, classes along other axes, an evaluation whose
last batch is incomplete; on one device and split over two. Tolerance: 1e-5. Needs numpy and onnx; ends with `N passed, N failed`.
"""

import json
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import lines
from optimizers import read_weights

BATCH, STEPS, TESTED, FEATURES, RATE, TOLERANCE = 8, 3, 11, 5, 0.5, 1e-5
FLAT = "flattened"  # in place of flags: the output's first dimension has all but the last of the loss's shape, as PyTorch's y.view(-1, n)
IN_FILE = "in the file"  # in place of flags: the model computes the loss itself, as the mean over a whole batch
RUNS = [  # name, loss, shape of the output behind the batch, axis of the classes, flags, whether a log_softmax is in the model
    ("huber", "huber", (4,), None, "", False),
    ("l1", "l1", (4,), None, "", False),
    ("mse", "mse", (3, 4), None, "", False),
    ("mse, flattened", "mse", (3, 4), None, FLAT, False),
    ("bce", "bce", (4,), None, "", False),
    ("focal", "focal", (4,), None, "", False),
    ("triplet", "triplet", (3, 4), None, "", False),
    ("kl", "kl", (4,), None, "", True),
    ("kl of sequences", "kl", (3, 4), None, "", True),
    ("kl, flattened", "kl", (3, 4), None, FLAT, True),
    ("nll of log_softmax", "nll", (6,), 1, "", True),
    ("nll", "nll", (6,), 1, "", False),
    ("nll, last axis", "nll", (3, 6), 2, "--class-axis -1", False),
    ("nll of log_softmax, last axis", "nll", (3, 6), 2, "--class-axis 2", True),
    ("cross entropy", "cross_entropy", (6,), 1, "", False),
    ("cross entropy of images", "cross_entropy", (6, 2, 3), 1, "", False),
    ("cross entropy, last axis", "cross_entropy", (3, 6), 2, "--class-axis 2", False),
    ("cross entropy, middle axis", "cross_entropy", (2, 6, 3), 2, "--class-axis -2", False),
    ("smoothed", "cross_entropy", (6,), 1, "--label-smoothing 0.1", False),
    ("z-loss", "cross_entropy", (6,), 1, "--z-loss 0.1", False),
    ("z-loss, smoothed, last axis", "cross_entropy", (3, 6), 2, "--class-axis -1 --label-smoothing 0.2 --z-loss 0.3", False),
    ("smoothed, last axis", "cross_entropy", (3, 6), 2, "--class-axis -1 --label-smoothing 0.3", False),
    ("mse in the file", "mse", (3, 4), None, IN_FILE, False),
    ("l1 in the file", "l1", (4,), None, IN_FILE, False),
]
WAYS = {"one device": "", "data=2": "--mesh data=2", "model=2": "--mesh model=2"}


def log_softmax(y, axis):
    y = y - y.max(axis, keepdims=True)
    return y - np.log(np.exp(y).sum(axis, keepdims=True))


def with_classes(loss, y, label, axis, smoothing, z_loss):
    """PyTorch's cross_entropy (of logits) or nll_loss (of log-probabilities): its mean over labels but -100, and the gradient."""
    y = np.moveaxis(y, axis, -1)
    logs = log_softmax(y, -1) if loss == "cross_entropy" else y
    counts = label >= 0
    chosen = np.eye(y.shape[-1])[np.where(counts, label, 0)]
    target = ((1 - smoothing) * chosen + smoothing / y.shape[-1]) * counts[..., None] / counts.sum()
    slope = -target if loss == "nll" else np.exp(logs) * target.sum(-1, keepdims=True) - target
    z = (y - logs)[..., :1] * counts[..., None]  # of the labels that count; ln sum exp
    slope = slope + z_loss * 2 * z * np.exp(logs) / counts.sum()
    return -(target * logs).sum() + z_loss * (z**2).sum() / counts.sum(), np.moveaxis(slope, -1, axis)


def with_numbers(loss, y, label):
    """The mean over all elements (of kl: the sum over elements, divided by the batch), and the gradient."""
    d = y - label
    if loss == "huber":
        each, slope = np.where(abs(d) <= 1, d * d / 2, abs(d) - 0.5), np.clip(d, -1, 1)
    elif loss == "l1":
        each, slope = abs(d), np.sign(d)
    elif loss == "mse":
        each, slope = d * d, 2 * d
    elif loss == "bce":
        each, slope = np.logaddexp(0, y) - y * label, 1 / (1 + np.exp(-y)) - label
    elif loss == "focal":  # torchvision.ops.sigmoid_focal_loss: alpha 0.25, gamma 2
        p = 1 / (1 + np.exp(-y))
        entropy, wrong, weight = np.logaddexp(0, y) - y * label, p * (1 - label) + (1 - p) * label, 0.25 * label + 0.75 * (1 - label)
        each, slope = weight * entropy * wrong**2, weight * ((p - label) * wrong**2 + entropy * 2 * wrong * p * (1 - p) * (1 - 2 * label))
    else:
        each, slope = np.where(label > 0, label * np.log(np.where(label > 0, label, 1)), 0) - label * y, -label
        return each.sum() / len(y), slope / len(y)
    return each.mean(), slope / y.size


def of_triplets(y):
    """PyTorch's TripletMarginLoss, margin 1, p 2, of the three vectors of each row; the gradient."""
    apart = y[:, :1] - y[:, 1:] + 1e-6
    size = np.sqrt((apart**2).sum(-1, keepdims=True))
    each = np.maximum(size[:, 0] - size[:, 1] + 1, 0)
    unit = apart / size * np.array([[[1.0], [-1.0]]]) * (each > 0)[:, None] / len(y)
    return each.mean(), np.concatenate([unit.sum(1, keepdims=True), -unit], 1)


def write_model(path, shape, softmax, draw, loss, flat):
    """output = x w + b, of which a row has `shape`, or several rows the last of its sizes, or its mse or l1 loss; the weights."""
    size = int(np.prod(shape))
    weights = {"w": draw.normal(size=(FEATURES, size)) * 0.5, "b": draw.normal(size=size)}
    inner = "scores" if softmax else "output"
    nodes = [helper.make_node("MatMul", ["x", "w"], ["xw"]), helper.make_node("Add", ["xw", "b"], ["flat"]),
             helper.make_node("Reshape", ["flat", "shape"], [inner])]
    if softmax:
        nodes.append(helper.make_node("LogSoftmax", [inner], ["output"], axis=-1))
    rows = [BATCH * size // shape[-1], shape[-1]] if flat else [BATCH, *shape]
    inputs, result = {"x": [BATCH, FEATURES]}, ("output", rows)
    if loss:
        inputs["label"], result = [BATCH, *shape], ("loss", [])
        nodes += [helper.make_node("Sub", ["output", "label"], ["d"]), helper.make_node("Mul", ["d", "d"], ["e"]) if loss == "mse" else helper.make_node("Abs", ["d"], ["e"]),
                  helper.make_node("ReduceMean", ["e"], ["loss"], keepdims=0)]
    graph = helper.make_graph(
        nodes, "linear", [helper.make_tensor_value_info(name, TensorProto.FLOAT, of) for name, of in inputs.items()],
        [helper.make_tensor_value_info(result[0], TensorProto.FLOAT, result[1])],
        [*(numpy_helper.from_array(value.astype("float32"), name) for name, value in weights.items()),
         numpy_helper.from_array(np.array([-1, *rows[1:]]), "shape")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return {name: value.astype("float32").astype(float) for name, value in weights.items()}


def labels(loss, rows, shape, axis, draw):
    if axis is not None:
        spread = np.delete(np.array([rows, *shape]), axis)
        drawn = draw.integers(0, shape[axis - 1], spread)
        return np.where(draw.random(spread) < 0.2, -100, drawn)
    if loss in ("bce", "focal"):
        return draw.integers(0, 2, (rows, *shape)).astype("float32")
    drawn = draw.normal(size=(rows, *shape)) * 2
    if loss == "kl":
        drawn = np.exp(drawn) * (draw.random(drawn.shape) < 0.8)  # some are 0
        drawn /= drawn.sum(-1, keepdims=True) + 1e-9
    return drawn.astype("float32")


def check(divisi, folder, run, way):
    _, loss, shape, axis, flags, softmax = run
    draw = np.random.default_rng(3)
    smoothing = float(flags.split("--label-smoothing ")[1].split()[0]) if "--label-smoothing" in flags else 0
    z_loss = float(flags.split("--z-loss ")[1]) if "--z-loss" in flags else 0
    flat = flags == FLAT
    weights = write_model(folder / "model.onnx", shape, softmax, draw, loss if flags == IN_FILE else "", flat)
    of_loss = ["--loss", loss, *(["--label", "label"] if loss != "triplet" else []), "--output", "output", *([] if flat else flags.split())]
    of_loss = [] if flags == IN_FILE else of_loss
    rows_of = (lambda y: y.reshape(-1, shape[-1])) if flat else (lambda y: y)
    data = {kind: {"x": draw.normal(size=(rows, FEATURES)).astype("float32"), "label": rows_of(labels(loss, rows, shape, axis, draw))}
            for kind, rows in (("data", BATCH * STEPS), ("eval", TESTED))}
    words = []
    for kind, arrays in data.items():
        for name, array in arrays.items():
            if name == "label" and loss == "triplet":
                continue
            np.save(folder / f"{name}_{kind}.npy", array)
            words += [f"--{kind}", f"{name}={folder}/{name}_{kind}.npy"]
    lines.call(divisi, "compile", folder / "model.onnx", "-o", folder / "model", *of_loss, "--lr", RATE, *WAYS[way].split())
    start = [divisi, "run", "--devices", "2"] if WAYS[way] else []
    lines.call(*start, folder / "model", *words, "--no-shuffle", "--quiet", "--threads", "1", "--log", folder / "log", "--save-weights",
               folder / "after.safetensors")

    def differentiate(x, label):
        y = rows_of((x @ weights["w"] + weights["b"]).reshape(len(x), *shape))
        out = log_softmax(y, -1) if softmax else y
        if loss == "triplet":
            value, slope = of_triplets(out)
        else:
            value, slope = with_classes(loss, out, label, axis, smoothing, z_loss) if axis is not None else with_numbers(loss, out, label)
        if softmax:
            slope = slope - np.exp(out) * slope.sum(-1, keepdims=True)
        slope = slope.reshape(len(x), -1)
        return value, {"w": x.T @ slope, "b": slope.sum(0)}

    want = []
    for step in range(STEPS):
        batch = slice(step * BATCH, (step + 1) * BATCH)
        of_label = slice(*(bound * len(data["data"]["label"]) // (BATCH * STEPS) for bound in (batch.start, batch.stop)))
        value, slopes = differentiate(data["data"]["x"][batch].astype(float), data["data"]["label"][of_label])
        want.append(value)
        for name, slope in slopes.items():
            weights[name] -= RATE * slope
    want.append(differentiate(data["eval"]["x"].astype(float), data["eval"]["label"])[0])
    got = [row["loss"] for row in map(json.loads, (folder / "log").read_text().splitlines())]
    worst = max(abs(a - b) / max(abs(b), 1) for a, b in zip(got, want, strict=True))
    after = read_weights(folder / "after.safetensors")
    changed = max(abs(after[name] - weights[name]).max() for name in weights)
    yield worst < TOLERANCE and changed < TOLERANCE, f"losses {worst:.1e}, weights {changed:.1e}"


def main():
    o = lines.parser(__doc__.splitlines()[0]).parse_args()
    tests = [(f"{run[0]}, {way}", lambda folder, run=run, way=way: check(o.divisi, folder, run, way))
             for run in RUNS for way in WAYS if way == "one device" or run[0] in ("huber", "mse, flattened", "mse in the file", "kl", "triplet", "smoothed, last axis", "nll, last axis")]
    return lines.run(tests, o)


if __name__ == "__main__":
    sys.exit(main())
