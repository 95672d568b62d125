"""Reads safetensors files, with checks of everything that they claim: they may come from strangers."""

from __future__ import annotations

import json
import math
import os
import struct
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from ._command import Error, Path

Array = npt.NDArray[Any]

# The format's own limit for its header, in bytes.
MOST_HEADER = 100_000_000

TYPES: dict[str, npt.DTypeLike] = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",  # converted to float32, because NumPy has no bfloat16
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "u1",
    "BOOL": "u1",
}


def read_safetensors(path: Path) -> dict[str, Array]:
    """The tensors of a safetensors file by name. bfloat16 becomes float32, which holds the same values.

    Raises Error if the file cannot be read, is damaged, or has a tensor of a type that is not known.
    """
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            return _read(file, os.fstat(file.fileno()).st_size)
    except OSError as error:
        raise Error(f"cannot read '{name}': {error.strerror or error}") from None
    except _Damaged as error:
        raise Error(f"'{name}' is not a valid safetensors file: {error}") from None


class _Damaged(Exception):
    pass


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise _Damaged(message)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    _require(len({key for key, _ in pairs}) == len(pairs), "a name occurs twice in its header")
    return dict(pairs)


def _read(file: BinaryIO, size: int) -> dict[str, Array]:
    start = file.read(8)
    _require(len(start) == 8, "it is too short")
    (length,) = struct.unpack("<Q", start)
    _require(length <= min(size - 8, MOST_HEADER), f"its header would have {length} bytes")
    try:
        header = json.loads(file.read(length).decode(), object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        raise _Damaged("its header is not JSON") from None
    _require(isinstance(header, dict), "its header is no JSON object")
    header.pop("__metadata__", None)
    tensors, places = {}, []
    for name, entry in header.items():
        dtype, shape, begin, end = _checked(name, entry, size - 8 - length)
        places.append((begin, end, name))
        file.seek(8 + length + begin)
        raw = file.read(end - begin)
        _require(len(raw) == end - begin, f"the data of '{name}' is cut off")
        tensors[name] = _array(raw, dtype, shape)
    places.sort()
    for (_, before, first), (begin, _, second) in zip(places, places[1:]):
        _require(before <= begin, f"the data of '{first}' and '{second}' overlap")
    return tensors


def _checked(name: str, entry: Any, room: int) -> tuple[str, tuple[int, ...], int, int]:
    """Type, shape and place of a tensor, if they agree with each other and with the bytes that there are."""
    _require(isinstance(entry, dict), f"the entry of '{name}' is no JSON object")
    dtype, shape, place = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    _require(isinstance(dtype, str) and dtype in TYPES, f"'{name}' has the unknown type {dtype!r}")
    numbers = [*shape, *place] if isinstance(shape, list) and isinstance(place, list) else [None]
    whole = all(type(number) is int and 0 <= number < 2**63 for number in numbers)
    _require(whole and len(place) == 2 and len(shape) <= 32, f"'{name}' has no valid shape and place")
    begin, end = place
    _require(begin <= end <= room, f"the place of '{name}' is outside of the file")
    size = math.prod(shape) * np.dtype(TYPES[dtype]).itemsize
    _require(size == end - begin, f"'{name}' has {end - begin} bytes, but its shape takes {size}")
    return dtype, tuple(shape), begin, end


def _array(raw: bytes, dtype: str, shape: tuple[int, ...]) -> Array:
    array: Array = np.frombuffer(raw, dtype=TYPES[dtype])
    if dtype == "BF16":
        array = (array.astype("<u4") << 16).view("<f4")
    elif dtype == "BOOL":
        array = array != 0
    else:
        array = array.copy()  # one that can be written to
    return array.reshape(shape)
