#!/usr/bin/env python3
"""Random operators: their distribution, by moments and Kolmogorov-Smirnov tests of many numbers, and that a program draws the same
numbers on one rank, two and four, in microbatches, in a pipeline, and after it was resumed.

    random_numbers.py --divisi PATH

Seeds are fixed, so a run cannot fail by chance. Needs numpy and onnx. Ends with `N passed, N failed`.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import cases

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "fuzz"))
from program import read_safetensors

FLOAT, DOUBLE, HALF, WHOLE = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT64
COUNT = 200000
DIVISI = ""


def run(*words, code=0):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=300)
    assert done.returncode == code, f"exit {done.returncode}: {(done.stderr or done.stdout)[-400:]}"
    return done


def node(operator, inputs, output, **attributes):
    return helper.make_node(operator, inputs, [output], **attributes)


# Distributions.


def normal_cdf(x):
    return 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def draw(folder, nodes, output, kind, inputs=()):
    """The numbers that a graph computes, without training."""
    infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in inputs]
    graph = helper.make_graph(nodes, "draw", infos, [onnx.ValueInfoProto(name=output)])
    graph.output[0].type.tensor_type.elem_type = kind
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    onnx.save(model, folder / "draw.onnx")
    for name, array in inputs:
        np.save(folder / f"{name}.npy", array)
    entry = {"model": str(folder / "draw.onnx"), "inputs": {n: str(folder / f"{n}.npy") for n, _ in inputs}, "outputs": str(folder / "out")}
    (folder / "list.json").write_text(json.dumps([entry]))
    answer = json.loads(run(DIVISI, "run-graph", "--batch", folder / "list.json").stdout)
    assert answer["ok"], answer.get("error")
    return np.load(folder / "out" / f"{output}.npy")


def distance(sample, cdf):
    """The statistic of Kolmogorov and Smirnov times sqrt(n): above 1.95 in one of a thousand samples of the distribution."""
    x = np.sort(sample.astype(np.float64).ravel())
    n = len(x)
    ideal = cdf(x)
    steps = np.arange(n + 1) / n
    return math.sqrt(n) * max((steps[1:] - ideal).max(), (ideal - steps[:-1]).max())


def examine(sample, mean, deviation, cdf, fourth):
    """Mean and variance within four of their standard errors, the Kolmogorov-Smirnov distance, and no correlation of
    neighbours. `fourth`: the fourth central moment over the squared variance."""
    x = sample.astype(np.float64).ravel()
    n = len(x)
    assert abs(x.mean() - mean) < 4 * deviation / math.sqrt(n), f"mean {x.mean():.5f}, not {mean}"
    error = deviation**2 * math.sqrt((fourth - 1) / n)
    assert abs(x.var() - deviation**2) < 4 * error, f"variance {x.var():.5f}, not {deviation**2:.5f}"
    d = distance(x, cdf)
    assert d < 1.95, f"Kolmogorov-Smirnov distance {d:.2f}"
    for lag in (1, 2, 64):
        r = np.corrcoef(x[:-lag], x[lag:])[0, 1]
        assert abs(r) < 4 / math.sqrt(n), f"correlation {r:.4f} at {lag}"
    return f"mean {x.mean():.4f}, deviation {x.std():.4f}, distance {d:.2f}"


def uniform(folder):
    x = draw(folder, [node("RandomUniform", [], "y", shape=[COUNT], low=-1.0, high=3.0)], "y", FLOAT)
    assert x.min() >= -1 and x.max() < 3
    return examine(x, 1, 4 / math.sqrt(12), lambda v: (v + 1) / 4, 1.8)


def normal(folder):
    x = draw(folder, [node("RandomNormal", [], "y", shape=[COUNT // 100, 100], mean=2.0, scale=0.5)], "y", FLOAT)
    assert x.shape == (COUNT // 100, 100)
    return examine(x, 2, 0.5, lambda v: normal_cdf((v - 2) / 0.5), 3)


def like(folder):
    shape = np.zeros((COUNT // 50, 50), np.float32)
    x = draw(folder, [node("RandomNormalLike", ["x"], "y", dtype=DOUBLE)], "y", DOUBLE, [("x", shape)])
    assert x.dtype == np.float64 and x.shape == shape.shape
    yield examine(x, 0, 1, normal_cdf, 3)
    x = draw(folder, [node("RandomUniformLike", ["x"], "y")], "y", FLOAT, [("x", shape)])
    yield examine(x, 0.5, 1 / math.sqrt(12), lambda v: v, 1.8)


def half(folder):
    """The type's own spacing moves the distance."""
    x = draw(folder, [node("RandomNormalLike", ["x"], "y")], "y", HALF, [("x", np.zeros(COUNT, np.float16))]).astype(np.float64)
    assert abs(x.mean()) < 4 / math.sqrt(COUNT) and abs(x.std() - 1) < 0.01
    return f"mean {x.mean():.4f}, deviation {x.std():.4f}"


