#!/usr/bin/env python3
"""Losses in the file that compare or combine the samples of a batch, in an evaluation whose last batch lacks rows, against NumPy's float64.

    batch_losses.py --divisi PATH [--only clip] [--jobs N]

Two tensors of vectors, y = x w and `label`, with nodes as PyTorch's exporters write them: the loss of the rows that there are, averaged
over the batches by their numbers of rows; on one device and split over two, with vectors of other and of the batch's size, and with a last
batch of one row. Tolerance: 1e-5. Needs numpy and onnx; ends with `N passed, N failed`.
"""

import json
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import lines

BATCH, FEATURES, TOLERANCE = 4, 5, 1e-5
WAYS = {  # flags of the compilation, size of the vectors, rows of the evaluation
    "one device": ("", 3, 11), "data=2": ("--mesh data=2", 3, 11), "model=2": ("--mesh model=2", 3, 11),
    "square": ("", BATCH, 11), "one row": ("", BATCH, 2 * BATCH + 1), "numbers": ("", 1, 10)}


class Nodes:
    """ONNX nodes, each with one result."""

    def __init__(self):
        self.nodes = []

    def __call__(self, kind, *inputs, **attributes):
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        self.nodes.append(helper.make_node(kind, names, [f"v{len(self.nodes)}"], **attributes))
        return self.nodes[-1].output[0]

    def constant(self, value):
        array = np.asarray(value)
        return self("Constant", value=numpy_helper.from_array(array.astype("float32") if array.dtype == float else array))

    def mean(self, x, *axes, keep=0):
        return self("ReduceMean", x, *([np.array(axes)] if axes else []), keepdims=keep)

    def sum(self, x, *axes, keep=0):
        return self("ReduceSum", x, *([np.array(axes)] if axes else []), keepdims=keep)

    def products(self, a, b):
        return self("MatMul", a, self("Transpose", b, perm=[1, 0]))

    def distances(self, a, b):
        d = self("Sub", self("Unsqueeze", a, np.array([1])), self("Unsqueeze", b, np.array([0])))
        return self.sum(self("Mul", d, d), 2)


EYE, PAIR = np.eye(BATCH), np.eye(2 * BATCH)


def log_softmax(s):
    s = s - s.max(1, keepdims=True)
    return s - np.log(np.exp(s).sum(1, keepdims=True))


def squares(a, b):
    return ((a[:, None] - b[None]) ** 2).sum(-1)


def clip(n, y, label):
    scores = n.products(y, label)
    both = [n("SoftmaxCrossEntropyLoss", s, np.arange(BATCH), reduction="mean") for s in (scores, n("Transpose", scores, perm=[1, 0]))]
    return n("Div", n("Add", *both), 2.0)


def clip_of(y, label):
    scores = y @ label.T
    return -(np.trace(log_softmax(scores)) + np.trace(log_softmax(scores.T))) / 2 / len(y)


def diagonal(n, y, label):  # Einsum, Gather: what exporters write for it selects by the identity, too
    chosen = n.sum(n("Mul", n("LogSoftmax", n.products(y, label), axis=1), EYE), 1)
    return n("Neg", n.mean(chosen, 0))


def diagonal_of(y, label):
    return -np.trace(log_softmax(y @ label.T)) / len(y)


def two_views(n, y, label):  # SimCLR, arXiv 2002.05709, equation 1
    views = n("Concat", y, label, axis=0)
    scores = n("Where", PAIR > 0, -np.inf, n.products(views, views))
    return n("SoftmaxCrossEntropyLoss", scores, np.roll(np.arange(2 * BATCH), BATCH), reduction="mean")


