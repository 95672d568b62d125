#!/usr/bin/env python3
"""Step time and memory of a model of the zoo beside PyTorch eager, one thread each.

    measure.py SIZE MODEL        (started by `compare`: the process of PyTorch, told on standard input how many steps to do)
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent / "benchmark/peers"), str(HERE)]
import common  # noqa: E402

ROUNDS, SECONDS, MOST_STEPS, WARM = 3, 0.7, 60, 2  # of both in turn; of each round


def peer(size, name):
    """PyTorch: for each number on standard input, the milliseconds of as many steps."""
    import torch
    import train
    from models import case as cases

    torch.set_num_threads(1)
    build = cases.load()[name]
    base = common.memory("VmRSS")
    case = build(size == "published")
    optimizer, step = train.make_optimizer(case, case.module.train()), 0
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            start = time.perf_counter()
            optimizer.zero_grad(set_to_none=True)
            case.module(**case.rows(step)).backward()
            optimizer.step()
            times.append((time.perf_counter() - start) * 1e3)
            step += 1
        print(json.dumps({"times": times, "memory": common.memory("VmHWM") - base}), flush=True)


def watched(command):
    """Runs a command; the highest resident size of its process in MB."""
    process, peak = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL), 0.0
    while process.poll() is None:
        peak = max(peak, common.memory("VmHWM", process.pid))
        time.sleep(0.0005)
    if process.returncode:
        raise RuntimeError(f"{command[0]}: exit {process.returncode}")
    return peak


def compare(zoo):
    """The row of ratios: medians of the steps of all rounds, and the highest resident sizes above those of idle processes."""
    import divisi
    import numpy as np

    row = {"model": zoo.name, "size": zoo.size, "way": "speed"}
    if not zoo.files:
        return row | {"refused": "no exporter writes it"}
    program = divisi.compile(next(iter(zoo.files.values())), zoo.work / "timed", divisi=zoo.tool, **zoo.case.optimizer)
    words = []
    for each in program.inputs:
        np.save(zoo.work / f"{each.name}.npy", zoo.case.data[each.name].numpy())
        words += ["--data", f"{each.name}={zoo.work / each.name}.npy"]
    log = zoo.work / "timed.jsonl"

    def ours(steps):
        log.unlink(missing_ok=True)
        peak = watched([str(program.path), *words, "--no-shuffle", "--steps", str(steps), "--log", str(log)])
        return [json.loads(line)["step_ms"] for line in log.read_text().splitlines()], peak

    command = [sys.executable, __file__, zoo.size, zoo.name]
    torch_process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def theirs(steps):
        torch_process.stdin.write(f"{steps}\n")
        torch_process.stdin.flush()
        found = json.loads(torch_process.stdout.readline())
        return found["times"], found["memory"]

    first, load = theirs(WARM + 3)[0], common.OtherLoad()
    steps = max(3, min(MOST_STEPS, int(SECONDS * 1e3 / statistics.median(first[WARM:]))))
    all_ours, all_theirs = [], []
    for _ in range(ROUNDS):
        times, memory = ours(steps + WARM)
        all_ours += times[WARM:]
        times, torch_memory = theirs(steps)
        all_theirs += times
    other_cpu = load.value()
    torch_process.stdin.close()
    torch_process.wait()
    base = watched([str(program.path), "--help"])
    return row | {
        "ms": statistics.median(all_ours),
        "torch_ms": statistics.median(all_theirs),
        "memory_mb": memory - base,
        "torch_memory_mb": torch_memory,
        "other_cpu": other_cpu,
    }


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    peer(*sys.argv[1:])
