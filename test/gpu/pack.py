#!/usr/bin/env python3
"""Prepares a folder for `run.py` on a machine with a GPU, where nothing is built.

    pack.py --build DIR OUT [--exports FOLDER]

OUT gets programs for GPUs of all test models under each optimizer, in bf16, one for two GPUs and one for three; their data and PyTorch's losses;
kernels to measure, with the bytes that each reads and writes; with a folder of models that speed_models.py exported (NAME.onnx),
programs of those (weights and data are made there); all of it compressed, with the shared libraries that the programs need; run.py.
Less than 60 MB, or it fails.
"""

import argparse
import json
import lzma
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
MODELS = HERE.parent / "models"
MOST_BYTES = 60_000_000
# Precisions to measure models of speed_models.py in, other than bf16 alone.
SPEED = {"resnet50": ("bf16", "tf32")}
# Part of every Linux.
SYSTEM = re.compile(r"(linux-vdso|ld-linux|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)\.so)")
sys.path[:0] = [str(MODELS), str(HERE.parent / "benchmark")]
import check  # noqa: E402
import run  # noqa: E402
import traffic  # noqa: E402


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
            if run is what["runs"][0]:
                compile_model(build, case / "model.onnx", to / "bf16", [*words, "--precision", "bf16"])
    gpt = MODELS / "gpt_tiny"
    optimizer = json.loads((gpt / "reference.json").read_text())["runs"][0]["optimizer"]
    words = check.words(check.OPTIMIZER[optimizer["name"]], **optimizer)
    compile_model(build, gpt / "model.onnx", out / "models/gpt_tiny/two", [*words, "--mesh", "data=2"])
    turns = ["--mesh", "stage=2", "--round-robin", "2,1", "--microbatches", "4"]
    compile_model(build, gpt / "model.onnx", out / "models/gpt_tiny/turns", [*words, *turns])


def pack_speed(build, exports, out):
    """Programs MODEL/PRECISION, and MODEL/PRECISION-no-epilogues."""
    for model in sorted(exports.glob("*.onnx")):
        to = out / "speed" / model.stem
        to.mkdir(parents=True)
        rows = run.shapes_of(model.stem)[0][0][0]
        for precision in SPEED.get(model.stem, ("bf16",)):
            words = ["--dim", f"N={rows}", "--optimizer", "sgd", "--momentum", "0.9", "--precision", precision]
            compile_model(build, model, to / precision, words)
            compile_model(build, model, to / f"{precision}-no-epilogues", [*words, "--no-epilogues"])
        for weights in to.glob("*.safetensors"):
            weights.unlink()
    shutil.copy(HERE / "speed_models.py", out)
    (out / "peers").mkdir()
    shutil.copy(HERE.parent / "benchmark/peers/models.py", out / "peers")


def pack_kernels(build, out):
    """Programs kernels/NAME, and NAME.json: kind and bytes of each call of a step."""
    folder = out / "kernels"
    folder.mkdir()
    for model in sorted((HERE / "kernels").glob("*.mlir")):
        compile_model(build, model, folder / model.stem, ["--optimizer", "sgd"])
        (folder / f"{model.stem}.safetensors").unlink(missing_ok=True)
        dump = folder / "dump.mlir"
        command = [build / "bin/divisi", "compile", model, "--optimizer", "sgd", "--target", "cuda", "--emit", "exec", "-o", dump]
        subprocess.run(list(map(str, command)), check=True)
        calls = [[kind, bytes_] for kind, bytes_, together in traffic.calls(dump) if not together]
        (folder / f"{model.stem}.json").write_text(json.dumps(calls))
        dump.unlink()


def archive(out):
    """All that lies in OUT as one programs.tar.xz: programs are large, but most of each is in all of them."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 128 << 20}]
    folders = [path for path in sorted(out.iterdir()) if path.is_dir()]
    with lzma.open(out / "programs.tar.xz", "wb", filters=filters) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        for folder in folders:
            tar.add(folder, folder.name)
    for folder in folders:
        shutil.rmtree(folder)


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
        shutil.copy(path, folder / name)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--exports", type=pathlib.Path, help="folder of NAME.onnx by speed_models.py: for the speed part")
    parser.add_argument("out", type=pathlib.Path)
    options = parser.parse_args()
    if options.out.exists():
        sys.exit(f"error: '{options.out}' exists")
    options.out.mkdir(parents=True)
    pack_models(options.build.resolve(), options.out)
    pack_kernels(options.build.resolve(), options.out)
    if options.exports:
        pack_speed(options.build.resolve(), options.exports, options.out)
    pack_libraries(options.out)
    archive(options.out)
    for script in ("run.py", "launch.py"):
        shutil.copy(HERE / script, options.out)
    total = sum(p.stat().st_size for p in options.out.rglob("*") if p.is_file())
    print(f"{options.out}: {total / 1e6:.1f} MB")
    return 0 if total < MOST_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())
