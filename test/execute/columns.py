#!/usr/bin/env python3
"""Training from CSV files: the losses of .npy files, bit by bit, on one rank and two, and after a resume.

    columns.py --divisi PATH

The rows of random texts are those of Python's csv module. Needs NumPy and onnx. Ends with `N passed, N failed`.
"""

import argparse
import csv
import io
import pathlib
import re
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper

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


def make_model(path):
    """out = (x * 1) w, with x * 1, whose factor trains, as an output: the rows that the program was fed."""
    weights = {"scale": np.ones(1, "float32"), "w": np.ones((2, 2), "float32")}
    nodes = [helper.make_node("Mul", ["x", "scale"], ["rows"]), helper.make_node("MatMul", ["rows", "w"], ["out"])]
    inputs, *outputs = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2]) for name in ("x", "out", "rows"))
    graph = helper.make_graph(nodes, "rows", [inputs], outputs, [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def rows_of(text):
    """The columns a and b as the csv module reads them; None for what is to be refused: open quotes, missing fields, what is no number."""
    if list(csv.reader(io.StringIO(text + "\nend", newline="")))[-1] != ["end"]:
        return None  # open quotes
    rows = list(csv.reader(io.StringIO(text, newline="")))[1:]
    while rows and not rows[-1]:
        rows.pop()  # empty lines at the end
    fields = [field.strip(" ") for row in rows if len(row) == 3 for field in row[:2]]
    if not rows or len(fields) != 2 * len(rows) or not all(re.fullmatch(r"\d+", field) for field in fields):
        return None
    return np.array(fields, "float32").reshape(-1, 2)


def quotes(divisi, work):
    """Random texts, half of them quoted: the rows are those of Python's csv module, or the file is refused."""
    make_model(work / "rows.onnx")
    flags = ["--loss", "mse", "--label", "y", "--output", "out", "--predict", "rows", "--optimizer", "sgd", "--lr", "0.1"]
    subprocess.run([divisi, "compile", work / "rows.onnx", "-o", work / "program", *flags], check=True, stderr=subprocess.DEVNULL)
    draw, read, refused = np.random.default_rng(1), 0, 0
    pieces = ['"', '"', '"', '""', ",", "\n", "\r\n", " ", "7", "x"]
    for number in range(300):
        text = "a,b,c\n"
        for i in range(int(draw.integers(1, 5))):
            note = "".join(draw.choice(pieces, int(draw.integers(0, 6))))
            note = '"' + note.replace('"', '""') + '"' if draw.integers(2) else note
            cells = [str(draw.choice(["{}", '"{}"', " {}", '"{}" '])).format(10 * i + c) for c in range(2)]
            text += ",".join([*cells, note] if number % 4 else [note, *cells]) + str(draw.choice(["\n", "\r\n"]))
        (work / "all.csv").write_bytes(text.encode())
        wanted = rows_of(text)
        command = [work / "program", "--data", f"x={work}/all.csv:a,b", "--predict", work / "rows.npy", "--quiet", "--threads", "1"]
        done = subprocess.run(command, capture_output=True, text=True)
        if wanted is None:
            assert done.returncode == 1 and done.stderr.startswith("error: "), f"{text!r} is not refused: {done.stderr}"
            refused += 1
        else:
            assert done.returncode == 0 and np.array_equal(np.load(work / "rows.npy"), wanted), f"{text!r}: {done.stderr} instead of {wanted}"
            read += 1
    assert read > 50 and refused > 50, f"{read} read, {refused} refused"
    return f"{read} random texts with the rows of the csv module, {refused} refused"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    o = p.parse_args()
    return cases.run([check, quotes], lambda case, work: case(o.divisi, work))


if __name__ == "__main__":
    sys.exit(main())
