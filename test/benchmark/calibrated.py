#!/usr/bin/env python3
"""Compares the time of a step that Divisi expects without any profile, by the figures of this machine that it measured once, with the measured one.

    calibrated.py --divisi PATH [--only NAMES] [--ranks 1,2] [--rounds 3]

Models of examples/large-graphs/make_graph.py and of test/models; on several ranks by --strategy data and operator. A round runs every program once,
one after the other; the median of their steps' medians counts. Prints each model's expected and measured milliseconds, the error, and the median and largest one.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models"))
sys.dont_write_bytecode = True
from plan_files import loss_flags  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
GRAPHS = {  # name: (make_graph.py's words, batch, steps)
    "gpt": ("gpt --layers 4 --hidden 256 --heads 4 --vocab 8192 --seq 128", 8, 15),
    "mlp": ("mlp --layers 3 --hidden 1024 --inputs 784 --classes 10", 256, 80),
    "vgg": ("vgg --channels 32 --hidden 512 --image 32 --classes 10", 32, 20),
    "wide_resnet": ("wide-resnet --depth 26 --width 2 --channels 16 --image 32 --classes 10", 32, 10),
    "moe": ("moe --layers 2 --hidden 256 --inner 1024 --experts 4 --heads 4 --group 128 --vocab 1024 --seq 128", 8, 15),
}
TINY = ["gpt_tiny", "lenet", "resnet_tiny"]


def compile_flags(name, folder):
    """(model and its flags, steps)"""
    if name in TINY:
        case = ROOT / "test/models" / name
        return [case / "model.onnx", *loss_flags(case)], 300
    words, batch, steps = GRAPHS[name]
    file = folder / f"{name}.onnx"
    subprocess.run([sys.executable, "-B", ROOT / "examples/large-graphs/make_graph.py", *words.split(), "--weights", "random",
                    "--location", f"{name}.bin", "-o", file], check=True, capture_output=True)  # fmt: skip
    return [file, "--dim", f"batch={batch}"], steps


def random_data(program, folder):
    """Flags that feed a program with random rows."""
    inputs = json.loads(subprocess.run([program, "--describe", "json"], check=True, capture_output=True, text=True).stdout)["inputs"]
    generator, flags = np.random.default_rng(0), []
    for entry in inputs:
        shape = [entry["shape"][0] * 4, *entry["shape"][1:]]
        values = generator.integers(0, 2, shape) if entry["dtype"] == "I64" else generator.normal(size=shape).astype(np.float32)
        file = folder / f"{program.name}.{entry['name']}.npy"
        np.save(file, values)
        flags += ["--data", f"{entry['name']}={file}"]
    return flags


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--divisi", required=True)
    parser.add_argument("--only", default=",".join([*GRAPHS, *TINY]))
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--rounds", type=int, default=3)
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        os.environ["DIVISI_PROFILE"], os.environ["DIVISI_CALIBRATION"] = str(folder / "none.json"), str(folder / "calibration.json")
        subprocess.run([o.divisi, "plan", ROOT / "test/passes/Planning/two-layers.mlir", "--cluster", "cpu:2"], check=True, stdout=subprocess.DEVNULL)
        jobs = []
        for model in o.only.split(","):
            words, steps = compile_flags(model, folder)
            for ranks in map(int, o.ranks.split(",")):
                for way in ["data", "operator"] if ranks > 1 else [""]:
                    program = folder / f"{model}{ranks}{way}"
                    split = ["--devices", str(ranks), "--strategy", way] if way else []
                    subprocess.run([o.divisi, "compile", *words, *split, "-o", program], check=True, capture_output=True)
                    start = [o.divisi, "run", "--devices", str(ranks), program] if way else [program]
                    jobs.append((f"{model}, {way or 'one device'}", [*start, *random_data(program, folder), "--steps", str(steps)], []))
        for _ in range(o.rounds):
            for _, command, heads in jobs:
                file = folder / "run.jsonl"
                file.unlink(missing_ok=True)
                subprocess.run([*map(str, command), "--lr", "0", "--quiet", "--profile", file], check=True, capture_output=True)
                heads.append(json.loads(file.read_text().split("\n", 1)[0]))
        errors = []
        for job, _, heads in jobs:
            expected, measured = heads[0]["expected_us"] / 1e3, statistics.median(head["us"] for head in heads) / 1e3
            errors.append(abs(expected / measured - 1))
            print(f"{job:28} expected {expected:9.3f} ms  measured {measured:9.3f} ms  {100 * (expected / measured - 1):+6.1f} %")
        print(f"median error {100 * statistics.median(errors):.1f} %, largest {100 * max(errors):.1f} %")


if __name__ == "__main__":
    main()
