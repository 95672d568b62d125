"""The lines of a program's log, as it writes them."""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, Union


@dataclasses.dataclass(frozen=True)
class Step:
    """One step of training. `loss` is the mean over the batch, before the update."""

    step: int  # from 1
    epoch: int  # from 1
    loss: float
    lr: float
    samples_per_s: float
    step_ms: float
    accuracy: float | None = None  # of the batch, where the program computes it
    perplexity: float | None = None  # of sequences of tokens
    tokens_per_s: float | None = None  # of sequences of tokens
    wall_time: float | None = dataclasses.field(default=None, compare=False)  # when the line was written: seconds since 1970
    feed_ms: float | None = None  # to wait for the batch and copy it, of data that are no dict
    epoch_loss: float | None = None  # means of the epoch, in its last step
    epoch_accuracy: float | None = None
    epoch_perplexity: float | None = None
    comm_ms: float | None = None  # in collectives, on several devices
    comm_wait_ms: float | None = None  # exposed communication, on several devices
    comm_bytes: int | None = None  # sent by rank 0, on several devices
    grad_norms: Mapping[str, float] | None = None  # L2 norms, of step 1, with log_grad_norms=True
    # Of a program compiled with log_noise_scale=True:
    grad_sq_big: float | None = None  # square of the norm of the batch's gradient
    grad_sq_small: float | None = None  # mean over shares of the batch of the square of the norm of the share's gradient
    grad_sq: float | None = None  # estimate of the square of the norm of the true gradient
    grad_variance: float | None = None  # estimate of the trace of the covariance of one sample's gradient
    noise_scale: float | None = None  # in samples: the quotient of moving averages of the two


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The means over all samples of the evaluation data after a step."""

    step: int
    epoch: int
    loss: float
    accuracy: float | None = None  # share of right classes, for losses over classes
    perplexity: float | None = None  # of sequences of tokens, or with metric="perplexity"
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)  # of compile(..., metric=[...]), by name
    samples_per_s: float | None = dataclasses.field(default=None, compare=False)
    tokens_per_s: float | None = dataclasses.field(default=None, compare=False)  # of sequences of tokens
    wall_time: float | None = dataclasses.field(default=None, compare=False)  # when the line was written: seconds since 1970


Line = Union[Step, Evaluation]
FIELDS = {kind: {field.name for field in dataclasses.fields(kind)} for kind in (Step, Evaluation)}


# Other fields of an evaluation are metrics.
NO_METRICS = {"schema", "eval", "best_loss", "best_step", "without_improvement"}


def _number(value: Any) -> Any:
    """JSON has no NaN: the program writes null."""
    return math.nan if value is None else value


def line_of(text: str) -> Line | None:
    """The record of one line of JSON; fields of steps that are not known are left out. None: it is neither of a step nor of an evaluation."""
    found = json.loads(text)
    if "update" in found or "event" in found:  # of asynchronous servers and gossip: docs/synchronisation.md
        return None
    kind = Evaluation if found.get("eval") else Step
    values = {name: _number(value) for name, value in found.items() if name in FIELDS[kind]}
    if kind is Evaluation:
        others = found.keys() - FIELDS[kind] - NO_METRICS
        values["metrics"] = {name: _number(value) for name, value in found.items() if name in others}
    if "grad_norms" in values:
        values["grad_norms"] = {name: _number(norm) for name, norm in values["grad_norms"].items()}
    return kind(**values)


class Follower:
    """Reads a log while a program writes it: whole lines, each once."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._read = 0
        self._rest = b""

    def lines(self) -> Iterator[Line]:
        """The lines that were added since the last call."""
        try:
            with open(self._path, "rb") as file:
                file.seek(self._read)
                added = file.read()
        except FileNotFoundError:
            return
        self._read += len(added)
        *whole, self._rest = (self._rest + added).split(b"\n")
        for line in whole:
            if record := line_of(line.decode()):
                yield record
