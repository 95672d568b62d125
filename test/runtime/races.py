#!/usr/bin/env python3
"""Runs the tests of the runtime under ThreadSanitizer, in a build of their own.

    races.py [--build FOLDER] [--filter REGEX] [--jobs 2]

Each report of a data race fails its test, except for those that `races.supp` names: libraries that are built without the sanitizer.
Ends with `N passed, N failed`.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build/tsan")
    p.add_argument("--filter", default="", help="of the names of tests")
    p.add_argument("--jobs", type=int, default=2)
    o = p.parse_args()
    build, report = o.build.resolve(), o.build.resolve() / "ctest.xml"
    for command in (["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DDIVISI_SANITIZE=thread"],
                    ["cmake", "--build", build, "-j", str(o.jobs)]):
        done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            sys.exit(done.stdout[-4000:])
    report.unlink(missing_ok=True)
    options = {"TSAN_OPTIONS": f"suppressions={HERE / 'races.supp'}:ignore_noninstrumented_modules=0:history_size=7"}
    command = ["ctest", "--test-dir", str(build), f"-j{o.jobs}", "--timeout", "900", "--output-junit", str(report), *(["-R", o.filter] if o.filter else [])]
    subprocess.run(command, stdout=subprocess.DEVNULL, env={**os.environ, **options})
    passed, failed = 0, 0
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        if case.get("status") == "run":
            passed += 1
        elif case.get("status") == "fail":
            failed += 1
            print(f"FAIL {case.get('name')}\n{case.findtext('system-out', '').strip()[-6000:]}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
