#!/usr/bin/env python3
"""The cost of checkpoints: the time of a step while one is written, and the memory of ranks that load and save.

    checkpoints.py --divisi PATH [--rounds 5] [--steps 600] [--only steps|memory]

- a step during an asynchronous save, divided by one between two saves of the same run, which are a few seconds apart so that what else the
  machine does counts in both: median over runs of the ratio of medians, of an MLP with 50 MB of state, on one rank with two threads and on
  two ranks with one; at most 1.05
- the memory of each of 4 ranks over which parameters and optimizer state are sharded (ZeRO 3, and --mesh model=4) of an MLP with 805 MB of
  state, while it loads weights, trains, saves, resumes and gathers weights: never that of the whole model, and not more than what libraries
  need, the arena, a copy of the own shards, and some MB

Needs onnx and numpy. Exit code 1 if a limit is passed.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "execute"))
from ranks import ranks_of  # noqa: E402

MOST_SLOWER = 1.05
SLACK = 48 << 20  # bytes: a window of the file, a tensor that rank 0 gathers, buffers of the libraries
OPTIMIZER = ["--optimizer", "adamw", "--lr", "1e-4"]


def make(folder, width, layers, batch):
    """An MLP with a mean squared error; bytes of its parameters and optimizer state."""
    folder.mkdir()
    draw, nodes, weights, last = np.random.default_rng(0), [], [], "x"
    for i in range(layers):
        weights.append(numpy_helper.from_array((draw.standard_normal((width, width)) / width**0.5).astype("f"), f"w{i}"))
        nodes += [helper.make_node("MatMul", [last, f"w{i}"], [f"h{i}"], name=f"fc{i}"), helper.make_node("Relu", [f"h{i}"], [f"r{i}"], name=f"relu{i}")]
        last = f"r{i}"
    nodes += [helper.make_node("Sub", [last, "y"], ["d"], name="d"), helper.make_node("Mul", ["d", "d"], ["s"], name="s"),
              helper.make_node("ReduceMean", ["s"], ["loss"], name="loss", keepdims=0)]
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [batch, width]) for n in "xy"]
    graph = helper.make_graph(nodes, "mlp", inputs, [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), folder / "m.onnx")
    for n in "xy":
        np.save(folder / f"{n}.npy", draw.standard_normal((4 * batch, width)).astype("f"))
    return 3 * layers * width * width * 4


def compile(divisi, folder, name, *flags):
    subprocess.run([divisi, "compile", folder / "m.onnx", "-o", folder / name, *OPTIMIZER, *flags], check=True, stderr=subprocess.DEVNULL)
    return (folder / name).resolve()


def command(divisi, program, ranks, *flags):
    data = [w for n in "xy" for w in ("--data", f"{n}={program.parent / n}.npy")]
    launcher = [divisi, "run", "--devices", str(ranks)] if ranks > 1 else []
    return [str(w) for w in [*launcher, program, *data, "--quiet", *flags]]


class Steps:
    """Follows a run: when each step ended, how long it took, and when a checkpoint was written."""

    def __init__(self, words, log, folder):
        log.unlink(missing_ok=True)
        self.steps, self.writing, begun, read = [], [], None, 0
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while True:
            over = process.poll() is not None
            now = time.monotonic()
            busy = folder.is_dir() and any(name.startswith(".step-") for name in os.listdir(folder))
            if busy and begun is None:
                begun = now
            elif not busy and begun is not None:
                self.writing.append((begun, now))
                begun = None
            text = log.read_text() if log.is_file() and log.stat().st_size > read else ""
            lines = text[read : text.rfind("\n") + 1].splitlines()
            read = max(read, text.rfind("\n") + 1)
            self.steps += [(now, row["step_ms"]) for row in map(json.loads, lines) if "step_ms" in row]
            if over:
                break
            time.sleep(0.002)
        assert process.returncode == 0, f"exit code {process.returncode}"

    def times(self, during):
        """Milliseconds of all steps during a save, or of all others; the first ones warm up."""
        found = []
        for end, ms in self.steps[5:]:
            begin = end - ms / 1000
            if during and any(a <= begin and end <= b for a, b in self.writing):
                found.append(ms)
            elif not during and not any(begin < b and a < end for a, b in self.writing):
                found.append(ms)
        return found


def steps(o, work):
    make(work / "steps", 1024, 4, 128)
    good = True
    for ranks, threads, flags in ((1, 2, []), (2, 1, ["--devices", "2", "--strategy", "data", "--zero", "1"])):
        program = compile(o.divisi, work / "steps", f"p{ranks}", *flags)
        medians, quartiles, counts = [], [], [0, 0]
        for turn in range(o.rounds):
            folder, log = work / f"ck{ranks}-{turn}", work / "log.jsonl"
            run = Steps(command(o.divisi, program, ranks, "--steps", o.steps, "--threads", threads, "--log", log, "--checkpoint", folder,
                                "--every", o.steps // 3), log, folder)
            during, without = run.times(True), run.times(False)
            assert min(len(during), len(without)) >= 5, f"{len(during)} steps during saves, {len(without)} between them"
            medians.append(statistics.median(during) / statistics.median(without))
            quartiles.append(statistics.quantiles(during)[0] / statistics.quantiles(without)[0])
            counts = [counts[0] + len(during), counts[1] + len(without)]
        ratio = statistics.median(medians)
        good = good and ratio <= MOST_SLOWER
        print(f"{ranks} rank{'s' if ranks > 1 else ''}: {counts[0]} steps during saves take {ratio:.3f} of the time of {counts[1]} between them "
              f"[{min(medians):.3f}-{max(medians):.3f} in {o.rounds} runs]; by lower quartiles {statistics.median(quartiles):.3f}", flush=True)
    return good


class Memory:
    """The largest memory of each rank of a run: in all, without mapped files, of mapped files."""

    KEYS = ("VmHWM", "RssAnon", "RssFile")

    def __init__(self, words, program):
        self.most = {}
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None:
            for pid in ranks_of(program):
                try:
                    status = pathlib.Path(f"/proc/{pid}/status").read_text()
                except OSError:
                    continue
                found = dict(line.split(":") for line in status.splitlines())
                old = self.most.setdefault(pid, dict.fromkeys(self.KEYS, 0))
                for key in self.KEYS:
                    if key in found:
                        old[key] = max(old[key], int(found[key].split()[0]) << 10)
            time.sleep(0.003)
        assert process.returncode == 0, f"exit code {process.returncode}: {words}"

    def largest(self, key):
        return max(rank[key] for rank in self.most.values())


def memory(o, work):
    whole = make(work / "large", 2048, 16, 16)
    make(work / "small", 64, 16, 16)
    good = True
    for name, flags in (("ZeRO 3", ["--devices", "4", "--strategy", "data", "--zero", "3"]), ("model=4", ["--mesh", "model=4"])):
        program, small = (compile(o.divisi, work / size, name.replace(" ", ""), *flags) for size in ("large", "small"))
        base = Memory(command(o.divisi, small, 4, "--steps", "3", "--threads", "1"), small).largest("VmHWM")
        said = json.loads(subprocess.run([program, "--describe", "json"], check=True, capture_output=True, text=True).stdout)
        own, arena = sum(said["state_bytes"].values()), said["arena_bytes"]
        ck = ["--checkpoint", work / f"ck-{name}"]
        print(f"{name}: the whole state {whole / 2**20:.0f} MiB, shards of a rank {own / 2**20:.0f}, its arena {arena / 2**20:.0f}, libraries {base / 2**20:.0f}")
        for phase, copies, more in (("loads weights", 0, ["--steps", "2"]), ("saves", 1, [*ck, "--steps", "4", "--every", "1"]),
                                    ("resumes", 1, [*ck, "--resume", "--steps", "5"]),
                                    ("gathers weights", 0, ["--steps", "1", "--save-weights", work / "w.safetensors"])):
            found = Memory(command(o.divisi, program, 4, "--threads", "1", *more), program)
            assert len(found.most) == 4, f"{len(found.most)} ranks were seen"
            most, limit = found.largest("VmHWM"), min(base + arena + copies * own + SLACK, whole)
            good = good and most <= limit
            print(f"  {phase}: VmHWM at most {most / 2**20:.0f} MiB = {most / whole:.2f} of the whole (limit {limit / 2**20:.0f}); RssAnon "
                  f"{found.largest('RssAnon') / 2**20:.0f}, RssFile {found.largest('RssFile') / 2**20:.0f}{'' if most <= limit else '  TOO MUCH'}", flush=True)
    return good


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--steps", type=int, default=600)
    p.add_argument("--only", default="", choices=["steps", "memory"])
    o = p.parse_args()
    o.divisi = str(pathlib.Path(o.divisi).resolve())
    with tempfile.TemporaryDirectory() as folder:
        good = [part(o, pathlib.Path(folder)) for part in (steps, memory) if o.only in ("", part.__name__)]
    sys.exit(not all(good))


if __name__ == "__main__":
    main()
