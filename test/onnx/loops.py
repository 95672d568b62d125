#!/usr/bin/env python3
"""If, Loop, Scan, SequenceMap and sequences through the compiler, in double: loss and gradients of one step against ONNX's reference
evaluator and its central differences; and models whose loops cannot be imported.

    loops.py --divisi PATH [--filter REGEX]

Ends with `N passed, N failed`.
"""

import pathlib
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper, parser

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "fuzz"))
import program
import reference
from case import Case

import named_cases

LOSS = "c = Cos(y)\n m = Mul(y, c)\n s = ReduceSum<keepdims = 0>(m)\n n = ReduceSum<keepdims = 0>(none)\n loss = Sum(s, n)"
RNG = np.random.default_rng(24)
W, H, X = (RNG.normal(size=shape) for shape in ((3, 3), (2, 3), (2, 5, 3)))
TRUE, FALSE = np.array(True), np.array(False)
N = lambda value: np.array(value, np.int64)

# name: (nodes that compute y, initializers; those of floats train[, nodes that compute the same without what the evaluator lacks])
CASES = {
    # A recurrent cell: a state, and all states stacked (as vectors: the evaluator joins matrices instead of stacking them).
    "loop": ("""
        h, all = Loop(trips, yes, h0) <body = body (int64 i, bool on, double[2,3] h) => (bool on, double[2,3] g, double[6] f) {
          p = MatMul(h, w)
          g = Tanh(p)
          f = Reshape(g, six)
        }>
        top = Reshape(h, row)
        y = Concat<axis = 0>(all, top)""", {"h0": H, "w": W, "trips": N(4), "yes": TRUE, "six": N([6]), "row": N([1, 6])}),
    # More calls than a function of a task has; each iteration shrinks differences, so that slopes can be measured.
    "loop-long": ("""
        y = Loop(trips, yes, h0) <body = body (int64 i, bool on, double[2,3] h) => (bool on, double[2,3] g) {
          p = MatMul(h, w)
          t = Tanh(p)
          g = Add(t, h0)
        }>""", {"h0": H, "w": 0.2 * W, "trips": N(300), "yes": TRUE}),
    # No trip count; the condition is computed from a carried number.
    "loop-while": ("""
        first = Less(i0, end)
        j, y = Loop("", first, i0, h0) <body = body (int64 k, bool on, int64 i, double[2,3] h) => (bool more, int64 next, double[2,3] g) {
          p = MatMul(h, w)
          g = Sin(p)
          next = Add(i, one)
          more = Less(next, end)
        }>""", {"h0": H, "w": W, "i0": N(1), "one": N(2), "end": N(6)}),
    "loop-ends-early": ("""
        h, y = Loop(trips, yes, h0) <body = body (int64 i, bool on, double[2,3] h) => (bool more, double[2,3] g, double[6] z) {
          p = MatMul(h, w)
          g = Tanh(p)
          gh = Mul(g, h)
          z = Reshape(gh, six)
          more = Less(i, two)
        }>""", {"h0": H, "w": W, "trips": N(9), "yes": TRUE, "two": N(2), "six": N([6])}),
    # The trip count comes from a shape, the body gathers by the iteration's number, and a branch depends on it.
    "loop-nested": ("""
        shape = Shape(x)
        trips = Gather(shape, one)
        y = Loop(trips, "", h0) <body = outer (int64 i, bool on, double[2,3] h) => (bool on, double[2,3] g) {
          slice = Gather<axis = 1>(x, i)
          first = Equal(i, none0)
          g = If(first) <then_branch = then () => (double[2,3] a) { a = Mul(slice, h) },
                         else_branch = else () => (double[2,3] b) {
            b = Loop(two, "", h) <body = inner (int64 j, bool go, double[2,3] u) => (bool go, double[2,3] v) {
              q = MatMul(u, w)
              r = Add(q, slice)
              v = Tanh(r)
            }>
          }>
        }>""", {"h0": H, "w": W, "x": X, "one": N(1), "two": N(2), "none0": N(0)},
        "x0 = Gather<axis = 1>(x, none0)\n h1 = Mul(x0, h0)\n" + "".join(f"""
        i{k} = Constant<value_int = {k}>()
        x{k} = Gather<axis = 1>(x, i{k})
        a{k} = MatMul(h{k}, w)
        b{k} = Add(a{k}, x{k})
        c{k} = Tanh(b{k})
        d{k} = MatMul(c{k}, w)
        e{k} = Add(d{k}, x{k})
        h{k + 1} = Tanh(e{k})""" for k in range(1, 5)) + "\n y = Identity(h5)"),
    "loop-zero-trips": ("""
        y = Loop(trips, "", h0) <body = body (int64 i, bool on, double[2,3] h) => (bool on, double[2,3] g) { g = MatMul(h, w) }>""",
        {"h0": H, "w": W, "trips": N(0)}),
    "loop-sequence": ("""
        empty = SequenceEmpty<dtype = 11>()
        h, list = Loop(trips, "", h0, empty) <body = body (int64 i, bool on, double[2,3] h, seq(double[2,3]) list) =>
                                                          (bool on, double[2,3] g, seq(double[2,3]) longer) {
          p = MatMul(h, w)
          g = Tanh(p)
          longer = SequenceInsert(list, g)
        }>
        last = SequenceAt(list, minus)
        some = SequenceErase(list, one)
        stacked = ConcatFromSequence<axis = 1, new_axis = 1>(some)
        wide = Unsqueeze(last, one1)
        y = Add(stacked, wide)""", {"h0": H, "w": W, "trips": N(3), "minus": N(-1), "one": N(1), "one1": N([1])}, """
        p1 = MatMul(h0, w)
        g1 = Tanh(p1)
        p2 = MatMul(g1, w)
        g2 = Tanh(p2)
        p3 = MatMul(g2, w)
        g3 = Tanh(p3)
        wide1 = Unsqueeze(g1, one1)
        wide3 = Unsqueeze(g3, one1)
        stacked = Concat<axis = 1>(wide1, wide3)
        y = Add(stacked, wide3)"""),
    "sequence-map": ("""
        parts = SplitToSequence<axis = 1>(x, sizes)
        more = SplitToSequence<axis = 1>(z, sizes)
        out = SequenceMap(parts, more, w) <body = body (double[2,n,3] a, double[2,n,3] b, double[3,3] c) => (double[2,n,3] d) {
          e = MatMul(a, c)
          d = Mul(e, b)
        }>
        y = ConcatFromSequence<axis = 1>(out)""", {"x": X, "z": X[::-1].copy(), "w": W, "sizes": N([2, 1, 2])}, "p = MatMul(x, w)\n y = Mul(p, z)"),
    "if": ("""
        y = If(no) <then_branch = then () => (double[2,3] a) { a = Identity(h) }, else_branch = else () => (double[2,3] b) {
          b = MatMul(h, w)
        }>""", {"h": H, "w": W, "no": FALSE}),
    "scan": ("""
        h, y = Scan<num_scan_inputs = 1, body = body (double[5,3] h, double[5,3] e) => (double[5,3] g, double[5,3] g) {
          p = MatMul(h, w)
          q = Add(p, e)
          g = Tanh(q)
        }>(h0, x)""", {"h0": RNG.normal(size=(5, 3)), "x": X, "w": W}),
    # Two inputs along other axes, one of them backward, and outputs along other axes, one of them backward.
    "scan-axes": ("""
        h, u, v = Scan<num_scan_inputs = 2, scan_input_axes = [1, -1], scan_input_directions = [0, 1], scan_output_axes = [1, -1],
                       scan_output_directions = [1, 0], body = body (double[2,3] h, double[2,3] e, double[2,3] f) => (double[2,3] g, double[2,3] a, double[2,3] b) {
            p = MatMul(h, w)
            q = Add(p, e)
            g = Tanh(q)
            a = Mul(g, f)
            b = Sin(f)
          }>(h0, x, z)
        t = Transpose<perm = [0, 2, 1]>(v)
        uv = Add(u, t)
        top = Unsqueeze(h, one)
        y = Concat<axis = 1>(uv, top)""", {"h0": H, "x": X, "z": RNG.normal(size=(2, 3, 5)), "w": W, "one": N([1])}, """
        xs = Transpose<perm = [1, 0, 2]>(x)
        zt = Transpose<perm = [2, 0, 1]>(z)
        zs = Slice(zt, start, stop, axis, step)
        h, u0, v0 = Scan<num_scan_inputs = 2, body = body (double[2,3] h, double[2,3] e, double[2,3] f) => (double[2,3] g, double[2,3] a, double[2,3] b) {
            p = MatMul(h, w)
            q = Add(p, e)
            g = Tanh(q)
            a = Mul(g, f)
            b = Sin(f)
          }>(h0, xs, zs)
        ur = Slice(u0, start, stop, axis, step)
        both = Add(ur, v0)
        uv = Transpose<perm = [1, 0, 2]>(both)
        top = Unsqueeze(h, one)
        y = Concat<axis = 1>(uv, top)"""),
}
FLIPS = {"start": N([-1]), "stop": N([-100]), "axis": N([0]), "step": N([-1])}

