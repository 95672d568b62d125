"""Counts the collectives of a partitioned program on stdin: for each function, kind and axes, the number of those with more than
scalars, the number of tensors in all, and their bytes (operands of a reduce_scatter, results of an all_gather). Buckets count as one."""

import collections
import re
import sys

WIDTH = {"f32": 4, "f16": 2, "bf16": 2, "f64": 8, "i64": 8, "i32": 4, "i1": 1}


def sizes(text):
    """(elements, bytes) of each tensor type in a text."""
    for dims, element in re.findall(r"tensor<((?:\d+x)*)(\w+)>", text):
        count = 1
        for dim in dims.split("x")[:-1]:
            count *= int(dim)
        yield count, count * WIDTH[element]


function, counts = "", collections.defaultdict(lambda: [0, 0, 0])
for line in sys.stdin:
    if match := re.search(r"func\.func @(\w+)", line):
        function = match[1]
    if match := re.search(r"dist\.(all_reduce|all_gather|all_to_all|reduce_scatter|permute|reshard)s?\b(.*?) : (.*)", line):
        kind, words, types = match.groups()
        before, after = types.split("->")
        tensors = list(sizes(after if kind == "all_gather" else before))
        axes = ",".join(re.findall(r'"(\w+)"', words))
        entry = counts[function, kind, axes, "scalars" if all(count == 1 for count, _ in tensors) else "tensors"]
        entry[0] += 1
        entry[1] += len(tensors)
        entry[2] += sum(size for _, size in tensors)
for (function, kind, axes, what), (number, tensors, size) in sorted(counts.items()):
    print(f"{function} {kind} {axes} {what}: {number} for {tensors}, {size} bytes")