def bernoulli(folder):
    p = np.tile(np.array([0, 0.1, 0.5, 0.9, 1], np.float32), (COUNT // 5, 1))
    x = draw(folder, [node("Bernoulli", ["p"], "y", dtype=WHOLE)], "y", WHOLE, [("p", p)])
    assert x.dtype == np.int64 and set(np.unique(x)) == {0, 1}
    for k, probability in enumerate(p[0]):
        error = 4 * math.sqrt(probability * (1 - probability) / len(x))
        assert abs(x[:, k].mean() - probability) <= error + 1e-9, f"share {x[:, k].mean()}, not {probability}"
    return "shares " + " ".join(f"{v:.4f}" for v in x.mean(axis=0))


def multinomial(folder):
    p = np.array([[0.1, 0.2, 0.3, 0.4], [0.97, 0.01, 0.01, 0.01], [0.25] * 4])
    logits = (np.log(p) + [[3.0], [0.0], [-2.0]]).astype(np.float32)
    x = draw(folder, [node("Multinomial", ["x"], "y", sample_size=COUNT // 4)], "y", TensorProto.INT32, [("x", logits)])
    assert x.shape == (3, COUNT // 4) and x.dtype == np.int32
    worst = 0.0
    for row, wanted in zip(x, p):
        counts = np.bincount(row, minlength=4)
        worst = max(worst, float((((counts - wanted * row.size) ** 2) / (wanted * row.size)).sum()))
    assert worst < 16.27, f"chi squared {worst:.1f}"  # above it in one of a thousand samples, with 3 degrees of freedom
    return f"chi squared {worst:.1f}"


def streams(folder):
    """Nodes draw different numbers, and with one seed attribute the same."""
    make = lambda name, **more: node("RandomNormal", [], name, shape=[COUNT], **more)
    stack = node("Concat", ["a", "b", "c", "d", "e"], "y", axis=0)
    nodes = [make("a"), make("b"), make("c", seed=3.0), make("d", seed=3.0), make("e", seed=4.0), stack]
    a, b, c, d, e = draw(folder, nodes, "y", FLOAT).reshape(5, COUNT)
    assert np.array_equal(c, d)
    for one, other in ((a, b), (a, c), (c, e), (b, e)):
        r = np.corrcoef(one, other)[0, 1]
        assert abs(r) < 4 / math.sqrt(COUNT), f"correlation {r:.4f}"
    return "two streams and two seeds are uncorrelated"


# Programs.

BATCH, WIDTH, STEPS = 16, 12, 6
PLANS = {
    "two ranks": ["--devices", "2", "--strategy", "data"],
    "four ranks": ["--devices", "4", "--strategy", "data"],
    "split weights": ["--mesh", "data=2,model=2"],
    "microbatches": ["--microbatches", "4"],
    "microbatches on two ranks": ["--mesh", "data=2", "--microbatches", "2"],
    "pipeline": ["--mesh", "stage=2", "--microbatches", "4"],
    "rematerialized": ["--remat", "all"],
}


def noisy(folder, seed=None):
    """A network with noise on its activations, multiplied and added, and a random path that is left out."""
    draw = np.random.default_rng(1)
    weights = {n: (0.5 * draw.normal(size=s)).astype(np.float32) for n, s in (("fc1.weight", (WIDTH, 32)), ("fc2.weight", (32, 32)), ("fc3.weight", (32, 8)))}
    own = {} if seed is None else {"seed": seed}
    nodes = [
        node("MatMul", ["x", "fc1.weight"], "a", name="/fc1/MatMul"),
        node("RandomNormalLike", ["a"], "noise", scale=0.5, **own),
        node("Add", ["a", "noise"], "b"),
        node("MatMul", ["b", "fc2.weight"], "c", name="/fc2/MatMul"),
        node("Tanh", ["c"], "d"),
        node("ReduceMean", ["d"], "rows", axes=[1], keepdims=1),  # [batch, 1]
        node("Mul", ["rows", "zero"], "nothing"),
        node("Add", ["nothing", "keep"], "chance"),
        node("Bernoulli", ["chance"], "alive"),
        node("Mul", ["d", "alive"], "e"),
        node("RandomUniformLike", ["e"], "u", low=0.5, high=1.5, **own),
        node("Mul", ["e", "u"], "f"),
        node("MatMul", ["f", "fc3.weight"], "g", name="/fc3/MatMul"),
        node("Mul", ["g", "g"], "h"),
        node("ReduceMean", ["h"], "loss", keepdims=0),
    ]
    constants = [node("Constant", [], n, value=numpy_helper.from_array(np.float32(v))) for n, v in (("zero", 0), ("keep", 0.7))]
    graph = helper.make_graph([*constants, *nodes], "noisy", [helper.make_tensor_value_info("x", FLOAT, [BATCH, WIDTH])],
                              [helper.make_tensor_value_info("loss", FLOAT, [])], [numpy_helper.from_array(a, n) for n, a in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "noisy.onnx")
    np.save(folder / "x.npy", draw.normal(size=(BATCH, WIDTH)).astype(np.float32))


def compiled(folder, name, flags=()):
    program = folder / name
    run(DIVISI, "compile", folder / "noisy.onnx", "-o", program, "--optimizer", "sgd", "--lr", "0.1", *flags)
    mesh = json.loads(run(program, "--describe", "json").stdout).get("mesh", {})
    return program, math.prod(mesh.values()) if mesh else 1


def losses(folder, name, program, ranks, *more, steps=STEPS):
    log = folder / f"{name}.jsonl"
    log.unlink(missing_ok=True)
    launcher = [DIVISI, "run", "--devices", str(ranks)] if ranks > 1 else []
    run(*launcher, program, f"--data=x={folder / 'x.npy'}", "--steps", steps, "--no-shuffle", "--quiet", "--log", log, *more)
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    return np.array([row["loss"] for row in rows if row.get("step") and "loss" in row], np.float64)


def plans(folder):
    """The same losses under every plan, and others in each step and with another --seed."""
    noisy(folder)
    one, _ = compiled(folder, "one")
    want = losses(folder, "one", one, 1)
    assert len(want) == STEPS and len(set(want)) == STEPS
    other = losses(folder, "other", one, 1, "--seed", "5")
    assert np.abs(other - want).min() > 1e-3, "another --seed gives the same losses"
    yield f"{STEPS} steps differ, and from those of another --seed"
    for name, flags in PLANS.items():
        program, ranks = compiled(folder, "program", flags)
        off = np.abs(losses(folder, "program", program, ranks) / want - 1).max()
        assert off < 2e-5, f"{name}: losses are off by {off:.2g}"
        yield f"{name}: losses equal to {off:.1g}"


def resumed(folder):
    noisy(folder)
    program, _ = compiled(folder, "one")
    want = losses(folder, "whole", program, 1)
    keep = ["--checkpoint", folder / "kept", "--every", "2"]
    first = losses(folder, "first", program, 1, *keep, steps=4)
    rest = losses(folder, "rest", program, 1, *keep, "--resume")
    assert np.array_equal(np.concatenate([first, rest]), want), f"{first} and {rest} are not {want}"
    return "the same losses, bit by bit"


def own_seed(folder):
    """With the attribute, --seed does not change the numbers, but the step does: two nodes have one seed."""
    noisy(folder, seed=7.0)
    nodes = onnx.load(folder / "noisy.onnx")
    kept = [n for n in nodes.graph.node if n.op_type == "Bernoulli"]
    kept[0].attribute.append(helper.make_attribute("seed", 8.0))
    onnx.save(nodes, folder / "noisy.onnx")
    program, _ = compiled(folder, "one")
    want = losses(folder, "one", program, 1)
    assert len(set(want)) == STEPS
    assert np.array_equal(losses(folder, "other", program, 1, "--seed", "5"), want)
    program, ranks = compiled(folder, "two", PLANS["two ranks"])
    off = np.abs(losses(folder, "two", program, ranks) / want - 1).max()
    assert off < 2e-5, f"on two ranks losses are off by {off:.2g}"
    return f"--seed changes nothing; two ranks equal to {off:.1g}"


def refusals(folder):
    for attributes in ({"shape": [-1]}, {"shape": [2], "dtype": WHOLE}, {}):
        graph = helper.make_graph([helper.make_node("RandomNormal", [], ["y"], "noise", **attributes)], "g", [], [onnx.ValueInfoProto(name="y")])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10), folder / "bad.onnx")
        (folder / "list.json").write_text(json.dumps([{"model": str(folder / "bad.onnx"), "inputs": {}, "outputs": str(folder / "out")}]))
        said = json.loads(subprocess.run([DIVISI, "run-graph", "--batch", folder / "list.json"], capture_output=True, text=True).stdout)
        assert not said["ok"] and "'noise'" in said["error"], said
    return "name the node"


def main():
    global DIVISI
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    DIVISI = str(pathlib.Path(p.parse_args().divisi).resolve())
    return cases.run([uniform, normal, like, half, bernoulli, multinomial, streams, plans, resumed, own_seed, refusals],
                     lambda case, folder: case(folder))


if __name__ == "__main__":
    sys.exit(main())
