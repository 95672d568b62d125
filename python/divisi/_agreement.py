"""Compares the first step of a compiled file with that of the PyTorch module which it was exported from."""

from __future__ import annotations

import dataclasses
import math
import pathlib
import tempfile
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ._command import Error, Warning
from ._compile import compile

if TYPE_CHECKING:
    import torch

    from ._export import Exported

TOLERANCE = 1e-4  # relative, of the loss and of each gradient's norm
# A gradient that is zero but for rounding has a norm of about 1e-7 of all gradients' norm.
LEAST_SHARE = 1e-2
HALF_ULP = 2.0**-24


@dataclasses.dataclass
class Trial:
    """A call of the module: what is compared."""

    module: torch.nn.Module
    data: Callable[[], Mapping[str, Any]]  # the inputs of the program, of one batch
    value: Callable[[Callable[..., Any]], Any]  # the loss of the examples, given how to call the module

    def gradients(self, seed: int) -> tuple[float, dict[str, Any]]:
        """Loss, and the gradients of all parameters that it depends on, as arrays."""
        import torch

        torch.manual_seed(seed)
        names, parameters = [], []
        for name, parameter in self.module.named_parameters():
            if parameter.requires_grad:
                names.append(name)
                parameters.append(parameter)
        with torch.enable_grad():
            loss = self.value(self.module)
            if loss.numel() != 1:
                raise Error(f"the loss has the shape {list(loss.shape)}: it is to be a scalar, such as its mean")
            found = torch.autograd.grad(loss.reshape(()), parameters, allow_unused=True)
        kept = {n: g.detach().cpu().numpy().astype(np.float64) for n, g in zip(names, found) if g is not None}
        return float(loss.detach()), kept


def compare(exported: Exported, trial: Trial, tool: str) -> None:
    """Raises Error unless the loss and the gradients of one step agree; warns where that cannot be found out."""
    kinds = {str(p.dtype) for p in trial.module.parameters() if p.is_floating_point()}
    if kinds - {"torch.float32"}:
        _skip(f"its parameters are {', '.join(sorted(kinds))}, not all torch.float32")
        return
    saved = [(buffer, buffer.detach().clone()) for buffer in trial.module.buffers()]
    first = trial.gradients(1)
    for buffer, value in saved:
        buffer.data.copy_(value)
    again = trial.gradients(2)
    if first[0] != again[0] or any(not np.array_equal(first[1][name], again[1][name]) for name in first[1]):
        _skip("it draws random numbers (dropout?), which are others in a program")
        return
    _compare_step(exported, trial, *first, tool)


def _skip(why: str) -> None:
    warnings.warn(f"the exported file is not compared with the module: {why}", Warning, stacklevel=4)


def _norm(array: Any) -> float:
    return float(np.linalg.norm(array))


def _compare_step(exported: Exported, trial: Trial, loss: float, gradients: dict[str, Any], tool: str) -> None:
    if not math.isfinite(loss):
        raise Error(f"the loss of the examples is {loss} in PyTorch: give others, or check=False")
    total = math.sqrt(sum(_norm(g) ** 2 for g in gradients.values()))
    before = {n: p.detach().cpu().numpy() for n, p in trial.module.named_parameters(remove_duplicate=False)}
    size = math.sqrt(sum(_norm(before[name]) ** 2 for name in gradients))
    # One step of SGD with this rate changes parameters by about as much as they are large: then their rounding is small.
    rate = 2.0 ** max(0, round(math.log2(size / total))) if total > 0 and size > 0 else 1.0
    with tempfile.TemporaryDirectory(prefix="divisi-check-") as place:
        dim = {"batch": exported.batch} if exported.batch else None
        program = compile(exported, pathlib.Path(place) / "check", divisi=tool, optimizer="sgd", lr=rate, dim=dim)
        given = trial.data()
        data = {each.name: given[each.name] for each in program.inputs}
        found = program.fit(data, steps=1, shuffle=False, quiet=True, log_grad_norms=True).steps[0]
        after = program.weights()
        trains = {p.name for p in program.parameters if p.trainable}
    _require(found.loss, loss, "the loss")
    names = _names_in_file(trial.module, gradients, trains)
    norms = found.grad_norms or {}
    used = set(names.values())
    for inside, norm in norms.items():
        if inside not in used and norm > TOLERANCE * LEAST_SHARE * total:
            raise Error(_differs(exported, f"the gradient of '{inside}' has the norm {norm:.6g}", "there is none"))
    for name, gradient in gradients.items():
        inside = names[name]
        norm = _norm(gradient)
        scale = max(norm, LEAST_SHARE * total)
        if inside not in norms:
            raise Error(f"{exported.path.name}: '{name}' has a gradient in the module, but is not trained in the file")
        if abs(norms[inside] - norm) > TOLERANCE * scale:
            raise Error(_differs(exported, f"the gradient of '{name}' has the norm {norms[inside]:.6g}", f"{norm:.6g}"))
        change = (before[name].astype(np.float64) - after[inside]) / rate
        rounding = 2 * HALF_ULP * (_norm(before[name]) + _norm(after[inside])) / rate
        if (distance := _norm(change - gradient)) > TOLERANCE * scale + rounding:
            raise Error(_differs(exported, f"the gradient of '{name}' is {distance:.3g} away", f"norm {norm:.3g}"))


def _require(found: float, expected: float, what: str) -> None:
    if not abs(found - expected) <= TOLERANCE * max(1.0, abs(expected)):
        raise Error(
            f"the file and the module disagree: {what} is {found:.6g} in the file and {expected:.6g} in PyTorch; "
            "the other exporter may do better, check=False goes on"
        )


def _differs(exported: Exported, found: str, expected: str) -> str:
    return (
        f"the file and the module disagree: {found} in {exported.path.name}, in PyTorch {expected}; ONNX has no detach() and no "
        "padding_idx, and the other exporter may do better; check=False goes on"
    )


def _names_in_file(module: torch.nn.Module, gradients: Mapping[str, Any], trains: set[str]) -> dict[str, str]:
    """Tied parameters have several names, of which a file has one."""
    names: dict[int, list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    alike = {name: group for group in names.values() for name in group}
    return {name: next((n for n in alike[name] if n in trains), name) for name in gradients}
