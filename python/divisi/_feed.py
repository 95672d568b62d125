"""Feeds a program with the batches of an iterable, through a ring in shared memory."""

from __future__ import annotations

import base64
import io
import itertools
import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ._batches import Batches
from ._command import Error, Warning
from ._data import Array, Input
from ._ring import ENDS_PASS, IS_LAST, TEXT_BYTES, Ring, Start


class Feeder:
    """Writes batches whenever the ring has room: rows are regrouped to the program's batch, and what does not fill one at the end of a pass is left out.

    `passes` and `steps` are numbers since the beginning of the training, not of a run that goes on from a checkpoint; None: no limit.
    """

    def __init__(self, data: Iterable[Any], inputs: Sequence[Input], ranks: int, *, passes: int | None, steps: int | None,
                 resume: bool, keeps: bool) -> None:
        self._data = data
        self._batches = Batches(inputs)
        self._batch = inputs[0].batch if inputs else 1
        self._passes, self._steps = passes, steps
        self._resume = resume
        self._positions = Positions(data) if keeps or resume else None
        self._ring = Ring(inputs, ranks)
        self._filled = 0  # samples in the slot that is being written
        self._held: str | None = None  # the position of a full batch that waits for the next one: it may be the last of its pass
        self._most: int | None = None  # batches of this run
        self._work = self._feed()

    @property
    def path(self) -> str:
        return self._ring.path

    def __enter__(self) -> Feeder:
        return self

    def __exit__(self, *_: object) -> None:
        self._ring.close()
        self._ring.free()

    def advance(self) -> bool:
        """Takes a batch of the iterable, if there is room for it; False if there was nothing to do."""
        return next(self._work, False)

    def close(self) -> None:
        """No batch follows."""
        self._ring.close()

    def _feed(self) -> Iterator[bool]:
        start: Start | None = Start()
        if self._resume:
            while (start := self._ring.start()) is None:
                yield False
        assert start is not None
        if self._steps is not None:
            self._most = self._steps - start.step
            if self._most <= 0:
                return
        skipped = self._positions.restore(start.position) if self._positions else None
        restored = skipped is not None
        skip = skipped if skipped is not None else start.batch * self._batch
        if not restored and not set_epoch(self._data, start.epoch):
            for _ in range(start.epoch):  # as before: it may draw random numbers
                for _ in self._data:
                    yield True
        first = start.epoch
        for number in itertools.count(start.epoch):
            if self._passes is not None and number >= self._passes:
                break
            set_epoch(self._data, number)
            before = self._ring.produced
            yield from self._pass(skip)
            if restored and number == first and start.batch == 0 and self._ring.produced == before and self._held is None:
                self._filled = 0
                yield from self._pass(0)  # the position was behind the last batch of a pass
            skip = 0
            ended = self._end_pass(number)
            if self._most is not None and self._ring.produced >= self._most:
                return
            if self._ring.produced == before:
                if number == first and start.batch > 0:
                    raise Error(f"resume: pass {number + 1} over the data has no batch {start.batch + 1} any more, as it had before")
                self._explain_nothing(number + 1)
            if ended:
                break
        self._ring.close()

    def _pass(self, skip: int) -> Iterator[bool]:
        """One pass over the data, without its first `skip` samples."""
        before = self._positions.now() if self._positions else None
        for arrays, count in self._batches.all_of(self._data):
            after = self._positions.now() if self._positions else None
            row = min(skip, count)
            skip -= row
            while row < count:
                index = self._ring.produced + (self._held is not None)
                while not self._ring.has_room(index):
                    yield False
                taken = min(self._batch - self._filled, count - row)
                self._write(self._ring.slot(index), arrays, row, taken)
                row += taken
                self._filled += taken
                if self._filled == self._batch:
                    self._filled = 0
                    self._publish(0)
                    if self._most is not None and self._ring.produced >= self._most:
                        return
                    self._held = self._positions.text(*((after, 0) if row == count else (before, row))) if self._positions else ""
            before = after
            yield True

    def _write(self, slot: dict[str, Array], arrays: dict[str, Array], row: int, samples: int) -> None:
        for each in self._batches.inputs:
            n = each.rows_each
            if n:
                slot[each.name][self._filled * n : (self._filled + samples) * n] = arrays[each.name][row * n : (row + samples) * n]
            else:
                slot[each.name][...] = arrays[each.name]

    def _publish(self, flags: int) -> None:
        """Hands out the batch that is held."""
        if self._held is not None:
            last = self._most is not None and self._ring.produced + 1 == self._most
            self._ring.publish(flags | (IS_LAST if last else 0), self._held)
            self._held = None

    def _end_pass(self, number: int) -> bool:
        """Hands out the last batch of a pass; returns whether it was the last pass."""
        last = self._passes is not None and number + 1 >= self._passes
        self._filled = 0
        self._publish(ENDS_PASS | (IS_LAST if last else 0))
        return last

    def _explain_nothing(self, number: int) -> None:
        if number == 1:
            raise Error(f"data: it has fewer samples than one batch of {self._batch}")
        wanted = f"{self._passes} epochs" if self._steps is None else f"{self._steps} steps"
        raise Error(
            f"data: nothing came in pass {number}, but {wanted} were asked for: a generator ends after one pass, "
            "give a list, a DataLoader or a dict of arrays"
        )


