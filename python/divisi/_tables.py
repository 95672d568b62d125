"""Parquet and Arrow files as batches, by pyarrow: streamed, shuffled by seed, and resumed from their position."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from ._command import Error, Path

if TYPE_CHECKING:
    import pyarrow

Array = Any
Paths = Union[Path, Sequence[Path]]
# Kinds of files by what they begin or end with.
PARQUET, ARROW = b"PAR1", b"ARROW1"


class Table:
    """Batches of the rows of Parquet or Arrow (Feather) files, for `fit`, `evaluate` and `predict`.

    `paths` are files or patterns of files, `columns` the columns of each input: the name of one, whose numbers are the samples, or whose lists of one length
    are their rows; or a list of names of columns of numbers, which are the elements of a row (`["price"]` gives [N, 1]). Rows without a value (null) are refused. One part of a file (a row group of
    Parquet, a record batch of Arrow) is in memory at a time. With `shuffle`, each epoch has an order of its own, by `seed`: that of the parts, and
    of the rows within each; files with few large parts are mixed best. Raises Error if a file cannot be read.
    """

    def __init__(self, paths: Paths, columns: Mapping[str, Union[str, Sequence[str]]], *, batch: int = 256, shuffle: bool = True, seed: int = 0) -> None:
        if isinstance(batch, bool) or not isinstance(batch, (int, np.integer)) or batch < 1:
            raise Error(f"batch: expected a whole number from 1, got {batch!r}")
        self._columns = {name: [each] if isinstance(each, str) else list(each) for name, each in columns.items()}
        self._lists = {name for name, each in columns.items() if not isinstance(each, str)}
        self._names = list(dict.fromkeys(name for names in self._columns.values() for name in names))
        self._batch, self._shuffle, self._seed = int(batch), shuffle, seed
        self._files = [_open(path) for path in _expand(paths)]
        for file in self._files:
            file.check(self._names)
        self._parts = [(file, part) for file in self._files for part in range(file.parts)]
        self.num_rows: int = sum(file.rows for file in self._files)
        self._epoch = 0
        self._at = (0, 0)  # finished parts of this epoch, and rows of the next one
        self._goes_on = False  # the next epoch begins there

    def in_order(self) -> Iterator[dict[str, Array]]:
        """All batches in the order of the files, as evaluations and predictions take them."""
        for file, part in self._parts:
            arrays = self._read(file, part)
            for begin in range(0, _rows(arrays), self._batch):
                yield {name: array[begin : begin + self._batch] for name, array in arrays.items()}

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of the next epoch; a position of `load_state_dict` in the same one stays."""
        if epoch != self._epoch:
            self._epoch, self._at, self._goes_on = epoch, (0, 0), False

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self._epoch, "parts": self._at[0], "rows": self._at[1], "all": self.num_rows}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes to a position. Raises ValueError if it is of other files."""
        epoch, parts, rows, whole = (int(state[name]) for name in ("epoch", "parts", "rows", "all"))
        if whole != self.num_rows or min(epoch, parts, rows) < 0 or parts > len(self._parts):
            raise ValueError(f"it is of files with {whole} rows, and these have {self.num_rows}")
        self._epoch, self._at, self._goes_on = epoch, (parts, rows), True

    def __iter__(self) -> Iterator[dict[str, Array]]:
        if self._at[0] >= len(self._parts):
            self._epoch, self._at = self._epoch + 1, (0, 0)
        elif not self._goes_on:
            self._at = (0, 0)
        self._goes_on = False
        order = list(range(len(self._parts)))
        if self._shuffle:
            np.random.default_rng([self._seed, self._epoch]).shuffle(order)
        for done in range(self._at[0], len(order)):
            file, part = self._parts[order[done]]
            arrays = self._read(file, part)
            count = _rows(arrays)
            if self._shuffle:
                rows = np.random.default_rng([self._seed, self._epoch, order[done]]).permutation(count)
            for begin in range(self._at[1], count, self._batch):
                end = min(begin + self._batch, count)
                self._at = (done, end) if end < count else (done + 1, 0)
                yield {name: array[rows[begin:end]] if self._shuffle else array[begin:end] for name, array in arrays.items()}
            self._at = (done + 1, 0)

    def _read(self, file: _File, part: int) -> dict[str, Array]:
        with _reading(file.path):
            table = file.read(part, self._names)
            arrays = {name: _array_of(table.column(name), name, file.path) for name in self._names}
            return {name: arrays[names[0]] if name not in self._lists else _joined([arrays[each] for each in names], name, file.path) for name, names in self._columns.items()}


def _rows(arrays: Mapping[str, Array]) -> int:
    return len(next(iter(arrays.values()), ()))


def _expand(paths: Paths) -> list[str]:
    found: list[str] = []
    for path in [paths] if isinstance(paths, (str, os.PathLike)) else list(paths):
        text = os.fspath(path)
        matches = [text] if os.path.exists(text) else sorted(glob.glob(text))
        if not matches:
            raise Error(f"there is no file '{text}'")
        found += matches
    if not found:
        raise Error("paths: expected the path of a file, or several")
    return found


class _File:
    """A file in parts that can be read one by one."""

    rows: int
    parts: int

    def __init__(self, path: str) -> None:
        self.path = path

    def names(self) -> list[str]:
        raise NotImplementedError

    def read(self, part: int, names: Sequence[str]) -> pyarrow.Table:
        raise NotImplementedError

    def check(self, names: Sequence[str]) -> None:
        known = self.names()
        for name in names:
            if known.count(name) != 1:
                what = "two columns" if name in known else "no column"
                raise Error(f"'{self.path}' has {what} '{name}'; its columns are: {', '.join(known)}")


class _Parquet(_File):
    def __init__(self, path: str) -> None:
        import pyarrow.parquet

        super().__init__(path)
        self._file = pyarrow.parquet.ParquetFile(path)
        self.rows, self.parts = self._file.metadata.num_rows, self._file.metadata.num_row_groups

    def names(self) -> list[str]:
        return list(self._file.schema_arrow.names)

    def read(self, part: int, names: Sequence[str]) -> pyarrow.Table:
        return self._file.read_row_group(part, columns=list(names), use_threads=False)


class _Arrow(_File):
    def __init__(self, path: str) -> None:
        import pyarrow.dataset

        super().__init__(path)
        self._file = pyarrow.ipc.open_file(pyarrow.memory_map(path))
        self.parts = self._file.num_record_batches
        self.rows = pyarrow.dataset.dataset(path, format="ipc").count_rows()

    def names(self) -> list[str]:
        return list(self._file.schema.names)

    def read(self, part: int, names: Sequence[str]) -> pyarrow.Table:
        import pyarrow

        batch = self._file.get_batch(part)
        batch.validate(full=True)  # offsets of a damaged file lead outside of it
        return pyarrow.Table.from_batches([batch]).select(list(names))


class _reading:
    """Turns pyarrow's exceptions into one line with the file."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, Exception) and not isinstance(error, Error):
            said = str(error).strip().partition("\n")[0] or type(error).__name__
            raise Error(f"cannot read '{self._path}': {said}") from None


