#!/usr/bin/env python3
"""--find-lr: its rates are those of the formula, its advice is that of the losses in its log, and nothing is saved.

    rate_finder.py --divisi PATH [--only ranks] [--jobs N]

Needs numpy; ends with `N passed, N failed`.
"""

import json
import math
import pathlib
import re
import sys

import numpy as np

SOURCE = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SOURCE / "models"))
import lines  # noqa: E402

CASE = SOURCE / "models" / "mlp"
KEPT, LOWEST, HIGHEST, DIVERGES = 0.9, 1e-7, 10, 4


def advice(rates, losses):
    """(rate of the steepest fall, rate of the least loss, number of steps) of the smoothed losses."""
    average, smooth = 0, []
    for i, loss in enumerate(losses):
        if not math.isfinite(loss):
            break
        average = KEPT * average + (1 - KEPT) * loss
        smooth.append(average / (1 - KEPT ** (i + 1)))
        if len(smooth) >= 10 and smooth[-1] > DIVERGES * min(smooth):
            break
    falls = [smooth[i - 1] - smooth[i + 1] for i in range(1, len(smooth) - 1)]
    return rates[1 + int(np.argmax(falls))], rates[int(np.argmin(smooth))], i + 1


def check(divisi, folder, flags, steps):
    lines.call(divisi, "compile", CASE / "model.onnx", "-o", folder / "p", *flags)
    files = [f"--data={name}={CASE / 'data' / name}.npy" for name in ("x", "label")]
    before = sorted(folder.iterdir())
    start = [divisi, "run", "--devices", "2"] if flags else []
    said = lines.call(*start, folder / "p", *files, "--find-lr", *(["--steps", steps] if steps else []), "--log", folder / "log")
    yield sorted(folder.iterdir()) == sorted([*before, folder / "log"]), "nothing is saved"
    rows = [json.loads(line) for line in (folder / "log").read_text().splitlines()]
    rates, losses = [row["lr"] for row in rows], [math.nan if row["loss"] is None else row["loss"] for row in rows]
    total = steps or 100
    wanted = [LOWEST * (HIGHEST / LOWEST) ** (i / (total - 1)) for i in range(len(rates))]
    yield np.allclose(rates, wanted, rtol=1e-6), "rates"
    steepest, best, count = advice(rates, losses)
    yield count == len(rows), f"{len(rows)} steps, expected {count}"
    found = re.search(r"falls fastest at --lr (\S+) and is least, \S+, at (\S+): take the first, or a tenth of the second, (\S+)", said)
    yield bool(found) and np.allclose([float(n) for n in found.groups()], [steepest, best, best / 10], rtol=1e-5), f"advice: {said.strip().splitlines()[-1]}"


def refusals(divisi, folder):
    lines.call(divisi, "compile", CASE / "model.onnx", "-o", folder / "p")
    for flags in (["--checkpoint", "c"], ["--save", "m.onnx"], ["--epochs", "2"], ["--eval-only"]):
        code, said = lines.refusal(folder / "p", "--find-lr", *flags)
        yield code != 0 and "excludes" in said, f"{flags[0]}: {said[-100:]}"


def main():
    o = lines.parser(__doc__.splitlines()[0]).parse_args()
    runs = {"alone": ([], None), "60 steps": ([], 60), "ranks": (["--mesh", "data=2"], None)}
    tests = [(name, lambda folder, run=run: check(o.divisi, folder, *run)) for name, run in runs.items()]
    return lines.run([*tests, ("refusals", lambda folder: refusals(o.divisi, folder))], o)


if __name__ == "__main__":
    sys.exit(main())
