#!/usr/bin/env python3
"""Attention in one call on CPUs: the losses of attention as matmuls and a softmax, and of fp32, with less memory, however it is sharded.

    attention.py --divisi PATH

Ends with `N passed, N failed`.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

MAKE_GRAPH = pathlib.Path(__file__).resolve().parent.parent.parent / "examples/large-graphs/make_graph.py"
VOCABULARY, BATCH, STEPS = 61, 4, 12
LONG, SHORT = 256, 128  # tokens: the scores of a head are enough for one call, and are not
WAYS = {"one device": (), "data": ("--mesh", "data=2"), "heads": ("--mesh", "model=2", "--strategy", "operator"),
        "a pipeline": ("--mesh", "stage=2", "--microbatches", "2")}


class Checks:
    def __init__(self, divisi, folder):
        self.divisi, self.folder = divisi, folder
        self.passed = self.failed = 0

    def say(self, what, good, told=""):
        self.passed, self.failed = self.passed + bool(good), self.failed + (not good)
        print(f"{'ok  ' if good else 'FAIL'} {what}{': ' + told if told else ''}", flush=True)

    def run(self, *words):
        done = subprocess.run([self.divisi, *map(str, words)], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(map(str, words))}: exit {done.returncode}\n{done.stderr}")

    def model(self, kind, tokens):
        """A model of two layers, and its data."""
        path = self.folder / f"{kind}{tokens}" / "model.onnx"
        path.parent.mkdir()
        subprocess.run([sys.executable, MAKE_GRAPH, kind, *f"--layers 2 --hidden 64 --heads 2 --vocab {VOCABULARY} --seq {tokens}".split(),
                        "--weights", "random", "-o", path], check=True, capture_output=True)
        random = np.random.default_rng(5)
        for name in "idx", "targets":
            np.save(self.folder / f"{name}{tokens}.npy", random.integers(0, VOCABULARY, (BATCH * STEPS, tokens)))
        return path

    def compile(self, model, out, *words):
        self.run("compile", model, "--dim", f"batch={BATCH}", "--optimizer", "adamw", "--lr", "0.003", "-o", out, *words)

    def dump(self, model, *words):
        self.compile(model, self.folder / "dump.mlir", "--emit", "exec", *words)
        return (self.folder / "dump.mlir").read_text()

    def losses(self, model, tokens, *words):
        program, log = self.folder / "program", self.folder / "log.jsonl"
        self.compile(model, program, *words)
        log.unlink(missing_ok=True)
        data = [word for name in ("idx", "targets") for word in ("--data", f"{name}={self.folder / name}{tokens}.npy")]
        devices = 2 if "--mesh" in words else 1
        self.run("run", "--devices", devices, program, *data, "--steps", STEPS, "--log", log, "--quiet")
        return np.array([row["loss"] for row in map(json.loads, log.read_text().splitlines()) if "loss" in row and "step" in row])


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    o = p.parse_args()
    calls = lambda text: len(re.findall(r"divisi_attention\b", text))
    arena = lambda text: int(re.search(r"exec\.arena_bytes = (\d+)", text)[1])
    with tempfile.TemporaryDirectory() as folder:
        c = Checks(str(pathlib.Path(o.divisi).resolve()), pathlib.Path(folder))
        model = c.model("gpt", LONG)
        fused, apart = c.dump(model, "--precision", "bf16"), c.dump(model, "--precision", "bf16", "--no-fused-attention")
        c.say("each layer has one call", calls(fused) == 2 and calls(apart) == 0, f"{calls(fused)} and {calls(apart)}")
        scores = 2 * BATCH * 2 * LONG * LONG * 2  # bf16, of two layers
        c.say("the scores of both layers are not in memory", arena(apart) - arena(fused) >= scores, f"{arena(apart)} and {arena(fused)} bytes")
        few = c.dump(c.model("gpt", SHORT), "--precision", "bf16")
        c.say("short sequences have matmuls", calls(few) == 0, f"{calls(few)}")
        whole = c.losses(model, LONG)
        for name, words in WAYS.items():
            for precision in "bf16", "fp16":
                one = c.losses(model, LONG, "--precision", precision, *words)
                parts = c.losses(model, LONG, "--precision", precision, "--no-fused-attention", *words)
                apart, off = np.max(np.abs(one / parts - 1)), np.max(np.abs(one / whole - 1))
                c.say(f"{name}, {precision}: losses", len(one) == STEPS and apart < 4e-3 and off < 4e-3 and one[-1] < one[0],
                      f"{apart:.1e} from matmuls, {off:.1e} from fp32")
        print(f"{c.passed} passed, {c.failed} failed")
        return 1 if c.failed else 0


if __name__ == "__main__":
    sys.exit(main())
