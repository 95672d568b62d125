#!/usr/bin/env python3
"""Runs ONNX's backend node tests through the compiled CPU path and compares with the recorded outputs.

    node_tests.py --divisi PATH [--jobs 2] [--filter REGEX] [--update] [--table FILE] [--verbose]

supported.txt lists the tests that pass: the suite fails when one of them breaks, when another one starts to pass, or
when a test of a supported operator fails without an entry in reasons.txt. `--update` rewrites supported.txt, `--table`
writes the table of operators. Needs the packages in ../requirements.txt.
"""

import argparse
import collections
import pathlib
import shutil
import sys
import tempfile
import warnings

import onnx

import cases as node_cases
import report
import runner


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True, help="the compiler's command-line program")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--filter", default="", help="only tests whose name contains a match")
    p.add_argument("--update", action="store_true", help="rewrite supported.txt")
    p.add_argument("--table", type=pathlib.Path, help="write the table of operators to this file")
    p.add_argument("--verbose", action="store_true", help="show the error of every test that does not pass")
    return p.parse_args()


def run(divisi, cases, jobs):
    """{test: error or ""} of the cases that can be run."""
    runnable = [c for c in cases if not c.skip]
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        entries = [c.write(work / c.name) for c in runnable]
        errors = runner.run_parallel(divisi, entries, jobs)
        return {c.name: error or c.difference(work / c.name) for c, error in zip(runnable, errors)}


def main():
    warnings.filterwarnings("ignore")
    o = arguments()
    if o.table and o.filter:
        sys.exit("--table needs all tests: leave --filter out")
    divisi = shutil.which(o.divisi) or sys.exit(f"no program {o.divisi}")
    cases = node_cases.collect(o.filter)
    errors = run(divisi, cases, o.jobs)
    if o.verbose:
        print("".join(f"{name}: {error}\n" for name, error in errors.items() if error), end="")
    for reason, count in collections.Counter(c.skip for c in cases if c.skip).most_common():
        print(f"skipped {count}: {reason}")
    crashed = sorted(name for name, error in errors.items() if error.startswith("crash"))
    good = sum(not e for e in errors.values())
    print(f"{len(errors)} run, {good} pass, {len(crashed)} crash {' '.join(crashed)}".rstrip())
    if o.update:
        report.update_supported(errors, {c.name for c in cases})
    bad = report.judge(cases, errors, everything=not o.filter)
    bad += [f"{name}: {errors[name]}" for name in crashed if not any(line.startswith(name + ":") for line in bad)]
    if o.table:
        old = o.table.read_text() if o.table.is_file() else ""
        o.table.write_text(report.page(old, report.table(cases, errors, onnx.__version__)))
    print("".join(f"FAIL {line}\n" for line in bad), end="")
    passed = sum(name in errors and not errors[name] for name in report.entries(report.SUPPORTED))
    print(f"{passed} passed, {len(bad)} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
