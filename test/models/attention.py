#!/usr/bin/env python3
"""Attention in one call on CPUs: the gradients of attention as matmuls and a softmax, and of fp32, with less memory, however it is sharded.

    attention.py --divisi PATH

Ends with `N passed, N failed`.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper

from optimizers import read_weights

MAKE_GRAPH = pathlib.Path(__file__).resolve().parent.parent.parent / "examples/large-graphs/make_graph.py"
VOCABULARY, BATCH = 61, 4
LONG, SHORT = 256, 128  # tokens: the scores of a head are enough for one call, and are not
WAYS = {"one device": (), "data": ("--mesh", "data=2"), "heads": ("--mesh", "model=2"),
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
                        "--qkv", "separate", "--weights", "random", "-o", path], check=True, capture_output=True)
        graph = onnx.load(path)
        for tensor in graph.graph.initializer:
            if re.search(r"attn\.[qk].*weight", tensor.name):  # so that the softmax is far from uniform
                tensor.CopyFrom(numpy_helper.from_array(10 * numpy_helper.to_array(tensor), tensor.name))
        onnx.save(graph, path)
        random = np.random.default_rng(5)
        for name in "idx", "targets":
            np.save(self.folder / f"{name}{tokens}.npy", random.integers(0, VOCABULARY, (BATCH, tokens)))
        return path

    def compile(self, model, out, *words):
        self.run("compile", model, "--dim", f"batch={BATCH}", "--optimizer", "sgd", "--lr", "1", "-o", out, *words)

    def dump(self, model, *words):
        self.compile(model, self.folder / "dump.mlir", "--emit", "exec", *words)
        return (self.folder / "dump.mlir").read_text()

    def gradients(self, model, tokens, *words):
        """Of all weights, which a step of gradient descent subtracts."""
        program, after = self.folder / "program", self.folder / "after.safetensors"
        self.compile(model, program, *words)
        data = [word for name in ("idx", "targets") for word in ("--data", f"{name}={self.folder / name}{tokens}.npy")]
        devices = 2 if "--mesh" in words else 1
        self.run("run", "--devices", devices, program, *data, "--steps", 1, "--quiet", "--save-weights", after)
        new, old = read_weights(after), read_weights(self.folder / "program.safetensors")
        return {name: old[name] - new[name] for name in old}


def difference(one, other, names):
    """The largest of the named weights, relative to their norms."""
    return max(np.linalg.norm(one[name] - other[name]) / np.linalg.norm(other[name]) for name in names)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    o = p.parse_args()
    calls = lambda text: len(re.findall(r"exec\.call graph\.attention_grad\b", text))
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
        whole = c.gradients(model, LONG)
        ofAttention = [name for name in whole if "attn" in name and whole[name].ndim == 2]
        c.say("projections of queries, keys and values, and of results", len(ofAttention) == 8, f"{ofAttention}")
        c.say("fp16 has matmuls", calls(c.dump(model, "--precision", "fp16")) == 0)
        for name, words in WAYS.items():
            text = c.dump(model, "--precision", "bf16", *words)
            batch, heads = (BATCH // 2 if name in ("data", "a pipeline") else BATCH), (1 if name == "heads" else 2)
            here = re.findall(rf"exec\.call graph\.attention_grad\b.* : \(tensor<{batch}x{LONG}x{heads}x32xbf16>", text)
            c.say(f"{name}: attention is called for {batch} x {heads} heads", len(here) == 2, f"{len(here)} of {calls(text)} times")
            one = c.gradients(model, LONG, "--precision", "bf16", *words)
            parts = c.gradients(model, LONG, "--precision", "bf16", "--no-fused-attention", *words)
            near, off, apart = difference(one, whole, ofAttention), difference(parts, whole, ofAttention), difference(one, parts, ofAttention)
            c.say(f"{name}: gradients", near < 1.2 * off + 2e-3 and near < 0.05, f"{near:.1e} from fp32, matmuls {off:.1e}; {apart:.1e} between both")
        print(f"{c.passed} passed, {c.failed} failed")
        return 1 if c.failed else 0


if __name__ == "__main__":
    sys.exit(main())
