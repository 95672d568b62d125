"""losses.py LOG LOG TOLERANCE: compares the losses of two logs; prints their number and the tolerance, or the first that differs by more."""

import json
import sys

first, second = ([row["loss"] for row in map(json.loads, open(name)) if "loss" in row and "step" in row] for name in sys.argv[1:3])
tolerance = float(sys.argv[3])
if len(first) != len(second):
    sys.exit(f"{len(first)} and {len(second)} losses")
for step, (a, b) in enumerate(zip(first, second), 1):
    if not abs(a - b) <= tolerance * abs(b):
        sys.exit(f"step {step}: {a} and {b}")
print(f"{len(first)} losses, within {tolerance:g}")
