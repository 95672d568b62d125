#!/usr/bin/env python3
"""The parts of a training program's identity, by which --resume distinguishes programs (`--describe json`).

    meaning.py --divisi PATH

Devices, plans, processors, the learning rate and its schedule, and the level of a dump from which compilation goes on are
not; functions, constants, what trains, the optimizer with its constants and the arithmetic are. Needs only Python. Ends
with `N passed, N failed`.
"""

import argparse
import json
import pathlib
import subprocess
import sys

import cases

MODELS = pathlib.Path(__file__).resolve().parent.parent / "models"
MLP, RESNET = str(MODELS / "mlp" / "model.onnx"), str(MODELS / "resnet_tiny" / "model.onnx")
ADAMW = ["--optimizer", "adamw"]


def meaning(divisi, work, model, *flags):
    """The parts of the identity of a program."""
    subprocess.run([divisi, "compile", str(model), "-o", str(work / "p"), *flags], check=True, stderr=subprocess.DEVNULL)
    said = subprocess.run([str(work / "p"), "--describe", "json"], check=True, capture_output=True, text=True).stdout
    program = json.loads(said)["program"]
    assert set(program) == {"model", "optimizer", "numerics"}, program
    return program


def dump(divisi, path, level, *flags):
    subprocess.run([divisi, "compile", MLP, "--emit", level, "-o", str(path), *flags], check=True)
    return path.read_text()


def same(divisi, work):
    expected, found = meaning(divisi, work, MLP, *ADAMW), 0
    ways = [
        ["--lr", "0.5", "--lr-schedule", "cosine", "--warmup-steps", "3"],
        ["--cpu", "x86-64-v3"],
        ["--target", "cpu,cuda"],
        ["--devices", "2", "--strategy", "data"],
        ["--devices", "2", "--strategy", "operator"],
        ["--devices", "2"],
        ["--mesh", "data=2,model=2", "--zero", "1"],
        ["--mesh", "stage=2", "--microbatches", "4"],
        ["--mesh", "stage=2,data=2", "--microbatches", "2", "--schedule", "gpipe"],
        ["--microbatches", "4"],
        ["--remat", "all"],
    ]
    for flags in ways:
        got = meaning(divisi, work, MLP, *ADAMW, *flags)
        assert got == expected, f"{' '.join(flags)}: {got}, not {expected}"
        found += 1
    split = ["--mesh", "data=2,model=2"]
    for level, flags in (("graph", []), ("train", []), ("planned", split), ("dist", split), ("exec", split), ("exec", [])):
        path = work / f"{level}.mlir"
        dump(divisi, path, level, *ADAMW, *flags)
        got = meaning(divisi, work, path, *(ADAMW if level == "graph" else []))
        assert got == expected, f"from a dump at {level}: {got}, not {expected}"
        found += 1
    text = dump(divisi, work / "names.mlir", "graph")
    (work / "names.mlir").write_text(text.replace("%", "%a_name_") + "\n")
    assert meaning(divisi, work, work / "names.mlir", *ADAMW) == expected, "names of values count"
    return f"{found + 1} ways"


def different(divisi, work):
    expected = meaning(divisi, work, MLP, *ADAMW)
    changes = {
        "optimizer": [["--weight-decay", "0.1"], ["--beta1", "0.8"], ["--eps", "1e-7"], ["--clip-norm", "1"],
                      ["--lr-factor", "fc.0.*=0.5"], ["--weight-decay", "0.1", "--no-decay", "*.bias"],
                      ["--optimizer", "adam"], ["--optimizer", "rmsprop", "--centered"], ["--optimizer", "sgd", "--momentum", "0.9"],
                      ["--optimizer", "adafactor"], ["--optimizer", "muon", "--adamw", "fc.0.*"], ["--ema", "0.9"]],
        "numerics": [["--precision", "bf16"], ["--mesh", "stage=2", "--schedule", "pipedream"]],
        "model": [["--freeze", "*bias"]],
    }
    count = 0
    for part, ways in changes.items():
        for flags in ways:
            got = meaning(divisi, work, MLP, *([] if "--optimizer" in flags else ADAMW), *flags)
            others = {p for p in got if got[p] != expected[p]}
            assert others == {part}, f"{' '.join(flags)}: {others} differ"
            count += 1
    text = dump(divisi, work / "graph.mlir", "graph")
    for old, new in (("graph.relu", "graph.tanh"), ("graph.reduce_sum", "graph.reduce_max")):
        assert old in text, old
        (work / "other.mlir").write_text(text.replace(old, new, 1))
        got = meaning(divisi, work, work / "other.mlir", *ADAMW)
        assert got["model"] != expected["model"] and got["optimizer"] == expected["optimizer"], f"{old} became {new}"
        count += 1
    # An edited dump is another program, at every level.
    for level, old, new in (("train", "graph.add", "graph.sub"), ("exec", "graph.add", "graph.sub")):
        text = dump(divisi, work / "edited.mlir", level, *ADAMW)
        at = text.index(old, len(text) // 2)
        (work / "edited.mlir").write_text(text[:at] + new + text[at + len(old):])
        got = meaning(divisi, work, work / "edited.mlir")
        assert got["model"] != expected["model"], f"an edited dump at {level} is the same program"
        count += 1
    return f"{count} ways"


def batch_norm(divisi, work):
    flags = ["--optimizer", "sgd"]
    whole, parts = meaning(divisi, work, RESNET, *flags), meaning(divisi, work, RESNET, *flags, "--microbatches", "2")
    assert whole["numerics"] == "fp32", whole
    assert parts == {**whole, "numerics": "fp32 with batch norm over each of 2 parts of the batch"}, parts
    assert meaning(divisi, work, RESNET, *flags, "--devices", "2", "--strategy", "data") == whole
    return "counts where statistics are those of a part of the batch"


def resumed(divisi, work):
    """The program refuses, names the part, and resumes with --resume-anyway."""
    data = [w for n in ("x", "label") for w in ("--data", f"{n}={MODELS / 'mlp' / 'data' / n}.npy")]

    def run(program, *flags):
        return subprocess.run([str(program), *data, "--checkpoint", str(work / "ck"), *flags], capture_output=True, text=True)

    text = dump(divisi, work / "graph.mlir", "graph")
    (work / "tanh.mlir").write_text(text.replace("graph.relu", "graph.tanh", 1))
    for name, model, flags in (("a", "graph.mlir", []), ("tanh", "tanh.mlir", []),
                               ("decay", "graph.mlir", ["--weight-decay", "0.1"])):
        subprocess.run([divisi, "compile", str(work / model), "-o", str(work / name), *ADAMW, *flags], check=True)
    first = run(work / "a", "--init", "1", "--steps", "5")
    assert first.returncode == 0, first.stderr
    for name, part in (("tanh", "its model is sha256:"), ("decay", "its optimizer is adamw beta1 0.9 beta2 0.999")):
        refused = run(work / name, "--resume", "--steps", "9")
        assert refused.returncode == 1 and part in refused.stderr and refused.stderr.count("\n") == 1, refused.stderr
    assert run(work / "a", "--resume", "--steps", "6").returncode == 0
    anyway = run(work / "decay", "--resume", "--resume-anyway", "--steps", "9")
    assert anyway.returncode == 0 and "resumed from" in anyway.stdout, anyway.stderr
    return "refused with the part that differs"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    o = p.parse_args()
    return cases.run((same, different, batch_norm, resumed), lambda case, work: case(o.divisi, work))


if __name__ == "__main__":
    sys.exit(main())
