"""Contractions."""

import string

from graph import Reject
from rules import rule


@rule("MatMul")
def matmul(g, op):
    x = g.pick(least=1, most=4)
    kind = g.between(0, 4)
    inner = x.shape[-1]
    if kind <= 1:
        g.add(op, x, g.parameter([inner, g.size()]))
    elif kind == 2 and x.rank >= 2:
        g.add(op, g.parameter([g.size(), x.shape[-2]]), x)
    elif kind == 3:
        g.add(op, x, g.parameter([inner]))
    else:  # with batches
        y = g.near(x)
        if x.rank < 2 or y.rank < 2:
            raise Reject
        order = [*range(y.rank - 2), y.rank - 1, y.rank - 2]
        g.add(op, x, g.add("Transpose", y, perm=order))


@rule("Gemm")
def gemm(g, op):
    x = g.pick(rank=2)
    left, right = g.of(None, 0, 1), g.of(None, 0, 1)
    inner, rows = x.shape if left else x.shape[::-1]
    columns = g.size()
    y = g.parameter([columns, inner] if right else [inner, columns])
    bias = g.parameter(g.of([columns], [1, columns], [rows, 1], [rows, columns], [1], []), "bias") if g.chance(0.7) else None
    g.add(op, x, y, bias, transA=left, transB=right, alpha=g.of(None, 0.5), beta=g.of(None, 0.7))


@rule("Einsum")
def einsum(g, op):
    x = g.pick(least=1, most=4)
    letters = string.ascii_lowercase[: x.rank]
    sizes = dict(zip(letters, x.shape))
    shared = [c for c in letters if g.chance(0.5)] or [letters[-1]]
    own = list("xy"[: g.between(0, 2)])
    sizes |= {c: g.size() for c in own}
    other = shared + own
    g.draw.shuffle(other)
    result = [c for c in dict.fromkeys([*letters, *own]) if g.chance(0.6)]
    if g.chance(0.5):
        g.draw.shuffle(result)
    if g.chance(0.2):
        g.add(op, x, equation=f"{letters}->{''.join(c for c in result if c in letters)}")
        return
    y = g.parameter([sizes[c] for c in other])
    g.add(op, x, y, equation=f"{letters},{''.join(other)}->{''.join(result)}")


def image(g, least=2, channels=None):
    """[batch, channels, sizes..] of one or two spatial dimensions."""
    fits = [v for v in g.pool if v.kind == "float" and 3 <= v.rank <= 4 and min(v.shape[2:]) >= least and not v.constant
            and (channels is None or v.shape[1] % channels == 0)]
    if fits and g.chance(0.7):
        value = g.draw.choice(fits)
        g.used.add(value.name)
        return value
    count = (channels or 1) * g.between(1, 4)
    value = g.input([count, *(g.between(max(least, 3), 7) for _ in range(g.of(1, 2, 2)))])
    g.used.add(value.name)
    return value


def window(g, x, stride=True):
    """Attributes of a window: kernel, strides, dilations, padding."""
    spatial = x.rank - 2
    kernel = [g.between(1, min(3, s)) for s in x.shape[2:]]
    attributes = {"kernel_shape": kernel}
    if stride and g.chance(0.5):
        attributes["strides"] = [g.of(1, 2) for _ in range(spatial)]
    kind = g.between(0, 3)
    if kind == 1:
        attributes["pads"] = [g.between(0, k - 1) for _ in range(2) for k in kernel]
    elif kind == 2:
        if "strides" in attributes:  # the reference lacks negative padding
            attributes["strides"] = [min(s, k) for s, k in zip(attributes["strides"], kernel)]
        attributes["auto_pad"] = g.of("SAME_UPPER", "SAME_LOWER", "VALID")
    if kind != 2 and g.chance(0.25):
        attributes["dilations"] = [g.of(1, 2) if s >= 2 * k else 1 for s, k in zip(x.shape[2:], kernel)]
    return attributes


@rule("Conv")
def conv(g, op):
    group = g.of(1, 1, 2, 3)
    x = image(g, 2, group)
    attributes = window(g, x)
    channels = group * g.between(1, 3)
    weight = g.parameter([channels, x.shape[1] // group, *attributes["kernel_shape"]], scale=0.4)
    bias = g.parameter([channels], "bias") if g.chance(0.6) else None
    if g.chance(0.3):
        del attributes["kernel_shape"]
    g.add(op, x, weight, bias, group=group if group > 1 or g.chance(0.3) else None, **attributes)


@rule("ConvTranspose")
def conv_transpose(g, op):
    group = g.of(1, 1, 2)
    x = image(g, 2, group)
    attributes = window(g, x)
    if "auto_pad" in attributes:
        attributes["auto_pad"] = "VALID"
    strides = attributes.get("strides", [1] * (x.rank - 2))
    if g.chance(0.3) and max(strides) > 1:
        attributes["output_padding"] = [s - 1 for s in strides]
    each = g.between(1, 3)
    weight = g.parameter([x.shape[1], each, *attributes["kernel_shape"]], scale=0.4)
    bias = g.parameter([group * each], "bias") if g.chance(0.6) else None
    g.add(op, x, weight, bias, group=group if group > 1 else None, **attributes)
