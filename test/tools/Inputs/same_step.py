"""same_step.py PROGRAM PLAN: the step that a program expects, from its calls, takes the time of the first plan of
`divisi plan --json`, to 2 %. Prints that time in microseconds."""

import json
import sys

program = open(sys.argv[1], "rb").read()
start = program.index(b'{"abi"')
expected = json.loads(program[start:program.index(b"\0", start)])["expected_us"]
planned = json.load(open(sys.argv[2]))["plans"][0]["step_ms"] * 1e3
assert abs(expected / planned - 1) < 0.02, (expected, planned)
print(f"{planned:.0f}")
