"""Arrays of NumPy and tokens, without NumPy."""

import array
import pathlib

for name, shape, numbers in (("x.npy", "(5, 3, 2)", 30), ("one.npy", "()", 1)):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    pathlib.Path(name).write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(4 * numbers))
for name, kind, numbers in (("a.bin", "H", 10), ("b.bin", "H", 30), ("wide.bin", "I", 20)):
    pathlib.Path(name).write_bytes(array.array(kind, range(numbers)).tobytes())
