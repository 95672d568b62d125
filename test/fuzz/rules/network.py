"""Pooling, normalization over channels, resizing, attention and losses."""

import numpy as np

from graph import Reject
from rules import rule
from rules.contraction import image, window
from rules.elementwise import inside, positive
from rules.reduction import spread


@rule("MaxPool", "AveragePool", "LpPool")
def pool(g, op):
    x = image(g)
    attributes = window(g, x)
    if op == "LpPool":
        x = positive(g, x)
        attributes["p"] = g.of(None, 1, 2, 3)
    if op != "MaxPool" and g.opset < (19 if op == "AveragePool" else 18):
        attributes.pop("dilations", None)
    if op == "AveragePool":
        attributes["count_include_pad"] = g.of(None, 0, 1)
    if op != "LpPool" and "auto_pad" not in attributes and g.chance(0.3):
        attributes["ceil_mode"] = 1
    g.add(op, x, **attributes)


@rule("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(g, op):
    x = image(g, 1)
    if op == "GlobalLpPool":
        g.add(op, positive(g, x), p=g.of(None, 1, 2))
    else:
        g.add(op, x)


@rule("LRN")
def lrn(g, op):
    g.add(op, image(g, 1), size=g.of(1, 3, 5), alpha=g.of(None, 0.3), beta=g.of(None, 0.6), bias=g.of(None, 1.5))


@rule("BatchNormalization", since=15)
def batch_norm(g, op):
    """With the batch's statistics in training, or all of a graph's with those that are kept."""
    x = g.pick(least=2, most=4)
    c = x.shape[1]
    mode = g.of("training", "inference") if not g.flags else g.flags[1]
    if mode == "training":
        spread(x, [d for d in range(x.rank) if d != 1])
    g.flags = ["--batch-norm", mode]
    mean, variance = g.buffer(g.normal([c]), "running_mean"), g.buffer(np.abs(g.normal([c])) + 0.5, "running_var")
    inputs = (x, g.parameter([c]), g.parameter([c], "bias"), mean, variance)
    if mode == "inference":
        g.add(op, *inputs, epsilon=g.of(None, 1e-3))
        return
    _, new_mean, new_variance = g.add(op, *inputs, outputs=3, training_mode=1, epsilon=g.of(None, 1e-3))
    g.used |= {new_mean.name, new_variance.name}
    g.pool.remove(new_mean)
    g.pool.remove(new_variance)


@rule("InstanceNormalization")
def instance_norm(g, op):
    x = image(g)
    spread(x, range(2, x.rank))
    g.add(op, x, g.parameter([x.shape[1]]), g.parameter([x.shape[1]], "bias"), epsilon=g.of(None, 1e-3))


@rule("GroupNormalization", since=21)
def group_norm(g, op):
    groups = g.of(1, 2)
    x = image(g, 2, groups)
    spread(x, range(2, x.rank))
    g.add(op, x, g.parameter([x.shape[1]]), g.parameter([x.shape[1]], "bias"), num_groups=groups, epsilon=g.of(None, 1e-3))


@rule("Resize")
def resize(g, op):
    x = image(g)
    mode = g.of("nearest", "linear", "cubic") if x.rank == 4 else g.of("nearest", "linear")
    attributes = {
        "mode": mode,
        "coordinate_transformation_mode": g.of("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"),
    }
    if mode == "nearest":
        attributes["nearest_mode"] = g.of("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    if mode == "cubic":
        attributes["cubic_coeff_a"] = g.of(None, -0.5)
    if mode != "nearest" and g.opset >= 18 and g.chance(0.3):
        attributes["antialias"] = 1
    if g.chance(0.5):
        scales = np.array([1, 1, *(g.of(0.5, 1.5, 2.0) for _ in x.shape[2:])], np.float32)
        g.add(op, x, None, g.constant(scales), **attributes)
    else:
        g.add(op, x, None, None, g.dims([*x.shape[:2], *(g.between(1, 9) for _ in x.shape[2:])]), **attributes)


@rule("Upsample", since=9, until=9)
def upsample(g, op):
    x = image(g, 1)
    g.add(op, x, g.constant(np.array([1, 1, *(g.of(1.0, 2.0, 3.0) for _ in x.shape[2:])], np.float32)), mode="nearest")


@rule("AffineGrid", since=20)
def affine_grid(g, op):
    """Of two dimensions; the sizes are known."""
    n = g.batch
    theta = g.add("Reshape", g.add("MatMul", g.input([3]), g.parameter([3, 6])), g.dims([n, 2, 3]))
    g.add(op, theta, g.dims([n, 1, g.between(2, 4), g.between(2, 4)]), align_corners=g.of(None, 0, 1))


@rule("Attention", since=23)
def attention(g, op):
    heads, size, length = g.of(1, 2), g.of(2, 4), g.between(2, 5)
    shared = heads * g.of(1, 1, 2) if heads == 1 else heads
    queries = shared * (heads // shared if heads >= shared else 1)
    causal = g.of(None, 0, 1)
    scale = g.of(None, 0.4)
    softcap = g.of(None, None, 2.0)
    mask = g.constant(g.normal([length, length])) if g.chance(0.3) else None
    if g.chance(0.5):
        q, k, v = (g.add("Reshape", g.add("MatMul", g.input([length, 3]), g.parameter([3, queries * size])),
                         g.dims([g.batch, length, queries, size])) for _ in range(3))
        q, k, v = (g.add("Transpose", t, perm=[0, 2, 1, 3]) for t in (q, k, v))
        g.add(op, q, k, v, mask, is_causal=causal, scale=scale, softcap=softcap)
    else:
        x = g.input([length, 3])
        q, k, v = (g.add("MatMul", x, g.parameter([3, queries * size])) for _ in range(3))
        g.add(op, q, k, v, mask, q_num_heads=queries, kv_num_heads=queries, is_causal=causal, scale=scale, softcap=softcap)


@rule("RotaryEmbedding", since=23)
def rotary(g, op):
    heads, size, length = g.of(1, 2), g.of(2, 4), g.between(1, 4)
    x = g.add("Mul", g.input([heads, length, size]), g.parameter([size]))
    half = g.constant(g.normal([g.batch, length, size // 2]))
    other = g.constant(g.normal([g.batch, length, size // 2]))
    g.add(op, x, half, other, interleaved=g.of(None, 0, 1))


@rule("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss")
def class_loss(g, op):
    x = g.pick(least=2, most=4)
    classes = x.shape[1]
    labels = g.whole([x.shape[0], *x.shape[2:]], 0, classes)
    if x.shape[0] == g.batch:
        label = g.input(array=labels)
    else:
        label = g.constant(labels, "int64")
    g.used.add(label.name)
    weight = g.constant(np.abs(g.normal([classes])) + 0.2) if g.chance(0.3) else None
    ignored = {"ignore_index": g.between(0, classes - 1)} if g.chance(0.3) else {}
    if ignored and np.all(labels == ignored["ignore_index"]):
        raise Reject
    if op[0] == "N":
        x = g.add("LogSoftmax", x, axis=1)
    g.add(op, x, label, weight, reduction=g.of("mean", "sum", "none"), **ignored)
