#!/usr/bin/env python3
"""Ways to keep replicas in step on the digits: how fast they learn, and what a straggler costs them.

    synchronisation.py --divisi PATH [--only 'async'] [--workers 4] [--epochs 20] [--delay 10]

Each way trains examples/digits on 4 workers (and its servers) that sleep for `delay` ms before each computation, so that a few cores
stand for a machine each. Printed: epochs and seconds until 97 % of the held-out images are right; milliseconds of a step, undisturbed, with the last worker slowed three times, and with
all workers slowed at random (each computation takes 0.4 to 2 times its time, 1.2 on average), each beside what `divisi simulate --sync` expects from the undisturbed step, and the
throughput that is left. Times are of processes that share this machine's cores: ratios count.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

DIGITS = pathlib.Path(__file__).resolve().parents[2] / "examples/digits"
MOMENTUM, PLAIN = "--lr 0.05 --momentum 0.9", "--lr 0.05"
RANDOM = (0.4, 2)  # factors of the time of a computation
WAYS = {  # flags: the optimizer, and the servers
    "all-reduce": (MOMENTUM, 0),
    "driver": (MOMENTUM, 0),
    "server --servers colocated": (MOMENTUM, 0),
    "server --servers 1": (MOMENTUM, 1),
    "async-server --max-staleness 1": (PLAIN, 1),
    "async-server --max-staleness 4": (PLAIN, 1),
    "async-server --max-staleness none": (PLAIN, 1),
    "local --average-every 1": (MOMENTUM, 0),
    "local --average-every 8": (MOMENTUM, 0),
    "local --average-every 8 --overlap-average": (MOMENTUM, 0),
    "local --average-every 64": ("--lr 0.2", 0),  # momenta that stay apart so long do not go together
    "gossip --topology ring": (MOMENTUM, 0),
    "gossip --topology exponential": (MOMENTUM, 0),
    "gossip --topology pairs": (MOMENTUM, 0),
    "gossip --asynchronous": (MOMENTUM, 0),
}


def run(divisi, program, ranks, work, delays, *more):
    files = [f"--{flag}={name}={DIGITS / file}.npy" for flag, name, file in
             [("data", "image", "x"), ("data", "label", "y"), ("eval", "image", "xt"), ("eval", "label", "yt")]]
    log = work / "log.jsonl"
    done = subprocess.run([divisi, "run", "--devices", str(ranks), program, *files, "--seed", "1", "--quiet", "--log", log, *map(str, more)],
                          env={**os.environ, "DIVISI_DELAYS": delays}, capture_output=True, text=True, timeout=900)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-300:])
    return [json.loads(line) for line in log.read_text().splitlines()]


def step_ms(rows):
    """The mean of steps, without the first ones."""
    return statistics.mean([row["step_ms"] for row in rows if "step_ms" in row][20:])


def expected(divisi, way, workers, milliseconds, steps, stragglers):
    """The ratio of throughput that is left, by the simulator."""
    command = [divisi, "simulate", "--sync", *way.split(), "--workers", str(workers), "--compute-ms", str(milliseconds), "--steps", str(steps),
               "--json", "--straggler", stragglers]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["relative_throughput"]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True, type=lambda path: str(pathlib.Path(path).resolve()))
    p.add_argument("--only", default="", help="a part of the ways")
    p.add_argument("--workers", type=int, default=4)
    p.add_argument("--epochs", type=int, default=20)
    p.add_argument("--steps", type=int, default=300, help="of each run that is timed")
    p.add_argument("--delay", type=float, default=10)
    o = p.parse_args()
    equal = {worker: o.delay for worker in range(o.workers)}
    even = ",".join(f"{worker}={ms}" for worker, ms in equal.items())
    slow = ",".join(f"{worker}={3 * ms if worker == o.workers - 1 else ms}" for worker, ms in equal.items())
    drawn = ",".join(f"{worker}={RANDOM[0] * ms}-{RANDOM[1] * ms}" for worker, ms in equal.items())
    print(f"| `--sync` | epochs to 97 % | seconds | ms a step | one slowed 3 times: ms, throughput left (expected) | at random: ms, throughput left (expected) |\n|---|---|---|---|---|---|")
    for way, (optimizer, servers) in WAYS.items():
        if o.only not in way:
            continue
        with tempfile.TemporaryDirectory() as folder:
            work = pathlib.Path(folder)
            program = work / "digits"
            subprocess.run([o.divisi, "compile", DIGITS / "model.onnx", "-o", program, "--loss", "cross_entropy", "--label", "label",
                            "--optimizer", "sgd", *optimizer.split(), "--mesh", f"data={o.workers}", "--sync", *way.split()], check=True)
            ranks = o.workers + servers
            rows = run(o.divisi, program, ranks, work, even, "--epochs", o.epochs)
            begin = min(row["wall_time"] for row in rows)
            reached = next((row for row in rows if row.get("eval") and row["accuracy"] >= 0.97), None)
            learned = f"{reached['epoch']} | {reached['wall_time'] - begin:.1f}" if reached else f"more than {o.epochs} | "
            times = [step_ms(run(o.divisi, program, ranks, work, delays, "--steps", o.steps, "--epochs", 1000, "--eval-every", 1000)) for delays in (even, slow, drawn)]
            slowed = expected(o.divisi, way, o.workers, o.delay, o.steps, f"{o.workers - 1}=3")
            random = expected(o.divisi, way, o.workers, o.delay, o.steps, ",".join(f"{worker}={RANDOM[0]}-{RANDOM[1]}" for worker in equal))
            print(f"| `{way}` | {learned} | {times[0]:.1f} | {times[1]:.1f}, {times[0] / times[1]:.2f} ({slowed:.2f}) | "
                  f"{times[2]:.1f}, {times[0] / times[2]:.2f} ({random:.2f}) |", flush=True)


if __name__ == "__main__":
    main()
