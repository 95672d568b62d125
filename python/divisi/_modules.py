"""Puts weights back into PyTorch modules."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ._command import Error, Warning
from ._safetensors import Array

if TYPE_CHECKING:
    import torch


def load_into(module: torch.nn.Module, weights: Mapping[str, Array]) -> None:
    """Copies tensors into the parameters and buffers with their names. Raises Error, before anything is changed, if a tensor
    has no place or another shape; warns of parameters that none of them is for."""
    import torch

    places = dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))
    for name, array in weights.items():
        if name not in places:
            raise Error(f"the module has no parameter or buffer '{name}': is it the one that was exported?")
        if tuple(places[name].shape) != array.shape:
            raise Error(f"'{name}' has the shape {list(array.shape)}, in the module {list(places[name].shape)}")
    with torch.no_grad():
        for name, array in weights.items():
            places[name].copy_(torch.from_numpy(array))
    loaded = {places[name].data_ptr() for name in weights}
    left = [name for name, p in module.named_parameters() if p.data_ptr() not in loaded and p.numel()]
    if left:
        warnings.warn(f"no tensor of the program is for these parameters, which stay as they are: {', '.join(left)}", Warning, stacklevel=3)
