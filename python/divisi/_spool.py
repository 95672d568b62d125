"""Batches of one pass as `.npy` files, for evaluations and predictions, which programs read more than once."""

from __future__ import annotations

import io
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ._batches import Batches
from ._command import Error
from ._data import HEADER_BYTES, Array, Data, Files, Input, check_kind, files_of_arrays, header_of, write_all, writing
from ._tables import Table


def write_files(data: Data, inputs: Sequence[Input], folder: pathlib.Path, most_bytes: int) -> Files:
    """Files for `data`, in `folder` unless they are files already; `most_bytes` limits what an iterable may write."""
    if isinstance(data, Mapping):
        return files_of_arrays(data, inputs, folder)
    check_kind(data, inputs)
    if isinstance(data, Table):
        data = data.in_order()
    with Spool(inputs, folder, most_bytes) as spool:
        return spool.write(data)


class Spool:
    """Writes batches to one file for each input, with one batch in memory."""

    def __init__(self, inputs: Sequence[Input], folder: pathlib.Path, most_bytes: int) -> None:
        self._inputs = list(inputs)
        self._most_bytes = most_bytes
        self._paths = {each.name: folder / f"{i}.npy" for i, each in enumerate(inputs)}
        self._files: dict[str, io.RawIOBase] = {}
        self._folder = folder
        self._bytes = 0

    def __enter__(self) -> Spool:
        for name, path in self._paths.items():
            with writing(path):
                self._files[name] = open(path, "w+b", buffering=0)
                self._files[name].seek(HEADER_BYTES)
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()

    def write(self, data: Iterable[Any]) -> Files:
        batches, samples = Batches(self._inputs), 0
        for arrays, count in batches.all_of(data):
            for each in self._inputs:
                if each.rows_each or samples == 0:
                    self._write(each.name, arrays[each.name])
            samples += count
            if self._bytes > self._most_bytes:
                raise Error(
                    f"data: the batches take more than {self._most_bytes} bytes in a temporary folder: raise most_bytes, "
                    "or give .npy files, which are mapped"
                )
        if samples == 0:
            raise Error("data: it has no samples")
        for each in self._inputs:
            file = self._files[each.name]
            shape = (samples * each.rows_each, *each.shape[1:]) if each.rows_each else each.shape
            with writing(self._paths[each.name]):
                file.seek(0)
                write_all(file, header_of(batches.types[each.name], shape))
        return Files({name: [path] for name, path in self._paths.items()}, self._folder)

    def _write(self, name: str, array: Array) -> None:
        self._bytes += array.nbytes
        with writing(self._paths[name]):
            write_all(self._files[name], array)
