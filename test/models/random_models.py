"""Random models of the kinds that people train, as ONNX files with their loss inside, and data for them.

A seed always draws the same model. Kinds: convolutional networks with groups, batch norm and residuals; decoders with heads that
seldom divide by a number of devices; mixtures of experts; tables of embeddings with interactions; recurrent cells that are
unrolled; multilayer perceptrons. Needs onnx.
"""

import random

import numpy as np
import onnx
from onnx import helper, numpy_helper

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


class Model:
    """A model under construction: operations give the names of their results."""

    def __init__(self, kind, seed, batch):
        self.kind, self.batch = kind, batch
        self.numbers = np.random.default_rng(seed)
        self.nodes, self.weights, self.inputs, self.data = [], [], [], {}

    def op(self, kind, *operands, results=1, **attributes):
        names = [f"{kind}{len(self.nodes)}" + (f".{i}" if i else "") for i in range(results)]
        self.nodes.append(helper.make_node(kind, list(operands), names, name=names[0], **attributes))
        return names[0]

    def tensor(self, array):
        name = f"t{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, *shape, scale=None):
        scale = scale or (2 / np.prod(shape[1:])) ** 0.5
        return self.tensor((scale * self.numbers.standard_normal(shape)).astype(np.float32))

    def constant(self, value, dtype=np.float32):
        """A value that does not train: exporters write it so, too."""
        name = self.op("Constant", value=numpy_helper.from_array(np.array(value, dtype)))
        return name

    def input(self, name, *shape, below=None):
        """Numbers of a normal distribution, or integers below a limit; data for three batches."""
        rows = (3 * self.batch, *shape)
        self.data[name] = (self.numbers.standard_normal(rows).astype(np.float32) if below is None
                           else self.numbers.integers(0, below, rows))
        self.inputs.append(helper.make_tensor_value_info(name, INT64 if below else FLOAT, [self.batch, *shape]))
        return name

    def linear(self, x, inputs, outputs):
        return self.op("Gemm", x, self.weight(outputs, inputs), self.weight(outputs, scale=0.02), transB=1)

    def dense(self, x, inputs, outputs):
        """Of tensors of any rank."""
        return self.op("Add", self.op("MatMul", x, self.weight(inputs, outputs, scale=inputs ** -0.5)), self.weight(outputs, scale=0.02))

    def norm(self, x, size):
        return self.op("LayerNormalization", x, self.tensor(np.ones(size, np.float32)), self.weight(size, scale=0.02), axis=-1)

    def classify(self, logits, classes, *shape):
        label = self.input("label", *shape, below=classes)
        if shape:
            logits = self.op("Reshape", logits, self.constant([-1, classes], np.int64))
            label = self.op("Reshape", label, self.constant([-1], np.int64))
        self.nodes.append(helper.make_node("SoftmaxCrossEntropyLoss", [logits, label], ["loss"], name="loss"))

    def save(self, folder):
        """FOLDER/model.onnx and FOLDER/NAME.npy for each input."""
        loss = helper.make_tensor_value_info("loss", FLOAT, [])
        graph = helper.make_graph(self.nodes, self.kind, self.inputs, [loss], self.weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
        for name, array in self.data.items():
            np.save(folder / f"{name}.npy", array)


def mlp(m, draw, size):
    width = draw.choice([24, 36, 50, 64]) * size
    x, last = m.input("x", 30), 30
    for _ in range(draw.randint(1, 4)):
        x, last = m.op(draw.choice(["Relu", "Tanh", "Sigmoid"]), m.linear(x, last, width)), width
    classes = draw.choice([7, 10])
    m.classify(m.linear(x, last, classes), classes)


def cnn(m, draw, size):
    side, channels = draw.choice([8, 9, 12]), 3
    x = m.input("image", channels, side, side)
    for _ in range(draw.randint(2, 4)):
        groups = draw.choice([1, 1, 2, 3, 4])
        out = groups * draw.choice([2, 4, 6]) * size
        if channels % groups:
            groups = 1
        y = m.op("Conv", x, m.weight(out, channels // groups, 3, 3), group=groups, pads=[1, 1, 1, 1])
        if draw.random() < 0.7:
            moments = [m.tensor(np.zeros(out, np.float32)), m.tensor(np.ones(out, np.float32))]
            y = m.op("BatchNormalization", y, m.tensor(np.ones(out, np.float32)), m.weight(out, scale=0.1), *moments,
                     results=3, training_mode=1)
        y = m.op("Relu", y)
        x, channels = (m.op("Add", x, y) if out == channels else y), out
        if side >= 8 and draw.random() < 0.5:
            x, side = m.op(draw.choice(["MaxPool", "AveragePool"]), x, kernel_shape=[2, 2], strides=[2, 2]), side // 2
    pooled = m.op("Flatten", m.op("GlobalAveragePool", x), axis=1)
    m.classify(m.linear(pooled, channels, 5), 5)


def attention(m, x, length, heads, width, causal):
    hidden = heads * width
    split = m.constant([0, length, heads, width], np.int64)
    part = lambda perm: m.op("Transpose", m.op("Reshape", m.dense(x, hidden, hidden), split), perm=perm)
    q, k, v = part([0, 2, 1, 3]), part([0, 2, 3, 1]), part([0, 2, 1, 3])
    scores = m.op("Mul", m.op("MatMul", q, k), m.constant(width ** -0.5))
    if causal:
        scores = m.op("Add", scores, m.constant(np.triu(np.full((length, length), -1e9), 1)))
    mixed = m.op("MatMul", m.op("Softmax", scores, axis=-1), v)
    joined = m.op("Reshape", m.op("Transpose", mixed, perm=[0, 2, 1, 3]), m.constant([0, length, hidden], np.int64))
    return m.dense(joined, hidden, hidden)


def gelu(m, x):
    erf = m.op("Erf", m.op("Mul", x, m.constant(0.5 ** 0.5)))
    return m.op("Mul", m.op("Mul", x, m.constant(0.5)), m.op("Add", erf, m.constant(1)))


def experts(m, draw, x, hidden):
    """All experts compute all tokens, weighted by a softmax: [b, t, h] -> [b, t, h]."""
    count, inner = draw.choice([2, 3, 4, 6]), 2 * hidden
    gates = m.op("Softmax", m.op("MatMul", x, m.weight(hidden, count, scale=0.3)), axis=-1)
    first = m.op("Einsum", x, m.weight(count, hidden, inner, scale=hidden ** -0.5), equation="bth,ehf->betf")
    second = m.op("Einsum", gelu(m, first), m.weight(count, inner, hidden, scale=inner ** -0.5), equation="betf,efh->beth")
    return m.op("Einsum", second, gates, equation="beth,bte->bth")


def decoder(m, draw, size, mixture=False):
    heads, width, length = draw.choice([2, 3, 4, 5, 6]), draw.choice([4, 6, 8]) * size, draw.choice([6, 8, 12])
    hidden, vocabulary, causal = heads * width, draw.choice([29, 32, 51]), draw.random() < 0.7
    tokens = m.input("tokens", length, below=vocabulary)
    table = m.weight(vocabulary, hidden, scale=0.3)
    x = m.op("Add", m.op("Gather", table, tokens), m.weight(length, hidden, scale=0.1))
    for _ in range(draw.randint(1, 3)):
        x = m.op("Add", x, attention(m, m.norm(x, hidden), length, heads, width, causal))
        normed = m.norm(x, hidden)
        inner = hidden * draw.choice([2, 4])
        x = m.op("Add", x, experts(m, draw, normed, hidden) if mixture else m.dense(gelu(m, m.dense(normed, hidden, inner)), inner, hidden))
    x = m.norm(x, hidden)
    head = m.op("Transpose", table, perm=[1, 0]) if draw.random() < 0.5 else m.weight(hidden, vocabulary, scale=hidden ** -0.5)
    m.classify(m.op("MatMul", x, head), vocabulary, length)


def mixture(m, draw, size):
    decoder(m, draw, size, mixture=True)


def tables(m, draw, size):
    """A recommendation model: tables of embeddings, pairwise products with the features, a logistic loss."""
    width, count = draw.choice([6, 8, 12]) * size, draw.choice([2, 3, 5])
    dense = m.op("Relu", m.linear(m.input("dense", 13), 13, width))
    rows = [m.op("Unsqueeze", dense, m.constant([1], np.int64))]
    for t in range(count):
        entries = draw.choice([17, 40, 100])
        index = m.input(f"index{t}", 1, below=entries)
        rows.append(m.op("Gather", m.weight(entries, width, scale=0.3), index))
    stacked = m.op("Concat", *rows, axis=1)
    products = m.op("MatMul", stacked, m.op("Transpose", stacked, perm=[0, 2, 1]))
    flat = m.op("Concat", m.op("Flatten", products, axis=1), dense, axis=1)
    m.classify(m.linear(m.op("Relu", m.linear(flat, (count + 1) ** 2 + width, 20)), 20, 2), 2)


def recurrent(m, draw, size):
    """A gated cell, unrolled."""
    features, hidden, steps = draw.choice([5, 8]), draw.choice([12, 20, 30]) * size, draw.randint(3, 8)
    sequence = m.input("x", steps, features)
    names = ("z", "r", "n") if draw.random() < 0.6 else ("n",)
    inputs = {g: m.weight(features, hidden, scale=features ** -0.5) for g in names}
    states = {g: m.weight(hidden, hidden, scale=hidden ** -0.5) for g in names}
    bias = {g: m.weight(hidden, scale=0.02) for g in names}
    h = None
    for t in range(steps):
        x = m.op("Gather", sequence, m.constant(t, np.int64), axis=1)

        def gate(kind, name, state):
            total = m.op("Add", m.op("MatMul", x, inputs[name]), bias[name])
            return m.op(kind, m.op("Add", total, m.op("MatMul", state, states[name])) if state else total)

        if h is None or len(names) == 1:
            h = gate("Tanh", "n", h)
            continue
        z, r = gate("Sigmoid", "z", h), gate("Sigmoid", "r", h)
        n = gate("Tanh", "n", m.op("Mul", r, h))
        h = m.op("Add", n, m.op("Mul", z, m.op("Sub", h, n)))
    m.classify(m.linear(h, hidden, 4), 4)


KINDS = (cnn, decoder, mixture, tables, recurrent, mlp)


def draw_model(seed, size=1):
    """The model of a seed; `size` multiplies its widths."""
    draw = random.Random(seed)
    make = KINDS[seed % len(KINDS)]
    model = Model(make.__name__, seed, draw.choice([4, 6, 8, 12, 16]) * size)
    make(model, draw, size)
    return model
