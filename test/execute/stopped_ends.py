#!/usr/bin/env python3
"""Ranks that are stopped (SIGSTOP) once, before ranks have met or when they end, where no heartbeat is exchanged, and in training.

    stopped_ends.py --divisi PATH [--only TEXT]

`divisi run` names or replaces them, and ends the job with 0, within 30 s and with `--timeout 3`, without leaving a rank: over TCP (`--min-devices`), and over
MPI with `--restarts`. A library that is loaded before the program stops the rank as it begins, or as the last thing that it does.

Needs only Python and a C compiler (CC, or cc). Ends with `N passed, N failed`.
"""

import argparse
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

TEST = pathlib.Path(__file__).resolve().parent.parent
MODEL = TEST / "models" / "mlp"
LIBRARY = """
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
__attribute__((WHEN)) static void stop(void) {
  const char *rank = getenv("RANK") ? getenv("RANK") : getenv("OMPI_COMM_WORLD_RANK"), *once = getenv("STOP_ONCE");
  if (rank && once && !strcmp(rank, getenv("STOP_RANK")) && strstr(program_invocation_name, getenv("STOP_PROGRAM")) && open(once, O_CREAT | O_EXCL, 0600) >= 0)
    raise(SIGSTOP);
}
"""
PROGRAMS = {
    "all-reduce": ["--devices", "2,3"],
    "gossip": ["--mesh", "data=3", "--sync", "gossip", "--topology", "exponential"],
    "async-server": ["--mesh", "data=2", "--sync", "async-server"],
    "data": ["--mesh", "data=3"],
}
FIXED = ["--devices", "3", "--restarts", "1"]
OVER_TCP, OVER_MPI = ["--min-devices", "2"], [*FIXED, "--launcher", "mpirun"]
CASES = [(program, when, rank, OVER_TCP) for program in ("all-reduce", "gossip", "async-server") for when in ("start", "end") for rank in (0, 1)]
CASES += [("data", when, rank, over) for over in (FIXED, OVER_MPI) for when in ("start", "end", "training") for rank in (0, 1)]


def ranks_of(program):
    """The process ids of the ranks of a program, by number."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.readlink(entry / "exe") == str(program):
                words = dict(word.split("=", 1) for word in (entry / "environ").read_text(errors="replace").split("\0") if "=" in word)
                found[words.get("RANK", words.get("OMPI_COMM_WORLD_RANK"))] = int(entry.name)
        except OSError:
            continue
    return found


def run(divisi, folder, program, when, rank, flags, work):
    copy = work / "p"
    os.link(folder / program, copy)
    data = [word for n in ("x", "label") for word in ("--data", f"{n}={MODEL / 'data' / n}.npy")]
    command = [divisi, "run", *flags, copy, "--weights", folder / f"{program}.safetensors", *data, "--steps", 100, "--quiet", "--timeout", 3]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "DIVISI_DELAYS": "0=10,1=10,2=10"}
    if when != "training":
        environment |= {"LD_PRELOAD": str(folder / f"{when}.so"), "STOP_RANK": str(rank), "STOP_PROGRAM": str(copy), "STOP_ONCE": str(work / "once")}
    start = time.monotonic()
    with open(work / "said", "w") as said:
        job = subprocess.Popen([*map(str, command), "--checkpoint", str(work / "c"), "--every", "10", "--log", str(work / "log")], env=environment, stdout=said, stderr=said)
    try:
        if when == "training":
            while not (work / "log").is_file() or '"step":20,' not in (work / "log").read_text():
                assert time.monotonic() < start + 30, "no steps"
                time.sleep(0.05)
            os.kill(ranks_of(copy)[str(rank)], signal.SIGSTOP)
        code = job.wait(30)
    except subprocess.TimeoutExpired:
        code = "none: it does not end"
    finally:
        job.kill()
        left = ranks_of(copy)
        for pid in left.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        job.wait()
    text = (work / "said").read_text()
    assert when == "training" or (work / "once").exists(), "no rank was stopped"
    assert code == 0 and not left, f"exit code {code}, ranks left {sorted(left)}: {text[-400:]!r}"
    return f"{time.monotonic() - start:.0f} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--divisi", type=lambda path: str(pathlib.Path(path).resolve()), required=True)
    parser.add_argument("--only", default="", help="only cases whose names contain this text")
    options = parser.parse_args()
    failed = passed = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for when, attribute in ("start", "constructor"), ("end", "destructor"):
            (folder / f"{when}.c").write_text(LIBRARY.replace("WHEN", attribute))
            subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", folder / f"{when}.c", "-o", folder / f"{when}.so"], check=True)
        for program, flags in PROGRAMS.items():
            subprocess.run([options.divisi, "compile", MODEL / "model.onnx", "-o", folder / program, "--lr", "0.05", *flags], check=True, capture_output=True)
        for number, case in enumerate(CASES):
            name = f"{case[0]} {case[1]}, rank {case[2]}, {'MPI' if case[3] is OVER_MPI else 'TCP, restarted' if case[3] is FIXED else 'TCP'}"
            if options.only not in name:
                continue
            work = folder / str(number)
            work.mkdir()
            try:
                print(f"ok   {name}: {run(options.divisi, folder, *case, work)}", flush=True)
                passed += 1
            except (AssertionError, KeyError, OSError) as error:
                print(f"FAIL {name}: {error!r}", flush=True)
                failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
