#!/usr/bin/env python3
"""Models in which dimensions of different meaning have one size: the batch, a label's length, the vocabulary, a table of positions.

    dimensions.py --divisi PATH [--filter REGEX]

The loss and the gradients of a step are those of the reference (test/fuzz), and with microbatches, over the axis data, and in a pipeline
those of one device. Ends with `N passed, N failed`.
"""

import argparse
import pathlib
import re
import sys
import tempfile

import numpy as np
from onnx import helper, numpy_helper, parser

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "fuzz"))
import compare
import program
from case import Case

PLANS = (["--microbatches", "2"], ["--mesh", "data=2"], ["--mesh", "data=2", "--microbatches", "2"], ["--mesh", "stage=2", "--microbatches", "2"])
RNG = np.random.default_rng(4)
F = lambda *shape: RNG.normal(size=shape).astype(np.float32)
I = lambda high, *shape: RNG.integers(0, high, shape)
N = lambda *values: np.array(values, np.int64)

TOKENS = """
    z = MatMul(h, w)
    classes = Transpose<perm = [0, 2, 1]>(z)
    loss = SoftmaxCrossEntropyLoss(classes, y)"""
ROWS = """
    m = ReduceMean<axes = [1], keepdims = 0>(x)
    z = MatMul(m, w)
    loss = SoftmaxCrossEntropyLoss(z, y)"""

