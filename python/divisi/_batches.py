"""Batches that an iterable gives, as arrays of a program's inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ._command import Error
from ._data import Array, Input, names_of


class Batches:
    """Takes batches apart, and checks them: all have the inputs' shapes, and one type."""

    def __init__(self, inputs: Sequence[Input]) -> None:
        self.inputs = list(inputs)
        self.types: dict[str, np.dtype[Any]] = {}
        self.constants: dict[str, Array] = {}  # inputs that are the same in every batch

    def arrays(self, batch: Any, where: str) -> tuple[dict[str, Array], int]:
        """The array of each input in a batch, and its number of samples; a single sample becomes a batch of one."""
        arrays = {each.name: self._array(each, value, where) for each, value in self._values(batch, where)}
        counts = {each.name: len(arrays[each.name]) // each.rows_each for each in self.inputs if each.rows_each}
        if len(set(counts.values())) > 1:
            raise Error(f"{where}: the inputs have different numbers of samples: {counts}")
        return arrays, max(counts.values(), default=0)

    def all_of(self, data: Iterable[Any]) -> Iterator[tuple[dict[str, Array], int]]:
        """Those of each batch of one pass."""
        for number, batch in enumerate(data, 1):
            yield self.arrays(batch, f"data: batch {number}")

    def _array(self, each: Input, value: Any, where: str) -> Array:
        array = each.array(value, where)
        if each.rows_each == 1 and array.shape == each.shape[1:] and array.ndim == len(each.shape) - 1:
            array = array[np.newaxis]
        fits = array.shape[1:] == each.shape[1:] and array.ndim > 0 if each.rows_each else array.shape == each.shape
        if not fits or (each.rows_each and len(array) % each.rows_each):
            raise Error(f"{where}: expected {each.expected} for '{each.name}', got shape {list(array.shape)}")
        if self.types.setdefault(each.name, array.dtype) != array.dtype:
            raise Error(f"{where}: '{each.name}' has type {array.dtype}, and {self.types[each.name]} before")
        if not each.rows_each and not np.array_equal(self.constants.setdefault(each.name, array), array):
            raise Error(f"{where}: '{each.name}' has other values than before, but the program takes it as the same for all")
        return array

    def _values(self, batch: Any, where: str) -> Iterator[tuple[Input, Any]]:
        if isinstance(batch, Mapping):
            missing = [each.name for each in self.inputs if each.name not in batch]
            if missing:
                raise Error(f"{where} has no '{missing[0]}'; the inputs are: {names_of(self.inputs)}")
            return ((each, batch[each.name]) for each in self.inputs)
        parts = list(batch) if isinstance(batch, (tuple, list)) else [batch]
        if len(parts) != len(self.inputs):
            raise Error(f"{where} has {len(parts)} parts, but the program {len(self.inputs)} inputs: {names_of(self.inputs)}")
        return zip(self.inputs, parts)
