"""The reader of safetensors: what the format says, and damaged files."""

import json
import random
import struct

import numpy as np
import pytest

import divisi


def file_of(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def test_types(tmp_path):
    values = struct.pack("<2f", 1.5, -2.0) + struct.pack("<q", -7) + struct.pack("<2H", 0x3FC0, 0xC000) + b"\x01\x00"
    header = {
        "__metadata__": {"format": "pt"},
        "f": entry("F32", [2, 1], 0, 8),
        "i": entry("I64", [], 8, 16),
        "b": entry("BF16", [2], 16, 20),  # the upper halves of 1.5 and -2.0 as float32
        "o": entry("BOOL", [2], 20, 22),
        "e": entry("F16", [0, 3], 22, 22),
    }
    (tmp_path / "t").write_bytes(file_of(header, values))
    found = divisi.read_safetensors(tmp_path / "t")
    assert list(found) == ["f", "i", "b", "o", "e"]
    np.testing.assert_array_equal(found["f"], np.array([[1.5], [-2.0]], np.float32))
    assert found["i"].shape == () and found["i"] == -7
    np.testing.assert_array_equal(found["b"], np.array([1.5, -2.0], np.float32))
    assert found["o"].tolist() == [True, False] and found["e"].shape == (0, 3)
    found["f"][0] = 3  # the arrays are the caller's


DAMAGED = {
    "empty": b"",
    "header is longer than the file": file_of({}, length=10**6),
    "header of 2^64 bytes": file_of({}, length=2**64 - 1),
    "no JSON": file_of(b"{]"),
    "no UTF-8": file_of(b'{"\xff": 1}'),
    "deep": file_of(b"[" * 200_000),
    "no object": file_of([1]),
    "huge number": file_of(b'{"a": {"dtype": "F32", "shape": [' + b"9" * 5000 + b'], "data_offsets": [0, 0]}}'),
    "same name twice": file_of(b'{"a": 1, "a": 2}'),
    "entry is a list": file_of({"a": []}),
    "type": file_of({"a": entry("F12", [], 0, 0)}),
    "type is a list": file_of({"a": entry([], [], 0, 0)}),
    "negative": file_of({"a": entry("F32", [-1], 0, 4)}, b"1234"),
    "boolean": file_of({"a": entry("U8", [True], 0, 1)}, b"1"),
    "fraction": file_of({"a": entry("F32", [1.0], 0, 4)}, b"1234"),
    "size": file_of({"a": entry("F32", [2], 0, 4)}, b"1234"),
    "product is too large": file_of({"a": entry("F32", [2**32, 2**32], 0, 0)}),
    "outside": file_of({"a": entry("F32", [1], 4, 8)}, b"1234"),
    "backwards": file_of({"a": entry("F32", [0], 4, 0)}, b"1234"),
    "three offsets": file_of({"a": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0, 0]}}),
    "overlap": file_of({"a": entry("F32", [1], 0, 4), "b": entry("F32", [1], 2, 6)}, b"123456"),
    "many dimensions": file_of({"a": entry("U8", [1] * 65, 0, 1)}, b"1"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged(tmp_path, name):
    (tmp_path / "t").write_bytes(DAMAGED[name])
    with pytest.raises(divisi.Error, match="is not a valid safetensors file"):
        divisi.read_safetensors(tmp_path / "t")


def test_bytes_at_random(tmp_path):
    """Whatever a file holds, it is read or refused."""
    whole = file_of({"a": entry("F32", [2], 0, 8), "b": entry("I64", [1], 8, 16)}, bytes(16))
    draw = random.Random(1)
    for _ in range(500):
        changed = bytearray(whole)
        for _ in range(draw.randint(1, 4)):
            changed[draw.randrange(len(changed))] = draw.randrange(256)
        (tmp_path / "t").write_bytes(changed[: draw.choice([len(changed), draw.randrange(len(changed))])])
        try:
            divisi.read_safetensors(tmp_path / "t")
        except divisi.Error:
            pass


def test_missing(tmp_path):
    with pytest.raises(divisi.Error, match="cannot read '.*none': No such file"):
        divisi.read_safetensors(tmp_path / "none")