# name: (inputs, nodes, parameters, constants, data)
CASES = {
    # A table by the batch's indices: one index or two, and rows of the batch by constant ones.
    "table": ("int64[4,4,1] i, int64[4] y", f"x = GatherND(t, i) {ROWS}", {"t": F(4, 5), "w": F(5, 3)}, {}, {"i": I(4, 4, 4, 1), "y": I(3, 4)}),
    "table-2": ("int64[4,4,2] i, int64[4] y", f"x = GatherND(t, i) {ROWS}", {"t": F(4, 4, 5), "w": F(5, 3)}, {},
                {"i": I(4, 4, 4, 2), "y": I(3, 4)}),
    "positions": ("int64[4,4] i, int64[4] y", f"e = Gather(t, i)\n p = GatherND(q, at)\n x = Add(e, p) {ROWS}",
                  {"t": F(7, 5), "q": F(4, 5), "w": F(5, 3)}, {"at": N([0], [2], [1], [3])}, {"i": I(7, 4, 4), "y": I(3, 4)}),
    # An input with two rows for each sample.
    "two rows of a sample": ("float[4,4] x, float[8,3] y", """
        h = MatMul(x, w)
        one = Reshape(h, alone)
        two = Expand(one, both)
        rows = Reshape(two, flat)
        d = Sub(rows, y)
        q = Mul(d, d)
        loss = ReduceMean<keepdims = 0>(q)""", {"w": F(4, 3)}, {"alone": N(4, 1, 3), "both": N(4, 2, 3), "flat": N(8, 3)},
                             {"x": F(4, 4), "y": F(8, 3)}),
    # A mask of the batch, gathered by constant index vectors as transformers do.
    "mask": ("int64[4,4] i, int64[4,4] keep, int64[4,4] y", f"""
        e = Gather(t, i)
        et = Transpose<perm = [0, 2, 1]>(e)
        s = MatMul(e, et)
        k = Cast<to = 9>(keep)
        b = Expand(b0, shape)
        at = Expand(k0, shape)
        index = Concat<axis = -1>(b, at)
        seen = GatherND(k, index)
        masked = Where(seen, s, low)
        a = Softmax(masked)
        h = MatMul(a, e) {TOKENS}""", {"t": F(9, 6), "w": F(6, 5)},
             {"b0": np.arange(4).reshape(4, 1, 1, 1), "k0": np.arange(4).reshape(1, 1, 4, 1), "shape": N(4, 4, 4, 1), "low": np.float32(-1e4)},
             {"i": I(9, 4, 4), "keep": np.maximum(I(2, 4, 4), np.eye(4, dtype=np.int64)), "y": I(5, 4, 4)}),
    # One position of each sample: index vectors, and places in the flattened batch.
    "own rows": ("int64[4,4] i, int64[4] at, int64[4] y", f"""
        e = Gather(t, i)
        h = Tanh(e)
        most = ArgMax<axis = 1, keepdims = 0>(i)
        count = Unsqueeze(counter, last)
        position = Unsqueeze(at, last)
        vectors = Concat<axis = -1>(count, position)
        a = GatherND(h, vectors)
        flat = Reshape(h, rows)
        place = Add(most, starts)
        b = Gather(flat, place)
        given = Add(starts, at)
        c = Gather(flat, given)
        ab = Add(a, b)
        cc = Mul(c, c)
        m = Add(ab, cc)
        z = MatMul(m, w)
        loss = SoftmaxCrossEntropyLoss(z, y)""", {"t": F(9, 4), "w": F(4, 5)},
        {"counter": np.arange(4), "last": N(-1), "rows": N(-1, 4), "starts": 4 * np.arange(4)}, {"i": I(9, 4, 4), "at": I(4, 4), "y": I(5, 4)}),
    # One position of each sample is replaced.
    "own updates": ("float[4,4,4] x, int64[4] at, int64[4] y", """
        h = MatMul(x, v)
        r = Tanh(h)
        u = ReduceMax<axes = [1], keepdims = 0>(h)
        count = Unsqueeze(counter, last)
        position = Unsqueeze(at, last)
        vectors = Concat<axis = -1>(count, position)
        x1 = ScatterND(r, vectors, u)
        x2 = Mul(x1, x1)
        m = ReduceMean<axes = [1], keepdims = 0>(x2)
        z = MatMul(m, w)
        loss = SoftmaxCrossEntropyLoss(z, y)""", {"v": F(4, 4), "w": F(4, 5)}, {"counter": np.arange(4), "last": N(-1)},
        {"x": F(4, 4, 4), "at": I(4, 4), "y": I(5, 4)}),
    # A gather whose positions lie before the batch.
    "own columns": ("float[4,4,4] x, int64[4] at, int64[4] y", """
        xt = Transpose<perm = [1, 0, 2]>(x)
        v4 = MatMul(xt, v)
        h = Tanh(v4)
        count = Unsqueeze(counter, last)
        position = Unsqueeze(at, last)
        vectors = Concat<axis = -1>(position, count)
        a = GatherND(h, vectors)
        z = MatMul(a, w)
        loss = SoftmaxCrossEntropyLoss(z, y)""", {"v": F(4, 4), "w": F(4, 5)}, {"counter": np.arange(4), "last": N(-1)},
        {"x": F(4, 4, 4), "at": I(4, 4), "y": I(5, 4)}),
    # as_strided of the flattened batch: all of it, a part of each sample, windows, and one number twice.
    "strided": ("float[4,8] x, int64[4] y", """
        h = MatMul(x, v)
        r = Tanh(h)
        flat = Reshape(r, all)
        whole = Gather(flat, every)
        part = Gather(flat, some)
        windows = Gather(flat, moved)
        reversed = Gather(flat, back)
        m = ReduceMean<axes = [1], keepdims = 0>(windows)
        twice = Gather(part, doubled)
        d = ReduceMean<axes = [1], keepdims = 0>(twice)
        a = Add(whole, reversed)
        b = Add(m, d)
        ab = Add(a, b)
        z = MatMul(ab, w)
        loss = SoftmaxCrossEntropyLoss(z, y)""", {"v": F(8, 4), "w": F(4, 5)},
        {"all": N(-1), "every": np.arange(16).reshape(4, 4), "some": 4 * np.arange(4)[:, None] + np.arange(1, 5).clip(0, 3)[None],
         "moved": 4 * np.arange(4)[:, None, None] + np.arange(2)[:, None] + np.minimum(np.arange(4) % 3, 2)[None],
         "back": 4 * np.arange(4)[:, None] + np.arange(3, -1, -1), "doubled": np.repeat(np.arange(4), 2).reshape(4, 2)},
        {"x": F(4, 8), "y": I(5, 4)}),
    # T5: the batch of 4 times the label's length of 4 is the input's length of 16, that of a relative bias, too.
    "encoder-decoder": ("int64[4,16] i, int64[4,4] d, int64[4,4] y", """
        e0 = Gather(t, i)
        q = MatMul(e0, wq)
        e0t = Transpose<perm = [0, 2, 1]>(e0)
        s = MatMul(q, e0t)
        b0 = Gather(b, near)
        bias = Transpose<perm = [2, 0, 1]>(b0)
        sb = Add(s, bias)
        a = Softmax(sb)
        e = MatMul(a, e0)
        et = Transpose<perm = [0, 2, 1]>(e)
        d0 = Gather(t, d)
        across = MatMul(d0, et)
        c = Softmax(across)
        context = MatMul(c, e)
        h = Add(context, d0)
        logits = MatMul(h, w)
        flat = Reshape(logits, rows)
        labels = Reshape(y, all)
        loss = SoftmaxCrossEntropyLoss(flat, labels)""", {"t": F(9, 6), "wq": F(6, 6), "b": F(8, 1), "w": F(6, 9)},
        {"rows": N(-1, 9), "all": N(-1), "near": I(8, 16, 16)}, {"i": I(9, 4, 16), "d": I(9, 4, 4), "y": I(9, 4, 4)}),
    # A parameter with as many rows as the flattened batch has.
    "flattened": ("int64[4,4] i, int64[4,4] y", """
        e = Gather(t, i)
        flat = Reshape(e, rows)
        z = MatMul(flat, w)
        g = MatMul(p, w)
        gm = ReduceMean<axes = [0], keepdims = 0>(g)
        zg = Add(z, gm)
        labels = Reshape(y, all)
        loss = SoftmaxCrossEntropyLoss(zg, labels)""", {"t": F(9, 6), "p": F(16, 6), "w": F(6, 5)}, {"rows": N(-1, 6), "all": N(-1)},
        {"i": I(9, 4, 4), "y": I(5, 4, 4)}),
    # Batch, length, features and classes are 4, and the batch is moved behind the length and back.
    "all-four": ("float[4,4,4] x, int64[4,4] y", """
        xt = Transpose<perm = [1, 0, 2]>(x)
        v4 = MatMul(xt, v)
        flat = Reshape(v4, rows)
        r = Tanh(flat)
        z = MatMul(r, w)
        u = Reshape(z, cube)
        classes = Transpose<perm = [1, 2, 0]>(u)
        loss = SoftmaxCrossEntropyLoss(classes, y)""", {"v": F(4, 4), "w": F(4, 4)}, {"rows": N(16, 4), "cube": N(4, 4, 4)},
        {"x": F(4, 4, 4), "y": I(4, 4, 4)}),
}


