#!/usr/bin/env python3
"""Writes large models as ONNX graphs without their weights, so that they can be planned on a laptop.

    make_graph.py gpt --layers 48 --hidden 8192 --heads 64 --vocab 51200 --seq 1024 -o gpt39b.onnx
    make_graph.py moe --layers 32 --hidden 2048 --inner 16384 --heads 16 --experts 64 -o moe70b.onnx
    make_graph.py wide-resnet --depth 50 --width 16 --channels 320 -o wresnet.onnx
    make_graph.py mlp --layers 8 --hidden 16384 -o mlp.onnx

The graphs are those that torch.onnx.export writes for such modules: the same operators, parameters under the module's
names, a symbolic dimension `batch`, and a scalar output `loss`. Weights are external data:

    --weights none     (default) in a file that is not written: the graph alone, below 1 MB
    --weights sparse   in a file that is all holes: the right length, zeros, no disk space
    --weights random   inside the model, drawn from a seed: for small models, which can then be run

Needs only the package onnx.
"""

import argparse
import math
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
MOST_INLINE = 1 << 30  # bytes; a protobuf message holds no more than twice this
STAGES = {26: (2, 2, 2, 2), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3), 200: (3, 24, 36, 3)}

HELP = {
    "inner": "width inside a feed-forward layer or an expert; 0: four times --hidden",
    "top": "experts for each token",
    "capacity": "places of an expert, times its fair share of a group's tokens; who finds none is passed by",
    "every": "N: every N-th block has experts, from the first on",
    "group": "tokens that share the experts' places; 0: one sequence",
    "balance": "factor of the loss that balances the experts",
    "depth": "layers: " + ", ".join(map(str, STAGES)),
    "width": "channels of the 3x3 convolutions, times those around",
    "channels": "channels of the first stage",
}


# ---------------------------------------------------------------- the graph under construction


