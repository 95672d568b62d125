"""Further examples made of given ones: what an exporter has frozen shows by other values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def varied(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Other values of the same shapes, types and ranges, the same at each call.

    The rows of all tensors are put in another order, the same for all with as many rows. Real numbers are then mixed with those of
    another row, with a share that is drawn for each row; the only row of a batch of one is moved towards its smallest number.
    Whole numbers, truth values, and what is not finite, which may be codes, masks or indices, are only put in another order.
    """
    return {name: _varied(tensor) for name, tensor in tensors.items()}


def _varied(tensor: torch.Tensor) -> torch.Tensor:
    import torch

    value = tensor.detach()
    if value.dim() == 0 or value.numel() == 0:
        return value
    rows = value.shape[0]
    draw = torch.Generator().manual_seed(rows)
    order = _order(rows, draw).to(value.device)
    other = value[order]
    if not value.is_floating_point() or not bool(torch.isfinite(value).all()) or bool((value == value.round()).all()):
        return other
    if rows == 1:
        return value.min() + 0.75 * (value - value.min())
    share = (0.25 + 0.5 * torch.rand(rows, generator=draw)).to(value.device, value.dtype)
    share = share.reshape(-1, *[1] * (value.dim() - 1))
    return share * other + (1 - share) * other[order]


def _order(rows: int, draw: Any) -> torch.Tensor:
    """A permutation in one cycle: no row stays where it was, nor do two in turn."""
    import torch

    circle = torch.randperm(rows, generator=draw)
    order = torch.empty_like(circle)
    order[circle] = circle.roll(-1)
    return order
