"""Makes a failing case smaller: cuts the graph from above (a value becomes an input that is known) and from below (the loss is
taken of a value in the middle), leaves out plans and nodes, as long as the failure keeps its class."""

import numpy as np
import onnx
from onnx import helper, numpy_helper

from case import Case

MOST_TRIES = 150


def values_of(case):
    """{name: array} of all that the nodes compute, in float64."""
    return case.reference().values()


def rebuilt(case, nodes, more=()):
    """The case with other nodes, without unused ones. `more` are further initializers."""
    graph = case.model.graph
    needed, kept = {"loss"}, []
    for node in reversed(nodes):
        if needed & set(node.output):
            kept.insert(0, node)
            needed |= set(node.input)
            for attribute in node.attribute:
                needed |= {n for inner in attribute.g.node for n in inner.input}
    small = onnx.GraphProto(name=graph.name, output=graph.output)
    small.node.extend(kept)
    small.input.extend(i for i in graph.input if i.name in needed)
    small.initializer.extend(t for t in [*graph.initializer, *more] if t.name in needed)
    model = helper.make_model(small, opset_imports=case.model.opset_import, ir_version=case.model.ir_version)
    present = {t.name for t in small.initializer}
    parameters = [p for p in case.parameters if p in present] + [t.name for t in more if t.name in present]
    inputs = {n: a for n, a in case.inputs.items() if n in needed}
    flags = case.flags
    if "--dim" in flags and not inputs:  # whose dimension it names
        at = flags.index("--dim")
        flags = flags[:at] + flags[at + 2 :]
    return Case(model, inputs, parameters, flags, case.plans, case.evaluates)


def cut_above(case, k, values):
    """Makes node k's float results parameters with known values."""
    nodes = list(case.model.graph.node)
    node = nodes.pop(k)
    arrays = [values.get(n) for n in node.output]
    if node.op_type == "Constant" or not all(isinstance(a, np.ndarray) and a.dtype.kind == "f" for a in arrays):
        return None
    kind = np.float64 if case.is_double() else np.float32
    names = {old: f"layers.{old}.weight" for old in node.output}  # by its name it trains
    new = [numpy_helper.from_array(a.astype(kind), names[n]) for n, a in zip(node.output, arrays)]
    renamed = []
    for other in nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(other)
        copy.input[:] = [names.get(n, n) for n in other.input]
        renamed.append(copy)
    return rebuilt(case, renamed, new)


def cut_below(case, k, values):
    """Makes the loss a weighted mean of node k's results."""
    node = case.model.graph.node[k]
    array = values.get(node.output[0])
    if node.op_type == "Constant" or not isinstance(array, np.ndarray) or array.dtype.kind != "f" or array.size == 0:
        return None
    kind = np.float64 if case.is_double() else np.float32
    weights = np.cos(np.arange(array.size) * 1.7).reshape(array.shape).astype(kind)
    tail = [
        helper.make_node("Constant", [], ["cut_weights"], value=numpy_helper.from_array(weights)),
        helper.make_node("Mul", [node.output[0], "cut_weights"], ["cut_terms"]),
        helper.make_node("ReduceMean", ["cut_terms"], ["loss"], keepdims=0),
    ]
    return rebuilt(case, [*list(case.model.graph.node)[: k + 1], *tail])


def bypass(case, k, values):
    """Replaces node k by its first input, if it has the same shape."""
    nodes = list(case.model.graph.node)
    node = nodes.pop(k)
    if not node.input or node.output[0] == "loss":
        return None
    a, b = values.get(node.input[0]), values.get(node.output[0])
    if not all(isinstance(x, np.ndarray) for x in (a, b)) or a.shape != b.shape or a.dtype != b.dtype:
        return None
    renamed = []
    for other in nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(other)
        copy.input[:] = [node.input[0] if n == node.output[0] else n for n in other.input]
        renamed.append(copy)
    return rebuilt(case, renamed)


def lowered(case, attempt):
    """The smallest failing case whose loss is computed from one value of the graph."""
    values = values_of(case)
    found = [cut_below(case, k, values) for k in range(len(case.model.graph.node))]
    size = lambda c: len(c.model.graph.node)
    smaller = [c for c in found if c and c.parameters and size(c) < size(case)]
    return next((c for c in sorted(smaller, key=size) if attempt(c)), case)


def thinned(case, attempt):
    """One pass over the nodes from the last one up, each cut off from what is above it or left out."""
    k = len(case.model.graph.node) - 1
    while k >= 0:
        values = values_of(case)
        for step in (cut_above, bypass):
            candidate = step(case, k, values)
            smaller = candidate and candidate.parameters and len(candidate.model.graph.node) < len(case.model.graph.node)
            if smaller and attempt(candidate):
                case = candidate
                break
        k = min(k, len(case.model.graph.node)) - 1
    return case


def shrink(case, fails, most=MOST_TRIES):
    """A case for which `fails(case)` still holds, with as few nodes as a limited number of tries finds."""
    left = most

    def attempt(candidate):
        nonlocal left
        left -= 1
        return left >= 0 and fails(candidate)

    for step in (lowered, thinned, lowered, thinned):
        case = step(case, attempt)
    return case
