"""Types of tensors as dumps print them."""

import math

WIDTHS = {"f64": 8, "i64": 8, "f32": 4, "i32": 4, "bf16": 2, "f16": 2, "i16": 2}


def bytes_of(tensor):
    """Of what stands between the brackets of `tensor<2x3xf32>`."""
    *dims, element = tensor.split("x")
    return math.prod(map(int, dims)) * WIDTHS.get(element, 1)
