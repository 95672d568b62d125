"""Transforms of signals, and images that are read at computed places."""

import numpy as np

from graph import Reject
from rules import rule
from rules.contraction import image, window


@rule("DFT", since=17)
def dft(g, op):
    x = g.pick(least=2, most=4)
    axis = g.between(0, x.rank - 2) if x.shape[-1] in (1, 2) else None
    if axis is None:
        x, axis = g.add("Unsqueeze", x, g.dims([-1])), g.between(0, x.rank - 1)
    whole = x.shape[-1] == 2
    size, inverse = x.shape[axis], whole and g.chance(0.5)
    onesided = (inverse or not whole) and g.chance(0.5)
    length = None
    if g.chance(0.5) or inverse and onesided:
        length = g.between(max(1, 2 * size - 2), 2 * size - 1) if inverse and onesided else g.between(1, size)
    length = g.constant(length, "int64") if length else None
    flags = {"inverse": int(inverse), "onesided": int(onesided)}
    if g.opset < 20:
        g.add(op, x, length, axis=axis, **flags)
    else:
        g.add(op, x, length, g.constant(axis, "int64"), **flags)


@rule("STFT", since=17)
def stft(g, op):
    length = g.between(4, 12)
    x = g.input([length, 1])
    g.used.add(x.name)
    frame = g.between(2, length)
    weights = g.parameter([frame]) if g.chance(0.6) else None
    g.add(op, x, g.constant(g.between(1, 3), "int64"), weights, g.constant(frame, "int64"), onesided=g.of(None, 0, 1))


@rule("GridSample", since=16)
def grid_sample(g, op):
    x = image(g, 2)
    spatial = x.rank - 2
    if g.opset < 20 and spatial != 2:
        raise Reject
    mode = g.of(*(("bilinear", "nearest", "bicubic") if g.opset < 20 else ("linear", "nearest", "cubic")))
    if spatial == 1 and mode == "nearest":
        raise Reject
    places = [g.between(1, 3) for _ in range(spatial)]
    grid = g.parameter([x.shape[0], *places, spatial], scale=0.7)
    g.add(op, x, grid, mode=mode, padding_mode=g.of(None, "zeros", "border", "reflection"), align_corners=g.of(None, 0, 1))


@rule("RoiAlign", since=16)
def roi_align(g, op):
    x = image(g, 2)
    if x.rank != 4:
        raise Reject
    count = g.between(1, 3)
    corner = np.abs(g.normal([count, 2]))
    regions = g.constant(np.concatenate([corner, corner + 1 + np.abs(g.normal([count, 2]))], axis=1))
    g.add(op, x, regions, g.constant(g.whole([count], 0, x.shape[0])), output_height=g.between(1, 3), output_width=g.between(1, 3),
          sampling_ratio=g.between(1, 2), spatial_scale=g.of(None, 0.5), mode=g.of(None, "avg"),
          coordinate_transformation_mode=g.of(None, "half_pixel", "output_half_pixel"))


@rule("DeformConv", since=19)
def deform_conv(g, op):
    group, parts = g.of(1, 2), g.of(1, 2)
    x = image(g, 3, 2)
    if x.rank != 4:
        raise Reject
    attributes = window(g, x)
    attributes.pop("auto_pad", None)
    kernel, strides = attributes["kernel_shape"], attributes.get("strides", [1, 1])
    pads, dilations = attributes.get("pads", [0] * 4), attributes.get("dilations", [1, 1])
    out = [(x.shape[2 + d] + pads[d] + pads[2 + d] - dilations[d] * (kernel[d] - 1) - 1) // strides[d] + 1 for d in range(2)]
    if min(out) < 1:
        raise Reject
    size = kernel[0] * kernel[1]
    weight = g.parameter([2 * group, x.shape[1] // group, *kernel])
    offset = g.parameter([x.shape[0], parts * size * 2, *out])
    mask = g.parameter([x.shape[0], parts * size, *out]) if g.chance(0.5) else None
    attributes |= {"strides": strides, "pads": pads, "dilations": dilations}
    g.add(op, x, weight, offset, g.parameter([2 * group], "bias"), mask, group=group, offset_group=parts, **attributes)


@rule("Col2Im", since=18)
def col2im(g, op):
    block, image_shape, channels = [g.between(1, 3) for _ in range(2)], [g.between(3, 6) for _ in range(2)], g.between(1, 3)
    strides = [g.of(1, 2) for _ in range(2)]
    count = int(np.prod([(image_shape[d] - block[d]) // strides[d] + 1 for d in range(2)]))
    x = g.input([channels * block[0] * block[1], count])
    g.used.add(x.name)
    g.add(op, x, g.dims(image_shape), g.dims(block), strides=strides)


@rule("MaxUnpool")
def max_unpool(g, op):
    x = image(g, 2)
    sizes = [2 * s for s in x.shape[2:]]
    total = int(np.prod([*x.shape[:2], *sizes]))
    places = np.array(g.draw.sample(range(total), x.array.size), np.int64).reshape(x.shape)
    g.add(op, x, g.constant(places), kernel_shape=[2] * len(sizes), strides=[2] * len(sizes))


@rule("CumProd", since=26)
def cumprod(g, op):
    x = g.pick(least=1)
    g.add(op, x, g.constant(g.axis(x), "int64"), exclusive=g.of(None, 0, 1), reverse=g.of(None, 0, 1))


@rule("TensorScatter", since=24)
def tensor_scatter(g, op):
    x = g.pick(least=2, most=4)
    axis = g.between(1, x.rank - 1)
    shape = list(x.shape)
    shape[axis] = g.between(1, shape[axis])
    mode = g.of(None, "linear", "circular")
    first = g.whole([x.shape[0]], 0, x.shape[axis] - (0 if mode == "circular" else shape[axis]) + (mode != "circular"))
    g.add(op, x, g.parameter(shape), g.constant(first), axis=axis - x.rank if g.chance(0.5) else axis, mode=mode)


@rule("CausalConvWithState", since=27)
def causal_conv(g, op):
    x = g.pick(rank=3)
    size = g.between(1, 4)
    bias = g.parameter([x.shape[1]], "bias") if g.chance(0.5) else None
    past = g.parameter([x.shape[0], x.shape[1], size - 1]) if size > 1 and g.chance(0.5) else None
    outputs = g.add(op, x, g.parameter([x.shape[1], 1, size]), bias, past, outputs=2, activation=g.of(None, "none", "silu", "swish"))
    if size == 1:
        g.used.add(outputs[1].name)
