#!/usr/bin/env python3
"""Unit tests of runner.py with a fake program that misbehaves as the model's name says."""

import pathlib
import stat
import sys
import tempfile
import unittest

import runner

STAND_IN = """#!{python}
import json, os, sys, time
assert sys.argv[1:3] == ["run-graph", "--batch"]
for k, entry in enumerate(json.load(open(sys.argv[3]))):
    name = entry["model"]
    if name == "abort":
        print("assertion failed", file=sys.stderr, flush=True)
        os.abort()
    if name == "leave":
        sys.exit(3)
    if name == "hang":
        time.sleep(60)
    answer = {{"case": k, "ok": name == "good"}}
    if name == "bad":
        answer["error"] = "no such operator"
    print("a line of noise")
    print(json.dumps(answer), flush=True)
"""


class RunnerTest(unittest.TestCase):
    def run_models(self, *names, jobs=1):
        with tempfile.TemporaryDirectory() as work:
            program = pathlib.Path(work) / "divisi"
            program.write_text(STAND_IN.format(python=sys.executable))
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
            entries = [{"model": name, "inputs": {}, "outputs": ""} for name in names]
            if jobs > 1:
                return runner.run_parallel(str(program), entries, jobs)
            return runner.run_all(str(program), entries, timeout=2)

    def test_answers(self):
        self.assertEqual(self.run_models("good", "bad", "good"), ["", "no such operator", ""])

    def test_goes_on_behind_a_crash(self):
        results = self.run_models("good", "abort", "good", "leave", "bad")
        self.assertEqual([results[0], results[2], results[4]], ["", "", "no such operator"])
        self.assertEqual(results[1], "crash: signal 6: assertion failed")
        self.assertEqual(results[3], "crash: exit 3")

    def test_goes_on_behind_a_hang(self):
        self.assertEqual(self.run_models("hang", "good"), ["crash: no answer after 2 s", ""])

    def test_parallel_keeps_the_order(self):
        self.assertEqual(
            self.run_models("bad", "good", "good", "bad", "good", jobs=2),
            ["no such operator", "", "", "no such operator", ""],
        )

    def test_nothing_to_do(self):
        self.assertEqual(self.run_models(), [])


if __name__ == "__main__":
    unittest.main()