def _open(path: str) -> _File:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise Error("divisi.Table reads Parquet and Arrow files by pyarrow, which is not installed: pip install pyarrow") from None
    with _reading(path):
        with open(path, "rb") as file:
            head = file.read(6)
        if head[:4] == PARQUET:
            return _Parquet(path)
        if head == ARROW:
            return _Arrow(path)
        raise Error(f"'{path}' is neither a Parquet nor an Arrow file (streams of Arrow have no order to read in: write a file)")


def _array_of(column: pyarrow.ChunkedArray, name: str, path: str) -> Array:
    """A column as NumPy's array: of numbers, or of lists of one length at any depth."""
    import pyarrow

    def fail(what: str) -> Error:
        return Error(f"'{path}', column '{name}': {what}")

    sizes: list[int] = []
    values = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    rows = len(values)
    if isinstance(values, pyarrow.ChunkedArray):  # of no chunks
        values = pyarrow.array([], column.type)
    while True:
        kind = values.type
        if values.null_count:
            raise fail("it has rows without a value (null)")
        if pyarrow.types.is_fixed_size_list(kind):
            size = kind.list_size
        elif pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind):
            lengths = np.unique(np.asarray(values.value_lengths()))
            if len(lengths) > 1:
                raise fail(f"its lists have {lengths[0]} to {lengths[-1]} elements: pad them to one length")
            size = int(lengths[0]) if len(lengths) else 0
        else:
            break
        sizes.append(size)
        values = values.flatten()
    if not (pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind) or pyarrow.types.is_boolean(kind)):
        raise fail(f"it has {kind}, and numbers are expected")
    return values.to_numpy(zero_copy_only=False).reshape(rows, *sizes)


def _joined(arrays: Sequence[Array], name: str, path: str) -> Array:
    """Several columns as the elements of a row."""
    if any(array.ndim != 1 for array in arrays):
        raise Error(f"'{path}', input '{name}': several columns become one row, and they must be numbers, not lists")
    kind = np.result_type(*arrays)
    if all(array.dtype.kind in "iub" for array in arrays) and kind.kind == "f":  # int64 and uint64
        raise Error(f"'{path}', input '{name}': its columns have types that no type of whole numbers holds")
    return np.stack([array.astype(kind) for array in arrays], 1)
