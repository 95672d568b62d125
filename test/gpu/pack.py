#!/usr/bin/env python3
"""Prepares a folder that `run.py` takes to a machine with a GPU, where nothing is built.

    pack.py --build DIR OUT [--exports FOLDER]

OUT gets programs for GPUs of all test models under each optimizer, and one for two GPUs; their data and PyTorch's losses; with the
folder that test/benchmark/export.py wrote, programs of its models (weights are made there, by --init) and their PyTorch twins; the
shared libraries that the programs need, compressed; run.py. Less than 60 MB, or it fails.
"""

import argparse
import json
import lzma
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
MODELS = HERE.parent / "models"
PEERS = HERE.parent / "benchmark/peers"
MOST_BYTES = 60_000_000
# Part of every Linux.
SYSTEM = re.compile(r"(linux-vdso|ld-linux|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)\.so)")
sys.path.insert(0, str(MODELS))
import check  # noqa: E402


def compile_model(build, model, out, words):
    command = [build / "bin/divisi", "compile", model, "-o", out, "--target", "cuda", "--cuda-arch", "80,90", *words]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"error: {model}: {done.stderr.strip()}")
    subprocess.run(["strip", out], check=True)


def pack_models(build, out):
    """Programs MODEL/OPTIMIZER with their weights, data and reference."""
    for reference in sorted(MODELS.glob("*/reference.json")):
        case, to = reference.parent, out / "models" / reference.parent.name
        to.mkdir(parents=True)
        shutil.copy(reference, to)
        shutil.copytree(case / "data", to / "data")
        what = json.loads(reference.read_text())
        for run in what["runs"]:
            words = check.words(check.OPTIMIZER[run["optimizer"]["name"]], **run["optimizer"])
            if "loss" in what:
                words += check.words(check.FLAGS["loss"], **what["loss"])
            compile_model(build, case / "model.onnx", to / run["optimizer"]["name"], words)
    gpt = MODELS / "gpt_tiny"
    optimizer = json.loads((gpt / "reference.json").read_text())["runs"][0]["optimizer"]
    words = check.words(check.OPTIMIZER[optimizer["name"]], **optimizer)
    compile_model(build, gpt / "model.onnx", out / "models/gpt_tiny/two", [*words, "--mesh", "data=2"])


def pack_speed(build, exports, out):
    for model in sorted(exports.glob("*.onnx")):
        to = out / "speed" / model.stem
        shutil.copytree(exports / model.stem, to)
        loss = [] if model.stem.startswith("gpt2") else ["--loss", "cross_entropy", "--label", "label"]
        compile_model(build, model, to / "program", [*loss, "--optimizer", "sgd", "--momentum", "0.9"])
        (to / "program.safetensors").unlink()
    shutil.copytree(PEERS, out / "peers", ignore=shutil.ignore_patterns("__pycache__"))


def pack_libraries(out):
    folder = out / "lib"
    folder.mkdir()
    wanted = {}
    for program in [p for p in out.rglob("*") if p.is_file() and p.read_bytes()[:4] == b"\x7fELF"]:
        for line in subprocess.run(["ldd", program], capture_output=True, text=True).stdout.splitlines():
            if match := re.match(r"\s*(\S+) => (/\S+)", line):
                if not SYSTEM.match(match[1]) and not match[1].startswith("libmpi"):
                    wanted[match[1]] = pathlib.Path(match[2])
    for name, path in sorted(wanted.items()):
        (folder / (name + ".xz")).write_bytes(lzma.compress(path.read_bytes(), preset=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--exports", type=pathlib.Path, help="folder of test/benchmark/export.py: for the speed part")
    parser.add_argument("out", type=pathlib.Path)
    options = parser.parse_args()
    if options.out.exists():
        sys.exit(f"error: '{options.out}' exists")
    options.out.mkdir(parents=True)
    pack_models(options.build.resolve(), options.out)
    if options.exports:
        pack_speed(options.build.resolve(), options.exports, options.out)
    pack_libraries(options.out)
    shutil.copy(HERE / "run.py", options.out)
    total = sum(p.stat().st_size for p in options.out.rglob("*") if p.is_file())
    print(f"{options.out}: {total / 1e6:.1f} MB")
    return 0 if total < MOST_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())
