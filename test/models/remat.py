#!/usr/bin/env python3
"""Rematerialization: PyTorch's losses with every segment recomputed, less memory, and a search that recomputes as many as necessary.

    remat.py --divisi PATH

Ends with `N passed, N failed`.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MAKE_GRAPH = HERE.parent.parent / "examples/large-graphs/make_graph.py"
GPT = "gpt --layers 12 --hidden 256 --heads 4 --vocab 512 --seq 256"
# Ways to run all models: devices, flags of the compiler, optimizer.
WAYS = [
    (1, "--remat all", "sgd,adamw"),
    (4, "--remat all --mesh data=2,model=2", "adamw"),
    (2, "--remat all --mesh data=2 --zero 3", "sgd"),
]
SCHEDULES = {"1f1b": "sgd", "gpipe": "adamw", "zb-h1": "sgd", "interleaved": "adamw"}
# In microbatches batch norm has other numbers.
WITHOUT_BATCH_NORM = "gpt_tiny,llama_tiny,moe_tiny,mlp,lenet,unet_tiny"


class Checks:
    def __init__(self, divisi, folder):
        self.divisi, self.folder = divisi, folder
        self.passed = self.failed = 0

    def say(self, what, good, told=""):
        self.passed, self.failed = self.passed + bool(good), self.failed + (not good)
        print(f"{'ok  ' if good else 'FAIL'} {what}{': ' + told if told else ''}", flush=True)

    def losses(self, devices, words, optimizers, cases=None):
        command = [sys.executable, str(HERE / "check.py"), "--divisi", self.divisi, "--devices", str(devices),
                   f"--compile-args={words}", "--optimizers", optimizers, *(["--cases", cases] if cases else [])]
        done = subprocess.run(command, capture_output=True, text=True)
        for line in done.stdout.splitlines():
            if line.startswith(("ok  ", "FAIL")):
                self.say(f"{words}: {line[5:]}", line.startswith("ok"))
        if done.returncode and "passed" not in done.stdout:
            self.say(words, False, done.stdout + done.stderr)

    def compiled(self, model, *words, emit="exec"):
        file = self.folder / "dump.mlir"
        subprocess.run([self.divisi, "compile", model, *words, "--emit", emit, "-o", file], check=True, capture_output=True)
        return file.read_text()

    def arena(self, model, *words):
        return int(re.search(r"exec\.arena_bytes = (\d+)", self.compiled(model, *words))[1])

    def planned(self, model, *words):
        done = subprocess.run([self.divisi, "plan", model, *words, "--json"], capture_output=True, text=True)
        return json.loads(done.stdout)["plans"]

    def memory(self, model):
        """Each segment saves what it keeps, minus the value that is live at the cut before it."""
        batch = ["--dim", "batch=8"]
        parts = len(re.findall("dist.remat", self.compiled(model, *batch, "--mesh", "data=2", "--remat", "all", emit="plan")))
        self.say("a layer of twelve is a part", 10 <= parts <= 24, f"{parts} parts")
        arenas = [self.arena(model, *batch, "--remat", str(count)) for count in range(0, parts + 1, 3)]
        told = ", ".join(f"{arena / 1e6:.0f}" for arena in arenas)
        self.say("more parts take less memory", all(b < a for a, b in zip(arenas, arenas[1:])), f"{told} MB")
        # A layer keeps at least the softmax's probabilities [8, 4, 256, 256] and the perceptron's [8, 256, 1024] before and after
        # its activation, and then only its input [8, 256, 256].
        layer = 4 * (8 * 4 * 256 * 256 + 2 * 8 * 256 * 1024 - 8 * 256 * 256)
        saved = arenas[0] - arenas[-1]
        self.say("all parts save what eleven layers keep", saved >= 10 * layer, f"{saved / 1e6:.0f} of {11 * layer / 1e6:.0f} MB")
        self.say("all is as many as there are", self.arena(model, *batch, "--remat", "all") == self.arena(model, *batch, "--remat", "65536"))
        self.say("none is none", self.arena(model, *batch, "--remat", "none") == self.arena(model, *batch))

    def stages(self, model):
        """Each stage of a pipeline keeps less of the microbatches in flight. The last one keeps a single one, beside sums of gradients, one of
        them for the embedding that it shares with the first stage: it saves least."""
        words = ["--dim", "batch=8", "--mesh", "stage=4", "--microbatches", "8", "--schedule"]
        for schedule in "1f1b", "gpipe":
            before, after = [[int(size) for size in re.search(r"exec\.arenas = array<i64: ([^>]*)>", text)[1].split(", ")]
                             for text in (self.compiled(model, *words, schedule, "--remat", remat) for remat in ("none", "all"))]
            self.say(f"{schedule}: every stage takes less memory", all(b < 0.82 * a for a, b in zip(before, after)),
                     f"{[a // 10**6 for a in before]} to {[a // 10**6 for a in after]} MB")

    def search(self, model):
        """A device that is too small for the plan without rematerialization."""
        def cluster(memory):
            path = self.folder / f"{memory:.0f}.toml"
            path.write_text(f'[cluster]\nname = "small"\n[device]\npreset = "h100"\nmemory = "{memory:.0f}B"\n')
            return ["--cluster", path, "--dim", "batch=8"]
        whole = self.planned(model, *cluster(80e9))[0]
        least = self.planned(model, *cluster(80e9), "--remat", "all")[0]
        full, low = whole["memory"]["total"], least["memory"]["total"]
        self.say("with enough memory nothing is recomputed", "remat" not in whole["name"], whole["name"])
        self.say("recomputing takes time", least["step_ms"] > whole["step_ms"], f"{least['step_ms']:.3f} ms, not {whole['step_ms']:.3f}")
        counts, times = [], []
        for share in 0.9, 0.6, 0.3, 0.02:
            best = self.planned(model, *cluster(low + share * (full - low)))[0]
            count = re.search(r"remat=(\d+)", best["name"])
            self.say(f"with {share:.0%} of what it saves a plan fits", best["fits"] and count, best["name"])
            counts.append(int(count[1]) if count else -1)
            times.append(best["step_ms"])
        self.say("less memory, more parts", counts == sorted(counts) and counts[0] < counts[-1], f"{counts}")
        self.say("less memory, more time", times == sorted(times), f"{times}")
        for memory in 60e6, 90e6, 200e6:
            four = self.folder / "four.toml"
            four.write_text(f'[cluster]\nname = "four"\n[device]\npreset = "h100"\nmemory = "{memory:.0f}B"\n'
                            '[[level]]\nname = "nvlink"\nsize = 4\nbandwidth = "370GB/s"\nlatency = "2us"\n')
            words = ["--dim", "batch=64", "--strategy", "hybrid", "--cluster", four]
            plan, arena = self.compiled(model, *words, emit="plan"), self.arena(model, *words)
            again = re.search(r"remat = \d+", plan)
            self.say(f"a pipeline for {memory / 1e6:.0f} MB recomputes its segments, and fits", again and arena < 1.05 * memory,
                     f"{arena / 1e6:.1f} MB")
        short = self.planned(model, *cluster(0.5 * low))[0]
        self.say("with too little no plan fits", not short["fits"], short["name"])


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    p.add_argument("--all", action="store_true", help="every way and schedule")
    o = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        checks = Checks(o.divisi, pathlib.Path(folder))
        model = checks.folder / "model.onnx"
        subprocess.run([sys.executable, MAKE_GRAPH, *GPT.split(), "--weights", "none", "-o", model], check=True, capture_output=True)
        checks.memory(model)
        checks.stages(model)
        checks.search(model)
        for devices, words, optimizers in WAYS if o.all else WAYS[1:]:
            checks.losses(devices, words, optimizers)
        checks.losses(1, "--remat all --microbatches 2", "sgd", WITHOUT_BATCH_NORM)
        for schedule, optimizer in list(SCHEDULES.items())[::1 if o.all else 2]:
            checks.losses(2, f"--remat all --mesh stage=2 --microbatches 2 --schedule {schedule}", optimizer, WITHOUT_BATCH_NORM)
        print(f"{checks.passed} passed, {checks.failed} failed")
        return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
