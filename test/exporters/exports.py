#!/usr/bin/env python3
"""Trains what PyTorch's exporters write, and compares with what PyTorch trains.

    exports.py --divisi PATH [--only SUBSTRING] [--jobs N]

A line for each file: it is refused with the remedy, or its trained tensors are PyTorch's and so are the losses of 12 steps, and the
expected warnings are printed and no others. Ends with `N passed, N failed`. Needs only numpy.
"""

import json
import pathlib
import re
import subprocess
import sys
import types

import numpy as np

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "models"))
import check  # noqa: E402
import lines  # noqa: E402

REMEDY = "optimize=False"  # a part of every message that says how to export


class Tester:
    def __init__(self, divisi):
        self.options = types.SimpleNamespace(divisi=divisi, devices=1, launcher="local", strategy=None, run_args="", compile_args="", tolerance=1e-4)

    def compile(self, file, *flags):
        """(exit code, standard output, what is said on standard error)."""
        done = subprocess.run([self.options.divisi, "compile", str(file), *flags], capture_output=True, text=True, timeout=300)
        return done.returncode, done.stdout, done.stderr.strip()

    def listed(self, file, flags, expected):
        """(ok, text): whether the list of trained tensors is PyTorch's, without the parameters that flags freeze."""
        _, out, _ = self.compile(file, "--list-parameters", "--json", *flags)
        got = sorted(row["name"] for row in json.loads(out) if row["trains"])
        return (True, f"{len(got)} tensors train") if got == expected else (False, f"trains {got}, expected {expected}")

    def test(self, case, exporter, expected, work):
        """(ok, text) for each property of a file that is tested."""
        file = HERE / case / f"{exporter}.onnx"
        ref = json.loads((HERE / case / "reference.json").read_text())
        flags = expected.get("flags", "").split()
        code, graph, said = self.compile(file, "--emit=graph", *flags)
        if "refused" in expected:
            yield code == 1 and expected["refused"] in said and REMEDY in said, f"refused: {said[:600]}" if code else "is not refused"
            return
        if code:
            yield False, f"exit {code}: {said}"
            return
        yield self.listed(file, flags, expected["trains"])
        wanted = expected.get("warnings", [])
        yield all(text in said for text in wanted) and bool(said) == bool(wanted), f"says {said[:600]!r}" if said else "says nothing"
        if "dropouts" in expected:
            count = len(re.findall(r"graph\.dropout", graph))
            yield count == expected["dropouts"], f"{count} dropouts"
        if expected.get("differs"):  # by random numbers
            return
        for run in ref["runs"]:
            options = types.SimpleNamespace(**vars(self.options) | {"model": file.name, "compile_args": " ".join(flags)})
            folder = work / run["optimizer"]["name"]
            folder.mkdir()
            prog, log = folder / "prog", folder / "log.jsonl"
            wrong = check.build(HERE / case, ref, run["optimizer"], options, prog)
            wrong = wrong or check.train(HERE / case, ref, ref["steps"], options, prog, log, folder / "out.safetensors")
            yield (False, wrong) if wrong else check.compare_losses(check.read_losses(log), run["losses"], options)

    def saved(self, work):
        """(ok, text): a program that starts from random parameters keeps buffers, and saves a model with the same tensors."""
        case = HERE / "buffers"
        prog, saved = work / "prog", work / "saved.onnx"
        code, _, said = self.compile(case / "dynamo.onnx", "-o", str(prog))
        ref = json.loads((case / "reference.json").read_text())
        data = [word for name in ref["inputs"] for word in ("--data", f"{name}={case / 'data' / name}.npy")]
        lines.call(prog, *data, "--steps", 2, "--init", 3, "--save", saved, "--save-weights", work / "w.safetensors")
        norms = check.read_norms(work / "w.safetensors")
        wanted = {"pe": 32**0.5, "betas": float(np.linalg.norm(np.linspace(0.01, 0.2, 8)))}  # 32 pairs of sine and cosine
        for name, norm in wanted.items():
            yield abs(norms.get(name, 0) - norm) < 1e-5, f"norm of {name}: {norms.get(name)}, by its definition {norm:.6f}"
        before, after = (self.compile(file, "--list-parameters")[1].splitlines() for file in (case / "dynamo.onnx", saved))
        floats = [sorted(line for line in rows if "f32" in line) for rows in (before, after)]
        yield floats[0] == floats[1] and len(floats[0]) > 8, f"{len(floats[1])} tensors in the saved model are those of the file"

    def lines(self):
        yield "buffers saved", self.saved
        for reference in sorted(HERE.glob("*/reference.json")):
            case = reference.parent.name
            for exporter, expected in json.loads(reference.read_text())["files"].items():
                yield f"{case} {exporter}", lambda work, c=case, e=exporter, x=expected: [
                    (ok, f"{text}") for ok, text in self.test(c, e, x, work)]


if __name__ == "__main__":
    options = lines.parser(__doc__.splitlines()[0]).parse_args()
    sys.exit(lines.run(list(Tester(options.divisi).lines()), options))
