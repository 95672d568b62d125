"""Names the lines of a module at which TorchScript takes values of the examples as constants."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from ._command import Warning

MOST_PLACES = 5  # that a warning names
# What TorchScript says of shapes, too, which are tensors while it traces.
OF_VALUES = ("Converting a tensor to a Python ", "torch.tensor results")
OF_SHAPES = ("Iterating over a tensor", "Using len")

Place = tuple[str, int]


def warn_of_frozen(said: Iterable[warnings.WarningMessage], call: Callable[[], Any], dynamic_batch: bool) -> None:
    """One warning for those of an exporter that are about values, or about a batch that the file leaves open.

    `call` calls the module: outside of TorchScript shapes are no tensors, and only values are read from tensors.
    """
    from torch.jit import TracerWarning  # type: ignore[attr-defined]

    found = [(each.filename, each.lineno, str(each.message)) for each in said if issubclass(each.category, TracerWarning)]
    if not dynamic_batch:
        found = [each for each in found if not each[2].startswith(OF_SHAPES)]
    reads = _reads(call) if any(text.startswith(OF_VALUES) for *_, text in found) else {}
    places: dict[Place, list[str]] = {}
    for name, line, text in found:
        place = reads.get((name, line)) if text.startswith(OF_VALUES) else (name, line)
        if place:
            short = text.strip().partition(" might cause")[0].partition(". ")[0]
            places.setdefault(place, []).append(short)
    if not places:
        return
    shown = [f"{name}:{line} ({', '.join(dict.fromkeys(texts))})" for (name, line), texts in list(places.items())[:MOST_PLACES]]
    more = f" and {len(places) - MOST_PLACES} more" if len(places) > MOST_PLACES else ""
    warnings.warn(
        f"the module looks at tensors in Python, and the file has what the examples gave there, whatever the data: {', '.join(shown)}{more}; "
        "torch.where keeps both branches, and a tensor in place of a number keeps its value; dynamo=True refuses what it cannot keep",
        Warning,
        stacklevel=4,
    )


def _reads(call: Callable[[], Any]) -> dict[Place, Place]:
    """Where a call reads numbers from tensors: for each line, also those of PyTorch, the line that called PyTorch."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    inside = os.path.dirname(torch.__file__) + os.sep
    places: dict[Place, Place] = {}

    class Reads(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function is torch.ops.aten._local_scalar_dense.default:
                _note(places, inside)
            return function(*args, **(kwargs or {}))

    with torch.no_grad(), Reads():  # type: ignore[no-untyped-call]
        call()
    return places


def _note(places: dict[Place, Place], inside: str) -> None:
    passed: list[Place] = []
    frame = sys._getframe(2)
    while frame is not None:
        passed.append((frame.f_code.co_filename, frame.f_lineno))
        if not frame.f_code.co_filename.startswith(inside):
            break
        frame = frame.f_back  # type: ignore[assignment]
    for place in passed:
        places[place] = passed[-1]
