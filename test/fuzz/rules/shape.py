"""Operators that change shapes only."""

from graph import Reject
from rules import rule


@rule("Reshape")
def reshape(g, op):
    x = g.pick(least=1)
    count, sizes = x.array.size, []
    keep = g.chance(0.6)  # the batch stays in front
    if keep:
        sizes.append(x.shape[0])
        count //= x.shape[0]
    for _ in range(g.between(0, 3)):
        divisors = [d for d in range(1, count + 1) if count % d == 0]
        sizes.append(g.draw.choice(divisors))
        count //= sizes[-1]
    sizes.append(count)
    if g.chance(0.5):
        sizes[g.between(0, len(sizes) - 1)] = -1
    if keep and sizes[0] != -1 and g.chance(0.3):
        sizes[0] = 0
    g.add(op, x, g.dims(sizes))


@rule("Flatten")
def flatten(g, op):
    x = g.pick(least=1)
    g.add(op, x, axis=g.of(None, g.between(-x.rank, x.rank)))


@rule("Transpose")
def transpose(g, op):
    x = g.pick(least=2)
    order = list(range(x.rank))
    g.draw.shuffle(order)
    g.add(op, x, perm=order if g.chance(0.85) else None)


@rule("Squeeze")
def squeeze(g, op):
    x = g.pick(least=1)
    ones = [d for d, s in enumerate(x.shape) if s == 1]
    if not ones:
        x = g.add("Unsqueeze", x, g.dims([1]))
        ones = [1]
    chosen = g.draw.sample(ones, g.between(1, len(ones)))
    g.add(op, x, g.dims([d - x.rank if g.chance(0.3) else d for d in chosen]) if g.chance(0.8) else None)


@rule("Unsqueeze")
def unsqueeze(g, op):
    x = g.pick(most=4)
    rank = x.rank + g.between(1, 2)
    places = g.draw.sample(range(rank), rank - x.rank)
    g.add(op, x, g.dims([d - rank if g.chance(0.3) else d for d in places]))


@rule("Expand")
def expand(g, op):
    x = g.pick()
    sizes = [g.size() if s == 1 else s if g.chance(0.7) else 1 for s in x.shape]
    if g.chance(0.3):
        sizes = [g.of(1, 2, 3), *sizes]
    g.add(op, x, g.dims(sizes))


@rule("Tile")
def tile(g, op):
    x = g.pick(least=1)
    g.add(op, x, g.dims([g.of(1, 1, 2, 3) for _ in x.shape]))


@rule("Concat")
def concat(g, op):
    x = g.pick(least=1)
    axis = g.axis(x)
    parts = [x]
    for _ in range(g.between(0, 2)):
        others = [v for v in g.pool if v.kind == "float" and v.rank == x.rank and not v.constant
                  and all(a == b for d, (a, b) in enumerate(zip(v.shape, x.shape)) if d != axis % x.rank)]
        if others and g.chance(0.6):
            part = g.draw.choice(others)
            g.used.add(part.name)
        else:
            part = g.parameter([g.size() if d == axis % x.rank else s for d, s in enumerate(x.shape)])
        parts.insert(g.between(0, len(parts)), part)
    g.add(op, *parts, axis=axis)


@rule("Split")
def split(g, op):
    x = g.pick(least=1)
    axis = g.axis(x)
    size = x.shape[axis]
    if size < 2:
        raise Reject
    if g.opset >= 18 and g.chance(0.5):
        g.add(op, x, outputs=2, axis=axis, num_outputs=2)
        return
    if size % 2 == 0 and g.opset < 18 and g.chance(0.3):
        g.add(op, x, outputs=2, axis=axis)
        return
    first = g.between(1, size - 1)
    g.add(op, x, g.dims([first, size - first]), outputs=2, axis=axis)


@rule("Slice")
def slice_(g, op):
    x = g.pick(least=1)
    axes = sorted(g.draw.sample(range(x.rank), g.between(1, x.rank)))
    starts, ends, steps = [], [], []
    for d in axes:
        size = x.shape[d]
        step = g.of(1, 1, 1, 2, -1, -2)
        low, high = sorted((g.between(0, size - 1), g.between(0, size - 1)))
        start, end = (low, high + 1) if step > 0 else (high, low - 1)
        starts.append(start - size if g.chance(0.2) else start)
        ends.append(g.of(size + 3, 2**31 - 1) if step > 0 and g.chance(0.2) else -size - 1 if end < 0 else end)
        steps.append(step)
    axes = [d - x.rank if g.chance(0.2) else d for d in axes]
    named = axes != list(range(len(axes))) or g.chance(0.7)
    stepped = any(s != 1 for s in steps) or g.chance(0.3)
    y = g.add(op, x, g.dims(starts), g.dims(ends), g.dims(axes) if named else None, g.dims(steps) if stepped else None)
    if y.array.size == 0:
        raise Reject
