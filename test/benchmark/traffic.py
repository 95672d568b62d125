#!/usr/bin/env python3
"""Launches, and bytes that they read and write, of one training step: counts, which need no GPU.

    divisi compile model.onnx --target cuda --precision bf16 --emit exec -o model.mlir
    traffic.py model.mlir

One line for each kind of call (kernels, GEMMs, convolutions), then the sum; each operand and result counts once, and what a kernel only
slices or gathers from counts as no more than what it takes. Calls for values that are computed on demand are left out, as is @evaluate.
"""

import collections
import math
import pathlib
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models"))
from tensors import bytes_of, elements_of  # noqa: E402


PARTS = ("slice", "gather", "gather_elements", "gather_nd")
MANY = ("reduce", "argm", "max_pool", "sum_pool", "scatter", "cumsum", "accumulate", "top_k")  # an element of theirs reads many


def read(block):
    """Bytes that a kernel reads, of the lines of its body: an element of a result reads one of each operand of as many, and of what is sliced."""
    if "^bb0(" not in block[0]:  # it has no operands
        return 0
    types = dict(re.findall(r"(%\w+): tensor<([^>]*)>", block[0]))
    arguments, needed = list(types), {}
    for line in block[1:-1]:
        for name in re.match(r" *(%[^=]*?)(?::\d+)? =", line)[1].split(", "):
            types[name] = re.findall(r"tensor<([^>]*)>", line)[-1]
    needed = dict.fromkeys(re.findall(r"%\w+", block[-1].split(" : ")[0]), math.inf)
    for line in reversed(block[1:-1]):
        result, kind, operands = re.match(r" *(%\w+).*? = graph\.(\w+) ?([^{:]*)", line).groups()
        size, wanted = elements_of(types[result]), needed.get(result, 0)
        for i, operand in enumerate(dict.fromkeys(re.findall(r"%\w+", operands))):
            own = elements_of(types[operand])
            alike = not kind.startswith(MANY) and (own == size or (i == 0 and kind in PARTS))
            needed[operand] = min(own, needed.get(operand, 0) + (min(wanted, size) if alike else own))
    return sum(min(needed.get(name, 0) / max(1, elements_of(types[name])), 1) * bytes_of(types[name]) for name in arguments)


def body(lines):
    """Those of a kernel, to its yield."""
    block = [next(lines)]
    while "exec.yield" not in block[-1]:
        block.append(next(lines))
    return block


def calls(path):
    """(kind, bytes, whether it is launched with the one before) of each call of the step's tasks."""
    counts, batch, lines = False, None, iter(open(path))
    for line in lines:
        if "func.func" in line:
            counts = "@evaluate" not in line
        match = re.search(r"= exec\.(kernel|copy|call \w+\.(\w+))", line)
        if counts and match and "when = " not in line:
            operands, results = (re.findall(r"tensor<([^>]*)>", part) for part in line[line.rindex(" : ") :].split(" -> "))
            if ") workspace" in line:
                results.pop()
            number = re.search(r"batch = (\d+)", line)
            together = number is not None and number[1] == batch
            batch = number and number[1]
            moved = read(body(lines)) if match[1] == "kernel" else sum(map(bytes_of, operands))
            yield match[2] or match[1], moved + sum(map(bytes_of, results)), together


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
