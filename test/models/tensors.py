"""Types of tensors as dumps print them."""

import math

WIDTHS = {"f64": 8, "i64": 8, "f32": 4, "i32": 4, "bf16": 2, "f16": 2, "i16": 2}


def elements_of(tensor):
    """Of what stands between the brackets of `tensor<2x3xf32>`."""
    return math.prod(map(int, tensor.split("x")[:-1]))


def bytes_of(tensor):
    """The same."""
    return elements_of(tensor) * WIDTHS.get(tensor.split("x")[-1], 1)