def two_views_of(y, label):
    views = np.concatenate([y, label])
    count = len(views)
    scores = np.where(np.eye(count) > 0, -np.inf, views @ views.T)
    return -log_softmax(scores)[np.arange(count), np.roll(np.arange(count), count // 2)].mean()


def sigmoids(n, y, label):  # SigLIP, arXiv 2303.15343: a sum over pairs, divided by the batch
    signs = n("Mul", n.products(y, label), 2 * EYE - 1)
    return n("Neg", n("Div", n.sum(n("Log", n("Sigmoid", signs))), float(BATCH)))


def sigmoids_of(y, label):
    return np.logaddexp(0, -(2 * np.eye(len(y)) - 1) * (y @ label.T)).sum() / len(y)


def pairs(n, y, label):  # a mean over all pairs, with a weight
    return n("Mul", n.mean(n("Exp", n("Neg", n.distances(y, label)))), 2.0)


def pairs_of(y, label):
    return 2 * np.exp(-squares(y, label)).mean()


def others(n, y, label):  # over pairs of different samples
    near = n("Mul", n("Exp", n("Neg", n.distances(y, y))), 1 - EYE)
    return n("Add", n("Div", n.sum(near), float(BATCH * (BATCH - 1))), n.mean(label))


def others_of(y, label):
    count = len(y)
    return (np.exp(-squares(y, y)).sum() - count) / (count * max(count - 1, 1)) + label.mean()


def deviation(n, y, label):  # as TorchScript writes `std`
    centred = n("Sub", y, n.mean(y, 0, keep=1))
    variance = n("Div", n("Mul", n.mean(n("Mul", centred, centred), 0), float(BATCH)), float(BATCH - 1))
    return n("Add", n.mean(n("Sqrt", variance)), n.mean(label))


def variance_of(y):
    """Of one row zero, which is not a number in PyTorch."""
    centred = y - y.mean(0)
    return centred.T @ centred / max(len(y) - 1, 1)


def covariance(n, y, label):  # VICReg, arXiv 2105.04906
    centred = n("Sub", y, n.mean(y, 0, keep=1))
    products = n("Div", n("MatMul", n("Transpose", centred, perm=[1, 0]), centred), float(BATCH - 1))
    return n("Add", n.mean(n("Mul", products, products)), n.mean(label))


def hardest(n, y, label):
    far = n("Add", n.distances(y, label), 1e3 * EYE)
    return n.mean(n("ReduceMin", far, np.array([1]), keepdims=0))


def hardest_of(y, label):
    return (squares(y, label) + 1e3 * np.eye(len(y))).min(1).mean()


def attention(n, y, label):  # over the samples
    seen = n("MatMul", n("Softmax", n.products(y, label), axis=1), label)
    return n.mean(n("Abs", n("Sub", seen, y)))


def features(n, y, label):  # a mean over features of a softmax's sums over samples
    return n.mean(n.sum(n("Mul", n("Softmax", y, axis=0), label), 0))


def divergence(n, y, label):  # of a variational autoencoder, arXiv 1312.6114, appendix B: a sum with a weight, divided by the batch
    total = n.sum(n("Sub", n("Add", y, 1.0), n("Add", n("Mul", label, label), n("Exp", y))))
    return n("Div", n("Mul", total, -0.5), float(BATCH))


def divergence_of(y, label):
    return -0.5 * (1 + y - label**2 - np.exp(y)).sum() / len(y)


def flattened(n, y, label):
    return n.mean(n("Exp", n("Neg", n("Reshape", n.distances(y, label), np.array([-1])))))


def sums(n, y, label):  # over samples and features, in two steps
    return n("Div", n.sum(n.sum(n("Exp", y), 0)), float(BATCH))


def weighted(n, y, label):  # one constant scales samples and, behind a transposition, features; and then the mean itself
    half = n.constant(np.full([1], 0.25))
    columns = n("Transpose", n("Tanh", n("Mul", y, half)), perm=[1, 0])
    return n("Mul", n.mean(n("Log", n.sum(n("Exp", n("Mul", columns, half)), 0)), 0), 1.5)


def weighted_of(y, label):
    return 1.5 * np.log(np.exp(np.tanh(y / 4) / 4).sum(1)).mean()


LOSSES = {  # nodes, and the formula
    "clip": (clip, clip_of),
    "diagonal": (diagonal, diagonal_of),
    "two views": (two_views, two_views_of),
    "sigmoids": (sigmoids, sigmoids_of),
    "pairs": (pairs, pairs_of),
    "others": (others, others_of),
    "deviation": (deviation, lambda y, label: np.sqrt(np.diag(variance_of(y))).mean() + label.mean()),
    "covariance": (covariance, lambda y, label: (variance_of(y) ** 2).mean() + label.mean()),
    "hardest": (hardest, hardest_of),
    "attention": (attention, lambda y, label: abs(np.exp(log_softmax(y @ label.T)) @ label - y).mean()),
    "features": (features, lambda y, label: (np.exp(log_softmax(y.T)).T * label).sum(0).mean()),
    "divergence": (divergence, divergence_of),
    "flattened": (flattened, lambda y, label: np.exp(-squares(y, label)).mean()),
    "sums": (sums, lambda y, label: np.exp(y).sum() / len(y)),
    "weighted": (weighted, weighted_of),
}


def check(divisi, folder, name, way):
    draw = np.random.default_rng(5)
    flags, size, count = WAYS[way]
    weights = draw.normal(size=(FEATURES, size)).astype("float32")
    nodes, formula = LOSSES[name]
    n = Nodes()
    loss = nodes(n, n("MatMul", "x", "w"), "label")
    inputs = {"x": [BATCH, FEATURES], "label": [BATCH, size]}
    graph = helper.make_graph(
        n.nodes, "pairs", [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(loss, TensorProto.FLOAT, [])], [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), folder / "model.onnx")
    words = []
    tested = {}
    for kind, rows in (("data", BATCH), ("eval", count)):
        for name, (_, *shape) in inputs.items():
            tested[name] = draw.normal(size=(rows, *shape)).astype("float32")
            np.save(folder / f"{name}_{kind}.npy", tested[name])
            words += [f"--{kind}", f"{name}={folder}/{name}_{kind}.npy"]
    lines.call(divisi, "compile", folder / "model.onnx", "-o", folder / "model", "--lr", 0, *flags.split())
    start = [divisi, "run", "--devices", "2"] if flags else []
    lines.call(*start, folder / "model", *words, "--quiet", "--threads", "1", "--log", folder / "log")
    got = json.loads((folder / "log").read_text().splitlines()[-1])["loss"]
    y = tested["x"].astype(float) @ weights
    batches = [slice(first, min(first + BATCH, count)) for first in range(0, count, BATCH)]
    want = sum(formula(y[batch], tested["label"][batch].astype(float)) * (batch.stop - batch.start) for batch in batches) / count
    yield abs(got - want) < TOLERANCE * max(1, abs(want)), f"{got:.7g}, expected {want:.7g}"


def main():
    o = lines.parser(__doc__.splitlines()[0]).parse_args()
    tests = [(f"{name}, {way}", lambda folder, name=name, way=way: check(o.divisi, folder, name, way)) for name in LOSSES for way in WAYS]
    return lines.run(tests, o)


if __name__ == "__main__":
    sys.exit(main())
