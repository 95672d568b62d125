#!/usr/bin/env python3
"""The step of the plan that a search chooses for two ranks, beside one device with as many threads and beside every strategy.

    auto.py --divisi PATH [--draws 100] [--seed 0] [--size 8] [--rounds 3] [--steps 12] [--out FOLDER]

Models: the reference models of test/models, and random ones (test/models/random_models.py) whose widths and batch are multiplied by
`--size`. For each: programs of the search, of one device with two threads, and of the strategies data, operator, ZeRO-1 and pipelines, the
same numbers in all; rounds in various orders, the medians of their steps. A machine with other work on it disturbs the result: rounds in which
other processes used more than a tenth of a core are repeated. Ends with a table, the share of models whose searched step is
at most 1.1 times the best, and the worst; exit code 1 if these are not 95 % and 1.25. Needs onnx.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
MODELS = pathlib.Path(__file__).resolve().parent.parent / "models"
sys.path.insert(0, str(MODELS))
import random_models  # noqa: E402
from devices import loss_flags  # noqa: E402

WAYS = {
    "auto": ["--devices", "2"],
    "one device": [],
    "data": ["--devices", "2", "--strategy", "data"],
    "operator": ["--devices", "2", "--strategy", "operator"],
    "zero=1": ["--devices", "2", "--strategy", "data", "--zero", "1"],
    "pipeline": ["--devices", "2", "--strategy", "pipeline"],
}
LIMIT, SHARE, WORST, REPEATS = 1.1, 0.95, 1.25, 3
LEAST, MOST = 300, 1000  # milliseconds of a run on one device; steps of a run


def call(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, env=dict(os.environ, DIVISI_PROFILE="/dev/null/none"))


def busy():
    """Seconds that all processors have worked."""
    user, nice, system = map(int, pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def children():
    times = os.times()
    return times.children_user + times.children_system


class Model:
    def __init__(self, o, name, folder, flags, data):
        self.o, self.name, self.folder, self.data, self.programs = o, name, folder, data, {}
        self.steps = o.steps
        for way, split in WAYS.items():
            program = folder / way.replace(" ", "-")
            done = call(o.divisi, "compile", folder / "model.onnx", *flags, "--optimizer", "adamw", *split, "-o", program)
            if done.returncode == 0:
                self.programs[way] = program, json.loads(call(program, "--describe", "json").stdout)["devices"]

    def step(self, way):
        """The median of the steps, milliseconds, of an undisturbed run, or of the last."""
        program, devices = self.programs[way]
        out = self.folder / "run.jsonl"
        launch = [self.o.divisi, "run", "--devices", devices] if devices > 1 else []
        for _ in range(REPEATS):
            out.unlink(missing_ok=True)
            before, own, start = busy(), children(), time.monotonic()
            done = call(*launch, program, *self.data, "--no-shuffle", "--quiet", "--profile", out, "--steps", self.steps)
            if done.returncode:
                sys.exit(f"{self.name}, {way}: {done.stderr}")
            if busy() - before - (children() - own) < 0.1 * (time.monotonic() - start):
                break
        return json.loads(out.read_text().splitlines()[0])["us"] / 1e3

    def compare(self):
        self.steps = max(self.o.steps, min(MOST, round(LEAST / self.step("one device"))))
        times = {way: [] for way in self.programs}
        for turn in range(self.o.rounds):  # in other orders: for a while after a pipeline, the same program is some percent slower
            for way in random.Random(turn).sample(sorted(self.programs), len(self.programs)):
                times[way].append(self.step(way))
        return {way: statistics.median(all_of) for way, all_of in times.items()}


def reference_models():
    for case in sorted(folder.parent for folder in MODELS.glob("*/reference.json")):
        yield case.name, case, loss_flags(case), [f"--data={f.stem}={f}" for f in sorted((case / "data").glob("*.npy"))]


def models(o, work):
    """(name, folder with model.onnx, flags, data)"""
    for name, case, flags, data in reference_models():
        folder = work / name
        folder.mkdir()
        (folder / "model.onnx").symlink_to(case / "model.onnx")
        yield name, folder, flags, data
    for seed in range(o.seed, o.seed + o.draws):
        model = random_models.draw_model(seed, o.size)
        folder = work / str(seed)
        folder.mkdir()
        model.save(folder)
        yield f"{model.kind} {seed}", folder, [], [f"--data={name}={folder / name}.npy" for name in model.data]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True, type=lambda path: str(pathlib.Path(path).resolve()))
    p.add_argument("--draws", type=int, default=100)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--size", type=int, default=8, help="factor of widths and batch of random models")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=12)
    p.add_argument("--only", default="", help="a part of the models' names")
    p.add_argument("--out", type=pathlib.Path, help="auto.md and auto.json are written there")
    o = p.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as work:
        for name, *model in models(o, pathlib.Path(work)):
            if o.only not in name:
                continue
            times = Model(o, name, *model).compare()
            if not {"auto", "one device"} <= set(times):
                sys.exit(f"{name}: does not compile")
            best = min(times, key=times.get)
            rows.append(dict(model=name, times=times, ratio=times["auto"] / times[best], best=best, gain=times["one device"] / times[best]))
            print(json.dumps(rows[-1]), flush=True)
    lines = ["| model | " + " | ".join(WAYS) + " | auto / best |", "|---" * (len(WAYS) + 2) + "|"]
    for row in rows:
        cells = [f"{row['times'][way]:.3g}" if way in row["times"] else "" for way in WAYS]
        lines.append(f"| {row['model']} | {' | '.join(cells)} | {row['ratio']:.2f} |")
    ratios = [row["ratio"] for row in rows]
    share, worst = sum(r <= LIMIT for r in ratios) / len(ratios), max(ratios)
    lines += ["", f"{len(rows)} models; {sum(row['gain'] > 1.1 for row in rows)} gain more than 10 % from two devices; auto is at most {LIMIT} times "
              f"the best in {share:.0%}, and {worst:.2f} times at worst"]
    print("\n".join(lines))
    if o.out:
        o.out.mkdir(parents=True, exist_ok=True)
        (o.out / "auto.md").write_text("\n".join(lines) + "\n")
        (o.out / "auto.json").write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if share >= SHARE and worst <= WORST else 1


if __name__ == "__main__":
    sys.exit(main())
