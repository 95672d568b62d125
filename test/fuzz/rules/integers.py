"""Operators on integers, and constants that the compiler computes itself."""

import numpy as np
from onnx import numpy_helper

from graph import Reject
from rules import rule


def back(g, value):
    """Casts integers to floats, so that the loss depends on them."""
    g.add("Mul", g.add("Cast", value, to=1), g.scalar(0.1))


@rule("BitShift")
def shift(g, op):
    x = g.input(array=g.whole([g.batch, g.size()], 0, 20).astype(g.of("uint8", "uint32", "uint64")))
    y = g.constant(g.between(0, 3), x.array.dtype)
    back(g, g.add(op, x, y, direction=g.of("LEFT", "RIGHT")))


@rule("BitwiseAnd", "BitwiseOr", "BitwiseXor", since=18)
def bitwise(g, op):
    x = g.pick("int")
    back(g, g.add(op, x, g.constant(g.whole([1, *x.shape[1:]] if g.chance(0.5) else [], -9, 9), x.array.dtype)))


@rule("BitwiseNot", since=18)
def bitwise_not(g, op):
    back(g, g.add(op, g.pick("int")))


@rule("Shape")
def shape_of(g, op):
    x = g.pick(least=1)
    limits = {"start": g.of(None, 0, 1, -1), "end": g.of(None, x.rank, -1)} if g.opset >= 15 else {}
    y = g.add(op, x, **limits)
    if y.array.size == 0:
        raise Reject
    back(g, y)


@rule("Size")
def size_of(g, op):
    x = g.pick()
    g.add("Div", x, g.add("Cast", g.add(op, x), to=1))


@rule("Constant")
def constant(g, op):
    x = g.pick()
    kind = g.between(0, 2)
    if kind == 0:
        y = g.add(op, value_float=g.of(0.5, -1.5), keep=False)
    elif kind == 1 and x.rank:
        y = g.add(op, value_floats=[float(v) for v in g.normal([x.shape[-1]])], keep=False)
    else:
        y = g.add(op, value=numpy_helper.from_array(g.normal(x.shape).astype(np.float32)), keep=False)
    g.add("Add", x, y)


@rule("ConstantOfShape")
def constant_of_shape(g, op):
    x = g.pick()
    dims = g.add("Shape", x, keep=False) if g.chance(0.5) else g.dims(x.shape)
    value = numpy_helper.from_array(np.array([g.of(0.5, 2.0)], np.float32)) if g.chance(0.7) else None
    g.add("Add", x, g.add(op, dims, keep=False, value=value))


@rule("EyeLike")
def eye(g, op):
    x = g.pick(rank=2)
    g.add("Mul", x, g.add(op, x, keep=False, k=g.of(None, 0, 1, -1)))


@rule("BlackmanWindow", "HammingWindow", "HannWindow", since=17)
def window(g, op):
    x = g.pick(least=1)
    y = g.add(op, g.constant(x.shape[-1], "int64"), keep=False, periodic=g.of(None, 0, 1))
    g.add("Mul", x, y)


@rule("Range")
def arange(g, op):
    x = g.pick(least=1)
    n = x.shape[-1]
    if g.chance(0.5):
        y = g.add(op, g.scalar(0.0), g.scalar(n * 0.25 - 0.1), g.scalar(0.25), keep=False)
        g.add("Mul", x, y)
    else:
        y = g.add(op, *(g.constant(v, "int64") for v in (n, 0, -1)), keep=False)
        g.add("Gather", x, g.add("Sub", y, g.constant(1, "int64"), keep=False), axis=g.of(-1, x.rank - 1))


@rule("NonZero")
def nonzero(g, op):
    """NonZero of a constant, because the shape depends on the values."""
    x = g.pick(least=1)
    mask = g.constant([g.chance(0.6) for _ in range(x.shape[-1])], bool)
    places = g.add(op, mask, keep=False)
    if places.array.size == 0:
        raise Reject
    g.add("Gather", x, g.add("Squeeze", places, g.dims([0]), keep=False), axis=-1)


@rule("If")
def branch(g, op):
    """A condition that is known when compiling."""
    from onnx import helper

    x = g.pick()
    def graph(operator):
        name = g.fresh("branch")
        return helper.make_graph([helper.make_node(operator, [x.name], [name])], name,
                                 [], [helper.make_tensor_value_info(name, 1, x.shape)])
    g.branch(g.constant(g.chance(0.5), bool), x, graph("Tanh"), graph("Neg"))
