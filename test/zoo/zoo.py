#!/usr/bin/env python3
"""Trains reduced sizes of well-known models by Divisi beside PyTorch, on one device and several.

    zoo.py --divisi PATH [--only TEXT] [--list] [--ways "one device;data=2;..."] [--size published] [--results FILE] [--write-page]

A line for each model and way: its losses of three steps and its weights afterwards are PyTorch's, or it is refused as the table
`expected.py` says. Ends with `N passed, N failed`. Without PyTorch only the page docs/zoo.md is held to the list of models.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.dont_write_bytecode = True
import expected  # noqa: E402
import page  # noqa: E402

NEEDED = ("torch", "torchvision", "transformers", "timm", "onnx", "onnxscript")
TIMEOUT = 1800  # seconds for one model


def names(size):
    """All models of a size, without importing what builds them."""
    builder = "published=False" if size == "published" else "(?:published=False)?"
    found = []
    for file in sorted((HERE / "models").glob("*.py")):
        found += re.findall(rf'^@model\("(.*)"\)\ndef \w+\({builder}\)', file.read_text(), re.MULTILINE)
    return found


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", type=lambda path: str(pathlib.Path(path).resolve()), help="the compiler's command-line program")
    p.add_argument("--only", default="", help="a part of the models' names")
    p.add_argument("--list", action="store_true", help="print the names of the models")
    p.add_argument("--ways", default=";".join(page.WAYS), help="ways to train, parted by semicolons; `speed` and `plan` measure; `all` is all of these")
    p.add_argument("--size", default="reduced", choices=("reduced", "published"), help="published: the models that fit a small machine as they were published")
    p.add_argument("--results", type=pathlib.Path, help="keep rows in this file, and take from it those that are not computed now")
    p.add_argument("--write-page", action="store_true", help="write docs/zoo.md")
    return p.parse_args()


def train(name, size, ways, divisi):
    """The rows of a model, as they come."""
    env = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    command = ["timeout", str(TIMEOUT), sys.executable, str(HERE / "train.py"), divisi, size, name, *ways]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    done = set()
    for line in process.stdout:
        try:
            row = json.loads(line)
        except ValueError:
            continue  # what an exporter prints
        done.add(row["way"])
        yield row
    said = process.stderr.read().strip().splitlines()
    if process.wait():
        yield {"model": name, "size": size, "way": next(way for way in ways if way not in done),
               "failed": f"exit {process.returncode}: {said[-1] if said else 'nothing said'}"}


def judge(row):
    """(ok, text) of a row."""
    refusal = expected.refusal(row["model"], row["way"])
    if "refused" in row:
        return bool(refusal) and refusal in row["refused"], f"refused: {row['refused']}"
    if "failed" in row:
        return False, row["failed"]
    if row["way"] == "plan":
        return True, f"{row['plan_s']} s of processor time"
    if row["way"] == "speed":
        return True, (f"{row['ms']:.2f} ms a step, PyTorch {row['torch_ms']:.2f} ms; {row['memory_mb']:.1f} MB, PyTorch {row['torch_memory_mb']:.1f} MB; "
                      f"other load {row['other_cpu']}")
    text = f"loss error {page.small(row['loss_error'])}, norm {page.small(row['norm_error'])}, change {page.small(row['change_error'])}"
    text += f"; {row['exporter']}, {row['compile_s']} s" + (f"; {row['rounding']}" if "rounding" in row else "")
    if refusal:
        return False, f"{text}; expected.py says that it is refused"
    return row["ok"], text


def main():
    o = arguments()
    chosen = [name for name in names(o.size) if o.only.lower() in name.lower()]
    ways = [*page.WAYS, *page.MEASURED] if o.ways == "all" else o.ways.split(";")
    if unknown := [way for way in ways if way not in (*page.WAYS, *page.MEASURED)]:
        sys.exit(f"zoo.py: no way '{unknown[0]}': {'; '.join((*page.WAYS, *page.MEASURED))}")
    if o.list:
        print("\n".join(chosen))
        return 0
    rows = {}
    if o.results and o.results.is_file():
        rows = {(row["size"], row["model"], row["way"]): row for row in map(json.loads, o.results.read_text().splitlines())}
    passed = failed = 0
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(f"skipped: no model is trained, since this Python has no {', '.join(missing)}: DIVISI_PYTHON names one that has (test/zoo/README.md)")
    elif not o.divisi:
        sys.exit("zoo.py: --divisi names the compiler: build/bin/divisi")
    else:
        for name in chosen:
            for row in train(name, o.size, ways, o.divisi):
                ok, text = judge(row)
                rows[row["size"], row["model"], row["way"]] = row
                passed, failed = passed + ok, failed + (not ok)
                print(f"{'ok  ' if ok else 'FAIL'} {name}, {row['way']}: {text}", flush=True)
                if o.results:
                    o.results.write_text("".join(json.dumps(r) + "\n" for r in rows.values()))
    if o.write_page:
        page.PAGE.write_text(page.text(names("reduced"), names("published"), rows))
    lost = [name for name in names("reduced") if f"| {name} |" not in page.PAGE.read_text()]
    print(f"FAIL docs/zoo.md has no row for {', '.join(lost)}" if lost else "ok   docs/zoo.md has a row for each model")
    passed, failed = passed + (not lost), failed + bool(lost)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