BODY = "<body = body (int64 i, bool on, double[2,3] h) => (bool on, double[2,3] g) { g = MatMul(h, w) }>"
# name: (nodes, initializers, a part of the error)
REFUSED = {
    "trips-of-input": (f"""
        t = ReduceSum<keepdims = 0>(none)
        trips = Cast<to = 7>(t)
        y = Loop(trips, "", h0) {BODY}""", {"h0": H, "w": W},
        "(Loop): its trip count ('trips') is computed from the inputs or parameters of the model: only loops whose iterations are known"),
    "condition-of-parameters": ("""
        y = Loop(trips, yes, h0) <body = body (int64 i, bool on, double[2,3] h) => (bool more, double[2,3] g) {
          g = MatMul(h, w)
          norm = ReduceSum<keepdims = 0>(g)
          more = Less(norm, hundred)
        }>""", {"h0": H, "w": W, "trips": N(9), "yes": TRUE, "hundred": np.float64(100)},
        "(Loop): its condition is computed from the inputs or parameters of the model: only loops whose iterations are known"),
    "endless": (f"""y = Loop("", yes, h0) {BODY}""", {"h0": H, "w": W, "yes": TRUE}, "goes beyond the 65536 nodes that loops may have"),
    # No operation of the body reads a parameter: what is known of each iteration must not be asked of all before it.
    "endless-elementwise": ("""y = Loop("", yes, h0) <body = body (int64 i, bool on, double[2,3] h) => (bool on, double[2,3] g) { g = Tanh(h) }>""",
        {"h0": H, "yes": TRUE}, "goes beyond the 65536 nodes that loops may have"),
    "branch-of-input": ("""
        t = ReduceSum<keepdims = 0>(none)
        big = Greater(t, zero)
        y = If(big) <then_branch = then () => (double[2,3] a) { a = Identity(h) }, else_branch = else () => (double[2,3] b) { b = Neg(h) }>""",
        {"h": H, "zero": np.float64(0)}, "(If): its condition is computed from the inputs or parameters of the model: only branches"),
    "no-iteration-to-collect": ("""
        h, y = Loop(trips, "", h0) <body = body (int64 i, bool on, double[2,3] h) => (bool on, double[2,3] g, double[2,3] g) {
          g = MatMul(h, w)
        }>""", {"h0": H, "w": W, "trips": N(0)}, "it has no iterations, and an output that collects their values"),
    # A carried value that is too large to be folded in each iteration: a chain as long as the loop decides a shape.
    "long-chain": ("""
        sum = Loop(trips, "", ones) <body = body (int64 i, bool on, int64[65] e) => (bool on, int64[65] d) { d = Add(e, ones) }>
        some = Slice(sum, start0, one)
        unit = Div(some, some)
        shape = Mul(unit, six)
        y = Reshape(h0, shape)""", {"h0": H, "ones": np.ones(65, np.int64), "trips": N(60000), "start0": N([0]), "one": N([1]), "six": N([6])},
        "(Reshape): its shape ('shape') is not a constant: shapes must be known when compiling"),
    "scan-of-other-lengths": ("""
        y = Scan<num_scan_inputs = 2, body = body (double[5,3] e, double[3,3] f) => (double[5,3] g) { g = MatMul(e, f) }>(x, z)""",
        {"x": X, "z": RNG.normal(size=(4, 3, 3))}, "(Scan): its scanned inputs 'x' and 'z' have 2 and 4 slices"),
}


