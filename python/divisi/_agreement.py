"""Compares the first step of a compiled file with that of the PyTorch module which it was exported from."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._command import Error, Warning
from ._compile import compile
from ._data import temporary_folder
from ._program import Program

if TYPE_CHECKING:
    import torch

    from ._export import Exported

TOLERANCE = 1e-4  # relative, of the loss and of each gradient's norm
# A gradient that is zero but for rounding has a norm of about 1e-7 of all gradients' norm.
LEAST_SHARE = 1e-2
# Of gradients for further data, by which frozen values show: nobody has chosen those data so that rounding stays small.
TOLERANCE_OF_OTHERS = 10 * TOLERANCE
HALF_ULP = 2.0**-24
FOR_EXAMPLES = "is compared with the module for the examples alone"


@dataclasses.dataclass
class Trial:
    """A call of the module: what is compared."""

    module: torch.nn.Module
    parameters: Sequence[tuple[str, torch.nn.Parameter]]  # of the module and its loss, tied ones by each of their names
    buffers: Sequence[tuple[str, torch.Tensor]]
    data: Callable[[], Mapping[str, Any]]  # the inputs of the program, of one batch
    value: Callable[[Callable[..., Any]], Any]  # the loss of the examples, given how to call the module

    def gradients(self, seed: int) -> tuple[float, dict[str, Any]]:
        """Loss, and the gradients of all parameters that it depends on, as arrays."""
        import torch

        torch.manual_seed(seed)
        first = {id(parameter): (name, parameter) for name, parameter in reversed(self.parameters) if parameter.requires_grad}
        names, parameters = zip(*reversed(first.values()))
        with torch.enable_grad():
            loss = self.value(self.module)
            if not isinstance(loss, torch.Tensor):
                raise Error(f"the loss is a {type(loss).__name__}: it is to be a tensor, a scalar such as a mean")
            if loss.numel() != 1:
                raise Error(f"the loss has the shape {list(loss.shape)}: it is to be a scalar, such as its mean")
            if not loss.requires_grad:
                raise Error("the loss depends on no parameter with requires_grad: there is nothing to train")
            found = torch.autograd.grad(loss.reshape(()), parameters, allow_unused=True)
        kept = {n: g.detach().cpu().numpy().astype(np.float64) for n, g in zip(names, found) if g is not None}
        return float(loss.detach()), kept


class Disagreement(Error):
    """The file computes something else than the module."""


def compare(exported: Exported, trial: Trial, other: Trial, tool: str) -> None:
    """Raises Error unless the loss and the gradients of one step agree; warns where that cannot be found out.

    `other` has further data, by which values show that an exporter took from the examples as constants.
    """
    kinds = {str(p.dtype) for _, p in trial.parameters if p.is_floating_point()}
    if kinds - {"torch.float32"}:
        _skip(f"its parameters are {', '.join(sorted(kinds))}, not all torch.float32")
        return
    saved = [(buffer, buffer.detach().clone()) for _, buffer in trial.buffers]

    def gradients(of: Trial, seed: int) -> tuple[float, dict[str, Any]]:
        for buffer, value in saved:
            buffer.data.copy_(value)
        return of.gradients(seed)

    first, again = gradients(trial, 1), gradients(trial, 2)
    if first[0] != again[0] or any(not np.array_equal(first[1][name], again[1][name]) for name in first[1]):
        _skip("it draws random numbers (dropout?), which are others in a program")
        return
    if not math.isfinite(first[0]):
        raise Error(f"the loss of the examples is {first[0]} in PyTorch: give others, or check=False")
    with temporary_folder("divisi-check-") as place:
        path = place / "check"
        compile(exported, path, divisi=tool, optimizer="sgd", dim={"batch": exported.batch} if exported.batch else None)
        _compare_step(exported, trial, *first, Program(path, divisi=tool), TOLERANCE)
        try:
            second = gradients(other, 1)
        except Exception as error:
            _skip(f"the module does not take them in another order ({type(error).__name__})", FOR_EXAMPLES)
            return
        if not math.isfinite(second[0]):
            _skip(f"in another order their loss is {second[0]}", FOR_EXAMPLES)
            return
        try:
            _compare_step(exported, other, *second, Program(path, divisi=tool), TOLERANCE_OF_OTHERS)
        except Disagreement as error:
            raise Error(
                f"the file agrees with the module for the examples, but not for others: {error}; an exporter freezes what the module computes "
                "from tensors in Python (if, float(), .item(), a loop over values)"
            ) from None
        except Error as error:
            _skip(f"the program refuses them in another order ({error})", FOR_EXAMPLES)


def _skip(why: str, what: str = "is not compared with the module") -> None:
    warnings.warn(f"the exported file {what}: {why}", Warning, stacklevel=4)


def _norm(array: Any) -> float:
    return float(np.linalg.norm(array))


def _compare_step(
    exported: Exported, trial: Trial, loss: float, gradients: dict[str, Any], program: Program, tolerance: float
) -> None:
    total = math.sqrt(sum(_norm(g) ** 2 for g in gradients.values()))
    before = {n: p.detach().cpu().numpy() for n, p in trial.parameters}
    size = math.sqrt(sum(_norm(before[name]) ** 2 for name in gradients))
    # One step of SGD with this rate changes parameters by about as much as they are large: then their rounding is small.
    rate = 2.0 ** max(0, round(math.log2(size / total))) if total > 0 and size > 0 else 1.0
    given = trial.data()
    data = {each.name: given[each.name] for each in program.inputs}
    found = program.fit(data, steps=1, shuffle=False, quiet=True, log_grad_norms=True, lr=rate).steps[0]
    after = program.weights()
    trains = {p.name for p in program.parameters if p.trainable}
    _require(found.loss, loss, "the loss")
    names = _names_in_file(trial.parameters, gradients, trains)
    norms = found.grad_norms or {}
    used = set(names.values())
    for inside, norm in norms.items():
        if inside not in used and norm > tolerance * LEAST_SHARE * total:
            raise Disagreement(_differs(exported, f"the gradient of '{inside}' has the norm {norm:.6g}", "there is none"))
    for name, gradient in gradients.items():
        inside = names[name]
        norm = _norm(gradient)
        scale = max(norm, LEAST_SHARE * total)
        if inside not in norms:
            raise Disagreement(f"{exported.path.name}: '{name}' has a gradient in the module, but is not trained in the file")
        if abs(norms[inside] - norm) > tolerance * scale:
            raise Disagreement(_differs(exported, f"the gradient of '{name}' has the norm {norms[inside]:.6g}", f"{norm:.6g}"))
        change = (before[name].astype(np.float64) - after[inside]) / rate
        rounding = 2 * HALF_ULP * (_norm(before[name]) + _norm(after[inside])) / rate
        if (distance := _norm(change - gradient)) > tolerance * scale + rounding:
            raise Disagreement(_differs(exported, f"the gradient of '{name}' is {distance:.3g} away", f"norm {norm:.3g}"))


def _require(found: float, expected: float, what: str) -> None:
    if not abs(found - expected) <= TOLERANCE * max(1.0, abs(expected)):
        raise Disagreement(
            f"the file and the module disagree: {what} is {found:.6g} in the file and {expected:.6g} in PyTorch; "
            "the other exporter may do better, check=False goes on"
        )


def _differs(exported: Exported, found: str, expected: str) -> str:
    return (
        f"the file and the module disagree: {found} in {exported.path.name}, in PyTorch {expected}; files have no "
        "torch.no_grad(), and those of dynamo=False no detach() and no padding_idx; check=False goes on"
    )


def _names_in_file(
    parameters: Sequence[tuple[str, torch.nn.Parameter]], gradients: Mapping[str, Any], trains: set[str]
) -> dict[str, str]:
    """Tied parameters have several names, of which a file has one."""
    names: dict[int, list[str]] = {}
    for name, parameter in parameters:
        names.setdefault(id(parameter), []).append(name)
    alike = {name: group for group in names.values() for name in group}
    return {name: next((n for n in alike[name] if n in trains), name) for name in gradients}
