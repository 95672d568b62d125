"""Training data as the files that a program maps: one `.npy` file for each of its inputs."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import pathlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from ._command import Error, Path
from ._safetensors import TYPES

Array = npt.NDArray[Any]
# An array for each input, or the path of a .npy file with it; or batches, or single samples.
Data = Union[Mapping[str, Any], Iterable[Any]]

# Those of .npy files: other types have no counterpart there, and truth values one of their own.
NUMPY_TYPES: dict[str, npt.DTypeLike] = {**{name: kind for name, kind in TYPES.items() if name != "BF16"}, "BOOL": "?"}
HEADER_BYTES = 256  # of the files that are written while their number of rows is not known


@dataclasses.dataclass(frozen=True)
class Input:
    """An input of a program, of one batch."""

    name: str
    dtype: str  # as safetensors spells it: F32, I64, ...
    shape: tuple[int, ...]
    label: bool  # whether it is what --loss compares with
    batch: int  # samples of a batch

    @property
    def rows_each(self) -> int:
        """Rows of a sample; 0 if the input is the same in every batch."""
        rows = self.shape[0] if self.shape else 0
        return rows // self.batch if rows % self.batch == 0 else 0

    @property
    def expected(self) -> str:
        """The shape of a file with data of it, for messages."""
        sizes = [str(size) for size in self.shape]
        return f"{self.dtype} [{', '.join(['N', *sizes[1:]] if self.rows_each else sizes)}]"

    def array(self, value: Any, where: str) -> Array:
        """A value, such as a list or a tensor of PyTorch, as an array of the input's type."""
        try:
            array = np.asarray(_with_values(value))
            wanted = np.dtype(NUMPY_TYPES.get(self.dtype, array.dtype))
            if array.dtype != wanted:
                with np.errstate(over="ignore"):
                    cast = array.astype(wanted, casting="same_kind")
                lost = array.dtype.kind in "iu" and not np.array_equal(cast, array)
                if lost or (array.dtype.kind == "f" and (np.isinf(cast) & np.isfinite(array)).any()):
                    raise ValueError(f"numbers that are too large for {wanted}")
                array = cast
            if array.dtype.hasobject:
                raise TypeError("it holds objects of Python")
        except (TypeError, ValueError, OverflowError, RuntimeError) as error:
            said = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
            raise Error(f"{where}: '{self.name}' is to be {self.expected}: {said}") from None
        return np.ascontiguousarray(array).reshape(array.shape)


def _with_values(value: Any) -> Any:
    """The same as what NumPy can read; an exception says why it cannot, and what to give instead."""
    if np.ma.is_masked(value):
        raise TypeError("it is a masked array, whose masked numbers have no meaning: give array.filled(NUMBER)")
    if isinstance(value, (list, tuple)) and any(isinstance(part, np.ma.MaskedArray) or hasattr(part, "detach") for part in value):
        return [_with_values(part) for part in value]
    if not hasattr(value, "detach"):
        return value
    if getattr(value, "is_meta", False):
        raise TypeError("it is a tensor without values (of the device meta)")
    if "strided" not in str(getattr(value, "layout", "strided")) or getattr(value, "is_nested", False):
        raise TypeError("it is a sparse or nested tensor: give tensor.to_dense(), or padded rows")
    value = value.detach().cpu()
    if str(value.dtype).startswith(("torch.bfloat16", "torch.float8")):  # types that NumPy lacks
        value = value.float()
    return value.numpy()


@contextlib.contextmanager
def writing(path: Path, what: str = "data") -> Iterator[None]:
    """Errors of files in a temporary folder name it, and how to choose another."""
    try:
        yield
    except OSError as error:
        raise Error(
            f"cannot write {what} to '{os.fspath(path)}': {error.strerror or error}; the environment variable TMPDIR chooses another folder "
            "for temporary files, and data in files of .npy need none"
        ) from None


@contextlib.contextmanager
def temporary_folder(prefix: str) -> Iterator[pathlib.Path]:
    """A folder as long as the context."""
    with contextlib.ExitStack() as stack:
        with writing(tempfile.tempdir or os.environ.get("TMPDIR") or "/tmp", "temporary files"):
            place = stack.enter_context(tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True))
        yield pathlib.Path(place)


@dataclasses.dataclass
class Files:
    """The files of each input, and what a program must be told about them."""

    paths: dict[str, list[pathlib.Path]]
    folder: pathlib.Path | None = None  # of the files that were written for it

    def words(self, flag: str) -> list[str]:
        """The words of a command line that name the files."""
        return [word for name, paths in self.paths.items() for path in paths for word in (flag, f"{name}={path}")]

    @contextlib.contextmanager
    def named(self) -> Iterator[None]:
        """Errors name what was given instead of the file in `folder` that it was written to."""
        try:
            yield
        except Error as error:
            text = str(error)
            for name, path in ((name, path) for name, paths in self.paths.items() for path in paths):
                if path.parent == self.folder:
                    text = text.replace(f"'{path}'", f"the data of '{name}'")
            if text == str(error):
                raise
            raise Error(text, error.code) from None


def check_kind(data: Data, inputs: Sequence[Input]) -> None:
    """Raises Error for what is neither a dict nor an iterable of batches."""
    if isinstance(data, (str, bytes, os.PathLike)) or not isinstance(data, Iterable):
        raise Error(
            "data: expected a dict of arrays or .npy files by the names of the inputs "
            f"({names_of(inputs)}), or batches of them, got {type(data).__name__}"
        )


def names_of(inputs: Iterable[Input]) -> str:
    return ", ".join(each.name for each in inputs)


def files_of_arrays(data: Mapping[str, Any], inputs: Sequence[Input], folder: pathlib.Path) -> Files:
    """Files for `data`, in `folder` unless they are files already."""
    known = {each.name: each for each in inputs}
    paths: dict[str, list[pathlib.Path]] = {}
    for name, value in data.items():
        each = known.get(name)
        if each is None:
            raise Error(f"data: there is no input '{name}'; the inputs are: {names_of(inputs)}")
        if isinstance(value, (str, os.PathLike)):
            paths[name] = [pathlib.Path(value)]
        elif isinstance(value, (list, tuple)) and value and all(isinstance(part, (str, os.PathLike)) for part in value):
            paths[name] = [pathlib.Path(part) for part in value]
        else:
            array = each.array(value, "data")
            paths[name] = [folder / f"{len(paths)}.npy"]
            _save(paths[name][0], array)
    return Files(paths, folder)


def _save(path: pathlib.Path, array: Array) -> None:
    with writing(path), open(path, "wb", buffering=0) as file:
        write_all(file, header_of(array.dtype, array.shape))
        write_all(file, array)


def write_all(file: io.RawIOBase, content: bytes | Array) -> None:
    """Writes to a file without a buffer, which may take less than all at once."""
    rest = memoryview(content) if isinstance(content, bytes) else content.reshape(-1).view(np.uint8).data
    while rest:
        rest = rest[file.write(rest) or 0 :]


def header_of(dtype: np.dtype[Any], shape: Sequence[int]) -> bytes:
    """The first HEADER_BYTES bytes of a .npy file of version 1.0."""
    sizes = "".join(f"{size}, " for size in shape)
    text = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': ({sizes}), }}"
    if len(text) > HEADER_BYTES - 11:
        raise Error(f"data: a shape of {len(shape)} dimensions is too long")
    return b"\x93NUMPY\x01\x00" + (HEADER_BYTES - 10).to_bytes(2, "little") + f"{text:<{HEADER_BYTES - 11}}\n".encode()
