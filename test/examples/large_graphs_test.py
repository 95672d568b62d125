#!/usr/bin/env python3
"""Checks what examples/large-graphs/make_graph.py writes, with small instances of every kind of model.

    large_graphs_test.py [--divisi PATH]

Each must pass ONNX's checker, have the number of parameters that a formula says, and compute a finite loss in ONNX's
reference evaluator: about that of a guess. With --divisi also: the compiler accepts it, with
weights inside and with a file of holes, and its program's first loss is the evaluator's. Prints `N passed, N failed`. Needs
the packages in ../requirements.txt.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples/large-graphs"
sys.path.insert(0, str(EXAMPLE))
sys.dont_write_bytecode = True
import make_graph  # noqa: E402

BATCH = 2
SMALL = "--layers 2 --hidden 32 --heads 4 --vocab 61 --seq 16"
MOE = f"{SMALL} --experts 4"
RESNET = "--depth 26 --width 2 --channels 4 --image 32 --classes 10"
# Every kind and every way of writing it; the number of classes that the loss tells apart.
CASES = {
    "gpt": (f"gpt {SMALL}", 61),
    "gpt_separate": (f"gpt {SMALL} --qkv separate --gelu tanh --untied", 61),
    "gpt_gelu_op": (f"gpt {SMALL} --gelu op", 61),
    "moe": (f"moe {MOE}", 61),
    "moe_every_block": (f"moe {MOE} --every 1 --top 1 --group 8 --balance 0 --gelu op", 61),
    "moe_dropping": (f"moe {MOE} --top 3 --capacity 0.3", 61),
    "moe_roomy": (f"moe {MOE} --capacity 2", 61),
    "wide_resnet": (f"wide-resnet {RESNET}", 10),
    "vgg": ("vgg --channels 4 --hidden 24 --image 32 --classes 10", 10),
    "mlp": ("mlp --layers 3 --hidden 20 --inputs 12 --classes 7", 7),
}
# The sizes of Alpa's evaluation (arXiv 2201.12023): billions of parameters.
GPT, WRESNET = "gpt --vocab 51200 --seq 1024", "wide-resnet --image 224"
ALPA_MOE = "moe --vocab 32000 --seq 1024 --group 2048 --heads 16"
PUBLISHED = {
    "vgg": 0.138,  # arXiv 1409.1556
    f"{GPT} --layers 24 --hidden 1024 --heads 16": 0.35,
    f"{GPT} --layers 32 --hidden 2560 --heads 32": 2.6,
    f"{GPT} --layers 48 --hidden 5120 --heads 40": 15,
    f"{GPT} --layers 48 --hidden 8192 --heads 64": 39,
    f"{ALPA_MOE} --layers 8 --hidden 768 --inner 6144 --experts 8": 0.38,
    f"{ALPA_MOE} --layers 16 --hidden 1536 --inner 12288 --experts 32": 10,
    f"{ALPA_MOE} --layers 32 --hidden 2048 --inner 16384 --experts 64": 70,
    f"{WRESNET} --depth 50 --width 2 --channels 320": 1,
    f"{WRESNET} --depth 50 --width 2 --channels 640": 4,
    f"{WRESNET} --depth 50 --width 16 --channels 320": 6.8,
    f"{WRESNET} --depth 101 --width 16 --channels 320": 13,
}
divisi = None


def options(words):
    return make_graph.parse(words.split())


def transformer_parameters(o):
    """12 L H^2 for blocks with four times the width inside, plus biases, norms and embeddings; experts have no bias."""
    h, inner = o.hidden, o.inner
    attention, norms = 4 * h * h + 4 * h, 4 * h
    dense = 2 * h * inner + inner + h
    sparse = o.experts * (2 * h * inner + h)
    sparse_blocks = math.ceil(o.layers / o.every) if o.experts else 0
    blocks = o.layers * (attention + norms) + (o.layers - sparse_blocks) * dense + sparse_blocks * sparse
    return blocks + (o.vocab * (2 if o.untied else 1) + o.seq + 2) * h


def resnet_parameters(o):
    total, inputs = o.channels * (3 * 49 + 2), o.channels
    for stage, blocks in enumerate({26: [2, 2, 2, 2], 50: [3, 4, 6, 3], 101: [3, 4, 23, 3]}[o.depth]):
        p, w = o.channels * 2**stage, o.width
        for block in range(blocks):
            total += inputs * p + 9 * p * p * w + 4 * p * p * w + 2 * (p + p * w + 4 * p)
            total += (inputs * 4 * p + 8 * p) if block == 0 else 0
            inputs = 4 * p
    return total + inputs * o.classes + o.classes


def mlp_parameters(o):
    h = o.hidden
    return (o.inputs + 1) * h + (o.layers - 1) * (h + 1) * h + (h + 1) * o.classes


def vgg_parameters(o):
    widths = [3, *(o.channels * c for c in (1, 1, 2, 2, 4, 4, 4, 8, 8, 8, 8, 8, 8))]
    convolutions = sum((9 * a + 1) * b for a, b in zip(widths, widths[1:]))
    flat = widths[-1] * (o.image // 32) ** 2
    return convolutions + (flat + 1) * o.hidden + (o.hidden + 1) * (o.hidden + o.classes)


FORMULAS = {
    "gpt": transformer_parameters,
    "moe": transformer_parameters,
    "wide-resnet": resnet_parameters,
    "vgg": vgg_parameters,
    "mlp": mlp_parameters,
}


def feeds_of(model, classes):
    """One batch of inputs."""
    random, feeds = np.random.default_rng(1), {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        shape = [dim.dim_value or BATCH for dim in tensor.shape.dim]
        is_float = tensor.elem_type == onnx.TensorProto.FLOAT
        feeds[value.name] = (
            random.normal(size=shape).astype(np.float32) if is_float else random.integers(0, classes, shape)
        )
    return feeds


def call(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"{command[:2]}: exit {done.returncode}: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout


class LargeGraphsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def each(self, check, cases=CASES):
        """Calls check(words, classes) for all cases and tells those that fail apart."""
        for name in cases:
            with self.subTest(name):
                check(*CASES[name])

    def make(self, words, weights):
        """The model's file."""
        o = options(f"{words} --weights {weights} -o {self.folder / 'model.onnx'}")
        model, _, length = make_graph.build(o)
        make_graph.check(model)
        make_graph.write(model, o, length)
        return o.output

    def test_loss_is_that_of_a_guess(self):
        def check(words, classes):
            model = onnx.load(self.make(words, "random"))
            onnx.checker.check_model(model, full_check=True)
            loss = float(ReferenceEvaluator(model).run(["loss"], feeds_of(model, classes))[0])
            self.assertTrue(math.isfinite(loss), loss)
            self.assertLess(abs(loss - math.log(classes)), 0.2 if classes == 61 else 3)

        self.each(check)

    def test_parameters(self):
        def check(words, _):
            o = options(words)
            model, parameters, length = make_graph.build(o)
            self.assertEqual(parameters, FORMULAS[o.kind](o))
            trained = [t for t in model.graph.initializer if "running_" not in t.name]
            self.assertEqual(parameters, sum(math.prod(t.dims) for t in trained))
            self.assertEqual(length, sum(4 * math.prod(t.dims) for t in model.graph.initializer))

        self.each(check)

    def test_published_sizes(self):
        for words, billions in PUBLISHED.items():
            with self.subTest(words):
                o = options(words)
                model, parameters, _ = make_graph.build(o)
                make_graph.check(model)
                self.assertEqual(parameters, FORMULAS[o.kind](o))
                self.assertLess(abs(parameters / 1e9 / billions - 1), 0.05)
                self.assertLess(model.ByteSize(), 1 << 20)

    def test_external_data_fill_the_file(self):
        """Parts follow each other without gaps, and the file of holes has their length."""

        def check(words, _):
            path = self.make(words, "sparse")
            end = 0
            for tensor in onnx.load(path, load_external_data=False).graph.initializer:
                self.assertEqual(tensor.data_location, onnx.TensorProto.EXTERNAL)
                entries = {entry.key: entry.value for entry in tensor.external_data}
                self.assertEqual(entries["location"], "weights.bin")
                self.assertEqual(int(entries["offset"]), end)
                self.assertEqual(int(entries["length"]), 4 * math.prod(tensor.dims))
                end += int(entries["length"])
            self.assertEqual((self.folder / "weights.bin").stat().st_size, end)
            onnx.checker.check_model(str(path))

        self.each(check)

    def test_graph_does_not_depend_on_the_weights(self):
        def check(words, _):
            graphs = []
            for weights in "random", "none":
                graph = onnx.load(self.make(words, weights), load_external_data=False).graph
                shapes = [(t.name, tuple(t.dims)) for t in graph.initializer]
                self.assertEqual(len(shapes), len(dict(shapes)))
                del graph.initializer[:]
                graphs.append((shapes, graph.SerializeToString(deterministic=True)))
            self.assertEqual(*graphs)

        self.each(check)

    def test_names(self):
        model, _, _ = make_graph.build(options(CASES["gpt"][0]))
        nodes = [node.name for node in model.graph.node]
        self.assertEqual(len(nodes), len(set(nodes)))
        self.assertIn("/blocks.1/attn/qkv/MatMul", nodes)
        self.assertIn("blocks.1.attn.qkv.weight", [tensor.name for tensor in model.graph.initializer])

    def test_attention_looks_back(self):
        """Each token's weights over the others add up to one, and none is ahead."""

        def check(words, classes):
            o = options(words)
            model = onnx.load(self.make(words, "random"))
            name = "/blocks.1/attn/Softmax_output_0"
            model.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
            weights = ReferenceEvaluator(model).run([name], feeds_of(model, classes))[0]
            self.assertEqual(weights.shape, (BATCH, o.heads, o.seq, o.seq))
            self.assertLess(abs(weights.sum(-1) - 1).max(), 1e-5)
            self.assertEqual(np.triu(weights, 1).max(), 0)
            self.assertGreater((weights + np.triu(np.ones_like(weights), 1)).min(), 0)

        self.each(check, [name for name in CASES if name.startswith(("gpt", "moe"))])

    def test_experts_keep_their_capacity(self):
        """Each place of an expert has at most one token, each token at most `top` places with shares up to one."""

        def check(words, classes):
            o = options(words)
            model = onnx.load(self.make(words, "random"))
            names = [f"/blocks.0/moe/Einsum{suffix}_output_0" for suffix in ("", "_1")]
            for name in names:
                model.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
            dispatch, combine = ReferenceEvaluator(model).run(names, feeds_of(model, classes))
            groups, places = BATCH * o.seq // o.group, make_graph.capacity(o)
            self.assertEqual(dispatch.shape, (groups, o.group, o.experts, places))
            self.assertTrue(set(np.unique(dispatch)) <= {0, 1})
            self.assertLessEqual(dispatch.sum(1).max(), 1)
            self.assertLessEqual(dispatch.sum((2, 3)).max(), o.top)
            self.assertTrue(((combine > 0) == (dispatch > 0)).all())
            self.assertLess(combine.sum((2, 3)).max(), 1 + 1e-5)
            sent = groups * o.group * o.top
            if o.capacity < 1:  # all places are taken, and some tokens find none
                self.assertEqual(dispatch.sum(), groups * o.experts * places)
                self.assertLess(dispatch.sum(), sent)
            elif o.capacity * o.top >= o.experts:  # room for everybody
                self.assertEqual(dispatch.sum(), sent)

        self.each(check, [name for name in CASES if name.startswith("moe")])

    def test_compiler_accepts_it(self):
        def check(words, _):
            for weights in "random", "sparse":
                path = self.make(words, weights)
                text = call(divisi, "compile", path, "--emit", "train", "--dim", f"batch={BATCH}")
                self.assertIn("func.func @train", text)

        if not divisi:
            self.skipTest("no --divisi")
        self.each(check)

    def test_program_computes_the_same_loss(self):
        def check(words, classes):
            path, data = self.make(words, "random"), []
            model = onnx.load(path)
            feeds = feeds_of(model, classes)
            program, log = self.folder / "program", self.folder / "log.jsonl"
            for name, values in feeds.items():
                np.save(self.folder / f"{name}.npy", values)
                data += ["--data", f"{name}={self.folder / name}.npy"]
            call(divisi, "compile", path, "-o", program, "--dim", f"batch={BATCH}")
            call(program, *data, "--no-shuffle", "--log", log)
            here = next(row["loss"] for row in map(json.loads, log.read_text().splitlines()) if "loss" in row)
            elsewhere = float(ReferenceEvaluator(model).run(["loss"], feeds)[0])
            self.assertLess(abs(here - elsewhere), 1e-4 * abs(elsewhere))

        if not divisi:
            self.skipTest("no --divisi")
        self.each(check, ["gpt", "moe_dropping", "wide_resnet"])

    def test_throughput(self):
        """divisi plan's rates follow from the step; its FLOPs are those of PaLM's formula (arXiv 2204.02311, appendix B)."""
        if not divisi:
            self.skipTest("no --divisi")
        layers, hidden, heads, words, positions, batch, price = 2, 64, 4, 320, 32, 16, 2.5
        path, peak = self.folder / "gpt.onnx", 989e12  # of an H100 in bf16, NVIDIA's data sheet
        call(sys.executable, EXAMPLE / "make_graph.py", "gpt", "--layers", layers, "--hidden", hidden, "--heads", heads,
             "--vocab", words, "--seq", positions, "-o", path)
        text = call(divisi, "plan", path, "--cluster", "4xh100", "--dim", f"batch={batch}", "--precision", "bf16",
                    "--price", f"{price}/h", "--json")
        tokens, matrices = batch * positions, layers * 12 * hidden**2 + words * hidden
        flops = 6 * matrices * tokens + layers * 12 * positions * hidden * tokens
        for plan in json.loads(text)["plans"]:
            seconds, devices = plan["step_ms"] / 1e3, plan["devices"]
            for field, value in {"samples_per_s": batch / seconds, "tokens_per_s": tokens / seconds,
                                 "mfu": flops / (devices * peak * seconds),
                                 "cost_per_million_tokens": price / 3600 * devices * seconds / tokens * 1e6}.items():
                self.assertLess(abs(plan[field] / value - 1), 1e-9, (plan["name"], field))
        images = call(divisi, "plan", self.make(CASES["mlp"][0], "none"), "--cluster", "2xh100", "--dim", f"batch={batch}", "--price", "1", "--json")
        plan = json.loads(images)["plans"][0]
        self.assertNotIn("tokens_per_s", plan)
        self.assertLess(abs(plan["cost_per_million_samples"] * plan["samples_per_s"] * 3.6e-3 / plan["devices"] - 1), 1e-9)

    def test_command_line(self):
        path = self.folder / "m.onnx"
        text = call(sys.executable, EXAMPLE / "make_graph.py", *CASES["gpt"][0].split(), "-o", path)
        self.assertIn("27,936 parameters", text)
        self.assertTrue(path.is_file())
        self.assertFalse((self.folder / "weights.bin").exists())
        for wrong in "gpt --heads 5", "moe --top 9 --experts 8", "wide-resnet --depth 51":
            done = subprocess.run([sys.executable, EXAMPLE / "make_graph.py", *wrong.split()], capture_output=True)
            self.assertEqual(done.returncode, 2, wrong)


def main():
    global divisi
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", type=lambda text: pathlib.Path(text).resolve(), help="the compiler")
    divisi = p.parse_args().divisi
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(LargeGraphsTest)
    result = unittest.TextTestRunner(stream=sys.stdout).run(suite)
    bad = {getattr(case, "test_case", case).id() for case, _ in result.failures + result.errors}
    print(f"{result.testsRun - len(bad) - len(result.skipped)} passed, {len(bad)} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
