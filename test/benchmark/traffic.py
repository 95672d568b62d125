#!/usr/bin/env python3
"""Launches, and bytes that they read and write, of one training step: counts, which need no GPU.

    divisi compile model.onnx --target cuda --precision bf16 --emit exec -o model.mlir
    traffic.py model.mlir

One line for each kind of call (kernels, GEMMs, convolutions), then the sum; each operand and result counts once. Calls for values
that are computed on demand are left out, as is @evaluate.
"""

import collections
import pathlib
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models"))
from tensors import bytes_of  # noqa: E402


def calls(path):
    """(kind, bytes, whether it is launched with the one before) of each call of the step's tasks."""
    counts, batch = False, None
    for line in open(path):
        if "func.func" in line:
            counts = "@evaluate" not in line
        match = re.search(r"= exec\.(kernel|copy|call \w+\.(\w+))", line)
        if counts and match and "when = " not in line:
            types = re.findall(r"tensor<([^>]*)>", line[line.rindex(" : ") :])
            number = re.search(r"batch = (\d+)", line)
            together = number is not None and number[1] == batch
            batch = number and number[1]
            yield match[2] or match[1], sum(map(bytes_of, types[: -1 if ") workspace" in line else None])), together


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    totals = collections.defaultdict(lambda: [0, 0])
    for kind, moved, together in calls(sys.argv[1]):
        for total in (totals[kind], totals["all"]):
            total[0] += not together
            total[1] += moved
    for kind in sorted(totals, key=lambda name: (name == "all", name)):
        print(f"{kind}: {totals[kind][0]} calls, {totals[kind][1] / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
