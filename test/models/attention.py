#!/usr/bin/env python3
"""Attention in one call on CPUs: the gradients of attention as matmuls and a softmax, and of fp32, with less memory, however it is sharded.

    attention.py --divisi PATH

Ends with `N passed, N failed`.
"""

import functools
import pathlib
import re
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper

import lines
from optimizers import read_weights

MAKE_GRAPH = pathlib.Path(__file__).resolve().parent.parent.parent / "examples/large-graphs/make_graph.py"
VOCABULARY, BATCH = 61, 4
LONG, SHORT = 256, 128  # tokens: the scores of a head are enough for one call, and are not
# Flags, and the batch and heads of a call.
WAYS = {"one device": ((), BATCH, 2), "data": (("--mesh", "data=2"), BATCH // 2, 2), "heads": (("--mesh", "model=2"), BATCH, 1),
        "a pipeline": (("--mesh", "stage=2", "--microbatches", "2"), BATCH // 2, 2)}
BF16, APART = ("--precision", "bf16"), ("--precision", "bf16", "--no-fused-attention")


class Model:
    """A GPT of two layers, and its data."""

    def __init__(self, divisi, folder, tokens):
        folder.mkdir()
        self.divisi, self.folder, self.path = divisi, folder, folder / "model.onnx"
        lines.call(sys.executable, MAKE_GRAPH, "gpt", *f"--layers 2 --hidden 64 --heads 2 --vocab {VOCABULARY} --seq {tokens}".split(),
                   "--qkv", "separate", "--weights", "random", "-o", self.path)
        graph = onnx.load(self.path)
        for tensor in graph.graph.initializer:
            if re.search(r"attn\.[qk].*weight", tensor.name):  # so that the softmax is far from uniform
                tensor.CopyFrom(numpy_helper.from_array(10 * numpy_helper.to_array(tensor), tensor.name))
        onnx.save(graph, self.path)
        random = np.random.default_rng(5)
        for name in "idx", "targets":
            np.save(folder / f"{name}.npy", random.integers(0, VOCABULARY, (BATCH, tokens)))

    def compile(self, out, *words):
        lines.call(self.divisi, "compile", self.path, "--dim", f"batch={BATCH}", "--optimizer", "sgd", "--lr", "1", "-o", out, *words)
        return out

    def dump(self, folder, *words):
        return self.compile(folder / "dump.mlir", "--emit", "exec", *words).read_text()

    def gradients(self, folder, *words):
        """Of all weights, which a step of gradient descent subtracts."""
        program, after = self.compile(folder / "program", *words), folder / "after.safetensors"
        data = [word for name in ("idx", "targets") for word in ("--data", f"{name}={self.folder / name}.npy")]
        lines.call(self.divisi, "run", "--devices", 2 if "--mesh" in words else 1, program, *data, "--steps", 1, "--quiet", "--save-weights", after)
        new, old = read_weights(after), read_weights(folder / "program.safetensors")
        return {name: old[name] - new[name] for name in old}


def calls(dump):
    return len(re.findall(r"exec\.call graph\.attention_grad\b", dump))


def arena(dump):
    return int(re.search(r"exec\.arena_bytes = (\d+)", dump)[1])


def of_attention(gradients):
    """The projections of queries, keys and values, and of results."""
    return [name for name in gradients if "attn" in name and gradients[name].ndim == 2]


def difference(one, other):
    """The largest of attention's weights, relative to their norms."""
    return max(np.linalg.norm(one[name] - other[name]) / np.linalg.norm(other[name]) for name in of_attention(other))


def memory(model, folder):
    fused, apart = model.dump(folder, *BF16), model.dump(folder, *APART)
    yield calls(fused) == 2 and calls(apart) == 0, f"each layer has one call: {calls(fused)} and {calls(apart)}"
    scores = 2 * BATCH * 2 * LONG * LONG * 2  # bf16, of two layers
    yield arena(apart) - arena(fused) >= scores, f"those of both layers are not in memory: {arena(apart)} and {arena(fused)} bytes"


def decomposed(model, words, folder):
    found = calls(model.dump(folder, *words))
    yield found == 0, f"{found} calls"


def sharded(model, whole, way, folder):
    words, batch, heads = WAYS[way]
    dump = model.dump(folder, *BF16, *words)
    here = re.findall(rf"exec\.call graph\.attention_grad\b.* : \(tensor<{batch}x{LONG}x{heads}x32xbf16>", dump)
    yield len(here) == 2, f"attention is called for {batch} x {heads} heads: {len(here)} of {calls(dump)} times"
    one, apart = model.gradients(folder, *BF16, *words), model.gradients(folder, *APART, *words)
    near, off = difference(one, whole), difference(apart, whole)
    yield near < 1.2 * off + 2e-3 and near < 0.05, f"gradients: {near:.1e} from fp32, matmuls {off:.1e}; {difference(one, apart):.1e} between both"


def main():
    o = lines.parser(__doc__.splitlines()[0]).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model, short = Model(o.divisi, folder / "long", LONG), Model(o.divisi, folder / "short", SHORT)
        whole = model.gradients(folder)
        names = of_attention(whole)
        tests = [
            ("weights of attention", lambda _: [(len(names) == 8, f"{names}")]),
            ("scores", functools.partial(memory, model)),
            ("short sequences have matmuls", functools.partial(decomposed, short, BF16)),
            ("fp16 has matmuls", functools.partial(decomposed, model, ("--precision", "fp16"))),
            *[(way, functools.partial(sharded, model, whole, way)) for way in WAYS],
        ]
        return lines.run(tests, o)


if __name__ == "__main__":
    sys.exit(main())
