"""Operators that move elements by constant places."""

import numpy as np

from graph import Reject
from rules import rule
from rules.contraction import image


@rule("Pad")
def pad(g, op):
    x = g.pick(least=1)
    mode = g.of("constant", "constant", "reflect", "edge", "wrap" if g.opset >= 19 else "edge")
    most = [min(2, s - 1) if mode in ("reflect", "wrap") else 2 for s in x.shape]
    pads = [g.between(0, m) if g.chance(0.6) else 0 for m in most + most]
    if mode == "constant" and g.chance(0.3):
        d = g.between(0, x.rank - 1)
        pads[d] = -g.between(0, (x.shape[d] - 1) // 2)
    value = g.scalar(g.of(0.0, 0.5)) if mode == "constant" and g.chance(0.5) else None
    if g.opset >= 18 and g.chance(0.3):
        d = g.between(0, x.rank - 1)
        axis = d - x.rank if g.chance(0.5) else d
        g.add(op, x, g.dims([pads[d], pads[d + x.rank]]), value, g.dims([axis]), mode=mode)
        return
    g.add(op, x, g.dims(pads), value, mode=mode)


@rule("CenterCropPad", since=18)
def center_crop_pad(g, op):
    x = g.pick(least=1)
    axes = sorted(g.draw.sample(range(x.rank), g.between(1, x.rank)))
    g.add(op, x, g.dims([max(1, x.shape[d] + g.between(-2, 2)) for d in axes]), axes=axes)


@rule("DepthToSpace", "SpaceToDepth")
def blocks(g, op):
    size = 2
    if op == "DepthToSpace":
        x = g.input([size * size * g.between(1, 2), g.between(1, 3), g.between(1, 3)])
        g.add(op, g.add("Mul", x, g.parameter([x.shape[1], 1, 1])), blocksize=size, mode=g.of(None, "DCR", "CRD"))
    else:
        x = g.input([g.between(1, 3), 2 * g.between(1, 2), 2 * g.between(1, 2)])
        g.add(op, g.add("Mul", x, g.parameter([x.shape[1], 1, 1])), blocksize=size)


@rule("Trilu", since=14)
def trilu(g, op):
    x = g.pick(least=2)
    g.add(op, x, g.constant(g.between(-2, 2), "int64") if g.chance(0.6) else None, upper=g.of(None, 0, 1))


@rule("ReverseSequence")
def reverse_sequence(g, op):
    x = g.pick(least=2)
    batch = g.of(0, 1)
    lengths = g.whole([x.shape[batch]], 1, x.shape[1 - batch] + 1)
    if batch == 0 and x.shape[0] == g.batch and g.chance(0.6):
        lengths = g.input(array=lengths)
        g.used.add(lengths.name)
    else:
        lengths = g.constant(lengths)
    g.add(op, x, lengths, batch_axis=batch, time_axis=1 - batch)


@rule("Compress")
def compress(g, op):
    x = g.pick(least=1)
    axis = g.axis(x)
    mask = np.array([g.chance(0.6) for _ in range(x.shape[axis])])
    if not mask.any():
        raise Reject
    g.add(op, x, g.constant(mask), axis=axis)
