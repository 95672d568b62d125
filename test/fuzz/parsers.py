#!/usr/bin/env python3
"""Fuzzes the runtime's parsers under address and undefined behaviour sanitizers, in a build of their own (clang++-22, libFuzzer).

    parsers.py [--inputs 100000] [--only npy,frames] [--build FOLDER] [--corpus FOLDER] [--jobs 2]

Begins with the corpora in parsers/corpus; with --corpus what is found to be new is kept, and the next run goes on from there. Prints
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

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MOST_BYTES = 4096  # of an input: every limit of a format is reached with fewer
# The files that each fuzzer must cover.
FILES = {
    "checkpoint": ["runtime/checkpoint/CheckpointManifest.cpp", "runtime/checkpoint/CheckpointReader.cpp", "runtime/checkpoint/CheckedFile.cpp"],
    "environment": [],  # a function of Rendezvous.cpp; the rest of that file is network communication
    "frames": ["runtime/comm/tcp/TcpTransport.cpp"],
    "handshake": ["runtime/comm/tcp/Handshake.cpp"],
    "manifest": ["runtime/core/ManifestParser.cpp", "runtime/core/Json.cpp"],
    "npy": ["runtime/data/NpyFile.cpp"],
    "options": ["runtime/main/Options.cpp"],
    "safetensors": ["runtime/checkpoint/Safetensors.cpp"],
}


def build(folder, names):
    """Builds the fuzzers; ends the program if that fails."""
    clang = shutil.which("clang++-22") or sys.exit("no clang++-22: apt-get install clang-22 libclang-rt-22-dev llvm-22")
    commands = [
        ["cmake", "-S", HERE / "parsers", "-B", folder, "-G", "Ninja", f"-DCMAKE_CXX_COMPILER={clang}"],
        ["cmake", "--build", folder, "--target", *(f"fuzz_{name}" for name in names)],
    ]
    for command in commands:
        done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            sys.exit(done.stdout[-4000:])


def coverage(program, profile, files):
    """(lines that were run, lines) of some files."""
    raw, data = profile, profile.with_suffix(".profdata")
    subprocess.run(["llvm-profdata-22", "merge", "-sparse", raw, "-o", data], check=True)
    command = ["llvm-cov-22", "export", "-summary-only", f"-instr-profile={data}", program, *(ROOT / f for f in files)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    lines = json.loads(done.stdout)["data"][0]["totals"]["lines"]
    return lines["covered"], lines["count"]


def fuzz(name, o):
    """(inputs, what was found or "", covered lines, lines)."""
    kept = (o.corpus or o.build / "corpus") / name
    kept.mkdir(parents=True, exist_ok=True)
    profile = o.build / f"{name}.profraw"
    program = o.build / f"fuzz_{name}"
    begin = [folder for folder in (HERE / "parsers/corpus" / name,) if folder.is_dir()]
    command = [program, kept, *begin, f"-runs={o.inputs}", f"-max_len={MOST_BYTES}", "-timeout=10",
               "-rss_limit_mb=2048", f"-artifact_prefix={o.build}/{name}-", f"-seed={o.seed}", "-use_value_profile=1",
               "-print_final_stats=1", "-verbosity=0"]
    environment = {**os.environ, "LLVM_PROFILE_FILE": str(profile)}
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", env=environment)
    count = re.search(r"number_of_executed_units:\s*(\d+)", done.stdout)
    wrong = ""
    if done.returncode:
        summary = re.search(r"^SUMMARY: .*$|^.*runtime error: .*$|^==\d+==.*ERROR.*$", done.stdout, re.MULTILINE)
        place = re.search(r"Test unit written to (\S+)", done.stdout)
        wrong = f"{summary[0] if summary else done.stdout[-500:]} {place[1] if place else ''}"
    covered, lines = coverage(program, profile, FILES[name]) if FILES[name] and not wrong else (0, 0)
    return int(count[1]) if count else 0, wrong, covered, lines


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
    names = o.only.split(",") if o.only else sorted(FILES)
    build(o.build, names)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        for name, (count, wrong, covered, lines) in zip(names, pool.map(lambda n: fuzz(n, o), names)):
            share = f", {100 * covered / lines:.1f} % of {lines} lines" if lines else ""
            print(f"{'FAIL' if wrong else 'ok  '} {name}: {count} inputs{share}{': ' + wrong if wrong else ''}", flush=True)
            failed += bool(wrong)
    print(f"{len(names) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
