"""Cases by name, each checked in an empty folder."""

import argparse
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "fuzz"))
import compare
import program


def with_reference(divisi, case, name, folder):
    """What is wrong with the loss and the gradients of a case's program; "" if nothing is."""
    case.save(folder)
    outcome = program.run(divisi, case, folder)
    if outcome.failure or outcome.refusal:
        return f"{outcome.failure or outcome.refusal}: {outcome.said[-300:]}"
    wrong, compared, skipped = compare.with_reference(case, outcome, seed=len(name))
    return wrong or ("" if compared > skipped else f"{skipped} of {compared + skipped} directions are near kinks")


def main(description, known, check):
    """Runs check(divisi, name, folder), which says what is wrong, for the names that --filter leaves; the exit code."""
    p = argparse.ArgumentParser(description=description)
    p.add_argument("--divisi", required=True)
    p.add_argument("--filter", default="", help="only cases whose name contains a match")
    o = p.parse_args()
    names, failed = [n for n in known if re.search(o.filter, n)], 0
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            wrong = check(pathlib.Path(o.divisi).resolve(), name, pathlib.Path(folder))
        failed += bool(wrong)
        if wrong:
            print(f"FAIL {name}: {wrong}", flush=True)
    print(f"{len(names) - failed} passed, {failed} failed")
    return 1 if failed or not names else 0