def model_of(nodes, tensors):
    text = f"g (double[1] none) => (double loss) {{ {nodes}\n {LOSS} }}"
    graph = parser.parse_graph(text)
    for k, node in enumerate(graph.node):
        node.name = f"{node.op_type}_{k}"
    graph.initializer.extend(numpy_helper.from_array(np.asarray(a), n) for n, a in tensors.items())
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


class LoopCase(Case):
    """The reference computes the same by other nodes, where it has any."""

    def reference(self):
        return reference.Reference(self.same, self.inputs, self.weights())


def make(nodes, tensors, same=None):
    parameters = [n for n, a in tensors.items() if a.dtype == np.float64]
    case = LoopCase(model_of(nodes, tensors), {"none": np.zeros(1)}, parameters)
    case.same = model_of(same, tensors | FLIPS) if same else case.model
    return case


def check(divisi, name, folder):
    if name in REFUSED:
        nodes, tensors, text = REFUSED[name]
        make(nodes, tensors).save(folder)
        code, said = program.call([divisi, "compile", folder / "model.onnx", "--emit=graph"], folder)
        errors = [line for line in said.splitlines() if line.startswith("error: ")]
        return "" if code == 1 and len(errors) == 1 and text in errors[0] else f"exit {code}: {said[-600:]}"
    return named_cases.with_reference(divisi, make(*CASES[name]), name, folder)


if __name__ == "__main__":
    sys.exit(named_cases.main(__doc__.splitlines()[0], [*CASES, *REFUSED], check))
