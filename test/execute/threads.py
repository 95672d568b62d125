#!/usr/bin/env python3
"""Threads of programs: how long they spin, what they say of too few cores, and what a step takes beside busy loops.

    threads.py --divisi PATH

Needs only Python. Ends with `N passed, N failed`.
"""

import argparse
import contextlib
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

MODEL = pathlib.Path(__file__).resolve().parent.parent / "models" / "lenet"
LOOP = "while True: pass"
MORE = 1.5  # times, at least: the processor's time of steps beside busy loops whose threads spin for milliseconds, as libgomp's do by default


def environment(**own):
    """This environment, without variables of OpenMP but those given."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))} | own


def variables(command, **own):
    """(the variables of a running program, its name in lists of processes), after it has started its training."""
    process = subprocess.Popen([*command, "--steps", "100000000"], env=environment(**own), stdout=subprocess.PIPE, text=True)
    try:
        process.stdout.readline()  # it computes
        entries = pathlib.Path(f"/proc/{process.pid}/environ").read_bytes().decode().split("\0")
        return dict(entry.split("=", 1) for entry in entries if entry), pathlib.Path(f"/proc/{process.pid}/comm").read_text().strip()
    finally:
        process.kill()
        process.wait()


def output(command, cores, *flags):
    """What two steps print with `cores` cores."""
    allowed = sorted(os.sched_getaffinity(0))[:cores]
    return subprocess.run([*command, "--steps", "2", *flags], env=environment(), capture_output=True, text=True, check=True,
                          preexec_fn=lambda: os.sched_setaffinity(0, allowed)).stdout


@contextlib.contextmanager
def loops(count):
    started = [subprocess.Popen([sys.executable, "-c", LOOP]) for _ in range(count)]
    try:
        time.sleep(0.3)
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def processor_seconds(command, steps, **own):
    """The processor's time of a run, which other programs of the machine change less than its duration."""
    begin = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*command, "--steps", str(steps), "--quiet"], env=environment(**own), check=True)
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    return end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime


def checks(program, command):
    """Pairs of what must hold, and whether it does."""
    two = {"OMP_NUM_THREADS": "2"}
    own, name = variables(command, **two)
    yield f"threads spin for microseconds: {own.get('GOMP_SPINCOUNT')}", 100 <= int(own.get("GOMP_SPINCOUNT", 0)) <= 20000
    yield f"the process keeps its name: {name}", name == program.name
    yield "what the user sets stays", variables(command, GOMP_SPINCOUNT="77", **two)[0]["GOMP_SPINCOUNT"] == "77"
    yield "a policy of the user stays alone", "GOMP_SPINCOUNT" not in variables(command, OMP_WAIT_POLICY="active", **two)[0]
    yield "one thread does not wait", "GOMP_SPINCOUNT" not in variables(command, OMP_NUM_THREADS="1")[0]
    yield "variables of the user are kept", variables(command, SOME="x=y", **two)[0]["SOME"] == "x=y"
    loader = "/lib64/ld-linux-x86-64.so.2"
    if os.path.exists(loader):
        done = subprocess.run([loader, *command, "--init", "1", "--steps", "2"], env=environment(**two), capture_output=True, text=True)
        yield f"a loader that is called by name trains, too: {done.stderr}", done.returncode == 0
    note = "note: 3 threads on 1 core: steps are faster with --threads 1"
    yield "too few cores are named", output(command, 1, "--threads", "3").count(note) == 1
    yield "... unless nothing may be printed", output(command, 1, "--threads", "3", "--quiet") == ""
    yield "as many threads as cores are", "threads on" not in output(command, 1)
    cores = len(os.sched_getaffinity(0))
    if cores > 1:
        with loops(cores + cores // 2):
            ratios = []
            for _ in range(3):
                short, long = (processor_seconds(command, 150, **more) for more in (two, two | {"GOMP_SPINCOUNT": "300000"}))
                ratios.append(long / short)
        yield f"beside busy loops threads take less time than by libgomp's default: {ratios}", sorted(ratios)[1] > MORE


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    o = p.parse_args()
    failed = passed = 0
    with tempfile.TemporaryDirectory() as work:
        program = pathlib.Path(work) / "trainer"
        subprocess.run([o.divisi, "compile", MODEL / "model.onnx", "-o", program, "--optimizer", "sgd", "--lr", "0.001",
                        "--loss", "cross_entropy", "--label", "label"], check=True, capture_output=True)
        data = [word for name in ("image", "label") for word in ("--data", f"{name}={MODEL / 'data' / name}.npy")]
        for what, holds in checks(program, [str(program), *data]):
            passed, failed = passed + holds, failed + (not holds)
            if not holds:
                print(f"FAIL {what}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
