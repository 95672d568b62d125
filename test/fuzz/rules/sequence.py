"""Sequences, which exist only while a model is imported."""

from graph import Reject
from rules import rule


def some(g):
    """Two or three tensors of one shape."""
    x = g.pick(least=1)
    return [x, g.add("Tanh", x), *([g.add("Neg", x)] if g.chance(0.5) else [])]


@rule("SequenceConstruct", "SequenceAt", "ConcatFromSequence")
def construct(g, op):
    parts = some(g)
    sequence = g.add("SequenceConstruct", *parts)
    if op == "SequenceAt" or (op == "SequenceConstruct" and g.chance(0.5)):
        g.add("SequenceAt", sequence, g.constant(g.between(-len(parts), len(parts) - 1), "int64"))
    else:
        axis = g.axis(parts[0])
        g.add("ConcatFromSequence", sequence, axis=axis, new_axis=g.of(None, 0, 1) if axis >= 0 else None)


@rule("SequenceInsert", "SequenceErase", "SequenceEmpty")
def change(g, op):
    parts = some(g)
    if op == "SequenceEmpty":
        sequence = g.add("SequenceEmpty", dtype=1)
        sequence = g.add("SequenceInsert", sequence, parts[0])
        sequence = g.add("SequenceInsert", sequence, parts[1])
    elif op == "SequenceInsert":
        place = g.constant(g.between(-len(parts), len(parts) - 1), "int64") if g.chance(0.7) else None
        sequence = g.add(op, g.add("SequenceConstruct", *parts), g.add("Sin", parts[0]), place)
    else:
        place = g.constant(g.between(0, len(parts) - 1), "int64") if g.chance(0.7) else None
        sequence = g.add(op, g.add("SequenceConstruct", *parts), place)
    g.add("ConcatFromSequence", sequence, axis=g.axis(parts[0]))


@rule("SequenceLength")
def length(g, op):
    parts = some(g)
    count = g.add(op, g.add("SequenceConstruct", *parts))
    g.add("Div", parts[0], g.add("Cast", count, to=1))


@rule("SplitToSequence")
def split_to(g, op):
    x = g.pick(least=1)
    axis = g.axis(x)
    if x.shape[axis] < 2:
        raise Reject
    first = g.between(1, x.shape[axis] - 1)
    sequence = g.add(op, x, g.dims([first, x.shape[axis] - first]), axis=axis)
    g.add("Concat", g.add("SequenceAt", sequence, g.constant(1, "int64")), g.add("SequenceAt", sequence, g.constant(0, "int64")), axis=axis)
