#!/usr/bin/env python3
"""Fuzzes the parsers of runtime and compiler under address and undefined behaviour sanitizers, in builds of their own (clang++-22,
libFuzzer).

    parsers.py [--inputs 100000] [--only npy,onnx] [--build FOLDER] [--corpus FOLDER] [--jobs 2]

Begins with the corpora in parsers/corpus and compiler/corpus, and with the dumps that the tests hold; with --corpus what is found to be new is kept, and the next run goes on from there. Prints
inputs, findings and line coverage of each parser's files; ends with `N passed, N failed`. A finding's input stays in the build folder.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import warnings

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MOST_BYTES = 4096  # of an input: every limit of a format is reached with fewer
OTHER_BYTES = {"csv": 1024, "dump": 8192, "environment": 1024, "frames": 512, "log": 1024, "onnx": 8192, "options": 1024}
# LLVM is not instrumented, nor are its allocators, which mark memory where their instrumented half is inlined. Long stacks of allocations and
# much freed memory take a third of the time: a finding is run again without these limits.
ASAN_OPTIONS = "detect_container_overflow=0:allow_user_poisoning=0:malloc_context_size=2:quarantine_size_mb=16"
# The files that each fuzzer must cover.
FILES = {
    "checkpoint": ["runtime/checkpoint/CheckpointManifest.cpp", "runtime/checkpoint/CheckpointReader.cpp", "runtime/checkpoint/CheckedFile.cpp"],
    "csv": ["runtime/data/CsvFile.cpp"],
    "environment": ["runtime/comm/LocalRank.cpp", "runtime/main/Delay.cpp"],  # and functions of Rendezvous.cpp and Secret.cpp
    "frames": ["runtime/comm/tcp/TcpTransport.cpp"],
    "handshake": ["runtime/comm/tcp/Handshake.cpp"],
    "image": ["runtime/data/images/Decode.cpp", "runtime/data/images/Jpeg.cpp", "runtime/data/images/Png.cpp"],
    "log": [],  # a function of Log.cpp; the rest of that file writes
    "manifest": ["runtime/core/ManifestParser.cpp", "runtime/core/Json.cpp"],
    "npy": ["runtime/data/NpyFile.cpp"],
    "options": ["runtime/main/Options.cpp"],
    "ring": ["runtime/data/BatchRing.cpp"],
    "safetensors": ["runtime/checkpoint/Safetensors.cpp"],
    "tar": ["runtime/data/images/TarReader.cpp", "runtime/data/images/TarImages.cpp"],
    "tokens": ["runtime/data/TokenFiles.cpp"],
}
# The same of the compiler.
COMPILER_FILES = {
    "calibration": ["compiler/Profile/Calibrations.cpp", "compiler/Profile/JsonFile.cpp"],
    "cluster": ["passes/Planning/Cost/ClusterFile.cpp", "passes/Planning/Cost/Quantity.cpp"],
    "dump": ["passes/Planning/ParseDump.cpp", "passes/Planning/Nesting.cpp", "dialects/Dist", "dialects/Exec/Exec.cpp", "dialects/Graph"],
    "layers": ["passes/Planning/Pipeline/LayerProfile.cpp", "passes/Planning/Pipeline/GraphText.cpp"],
    "noise": ["compiler/Report/BatchAdvice.cpp"],
    "onnx": ["compiler/Import"],
    "plan": ["compiler/PlanFile.cpp", "dialects/Dist/Plan.cpp", "dialects/Dist/StageAxes.cpp"],
    "profile": ["compiler/Profile/Database.cpp"],
    "stages": ["passes/Planning/Pipeline/StageFile.cpp"],
}


def folder_of(o, name):
    """Where a fuzzer is built."""
    return o.build / "compiler" if name in COMPILER_FILES else o.build


def build(o, names):
    """Makes the fuzzers; ends the program where that fails."""
    clang = shutil.which("clang++-22") or sys.exit("no clang++-22: apt-get install clang-22 libclang-rt-22-dev llvm-22")
    for files, source, flags in (FILES, HERE / "parsers", []), (COMPILER_FILES, ROOT, ["-DDIVISI_SANITIZE=fuzzer", "-DCMAKE_C_COMPILER=clang-22"]):
        wanted = [name for name in names if name in files]
        if not wanted:
            continue
        folder = folder_of(o, wanted[0])
        commands = [
            ["cmake", "-S", source, "-B", folder, "-G", "Ninja", f"-DCMAKE_CXX_COMPILER={clang}", *flags],
            ["cmake", "--build", folder, "--parallel", o.jobs, "--target", *(f"fuzz_{name}" for name in wanted)],
        ]
        for command in commands:
            done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode:
                sys.exit(done.stdout[-4000:])


def write_dumps(folder):
    """The modules of the tests, one in each file."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in sorted((ROOT / "test").rglob("*.mlir")):
        for number, module in enumerate(file.read_text().split("// -----")):
            text = "\n".join(line for line in module.splitlines() if not line.lstrip().startswith("//"))
            if text.strip() and len(text) < OTHER_BYTES["dump"]:
                (folder / f"{file.stem}-{number}").write_text(text + "\n")
    return folder


