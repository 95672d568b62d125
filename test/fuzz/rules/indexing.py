"""Operators that read and write at indices, which are constants or inputs."""

import numpy as np

from graph import Reject
from rules import rule


def indices(g, shape, size, low=0, distinct_along=None):
    """Indices in range: a constant, or an input if the first dimension is the batch. Negative ones are constants."""
    if distinct_along is None:
        array = g.whole(shape, low, size)
    else:  # no element is written twice, because the result would depend on the order
        places = [g.draw.sample(range(size), shape[distinct_along]) for _ in range(int(np.prod(shape)) // shape[distinct_along])]
        moved = [s for d, s in enumerate(shape) if d != distinct_along] + [shape[distinct_along]]
        array = np.moveaxis(np.array(places, np.int64).reshape(moved), -1, distinct_along)
    if shape and shape[0] == g.batch and low == 0 and g.chance(0.7):
        value = g.input(array=np.ascontiguousarray(array.astype(g.of("int64", "int32"))))
        g.used.add(value.name)
        return value
    return g.constant(np.ascontiguousarray(array))


def negative(g, size):
    return -size if g.chance(0.3) else 0


@rule("Gather")
def gather(g, op):
    if g.chance(0.5):  # an embedding
        rows = g.between(2, 8)
        table = g.parameter([rows, g.size()])
        g.add(op, table, indices(g, [g.batch, *([g.size()] if g.chance(0.6) else [])], rows), axis=g.of(None, 0))
        return
    x = g.pick(least=1)
    axis = g.axis(x)
    size = x.shape[axis]
    g.add(op, x, indices(g, [g.size() for _ in range(g.between(0, 2))], size, negative(g, size)), axis=axis)


@rule("GatherElements")
def gather_elements(g, op):
    x = g.pick(least=1)
    axis = g.axis(x)
    shape = [g.between(1, 5) if d == axis % x.rank else g.between(1, s) if g.chance(0.2) else s for d, s in enumerate(x.shape)]
    size = x.shape[axis]
    g.add(op, x, indices(g, shape, size, negative(g, size)), axis=axis)


@rule("GatherND")
def gather_nd(g, op):
    x = g.pick(least=1, most=4)
    batches = g.between(0, min(1, x.rank - 1))
    depth = g.between(1, x.rank - batches)
    lead = [*x.shape[:batches], *(g.size() for _ in range(g.between(0, 2)))]
    columns = [g.whole(lead, negative(g, x.shape[batches + d]), x.shape[batches + d]) for d in range(depth)]
    array = np.stack(columns, -1)
    is_input = array.shape[0] == g.batch and array.ndim > 1 and array.min() >= 0 and g.chance(0.6)
    value = g.input(array=array) if is_input else g.constant(array)
    g.used.add(value.name)
    g.add(op, x, value, batch_dims=batches if batches or g.chance(0.5) else None)


@rule("OneHot")
def one_hot(g, op):
    depth = g.between(2, 6)
    x = indices(g, [g.batch, *([g.size()] if g.chance(0.4) else [])], depth)
    y = g.add(op, x, g.constant(depth, "int64"), g.constant(np.array(g.of([0.0, 1.0], [-0.5, 0.7]))), axis=g.of(None, 0, 1, -1))
    g.add("Mul", y, g.parameter(y.shape[1:]))


REDUCTIONS = ("none", "add", "mul", "max", "min")


def reduction(g):
    kinds = REDUCTIONS if g.opset >= 18 else REDUCTIONS[:3] if g.opset >= 16 else REDUCTIONS[:1]
    return g.draw.choice(kinds) if g.chance(0.7) else None


@rule("ScatterElements")
def scatter_elements(g, op):
    x = g.pick(least=1)
    axis = g.axis(x) % x.rank
    shape = [g.between(1, s) if d == axis else s for d, s in enumerate(x.shape)]
    how = reduction(g)
    places = indices(g, shape, x.shape[axis], distinct_along=axis if how != "add" else None)
    updates = g.parameter(shape) if g.chance(0.6) else g.constant(g.normal(shape))
    g.add(op, x, places, updates, axis=axis - x.rank if g.chance(0.3) else axis, reduction=how)


@rule("Scatter", since=9, until=10)
def scatter(g, op):
    x = g.pick(least=1)
    axis = g.axis(x) % x.rank
    shape = [g.between(1, s) if d == axis else s for d, s in enumerate(x.shape)]
    g.add(op, x, indices(g, shape, x.shape[axis], distinct_along=axis), g.parameter(shape), axis=axis)


@rule("ScatterND")
def scatter_nd(g, op):
    x = g.pick(least=1, most=4)
    depth = g.between(1, x.rank)
    count = g.between(1, 4)
    space = int(np.prod(x.shape[:depth]))
    how = reduction(g)
    if how != "add" and count > space:
        raise Reject
    flat = [g.between(0, space - 1) for _ in range(count)] if how == "add" else g.draw.sample(range(space), count)
    places = np.stack(np.unravel_index(flat, x.shape[:depth]), -1).astype(np.int64)
    shape = [count, *x.shape[depth:]]
    g.add(op, x, g.constant(places), g.parameter(shape) if g.chance(0.6) else g.constant(g.normal(shape)), reduction=how)