def set_epoch(data: Any, number: int) -> bool:
    """Tells what draws an order of its own in which pass it is, as PyTorch's DistributedSampler and HuggingFace's datasets take it."""
    told = False
    for part in (data, *(getattr(data, name, None) for name in ("sampler", "batch_sampler", "dataset"))):
        if callable(getattr(part, "set_epoch", None)):
            part.set_epoch(number)
            told = True
    return told


def steps_of_pass(data: Any, batch: int) -> int | None:
    """The number of batches in a pass, where the iterable says its number of samples."""
    samples = getattr(data, "num_rows", None)  # HuggingFace
    if not isinstance(samples, int):
        size = getattr(data, "batch_size", None)
        try:
            if not isinstance(size, int):
                return None
            samples = len(data) * size if getattr(data, "drop_last", False) else len(data.sampler)
        except (TypeError, AttributeError, NotImplementedError):
            return None
    return samples // batch or None


class Positions:
    """Positions of an iterable with `state_dict` and `load_state_dict`, as texts that checkpoints keep."""

    def __init__(self, data: Any) -> None:
        self._data = data
        self._able = all(callable(getattr(data, name, None)) for name in ("state_dict", "load_state_dict"))

    def now(self) -> Any:
        """The state before the next batch; None if the iterable has none."""
        return _packed(self._data.state_dict()) if self._able else None

    def text(self, state: Any, rows: int) -> str:
        """The position `rows` samples behind a state."""
        if state is None:
            return ""
        text = json.dumps({"rows": rows, **state})
        if len(text) > TEXT_BYTES:
            self._able = False
            warnings.warn(f"the state of the data takes {len(text)} bytes, too many for checkpoints: resume reads again what was trained on", Warning, stacklevel=2)
            return ""
        return text

    def restore(self, text: str) -> int | None:
        """Goes to a position, and returns how many samples behind it training begins; None if there is no position."""
        if not text or not self._able:
            return None
        try:
            found = json.loads(text)
            rows = int(found["rows"])
            state = _unpacked(found)
        except Exception as error:  # whatever PyTorch raises for what it does not take
            said = str(error).partition("\n")[0] or type(error).__name__
            raise Error(f"resume: the checkpoint's position in the data cannot be read: {said}") from None
        self._data.load_state_dict(state)
        return rows


def _packed(state: Any) -> dict[str, Any]:
    """A state as JSON, or as PyTorch stores it."""
    try:
        if json.loads(json.dumps(state)) == state:
            return {"json": json.loads(json.dumps(state))}
    except (TypeError, ValueError):
        pass
    import torch

    file = io.BytesIO()
    torch.save(state, file)
    return {"torch": base64.b64encode(file.getvalue()).decode()}


def _unpacked(found: dict[str, Any]) -> Any:
    if "torch" not in found:
        return found["json"]
    import torch

    # A checkpoint is not trusted: this loads tensors, numbers and texts alone.
    return torch.load(io.BytesIO(base64.b64decode(found["torch"])), weights_only=True)
