"""The results of a model in float64: ONNX's reference evaluator over the model with all floats as doubles, and its central
differences."""

import math

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import numpy_operators
import recurrent_operators

OPERATORS = numpy_operators.ALL + recurrent_operators.ALL
FLOAT, DOUBLE = TensorProto.FLOAT, TensorProto.DOUBLE
TYPES = {"to", "dtype", "output_datatype", "stash_type", "softmax_precision"}  # attributes that name an element type


def tensor_in_double(tensor):
    if tensor.data_type != FLOAT:
        return tensor
    return numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name)


def node_in_double(node):
    """A copy of a node whose constants and element types are double where they were float."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    for attribute in copy.attribute:
        if attribute.type == onnx.AttributeProto.TENSOR:
            attribute.t.CopyFrom(tensor_in_double(attribute.t))
        elif attribute.type == onnx.AttributeProto.GRAPH:
            attribute.g.CopyFrom(graph_in_double(attribute.g))
        elif attribute.name in TYPES and attribute.i == FLOAT:
            attribute.i = DOUBLE
        elif copy.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
            numbers = attribute.f if attribute.name == "value_float" else list(attribute.floats)
            value = numpy_helper.from_array(np.array(numbers, np.float64))
            attribute.Clear()
            attribute.CopyFrom(helper.make_attribute("value", value))
    if copy.op_type.endswith("Window") and not any(a.name == "output_datatype" for a in copy.attribute):
        copy.attribute.append(helper.make_attribute("output_datatype", DOUBLE))
    # From opset 21 on its mean and variance are in float unless it says otherwise. (The other normalizations' are in the input's type.)
    if copy.op_type == "GroupNormalization" and not any(a.name == "stash_type" for a in copy.attribute):
        copy.attribute.append(helper.make_attribute("stash_type", DOUBLE))
    if copy.op_type == "ConstantOfShape" and not copy.attribute:
        copy.attribute.append(helper.make_attribute("value", numpy_helper.from_array(np.zeros(1))))
    return copy


def graph_in_double(graph):
    copy = onnx.GraphProto()
    copy.CopyFrom(graph)
    for k, node in enumerate(graph.node):
        copy.node[k].CopyFrom(node_in_double(node))
    for k, tensor in enumerate(graph.initializer):
        copy.initializer[k].CopyFrom(tensor_in_double(tensor))
    for info in [*copy.input, *copy.output, *copy.value_info]:
        if info.type.tensor_type.elem_type == FLOAT:
            info.type.tensor_type.elem_type = DOUBLE
    return copy


def in_double(model):
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy.graph.CopyFrom(graph_in_double(model.graph))
    return copy


def names_of(node):
    """The values that a node reads, also those that the bodies in its attributes read of the graph around them."""
    names = [n for n in node.input if n]
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            body = attribute.g
            own = {i.name for i in (*body.input, *body.initializer)} | {n for inner in body.node for n in inner.output}
            names += [n for inner in body.node for n in names_of(inner) if n not in own]
            names += [o.name for o in body.output if o.name not in own]
    return list(dict.fromkeys(names))


def model_of_node(node, values, opset):
    """A model of one node, for the evaluator."""
    names = names_of(node)
    inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(values[n].dtype), None)
              if isinstance(values[n], np.ndarray) else
              helper.make_tensor_sequence_value_info(n, DOUBLE, None) for n in names]
    outputs = [onnx.ValueInfoProto(name=n) for n in node.output if n]
    graph = helper.make_graph([node_in_double(node)], "node", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def run_node(node, values, opset):
    """The outputs of a node; floats are float64."""
    evaluator = ReferenceEvaluator(model_of_node(node, values, opset), new_ops=OPERATORS)
    with np.errstate(all="ignore"):
        results = evaluator.run(None, {n: values[n] for n in names_of(node)})
    return [r if isinstance(r, list) else np.asarray(r) for r in results]


class Reference:
    """The loss of a model in double as a function of some of its initializers."""

    def __init__(self, model, inputs, parameters):
        self.inputs = {n: a.astype(np.float64) if a.dtype.kind == "f" else a for n, a in inputs.items()}
        self.start = {n: np.asarray(a, np.float64) for n, a in parameters.items()}
        graph = onnx.GraphProto()
        graph.CopyFrom(model.graph)
        kept = [t for t in graph.initializer if t.name not in parameters]
        del graph.initializer[:]
        graph.initializer.extend(kept)
        graph.input.extend(helper.make_tensor_value_info(n, DOUBLE, list(a.shape)) for n, a in self.start.items())
        free = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
        self.evaluator = ReferenceEvaluator(in_double(free), new_ops=OPERATORS)
        self.free, self.opset = free, next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))

    def loss(self, parameters=None):
        with np.errstate(all="ignore"):
            return float(self.evaluator.run(["loss"], {**self.inputs, **(parameters or self.start)})[0])

    def values(self):
        """{name: array} of all initial values."""
        with np.errstate(all="ignore"):
            return self.evaluator.run(None, {**self.inputs, **self.start}, intermediate=True)

    def jumps(self, error):
        """Whether rounding explains an error of the loss: values that differ in the seventh digit, node by node, move it as far. So it is where a
        value lies at a jump (the ceiling of a sum that is 0, the first of two equal elements)."""
        base = self.loss()
        for seed in range(8):
            draw = np.random.default_rng(seed)
            values = {**{t.name: numpy_helper.to_array(tensor_in_double(t)) for t in self.free.graph.initializer}, **self.inputs, **self.start}
            for node in self.free.graph.node:
                for name, result in zip(node.output, run_node(node, values, self.opset)):
                    # Constants are not rounded; some say what shape a result has.
                    if isinstance(result, np.ndarray) and result.dtype == np.float64 and result.size and node.op_type != "Constant":
                        largest = float(np.max(np.abs(result), initial=0, where=np.isfinite(result)))
                        result = result + 1e-7 * max(largest, 1e-7) * draw.standard_normal(result.shape)
                    values[name] = result
            if abs(float(values["loss"]) - base) > 0.3 * error:
                return True
        return False

    def along(self, direction, step):
        """The loss at a distance from the start; `direction` has some of the parameters."""
        moved = {n: a + step * direction[n] if n in direction else a for n, a in self.start.items()}
        return self.loss(moved)

    def slope(self, direction):
        """(the derivative along a direction, how far it is uncertain), or None near a kink or a jump.

        Central differences at h and h/2, extrapolated: what is left is of order h^4 and the loss's own rounding over h (1e-11).
        Where a kink lies at t within h, the bends at h and h/2 have the ratio (1 - 2t/h) / (1 - t/h), and 1/2 where there is
        none; the bound 0.6 leaves kinks whose error is below twice the difference of the two slopes."""
        h = 2e-5
        base = self.loss()
        values = {s: self.along(direction, s * h) for s in (-1, -0.5, 0.5, 1)}
        if not all(math.isfinite(v) for v in values.values()):
            return None
        central, half = (values[1] - values[-1]) / (2 * h), (values[0.5] - values[-0.5]) / h
        bend, half_bend = ((values[s] - 2 * base + values[-s]) / (s * h) for s in (1, 0.5))
        scale = max(abs(half), abs(base), 1e-3)
        if abs(central - half) > 1e-3 * scale or abs(half_bend) > 1e-7 * scale and abs(half_bend) > 0.6 * abs(bend):
            return None
        return (4 * half - central) / 3, 2 * abs(central - half) + 1e-15 * abs(base) / h