def write_models(folder):
    """ONNX's own tests of its operators, those of onnxruntime's, models with optimizers, and files of PyTorch's exporters."""
    sys.path += [str(ROOT / "test/onnx"), str(ROOT / "test/execute")]
    import cases
    import contrib
    import training_info
    warnings.filterwarnings("ignore")  # of numbers out of range, which are wanted
    folder.mkdir(parents=True, exist_ok=True)
    models = {case.name: case.model.SerializeToString() for case in cases.collect() if not case.skip}
    models |= {f"contrib-{name}": contrib.make(name).model.SerializeToString() for name in contrib.CASES}
    for kind in training_info.OPTIMIZERS:
        training_info.make(kind, folder / f"training-{kind}", training_info.initial())
    models |= {f"{path.parent.name}-{path.stem}": path.read_bytes() for path in sorted((ROOT / "test/exporters").glob("*/*.onnx"))}
    for name, model in models.items():
        if len(model) < OTHER_BYTES["onnx"]:
            (folder / name).write_bytes(model)
    return folder


def coverage(program, profile, files):
    """The share of the lines of some files that were run, and that of the functions that were entered, as text. (Files of
    operations also hold what training and planning call, which no parser enters.)"""
    raw, data = profile, profile.with_suffix(".profdata")
    subprocess.run(["llvm-profdata-22", "merge", "-sparse", raw, "-o", data], check=True)
    of = [f"-instr-profile={data}", program, *(ROOT / f for f in files)]
    done = subprocess.run(["llvm-cov-22", "export", "-summary-only", *of], check=True, stdout=subprocess.PIPE, text=True)
    lines = json.loads(done.stdout)["data"][0]["totals"]["lines"]
    done = subprocess.run(["llvm-cov-22", "report", "-show-functions", *of], check=True, stdout=subprocess.PIPE, text=True)
    # name, then regions, missed ones and their share, and the same of lines
    rows = [re.split(r"\s+", row) for row in re.findall(r"^(\S+(?:\s+\d+\s+\d+\s+[\d.]+%){2}).*$", done.stdout, re.MULTILINE)]
    functions = [(int(row[4]), int(row[5])) for row in rows if row[0] != "TOTAL"]
    entered = [(count, missed) for count, missed in functions if missed < count]
    count, missed = (sum(column) for column in zip(*entered, strict=True))
    return (f", {100 * lines['covered'] / lines['count']:.1f} % of {lines['count']} lines, {100 * (count - missed) / count:.1f} % of the {count} lines "
            f"of the {len(entered)} of {len(functions)} functions that were entered")


SEEDS = {"dump": write_dumps, "onnx": write_models}


def fuzz(name, o):
    """(inputs, what was found or "", coverage as text)."""
    kept = (o.corpus or o.build / "corpus") / name
    kept.mkdir(parents=True, exist_ok=True)
    profile = o.build / f"{name}.profraw"
    compiler = name in COMPILER_FILES
    program = folder_of(o, name) / ("bin" if compiler else ".") / f"fuzz_{name}"
    begin = [folder for folder in (HERE / ("compiler" if compiler else "parsers") / "corpus" / name,) if folder.is_dir()]
    if name in SEEDS:
        begin.append(SEEDS[name](o.build / f"{name}-seeds"))
    command = [program, kept, *begin, f"-runs={o.inputs}", f"-max_len={OTHER_BYTES.get(name, MOST_BYTES)}", "-timeout=20",
               "-rss_limit_mb=2048", f"-artifact_prefix={o.build}/{name}-", f"-seed={o.seed}", f"-use_value_profile={int(not compiler)}",
               "-print_final_stats=1", "-verbosity=0"]
    environment = {**os.environ, "LLVM_PROFILE_FILE": str(profile), "ASAN_OPTIONS": ASAN_OPTIONS}
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", env=environment)
    count = re.search(r"number_of_executed_units:\s*(\d+)", done.stdout)
    wrong = ""
    if done.returncode:
        summary = re.search(r"^SUMMARY: .*$|^.*runtime error: .*$|^==\d+==.*ERROR.*$", done.stdout, re.MULTILINE)
        place = re.search(r"Test unit written to (\S+)", done.stdout)
        wrong = f"{summary[0] if summary else done.stdout[-500:]} {place[1] if place else ''}"
    files = {**FILES, **COMPILER_FILES}[name]
    return int(count[1]) if count else 0, wrong, coverage(program, profile, files) if files and not wrong else ""


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--inputs", type=int, default=100000, help="of each fuzzer")
    p.add_argument("--only", default="", help="some fuzzers, with commas between them")
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build/fuzz")
    p.add_argument("--corpus", type=pathlib.Path, help="keeps inputs that reach something new")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--jobs", type=int, default=2)
    o = p.parse_args()
    o.build = o.build.resolve()
    names = o.only.split(",") if o.only else sorted({**FILES, **COMPILER_FILES})
    build(o, names)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        for name, (count, wrong, share) in zip(names, pool.map(lambda n: fuzz(n, o), names)):
            print(f"{'FAIL' if wrong else 'ok  '} {name}: {count} inputs{share}{': ' + wrong if wrong else ''}", flush=True)
            failed += bool(wrong)
    print(f"{len(names) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
