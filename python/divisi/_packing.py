"""Documents of any length as windows of one length, with what keeps them apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ._command import Error

Array = Any
OPEN_WINDOWS = 16  # that are filled at a time


class Packed:
    """Packs documents into windows, for models that take fixed shapes. An iterable of samples, one window each, for `fit` and `evaluate`.

    `documents` is an iterable of sequences of whole numbers, such as tokens, which is asked anew for each pass; one that is longer than `length` is cut into several. A sample is a dict with four arrays of
    `length` numbers of int64 under the given names (None leaves one out):

    - tokens: the documents one after the other, then `padding`
    - labels: the next token of the same document; `ignored` at the end of a document and in the padding
    - documents: 1, 2, ... for the documents of the window, 0 in the padding: a model lets a token see those with its own number (and, if it is causal, before it) alone
    - positions: 0, 1, ... within each document

    Each document goes to the fullest of 16 open windows that has room for it. The order is that of the documents, as far as that allows; nothing is random.
    """

    def __init__(self, documents: Iterable[Any], length: int, *, tokens: str = "tokens", labels: str | None = "labels", document: str | None = "documents",
                 positions: str | None = "positions", padding: int = 0, ignored: int = -100) -> None:
        if isinstance(length, bool) or not isinstance(length, (int, np.integer)) or length < 2:
            raise Error(f"length: expected a whole number from 2, got {length!r}")
        if iter(documents) is documents:
            raise Error("documents: a generator ends after one pass: give a list, or an object with __iter__ that begins anew")
        self._documents, self._length = documents, int(length)
        self._names = (tokens, labels, document, positions)
        self._padding, self._ignored = padding, ignored

    def set_epoch(self, epoch: int) -> None:
        """Passes the number of the pass on to documents that have an order for each."""
        if callable(getattr(self._documents, "set_epoch", None)):
            self._documents.set_epoch(epoch)  # type: ignore[attr-defined]

    def __iter__(self) -> Iterator[dict[str, Array]]:
        windows: list[list[Array]] = []
        room: list[int] = []
        for part in self._parts():
            fits = [i for i, left in enumerate(room) if left >= len(part)]
            if fits:
                best = min(fits, key=lambda i: room[i])
            else:
                if len(windows) == OPEN_WINDOWS:
                    fullest = min(range(len(room)), key=lambda i: room[i])
                    yield self._window(windows.pop(fullest))
                    room.pop(fullest)
                windows.append([])
                room.append(self._length)
                best = len(windows) - 1
            windows[best].append(part)
            room[best] -= len(part)
            if room[best] < 2:  # a document of one token has no label
                yield self._window(windows.pop(best))
                room.pop(best)
        for window in windows:
            yield self._window(window)

    def _parts(self) -> Iterator[Array]:
        """The documents, long ones in parts that have one token in common: the label of one is the first of the next."""
        for number, document in enumerate(self._documents):
            tokens = np.asarray(document)
            if tokens.ndim != 1 or (tokens.size and tokens.dtype.kind not in "iu"):
                raise Error(f"documents: document {number} is to be a sequence of whole numbers, got shape {list(tokens.shape)} of {tokens.dtype}")
            for start in range(0, max(len(tokens) - 1, 0), self._length - 1):
                yield tokens[start : start + self._length].astype(np.int64)

    def _window(self, parts: Sequence[Array]) -> dict[str, Array]:
        found = [np.full(self._length, self._padding, np.int64), np.full(self._length, self._ignored, np.int64), np.zeros(self._length, np.int64), np.zeros(self._length, np.int64)]
        at = 0
        for number, part in enumerate(parts, 1):
            end = at + len(part)
            found[0][at:end] = part
            found[1][at : end - 1] = part[1:]
            found[2][at:end] = number
            found[3][at:end] = np.arange(len(part))
            at = end
        return {name: values for name, values in zip(self._names, found) if name is not None}
