"""Reductions over axes."""

import numpy as np

from graph import Reject
from rules import rule
from rules.elementwise import positive


def reduce(g, op, x, axes, attribute, **more):
    """A reduction whose axes are an attribute or an input, by opset."""
    if axes is None:
        return g.add(op, x, **more)
    return g.add(op, x, axes=axes, **more) if attribute else g.add(op, x, g.dims(axes), **more)


@rule("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum",
      "ReduceSumSquare")
def reduction(g, op):
    x = g.pick(least=1)
    if op in ("ReduceLogSum", "ReduceL2"):
        x = positive(g, x)
    axes = g.axes(x) if g.chance(0.85) else None
    attribute = op != "ReduceSum" and g.opset < 18
    more = {"keepdims": g.of(None, 0, 1)}
    if not attribute and axes is None and g.chance(0.5):
        more["noop_with_empty_axes"] = 1
    reduce(g, op, x, axes, attribute, **more)


@rule("ArgMax", "ArgMin")
def arg_extremum(g, op):
    x = g.pick(least=1)
    y = g.add(op, x, axis=g.axis(x), keepdims=g.of(None, 0, 1), select_last_index=g.of(None, 0, 1))
    g.add("Mul", g.add("Cast", y, to=1), g.scalar(0.3))


@rule("CumSum")
def cumulative(g, op):
    x = g.pick(least=1)
    g.add(op, x, g.constant(g.axis(x), g.of("int32", "int64")), exclusive=g.of(None, 0, 1), reverse=g.of(None, 0, 1))


@rule("Softmax", "LogSoftmax", "Hardmax")
def softmax(g, op):
    x = g.pick(least=1)
    g.add(op, x, axis=g.axis(x) if g.chance(0.8) else None)


@rule("TopK")
def top_k(g, op):
    x = g.pick(least=1)
    axis = g.axis(x)
    k = g.between(1, x.shape[axis])
    values, places = g.add(op, x, g.constant([k], "int64"), outputs=2, axis=axis, largest=g.of(None, 0, 1), sorted=g.of(None, 1))
    if g.chance(0.3):
        g.add("Mul", g.add("Cast", places, to=1), g.scalar(0.2))
    else:
        g.used.add(places.name)


def spread(x, axes):
    """Rejects groups whose elements hardly differ: their normalization would be rounding."""
    if x.array.size == 0 or np.min(np.std(x.array, axis=tuple(axes))) < 0.1:
        raise Reject


@rule("LayerNormalization", since=17)
def layer_norm(g, op):
    x = g.pick(least=1)
    axis = g.axis(x)
    spread(x, range(axis % x.rank, x.rank))
    tail = x.shape[axis % x.rank :]
    g.add(op, x, g.parameter(tail), g.parameter(tail, "bias") if g.chance(0.7) else None, axis=axis, epsilon=g.of(None, 1e-3))


@rule("RMSNormalization", since=23)
def rms_norm(g, op):
    x = g.pick(least=1)
    axis = g.axis(x)
    spread(x, range(axis % x.rank, x.rank))
    g.add(op, x, g.parameter(x.shape[axis % x.rank :]), axis=axis, epsilon=g.of(None, 1e-3))


@rule("LpNormalization")
def lp_norm(g, op):
    x = positive(g, g.pick(least=1))
    g.add(op, x, axis=g.axis(x), p=g.of(1, 2))


@rule("MeanVarianceNormalization")
def mean_variance(g, op):
    x = g.pick(least=2)
    axes = g.axes(x)
    spread(x, axes)
    g.add(op, x, axes=axes)
