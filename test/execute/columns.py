#!/usr/bin/env python3
"""Training from CSV files: the losses of .npy files, bit by bit, on one rank and two, and after a resume.

    columns.py --divisi PATH

Needs NumPy. Ends with `N passed, N failed`.
"""

import argparse
import pathlib
import subprocess
import sys

import numpy as np

import cases
from ranks import losses

MODEL = pathlib.Path(__file__).resolve().parent.parent / "models/mlp"
STEPS, EPOCH = 20, 8


def check(divisi, work):
    x, label = (np.load(MODEL / "data" / f"{name}.npy") for name in ("x", "label"))
    x, label = np.tile(x, (4, 1))[: 12 * EPOCH + 5], np.tile(label, 4)[: 12 * EPOCH + 5]
    x[:, 0] += np.arange(len(x))
    columns = [f"x{i}" for i in range(x.shape[1])]
    rows = [",".join(["id", *columns, "note", "label"])]
    rows += [",".join([str(i), *(f"{v:.9g}" for v in row), f'"say ""{i}"", and\nmore"', str(c)]) for i, (row, c) in enumerate(zip(x, label))]
    (work / "all.csv").write_text("\n".join(rows) + "\n")
    np.save(work / "x.npy", x)
    np.save(work / "label.npy", label)
    for ranks, flags in ((1, []), (2, ["--devices", "2", "--strategy", "data"])):
        program = work / f"program{ranks}"
        subprocess.run([divisi, "compile", MODEL / "model.onnx", "-o", program, "--optimizer", "adamw", "--lr", "1e-3", *flags], check=True, stderr=subprocess.DEVNULL)
        start = [divisi, "run", "--devices", "2"] if ranks > 1 else []

        def train(files, *flags):
            (work / "log").unlink(missing_ok=True)
            data = [w for flag in ("--data", "--eval") for file in files for w in (flag, file)]
            subprocess.run([*start, program, *data, "--quiet", "--threads", "1", "--log", work / "log", *map(str, flags)], check=True)
            evaluations = [line.partition('"loss":')[2].partition(",")[0] for line in (work / "log").read_text().splitlines() if '"eval":true' in line]
            return losses(work / "log"), evaluations

        csv, npy = [f"x={work}/all.csv:x*", f"label={work}/all.csv"], [f"x={work}/x.npy", f"label={work}/label.npy"]
        got, want = train(csv, "--no-shuffle", "--steps", STEPS), train(npy, "--no-shuffle", "--steps", STEPS)
        assert got == want and len(got[0]) == STEPS and len(got[1]) >= 2, f"{got} and of arrays {want}"
        yield f"{ranks} ranks: {STEPS} losses, {len(got[1])} evaluations as of arrays"
        whole, _ = train(csv, "--steps", STEPS)
        assert whole != got[0], "the rows are not shuffled"
        keep = ["--checkpoint", work / f"checkpoints{ranks}", "--every", 11]
        first, _ = train(csv, "--steps", 11, *keep)
        rest, _ = train(csv, "--steps", STEPS, *keep, "--resume")
        assert first | rest == whole and min(rest) == 12, f"{first} and {rest}, undisturbed {whole}"
        yield f"{ranks} ranks: resumed with the same losses"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    o = p.parse_args()
    return cases.run([check], lambda case, work: case(o.divisi, work))


if __name__ == "__main__":
    sys.exit(main())