class Graph:
    """Nodes and weights. A scope is a module scope: `/blocks.3/attn`; the outermost one is empty."""

    def __init__(self, opset, weights, location, seed=0):
        self.opset, self.weights, self.location = opset, weights, location
        self.nodes, self.initializers, self.inputs = [], [], []
        self.random = np.random.default_rng(seed)
        self.offset = self.parameters = 0
        self.counts = {}

    def unique(self, scope, op):
        """Names as the exporter counts them: Add, Add_1, Add_2 in every scope."""
        count = self.counts.get((scope, op), 0)
        self.counts[scope, op] = count + 1
        return f"{scope}/{op}_{count}" if count else f"{scope}/{op}"

    def input(self, name, element, *shape):
        self.inputs.append(helper.make_tensor_value_info(name, element, shape))
        return name

    def weight(self, name, shape, std=0.02, fill=None, trained=True):
        """An initializer; `fill` for constant ones, else normal. `trained` is whether it counts as a parameter."""
        size = math.prod(shape)
        self.parameters += size if trained else 0
        if self.weights == "random":
            if 4 * (self.offset + size) > MOST_INLINE:
                sys.exit("make_graph.py: --weights random is for models below 1 GiB")
            values = np.full(shape, fill) if fill is not None else std * self.random.standard_normal(shape)
            self.initializers.append(numpy_helper.from_array(values.astype(np.float32), name))
        else:
            tensor = TensorProto(name=name, data_type=FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
            for key, value in ("location", self.location), ("offset", 4 * self.offset), ("length", 4 * size):
                tensor.external_data.add(key=key, value=str(value))
            self.initializers.append(tensor)
        self.offset += size
        return name

    def node(self, scope, op, inputs, outputs=1, name=None, **attributes):
        """One node; the name of its output, or a list of them. `name` is that of a graph output."""
        path = self.unique(scope, op)
        names = [name] if name else [f"{path}_output_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, path, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, scope, value, dtype=np.int64):
        return self.node(scope, "Constant", [], value=numpy_helper.from_array(np.asarray(value, dtype)))

    def real(self, scope, value):
        return self.constant(scope, value, np.float32)

    # The counterparts of torch's functions.

    def reshape(self, scope, x, *shape):
        return self.node(scope, "Reshape", [x, self.constant(scope, shape)], allowzero=0)

    def mean(self, scope, x, axes, keepdims=0):
        if self.opset < 18:
            return self.node(scope, "ReduceMean", [x], axes=axes, keepdims=keepdims)
        return self.node(scope, "ReduceMean", [x, self.constant(scope, axes)], keepdims=keepdims)

    def sum(self, scope, x, axes, keepdims=0):
        return self.node(scope, "ReduceSum", [x, self.constant(scope, axes)], keepdims=keepdims)

    def one_hot(self, scope, x, depth):
        values = self.constant(scope, [0, 1])
        return self.node(scope, "OneHot", [x, self.constant(scope, depth), values], axis=-1)

    def cast(self, scope, x, element):
        return self.node(scope, "Cast", [x], to=element)

    def einsum(self, scope, equation, *operands):
        return self.node(scope, "Einsum", list(operands), equation=equation)

    def linear(self, scope, x, inputs, outputs, bias=True, std=0.02):
        """nn.Linear on three dimensions: the weight is stored transposed."""
        path = scope[1:].replace("/", ".")
        weight = self.weight(f"{path}.weight", (outputs, inputs), std)
        y = self.node(scope, "MatMul", [x, self.node(scope, "Transpose", [weight], perm=[1, 0])])
        return self.node(scope, "Add", [self.weight(f"{path}.bias", (outputs,), fill=0), y]) if bias else y

    def gemm(self, scope, x, inputs, outputs, name=None):
        """nn.Linear on two dimensions."""
        path = scope[1:].replace("/", ".")
        weight = self.weight(f"{path}.weight", (outputs, inputs), (2 / inputs) ** 0.5)
        bias = self.weight(f"{path}.bias", (outputs,), fill=0)
        return self.node(scope, "Gemm", [x, weight, bias], name=name, alpha=1.0, beta=1.0, transB=1)

    def layer_norm(self, scope, x, size):
        path = scope[1:].replace("/", ".")
        parts = [x, self.weight(f"{path}.weight", (size,), fill=1), self.weight(f"{path}.bias", (size,), fill=0)]
        return self.node(scope, "LayerNormalization", parts, axis=-1, epsilon=1e-5)

    def gelu(self, scope, x, kind):
        if kind == "op":
            return self.node(scope, "Gelu", [x], approximate="none")
        if kind == "erf":
            y = self.node(scope, "Erf", [self.node(scope, "Div", [x, self.real(scope, 2**0.5)])])
            y = self.node(scope, "Mul", [x, self.node(scope, "Add", [y, self.real(scope, 1)])])
            return self.node(scope, "Mul", [y, self.real(scope, 0.5)])
        cube = self.node(scope, "Mul", [x, self.node(scope, "Mul", [x, x])])
        y = self.node(scope, "Add", [x, self.node(scope, "Mul", [self.real(scope, 0.044715), cube])])
        y = self.node(scope, "Tanh", [self.node(scope, "Mul", [self.real(scope, (2 / math.pi) ** 0.5), y])])
        y = self.node(scope, "Mul", [x, self.node(scope, "Add", [self.real(scope, 1), y])])
        return self.node(scope, "Mul", [self.real(scope, 0.5), y])

    def dropout(self, scope, x, ratio):
        """nn.Dropout in training mode; without a ratio nothing."""
        if not ratio:
            return x
        return self.node(scope, "Dropout", [x, self.real(scope, ratio), self.constant(scope, True, np.bool_)])

    def cross_entropy(self, logits, label, name="loss"):
        return self.node(
            "", "SoftmaxCrossEntropyLoss", [logits, label], name=name, ignore_index=-100, reduction="mean"
        )

    def model(self, title, extra_outputs=()):
        outputs = [helper.make_tensor_value_info("loss", FLOAT, [])]
        outputs += [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in extra_outputs]
        graph = helper.make_graph(self.nodes, title, self.inputs, outputs, self.initializers)
        opset = helper.make_opsetid("", self.opset)
        return helper.make_model(graph, opset_imports=[opset], ir_version=8, producer_name="make_graph.py")


# ---------------------------------------------------------------- transformers


def embed(g, o):
    """Tokens and positions: the hidden state, and the causal mask."""
    idx = g.input("idx", INT64, "batch", o.seq)
    tokens = g.node("/wte", "Gather", [g.weight("wte.weight", (o.vocab, o.hidden)), idx])
    places = g.weight("wpe.weight", (o.seq, o.hidden))
    x = g.node("", "Add", [tokens, g.node("/wpe", "Gather", [places, g.constant("", np.arange(o.seq))])])
    x = g.dropout("/drop", x, o.dropout)
    # torch.ones(seq, seq, dtype=torch.bool).triu(1)
    true = numpy_helper.from_array(np.array([True]))
    ones = g.node("", "ConstantOfShape", [g.constant("", [o.seq, o.seq])], value=true)
    return x, g.node("", "Trilu", [ones, g.constant("", 1)], upper=1)


def attention(g, scope, x, mask, o):
    head = o.hidden // o.heads
    if o.qkv == "fused":
        y = g.linear(f"{scope}/qkv", x, o.hidden, 3 * o.hidden)
        parts = g.node(scope, "Split", [y, g.constant(scope, [o.hidden] * 3)], outputs=3, axis=2)
    else:
        parts = [g.linear(f"{scope}/{name}", x, o.hidden, o.hidden) for name in ("q", "k", "v")]
    heads = [g.reshape(scope, part, -1, o.seq, o.heads, head) for part in parts]
    orders = [0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]  # the keys lie transposed
    q, k, v = (g.node(scope, "Transpose", [part], perm=order) for part, order in zip(heads, orders))
    scores = g.node(scope, "Div", [g.node(scope, "MatMul", [q, k]), g.real(scope, head**0.5)])
    scores = g.node(scope, "Where", [mask, g.real(scope, -math.inf), scores])
    weights = g.dropout(f"{scope}/drop", g.node(scope, "Softmax", [scores], axis=-1), o.dropout)
    y = g.node(scope, "MatMul", [weights, v])
    y = g.reshape(scope, g.node(scope, "Transpose", [y], perm=[0, 2, 1, 3]), -1, o.seq, o.hidden)
    y = g.linear(f"{scope}/proj", y, o.hidden, o.hidden, std=0.02 / (2 * o.layers) ** 0.5)
    return g.dropout(f"{scope}/proj_drop", y, o.dropout)


def feed_forward(g, scope, x, o):
    y = g.gelu(f"{scope}/act", g.linear(f"{scope}/fc", x, o.hidden, o.inner), o.gelu)
    y = g.linear(f"{scope}/proj", y, o.inner, o.hidden, std=0.02 / (2 * o.layers) ** 0.5)
    return g.dropout(f"{scope}/drop", y, o.dropout)


def experts(g, scope, x, o):
    """GShard's layer: each token goes to its best `top` experts, of which each takes `capacity` tokens of a group.

    Returns the layer's output and the loss that balances the experts. Letters: g groups, s tokens of a group, k choices,
    e experts, c places of an expert, m hidden, h inner.
    """
    path, count, tokens, top = scope[1:].replace("/", "."), o.experts, o.group, o.top
    places = capacity(o)
    x = g.reshape(scope, x, -1, tokens, o.hidden)
    gates = g.node(scope, "Softmax", [g.linear(f"{scope}/gate", x, o.hidden, count, bias=False)], axis=-1)
    best, which = g.node(scope, "TopK", [gates, g.constant(scope, [top])], outputs=2, axis=-1, largest=1, sorted=1)
    share = g.node(scope, "Div", [best, g.sum(scope, best, [-1], keepdims=1)])
    # The order in an expert's queue: all first choices, then all second choices.
    chosen = g.node(scope, "Transpose", [g.one_hot(scope, which, count)], perm=[0, 2, 1, 3])  # gkse
    queue = g.reshape(scope, chosen, -1, top * tokens, count)
    turn = g.node(scope, "CumSum", [queue, g.constant(scope, 1)])
    turn = g.sum(scope, g.node(scope, "Mul", [turn, queue]), [-1])
    turn = g.node(scope, "Sub", [turn, g.constant(scope, 1)])
    late = g.node(scope, "GreaterOrEqual", [turn, g.constant(scope, places)])
    turn = g.node(scope, "Where", [late, g.constant(scope, places), turn])
    ends = [g.constant(scope, [value]) for value in (0, places, -1)]
    place = g.node(scope, "Slice", [g.one_hot(scope, turn, places + 1), *ends])  # tokens that come too late have none
    place = g.reshape(scope, g.cast(scope, place, FLOAT), -1, top, tokens, places)  # gksc
    chosen = g.cast(scope, chosen, FLOAT)
    share = g.node(scope, "Transpose", [share], perm=[0, 2, 1])
    weighted = g.node(scope, "Mul", [chosen, g.node(scope, "Unsqueeze", [share, g.constant(scope, [-1])])])
    dispatch = g.einsum(scope, "gkse,gksc->gsec", chosen, place)
    combine = g.einsum(scope, "gkse,gksc->gsec", weighted, place)

    std = 0.02 / (2 * o.layers) ** 0.5
    w_in = g.weight(f"{path}.w_in", (count, o.hidden, o.inner))
    w_out = g.weight(f"{path}.w_out", (count, o.inner, o.hidden), std)
    y = g.einsum(scope, "egcm,emh->egch", g.einsum(scope, "gsec,gsm->egcm", dispatch, x), w_in)
    y = g.einsum(scope, "egch,ehm->egcm", g.gelu(f"{scope}/act", y, o.gelu), w_out)
    y = g.reshape(scope, g.einsum(scope, "gsec,egcm->gsm", combine, y), -1, o.seq, o.hidden)

    first = g.node(scope, "Gather", [chosen, g.constant(scope, 0)], axis=1)
    product = g.node(scope, "Mul", [g.mean(scope, gates, [1]), g.mean(scope, first, [1])])
    balance = g.mean(scope, g.sum(scope, product, [-1]), [0])
    return y, g.node(scope, "Mul", [balance, g.real(scope, count)])


def capacity(o):
    """Places of one expert for a group: its fair share times the factor."""
    return max(1, math.ceil(o.capacity * o.top * o.group / o.experts))


def transformer(g, o):
    """A GPT; with experts, in every `every`-th block from the first on."""
    x, mask = embed(g, o)
    balances = []
    for k in range(o.layers):
        scope = f"/blocks.{k}"
        y = attention(g, f"{scope}/attn", g.layer_norm(f"{scope}/ln_1", x, o.hidden), mask, o)
        x = g.node(scope, "Add", [x, y])
        y = g.layer_norm(f"{scope}/ln_2", x, o.hidden)
        if o.experts and k % o.every == 0:
            y, balance = experts(g, f"{scope}/moe", y, o)
            balances.append(balance)
        else:
            y = feed_forward(g, f"{scope}/mlp", y, o)
        x = g.node(scope, "Add", [x, y])
    x = g.layer_norm("/ln_f", x, o.hidden)
    if o.untied:
        x = g.linear("/head", x, o.hidden, o.vocab, bias=False)
    else:
        x = g.node("/head", "MatMul", [x, g.node("/head", "Transpose", ["wte.weight"], perm=[1, 0])])
    targets = g.reshape("", g.input("targets", INT64, "batch", o.seq), -1)
    balanced = bool(balances) and o.balance > 0
    loss = g.cross_entropy(g.reshape("", x, -1, o.vocab), targets, name=None if balanced else "loss")
    if balanced:
        total = balances[0]
        for balance in balances[1:]:
            total = g.node("", "Add", [total, balance])
        total = g.node("", "Mul", [total, g.real("", o.balance)])
        g.node("", "Add", [loss, total], name="loss")
    return g.model("moe" if o.experts else "gpt")


# ---------------------------------------------------------------- the others


def wide_resnet(g, o):
    """Alpa's wide ResNet: bottlenecks whose 3x3 convolution has `width` times the channels."""

    def conv(scope, x, inputs, outputs, size, stride=1):
        std = (2 / (outputs * size * size)) ** 0.5
        weight = g.weight(scope[1:].replace("/", ".") + ".weight", (outputs, inputs, size, size), std)
        shape = {"kernel_shape": [size] * 2, "pads": [size // 2] * 4, "strides": [stride] * 2}
        return g.node(scope, "Conv", [x, weight], dilations=[1, 1], group=1, **shape)

    def norm(scope, x, size):
        path = scope[1:].replace("/", ".")
        weights = [g.weight(f"{path}.{n}", (size,), fill=f) for n, f in (("weight", 1), ("bias", 0))]
        running = (("running_mean", 0), ("running_var", 1))
        weights += [g.weight(f"{path}.{n}", (size,), fill=f, trained=False) for n, f in running]
        attributes = {"epsilon": 1e-5, "momentum": 0.9, "training_mode": 1}
        return g.node(scope, "BatchNormalization", [x, *weights], outputs=3, **attributes)[0]

    def relu(scope, x):
        return g.node(scope, "Relu", [x])

    image = g.input("image", FLOAT, "batch", 3, o.image, o.image)
    label = g.input("label", INT64, "batch")
    x = relu("", norm("/bn1", conv("/conv1", image, 3, o.channels, 7, 2), o.channels))
    pool = {"kernel_shape": [3, 3], "pads": [1] * 4, "strides": [2, 2], "dilations": [1, 1], "ceil_mode": 0}
    x, inputs = g.node("/maxpool", "MaxPool", [x], **pool), o.channels
    for stage, blocks in enumerate(STAGES[o.depth]):
        planes = o.channels << stage
        wide, outputs = planes * o.width, 4 * planes
        for block in range(blocks):
            scope, stride = f"/layer{stage + 1}.{block}", 2 if stage and not block else 1
            y = relu(scope, norm(f"{scope}/bn1", conv(f"{scope}/conv1", x, inputs, planes, 1), planes))
            y = relu(scope, norm(f"{scope}/bn2", conv(f"{scope}/conv2", y, planes, wide, 3, stride), wide))
            y = norm(f"{scope}/bn3", conv(f"{scope}/conv3", y, wide, outputs, 1), outputs)
            if stride > 1 or inputs != outputs:
                down = f"{scope}/downsample"
                x = norm(f"{down}.1", conv(f"{down}.0", x, inputs, outputs, 1, stride), outputs)
            x, inputs = relu(scope, g.node(scope, "Add", [y, x])), outputs
    x = g.node("", "Flatten", [g.node("/avgpool", "GlobalAveragePool", [x])], axis=1)
    g.cross_entropy(g.gemm("/fc", x, inputs, o.classes), label)
    return g.model("wide-resnet")


def vgg(g, o):
    """VGG-16 (arXiv 1409.1556) without dropout: most time in the first layers, most weights in the last ones."""
    image = g.input("image", FLOAT, "batch", 3, o.image, o.image)
    label = g.input("label", INT64, "batch")
    x, inputs, number, size = image, 3, 0, o.image
    for channels, layers in (1, 2), (2, 2), (4, 3), (8, 3), (8, 3):
        for _ in range(layers):
            outputs = channels * o.channels
            weight = g.weight(f"features.{number}.weight", (outputs, inputs, 3, 3), (2 / (outputs * 9)) ** 0.5)
            operands = [x, weight, g.weight(f"features.{number}.bias", (outputs,), fill=0)]
            shape = {"kernel_shape": [3, 3], "pads": [1] * 4, "strides": [1, 1], "dilations": [1, 1]}
            x = g.node(f"/features/features.{number}", "Conv", operands, group=1, **shape)
            x = g.node(f"/features/features.{number + 1}", "Relu", [x])
            inputs, number = outputs, number + 2
        pool = {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [0] * 4, "dilations": [1, 1], "ceil_mode": 0}
        x = g.node(f"/features/features.{number}", "MaxPool", [x], **pool)
        number, size = number + 1, size // 2
    x, sizes = g.node("", "Flatten", [x], axis=1), (inputs * size * size, o.hidden, o.hidden, o.classes)
    for k, (inputs, outputs) in enumerate(zip(sizes, sizes[1:])):
        x = g.gemm(f"/classifier/classifier.{2 * k}", x, inputs, outputs)
        x = g.node(f"/classifier/classifier.{2 * k + 1}", "Relu", [x]) if k < 2 else x
    g.cross_entropy(x, label)
    return g.model("vgg")


def mlp(g, o):
    x = g.input("x", FLOAT, "batch", o.inputs)
    label = g.input("label", INT64, "batch")
    sizes = [o.inputs, *[o.hidden] * o.layers, o.classes]
    for k, (inputs, outputs) in enumerate(zip(sizes, sizes[1:])):
        x = g.gemm(f"/fc.{k}", x, inputs, outputs)
        x = g.node("", "Relu", [x]) if k < o.layers else x
    g.cross_entropy(x, label)
    return g.model("mlp")


# ---------------------------------------------------------------- writing


def check(model):
    """ONNX's checker with shapes, on a copy whose weights are inputs: it needs no data then."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    for tensor in bare.graph.initializer:
        bare.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    del bare.graph.initializer[:]
    onnx.checker.check_model(bare, full_check=True)


def build(o):
    """(model, number of parameters, length of its weights in bytes)."""
    opset = 20 if getattr(o, "gelu", "") == "op" else 17
    g = Graph(opset, o.weights, o.location, o.seed)
    model = o.make(g, o)
    return model, g.parameters, 4 * g.offset


def write(model, o, length):
    onnx.save(model, str(o.output))
    if o.weights == "sparse":
        with open(o.output.parent / o.location, "wb") as file:
            file.truncate(length)


def parse(words=None):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = p.add_subparsers(dest="kind", required=True, metavar="gpt|moe|wide-resnet|vgg|mlp")

    def add(kind, make, text, **numbers):
        q = kinds.add_parser(kind, help=text, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
        q.set_defaults(make=make)
        q.add_argument("-o", dest="output", type=pathlib.Path, default=pathlib.Path(f"{kind}.onnx"), help="the file")
        q.add_argument("--weights", choices=("none", "sparse", "random"), default="none", help="see above")
        q.add_argument("--location", default="weights.bin", help="file of the external data, beside the model")
        q.add_argument("--seed", type=int, default=0, help="of random weights")
        for name, value in numbers.items():
            q.add_argument(f"--{name}", type=type(value), default=value, help=HELP.get(name, "a size"))
        return q

    sizes = {"layers": 12, "hidden": 768, "heads": 12, "vocab": 51200, "seq": 1024, "inner": 0}
    more = {"experts": 16, "top": 2, "capacity": 1.0, "every": 2, "group": 0, "balance": 0.01}
    gpt = add("gpt", transformer, "a decoder of transformer blocks", **sizes)
    moe = add("moe", transformer, "the same with a mixture of experts in every second block", **sizes, **more)
    gpt.set_defaults(experts=0)
    for q in gpt, moe:
        q.add_argument("--qkv", choices=("fused", "separate"), default="fused", help="one projection or three")
        q.add_argument("--gelu", choices=("erf", "tanh", "op"), default="erf", help="how the exporter wrote it")
        q.add_argument("--dropout", type=float, default=0.0, help="ratio, behind the embedding, the softmax and both parts of a block")
        q.add_argument("--untied", action="store_true", help="a head of its own instead of the embedding")
    resnet = {"depth": 50, "width": 2, "channels": 64, "image": 224, "classes": 1000}
    add("wide-resnet", wide_resnet, "a convolutional network of wide bottlenecks", **resnet)
    add("vgg", vgg, "13 convolutions, then three layers with most of the weights", channels=64, hidden=4096, image=224, classes=1000)
    add("mlp", mlp, "layers of one width", layers=4, hidden=4096, inputs=4096, classes=1000)
    o = p.parse_args(words)
    if o.make is transformer:
        o.inner = o.inner or 4 * o.hidden
        if o.hidden % o.heads:
            p.error("--heads does not divide --hidden")
        if not 0 <= o.dropout < 1:
            p.error("--dropout is not in [0, 1)")
    if o.kind == "moe":
        o.group = o.group or o.seq
        if not 1 <= o.top <= o.experts or o.every < 1:
            p.error("--top is not between 1 and --experts, or --every is not positive")
    if o.kind == "wide-resnet" and o.depth not in STAGES:
        p.error(f"--depth is one of {', '.join(map(str, STAGES))}")
    return o


def main():
    o = parse()
    model, parameters, length = build(o)
    check(model)
    write(model, o, length)
    size = o.output.stat().st_size
    where = {"none": f"absent, in {o.location}", "sparse": f"zeros, in {o.location}", "random": "random, inside"}
    print(
        f"{o.output}: {len(model.graph.node):,} nodes, {parameters:,} parameters, {size:,} bytes; "
        f"weights: {length:,} bytes, {where[o.weights]}"
    )


if __name__ == "__main__":
    main()
