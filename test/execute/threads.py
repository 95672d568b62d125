#!/usr/bin/env python3
"""Threads of programs: how long they spin, and what they say of too few cores.

    threads.py --divisi PATH [--busy]

--busy: measures steps of some milliseconds beside busy loops instead (needs onnx: build/test/venv). Ends with `N passed, N failed`.
"""

import argparse
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "test/models/lenet"
LOOP = "while True: pass"
MORE = 1.5  # times, at least: what steps take beside busy loops if threads spin for milliseconds, as libgomp's do by default


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


def seconds(command, steps, **own):
    begin = time.monotonic()
    subprocess.run([*command, "--steps", str(steps), "--quiet"], env=environment(**own), check=True)
    return time.monotonic() - begin


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


def beside_loops(divisi, work):
    """Three layers of 1,024 on batches of 256. Steps of less than a millisecond gain nothing."""
    two, cores = {"OMP_NUM_THREADS": "2"}, len(os.sched_getaffinity(0))
    if cores < 2:
        return
    import numpy as np

    make = [sys.executable, "-B", ROOT / "examples/large-graphs/make_graph.py", "mlp", "--layers", "3", "--hidden", "1024", "--inputs", "784",
            "--classes", "10", "--weights", "random", "-o", work / "mlp.onnx"]
    subprocess.run(make, check=True, capture_output=True)
    np.save(work / "x.npy", np.random.default_rng(0).random((1024, 784), np.float32))
    np.save(work / "label.npy", np.arange(1024) % 10)
    subprocess.run([divisi, "compile", work / "mlp.onnx", "-o", work / "mlp", "--dim", "batch=256", "--lr", "0.001"], check=True, capture_output=True)
    command = [str(work / "mlp"), *(word for name in ("x", "label") for word in ("--data", f"{name}={work / name}.npy"))]
    with loops(cores + cores // 2):
        ratios = []
        for _ in range(3):
            short, long = (seconds(command, 30, **more) for more in (two, two | {"GOMP_SPINCOUNT": "300000"}))
            ratios.append(long / short)
    yield f"beside busy loops steps take less time than by libgomp's default: {ratios}", sorted(ratios)[1] > MORE


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    p.add_argument("--busy", action="store_true", help="measures steps beside busy loops instead")
    o = p.parse_args()
    failed = passed = 0
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        program = work / "trainer"
        subprocess.run([o.divisi, "compile", MODEL / "model.onnx", "-o", program, "--optimizer", "sgd", "--lr", "0.001",
                        "--loss", "cross_entropy", "--label", "label"], check=True, capture_output=True)
        data = [word for name in ("image", "label") for word in ("--data", f"{name}={MODEL / 'data' / name}.npy")]
        for what, holds in beside_loops(o.divisi, work) if o.busy else checks(program, [str(program), *data]):
            passed, failed = passed + holds, failed + (not holds)
            if not holds:
                print(f"FAIL {what}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
