"""Puts weights back into PyTorch modules."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Set
from typing import TYPE_CHECKING

from ._command import Error, Warning
from ._safetensors import Array

if TYPE_CHECKING:
    import torch


# What `divisi.export` calls a loss that has tensors of its own, as if it were a part of the module; the second if it has a part "loss".
LOSS_SCOPES = ("loss", "divisi_loss")


def scope_in(module: torch.nn.Module) -> str:
    """The name of the loss beside what the module has."""
    return next((name for name in LOSS_SCOPES if not hasattr(module, name)), LOSS_SCOPES[-1])


def load_into(module: torch.nn.Module, weights: Mapping[str, Array], loss: torch.nn.Module | None, trained: Set[str]) -> None:
    """Copies tensors into the parameters and buffers with their names, and those of the loss into it, or nowhere without one.

    `trained` are the names of what trains. Raises Error, before anything is changed, if a tensor has no place or another shape; warns of
    parameters that none of them is for.
    """
    import torch

    scope = scope_in(module)
    places = _tensors(module, "")
    of_loss: set[str] = set()
    if loss is not None:
        places |= _tensors(loss, f"{scope}.")
    else:
        of_loss = {name for name in weights if name.startswith(f"{scope}.") and name not in places}
        weights = {name: array for name, array in weights.items() if name not in of_loss}
    for name, array in weights.items():
        if name not in places:
            raise Error(f"the module has no parameter or buffer '{name}': is it the one that was exported?")
        if tuple(places[name].shape) != array.shape:
            raise Error(f"'{name}' has the shape {list(array.shape)}, in the module {list(places[name].shape)}")
    with torch.no_grad():
        for name, array in weights.items():
            places[name].copy_(torch.from_numpy(array))
    loaded = {places[name].data_ptr() for name in weights}
    if kept := sorted(of_loss & trained):
        warnings.warn(f"give the loss, too: these trained parameters are its own: {', '.join(kept)}", Warning, stacklevel=3)
    parameters = [(name, p) for name, p in places.items() if isinstance(p, torch.nn.Parameter)]
    left = [name for name, p in parameters if p.data_ptr() not in loaded and p.numel()]
    if left:
        warnings.warn(f"no tensor of the program is for these parameters, which stay as they are: {', '.join(left)}", Warning, stacklevel=3)


def _tensors(module: torch.nn.Module, prefix: str) -> dict[str, torch.Tensor]:
    named = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    return {prefix + name: tensor for name, tensor in named}
