"""A ring of batches in memory that is shared with all ranks of a program: docs/data.md describes it."""

from __future__ import annotations

import fcntl
import math
import mmap
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ._command import Error
from ._data import NUMPY_TYPES, Array, Input

MAGIC = b"DIVRING1"
SLOTS, SLOT_BYTES, RANKS = 8, 16, 24
PRODUCED, CLOSED, READY = 64, 128, 192
STEP, EPOCH, BATCH, START_LENGTH = 200, 208, 216, 224
START_TEXT, TEXT_BYTES = 4096, 1 << 20
COUNTERS, LINE = START_TEXT + TEXT_BYTES, 64
FLAGS, LENGTH, TEXT, INPUTS = 0, 8, LINE, LINE + TEXT_BYTES  # of a slot
ENDS_PASS, IS_LAST = 1, 2

SLOTS_BYTES, FEWEST, MOST = 64 << 20, 3, 32  # as many slots as fit


class Start(NamedTuple):
    """Where the program begins: finished steps, finished passes, finished batches of this one, and the position that belonged to the last batch."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    position: str = ""


def _align(size: int, to: int) -> int:
    return -(-size // to) * to


class Ring:
    """The feeder's side. The memory has no name, and ends with the last process that has it."""

    def __init__(self, inputs: Sequence[Input], ranks: int) -> None:
        self._ranks = ranks
        types = [np.dtype(_numpy_type(each)) for each in inputs]
        places, end = [], INPUTS
        for each, kind in zip(inputs, types):
            places.append(end)
            end += _align(math.prod(each.shape) * kind.itemsize, LINE)
        self.count = min(MOST, max(FEWEST, SLOTS_BYTES // end))
        head = _align(COUNTERS + ranks * LINE, 4096)
        size = head + self.count * end
        self._fd = os.memfd_create("divisi-batches", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self._fd, size)
            fcntl.fcntl(self._fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
            fcntl.lockf(self._fd, fcntl.LOCK_EX)  # tells the program that this process lives
            memory = mmap.mmap(self._fd, size)
        except (OSError, ValueError) as error:
            os.close(self._fd)
            raise Error(f"data: cannot share {size} bytes of memory with the program: {error}") from None
        self._memory = memory
        self._words = np.frombuffer(memory, "<u8", size // 8)
        self._starts = [head + i * end for i in range(self.count)]
        self.slots = [
            {each.name: np.ndarray(each.shape, kind, memory, start + place) for each, kind, place in zip(inputs, types, places)}
            for start in self._starts
        ]
        memory[:8] = MAGIC
        for place, value in ((SLOTS, self.count), (SLOT_BYTES, end), (RANKS, ranks)):
            self._words[place // 8] = value
        self.produced = 0

    @property
    def path(self) -> str:
        """By what the program finds the memory."""
        return f"/proc/{os.getpid()}/fd/{self._fd}"

    def start(self) -> Start | None:
        """Where the program begins; None if it has not said so yet."""
        if not self._words[READY // 8]:
            return None
        step, epoch, batch, length = (int(self._words[place // 8]) for place in (STEP, EPOCH, BATCH, START_LENGTH))
        return Start(step, epoch, batch, self._memory[START_TEXT : START_TEXT + length].decode("ascii"))

    def has_room(self, index: int) -> bool:
        """Whether batch `index` may be written: all ranks have released what its slot held before."""
        counters = self._words[COUNTERS // 8 : COUNTERS // 8 + self._ranks * LINE // 8 : LINE // 8]
        return index < int(counters.min()) + self.count

    def slot(self, index: int) -> dict[str, Array]:
        """The arrays of batch `index`, to be written."""
        return self.slots[index % self.count]

    def publish(self, flags: int, position: str) -> None:
        """Hands the next batch to the program."""
        start = self._starts[self.produced % self.count]
        text = position.encode("ascii")
        self._words[(start + FLAGS) // 8] = flags
        self._words[(start + LENGTH) // 8] = len(text)
        self._memory[start + TEXT : start + TEXT + len(text)] = text
        self.produced += 1
        self._words[PRODUCED // 8] = self.produced

    def close(self) -> None:
        """No batch follows those that were published."""
        self._words[CLOSED // 8] = 1

    def free(self) -> None:
        """Leaves the memory; a program that still waits for a batch ends with an error."""
        os.close(self._fd)


def _numpy_type(each: Input) -> Any:
    if each.dtype not in NUMPY_TYPES:
        raise Error(f"data: '{each.name}' is {each.dtype}, which NumPy lacks")
    return NUMPY_TYPES[each.dtype]