def make(inputs, nodes, parameters, constants, data):
    graph = parser.parse_graph(f"g ({inputs}) => (float loss) {{ {nodes} }}")
    for k, node in enumerate(graph.node):
        node.name = f"{node.op_type}_{k}"
    graph.initializer.extend(numpy_helper.from_array(np.ascontiguousarray(a), n) for n, a in (parameters | constants).items())
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return Case(model, data, list(parameters), [f"--train={n}" for n in parameters])


def check(divisi, name, folder):
    """(plan, error or "") of the case on one device and under each plan."""
    case = make(*CASES[name])
    case.save(folder)
    one = program.run(divisi, case, folder)
    if one.failure or one.refusal:
        yield "one device", f"{one.failure or one.refusal}: {one.said[-300:]}"
        return
    wrong, compared, skipped = compare.with_reference(case, one, seed=len(name))
    yield "one device", wrong or ("" if compared > skipped else f"{skipped} of {compared + skipped} directions are near kinks")
    for plan in PLANS:
        many = program.run(divisi, case, folder, plan)
        bad = many.failure or many.refusal
        yield " ".join(plan), f"{bad}: {many.said[-300:]}" if bad else compare.with_one_device(one, many, double=False)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    p.add_argument("--filter", default="", help="only cases whose name contains a match")
    o = p.parse_args()
    passed = failed = 0
    for name in [n for n in CASES if re.search(o.filter, n)]:
        with tempfile.TemporaryDirectory() as folder:
            for plan, wrong in check(pathlib.Path(o.divisi).resolve(), name, pathlib.Path(folder)):
                passed, failed = passed + (not wrong), failed + bool(wrong)
                if wrong:
                    print(f"FAIL {name}, {plan}: {wrong}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
