"""Holds a program's step against the reference, and a plan's step against one device's."""

import math
import random

import numpy as np

# Tolerance of float programs, relative to the largest of their terms: values are below 30, and each operator adds an
# error of about 1e-7 of them.
# Of 300 graphs none is off by more than 1e-6; wrong formulas are off by percents.
SINGLE = 5e-5
# The loss is reported in float, whatever the graph computes in: half a unit in the last place is 6e-8.
LOSS_OF_DOUBLE = 2e-7
# Tolerance of gradients in double: the uncertainty of the differences is added; polynomials of the vector math have
# errors of 1e-9.
DOUBLE = 1e-7


def directions(case, draw):
    """(name, direction) for each parameter: one through all of its elements, and one element."""
    generator = np.random.default_rng(draw.getrandbits(32))
    for name, array in case.weights().items():
        yield f"gradient of {name}", {name: generator.choice([-1.0, 1.0], array.shape)}
        if array.size > 1:
            one = np.zeros(array.size)
            one[generator.integers(array.size)] = 1
            yield f"an element of the gradient of {name}", {name: one.reshape(array.shape)}


def with_reference(case, outcome, seed):
    """(error or "", compared directions, directions near kinks)."""
    reference = case.reference()
    want = reference.loss()
    double = case.is_double()
    scale = max(1.0, abs(want))
    if not math.isfinite(want):
        return "", 0, 1
    if not abs(outcome.loss - want) <= (LOSS_OF_DOUBLE if double else SINGLE) * scale:
        if reference.jumps(abs(outcome.loss - want)):
            return "", 0, 1
        return f"loss: {outcome.loss:.9g}, expected {want:.9g}", 1, 0
    if outcome.evaluated is not None and not abs(outcome.evaluated - want) <= (LOSS_OF_DOUBLE if double else SINGLE) * scale:
        return f"evaluation: {outcome.evaluated:.9g}, expected {want:.9g}", 1, 0
    compared = skipped = 0
    largest = max((float(np.abs(g).max()) for g in outcome.gradients.values() if g.size), default=0.0)
    for what, direction in directions(case, random.Random(seed)):
        (name,) = direction
        gradient = outcome.gradients[name]
        slope = reference.slope(direction)
        if not np.all(np.isfinite(gradient)):
            if slope is None and not math.isfinite(reference.along(direction, 0)):
                continue
            return f"{what}: not finite", compared, skipped
        if slope is None:
            skipped += 1
            continue
        compared += 1
        got = float(np.sum(gradient * direction[name]))
        terms = float(np.sqrt(np.sum((gradient * direction[name]) ** 2)))
        allowed = (DOUBLE if double else SINGLE) * (terms + 0.03 * largest + 0.01 * scale) + 2 * slope[1]
        if not abs(got - slope[0]) <= allowed:
            return f"{what}: {got:.9g} along a direction, expected {slope[0]:.9g}", compared, skipped
    return "", compared, skipped


def with_one_device(one, many, double):
    """The difference between two outcomes, or ""."""
    tolerance = DOUBLE if double else SINGLE  # sums in another order
    if not abs(one.loss - many.loss) <= max(LOSS_OF_DOUBLE, tolerance) * max(1.0, abs(one.loss)):
        return f"loss: {many.loss:.9g}, on one device {one.loss:.9g}"
    if one.evaluated is not None and not abs(one.evaluated - many.evaluated) <= max(LOSS_OF_DOUBLE, tolerance) * max(1.0, abs(one.loss)):
        return f"evaluation: {many.evaluated:.9g}, on one device {one.evaluated:.9g}"
    largest = max((float(np.abs(g).max()) for g in one.gradients.values() if g.size), default=0.0)
    for name, want in one.gradients.items():
        off = np.abs(many.gradients[name] - want)
        if off.size and not off.max() <= tolerance * (float(np.abs(want).max()) + 0.1 * largest + 0.1):
            return f"gradient of {name}: off by {off.max():.3g} of {np.abs(want).max():.3g}"
    return ""
