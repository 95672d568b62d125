#!/usr/bin/env python3
"""PTX of all test models and of every operation, for each architecture, assembled by ptxas where the CUDA Toolkit is there.

    ptx.py --build DIR [--quick] [--registers]

One line per module, then `N passed, N failed`. `--registers` lists registers, shared memory and spills of every kernel.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MODELS = HERE.parent / "models"
ARCHITECTURES = (80, 90, 100)
OTHERS = (86, 87, 89, 103, 120)  # for one model only
# Bytes stored and loaded: four elements around the call that is the rare way of a root or a division (lstm_tiny's update),
# and a few values of a pooling in double precision, whose registers are limited so that more threads run at a time.
MOST_SPILLED = 80
MOST_REGISTERS = 128  # of a thread: above, fewer than two blocks of 256 run at a time


def find_ptxas():
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    return shutil.which("ptxas") or shutil.which("ptxas", path=home + "/bin")


def architectures_of(model, quick):
    """All for one model; the others have the middle one alone if `quick`."""
    return ARCHITECTURES + OTHERS if model == "gpt_tiny" else ARCHITECTURES[1:2] if quick else ARCHITECTURES


def write_ptx(build, folder, quick):
    """Files NAME.ARCHITECTURE.ptx of the models and operations; what went wrong by name."""
    wrong = {}
    for model in sorted(MODELS.glob("*/model.onnx")):
        loss = ["--loss", "cross_entropy", "--label", "label"] if model.parent.name == "mlp_no_loss" else []
        for architecture in architectures_of(model.parent.name, quick):
            out = folder / f"{model.parent.name}.{architecture}.ptx"
            command = [build / "bin/divisi", "compile", model, *loss, "--optimizer", "adamw", "--emit", "ptx"]
            command += ["--cuda-arch", architecture, "-o", out]
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
            if done.returncode != 0:
                wrong[out.stem] = done.stderr.strip()[-200:]
    command = [build / "bin/execute_tests", "--gtest_filter=*Gpu*", "--gtest_brief=1"]
    done = subprocess.run(list(map(str, command)), env=dict(os.environ, DIVISI_PTX_FOLDER=str(folder)), capture_output=True)
    if done.returncode != 0:
        wrong["operations"] = done.stdout.decode()[-200:]
    return wrong


def assemble(ptxas, path):
    """(registers, shared bytes, spilled bytes) by kernel, or what ptxas says."""
    command = [ptxas, "-v", "-arch", "sm_" + path.stem.split(".")[-1], str(path), "-o", "/dev/null"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return done.stderr.strip()[-200:]
    kernels, name = {}, ""
    for line in done.stderr.splitlines():
        if match := re.search(r"Compiling entry function '(\w+)'", line):
            name = match[1]
            kernels[name] = [0, 0, 0]
        if match := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
            kernels.setdefault(name, [0, 0, 0])[2] = int(match[1]) + int(match[2])
        if match := re.search(r"Used (\d+) registers", line):
            kernels[name][0] = int(match[1])
        if match := re.search(r"(\d+) bytes smem", line):
            kernels[name][1] = int(match[1])
    return kernels


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--quick", action="store_true", help="most for one architecture")
    parser.add_argument("--registers", action="store_true")
    options = parser.parse_args()
    ptxas = find_ptxas()
    if not ptxas:
        print("note: ptxas is not there (CUDA Toolkit): PTX is written and not assembled")
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        wrong = write_ptx(options.build.resolve(), pathlib.Path(folder), options.quick)
        for name, why in wrong.items():
            print(f"FAIL {name}: {why}")
            failed += 1
        files = sorted(path for path in pathlib.Path(folder).glob("*.ptx")
                       if int(path.stem.split(".")[-1]) in architectures_of(path.stem.split(".")[0], options.quick))
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = pool.map(lambda path: assemble(ptxas, path) if ptxas else {}, files)
            for path, kernels in zip(files, results):
                if isinstance(kernels, str):
                    print(f"FAIL {path.stem}: {kernels}")
                    failed += 1
                    continue
                most = max((r for r, _, _ in kernels.values()), default=0)
                spills = {name: spilled for name, (_, _, spilled) in kernels.items() if spilled > MOST_SPILLED}
                good = not spills and most <= MOST_REGISTERS and ".entry" in path.read_text()
                print(f"{'ok  ' if good else 'FAIL'} {path.stem}: {len(kernels)} kernels, at most {most} registers"
                      + (f", spills {spills}" if spills else ""))
                passed, failed = passed + good, failed + (not good)
                if options.registers:
                    for name, (registers, shared, spilled) in kernels.items():
                        print(f"     {name}: {registers} registers, {shared} bytes shared, {spilled} bytes spilled")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
