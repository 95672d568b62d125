"""ONNX's backend node tests as files: which cases can be run, and with which inputs bound as constants."""

import dataclasses
import re

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases

# Inputs that decide shapes (or choose the computation), by operator: they become initializers with the test's values,
# as exporters write them.
CONSTANT_INPUTS = {
    "AffineGrid": [1],
    "BlackmanWindow": [0],
    "CenterCropPad": [1],
    "Col2Im": [1, 2],
    "Compress": [1],
    "ConstantOfShape": [0],
    "CumProd": [1],
    "CumSum": [1],
    "DFT": [1, 2],
    "Dropout": [1, 2],
    "Expand": [1],
    "HammingWindow": [0],
    "HannWindow": [0],
    "If": [0],
    "Loop": [0, 1],
    "MaxUnpool": [2],
    "MelWeightMatrix": [0, 1, 2, 3, 4],
    "NonZero": [0],
    "OneHot": [1],
    "Pad": [1, 3],
    "Range": [0, 1, 2],
    "Reshape": [1],
    "Resize": [1, 2, 3],
    "STFT": [1, 3],
    "SequenceInsert": [2],
    "Slice": [1, 2, 3, 4],
    "Split": [1],
    "SplitToSequence": [1],
    "Squeeze": [1],
    "Tile": [1],
    "TopK": [1],
    "Trilu": [1],
    "Unique": [0],
    "Unsqueeze": [1],
    "Upsample": [1],
}
CONSTANT_INPUTS |= {f"Reduce{kind}": [1] for kind in "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split()}

# The types of .npy files.
PLAIN_TYPES = {
    TensorProto.BOOL,
    TensorProto.INT8,
    TensorProto.INT16,
    TensorProto.INT32,
    TensorProto.INT64,
    TensorProto.UINT8,
    TensorProto.UINT16,
    TensorProto.UINT32,
    TensorProto.UINT64,
    TensorProto.FLOAT16,
    TensorProto.FLOAT,
    TensorProto.DOUBLE,
}
OLDEST_OPSET = 13  # what Divisi reads; tests of operators that have not changed since are moved up to it


@dataclasses.dataclass
class Case:
    """One node test: its model with the constants bound, and numpy values by name for what is left."""

    name: str
    operator: str  # with its domain, unless that is the main one
    expanded: bool  # the operator is replaced by its function body
    rtol: float
    atol: float
    skip: str = ""  # why it cannot be run; the fields below are then not set
    opset: int = 0  # of the operator's domain
    model: onnx.ModelProto | None = None
    inputs: dict | None = None
    outputs: dict | None = None

    def write(self, folder):
        """Writes model and inputs under `folder`; the entry for the list of `divisi run-graph --batch`."""
        folder.mkdir(parents=True)
        (folder / "model.onnx").write_bytes(self.model.SerializeToString())
        files = {}
        for k, (name, value) in enumerate(self.inputs.items()):
            files[name] = str(folder / f"input_{k}.npy")
            np.save(files[name], value)
        return {"model": str(folder / "model.onnx"), "inputs": files, "outputs": str(folder / "outputs")}

    def difference(self, folder):
        """An error text for the outputs that a run has left for `write(folder)`; "" if they are right."""
        for name, want in self.outputs.items():
            path = folder / "outputs" / (name.replace("/", "_") + ".npy")
            if not path.exists():
                return f"{name}: not written"
            try:
                got = np.load(path)
            except (OSError, ValueError, EOFError) as e:
                return f"{name}: not a .npy file: {e}"
            if got.shape != want.shape:
                return f"{name}: shape {list(got.shape)}, expected {list(want.shape)}"
            if got.dtype != want.dtype:
                return f"{name}: type {got.dtype}, expected {want.dtype}"
            # The expected halves were rounded at every step; sums here are rounded once, in a way that depends on the
            # processor.
            rtol = max(self.rtol, 4 * np.finfo(np.float16).eps) if want.dtype == np.float16 else self.rtol
            try:
                np.testing.assert_allclose(got, want, rtol=rtol, atol=self.atol)
            except AssertionError as e:
                return f"{name}: " + re.sub(r"\s+", " ", str(e))[:300]
        return ""


def is_main(domain):
    """The main domain has two names."""
    return domain in ("", "ai.onnx")


def opset_of(model, domain):
    """The version that a model declares for a domain."""
    same = (o for o in model.opset_import if o.domain == domain or is_main(o.domain) and is_main(domain))
    return next(same).version


def array(value):
    """The numpy value of a value in a test case, or a list of them."""
    if isinstance(value, (list, tuple)):
        return [array(v) for v in value]
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def why_not(model):
    """Why a case cannot be run with .npy files; empty when it can."""
    for info in [*model.graph.input, *model.graph.output]:
        type = info.type.sequence_type.elem_type if info.type.HasField("sequence_type") else info.type
        kind = type.WhichOneof("value")
        if kind != "tensor_type":
            return (kind or "no").replace("_type", "") + " values"
        element = type.tensor_type.elem_type
        if element not in PLAIN_TYPES:
            return TensorProto.DataType.Name(element).lower() + " values"
    return ""


def raise_opset(model):
    """Declares OLDEST_OPSET if an older version of the main domain has the same meaning."""
    entry = next((o for o in model.opset_import if is_main(o.domain)), None)
    if entry is None or entry.version >= OLDEST_OPSET:
        return
    for node in model.graph.node:
        if is_main(node.domain):
            old, new = (onnx.defs.get_schema(node.op_type, v) for v in (entry.version, OLDEST_OPSET))
            if old.since_version != new.since_version or new.deprecated:
                return
    entry.version = OLDEST_OPSET
    model.ir_version = max(model.ir_version, helper.find_min_ir_version_for(model.opset_import))


def unpack(model, values, ends):
    """Replaces the sequences among a model's inputs or outputs (`ends`) by their tensors, and makes or takes apart the sequences by nodes."""
    result, kept = {}, []
    for info in ends:
        value = values[info.name]
        if not isinstance(value, list):
            result[info.name] = value
            named = any(d.dim_param for d in info.type.tensor_type.shape.dim)
            kept.append(helper.make_tensor_value_info(info.name, info.type.tensor_type.elem_type, value.shape) if named else info)
            continue
        parts = [f"{info.name}_{k}" for k in range(len(value))]
        result |= zip(parts, value)
        type = info.type.sequence_type.elem_type.tensor_type.elem_type
        kept += [helper.make_tensor_value_info(n, type, v.shape) for n, v in zip(parts, value)]
        if ends is model.graph.input:
            node = helper.make_node("SequenceConstruct", parts, [info.name]) if parts else helper.make_node("SequenceEmpty", [], [info.name], dtype=type)
            model.graph.node.insert(0, node)
            continue
        for k, part in enumerate(parts):
            model.graph.initializer.append(numpy_helper.from_array(np.array(k), f"{part}_index"))
            model.graph.node.append(helper.make_node("SequenceAt", [info.name, f"{part}_index"], [part]))
        model.graph.node.append(helper.make_node("SequenceLength", [info.name], [f"{info.name}_length"]))
        kept.append(helper.make_tensor_value_info(f"{info.name}_length", TensorProto.INT64, []))
        result[f"{info.name}_length"] = np.array(len(value))
    kept = [onnx.ValueInfoProto.FromString(info.SerializeToString()) for info in kept]
    del ends[:]
    ends.extend(kept)
    return result


def bind(test, names):
    """(model with the inputs `names` as initializers, the other inputs, the outputs)."""
    model = onnx.ModelProto()
    model.CopyFrom(test.model)
    raise_opset(model)
    inputs, outputs = test.data_sets[0]
    inputs = unpack(model, {i.name: array(v) for i, v in zip(model.graph.input, inputs)}, model.graph.input)
    outputs = unpack(model, {o.name: array(v) for o, v in zip(model.graph.output, outputs)}, model.graph.output)
    kept = [i for i in model.graph.input if i.name not in names]
    for name in names & inputs.keys():
        model.graph.initializer.append(numpy_helper.from_array(inputs.pop(name), name))
    del model.graph.input[:]
    model.graph.input.extend(kept)
    return model, inputs, outputs


def collect(pattern=""):
    """All node tests whose name contains a match of `pattern`, in the order of the onnx package."""
    tests = collect_testcases()
    primary = {t.name: t.model.graph.node[0] for t in tests if "_expanded" not in t.name}
    cases = []
    for test in tests:
        if not re.search(pattern, test.name):
            continue
        base, expanded, _ = test.name.partition("_expanded")
        node = primary[base]
        operator = node.op_type if is_main(node.domain) else f"{node.domain}.{node.op_type}"
        case = Case(test.name, operator, bool(expanded), test.rtol, test.atol, why_not(test.model))
        if not case.skip:
            constant = {node.input[k] for k in CONSTANT_INPUTS.get(node.op_type, []) if k < len(node.input)} - {""}
            case.model, case.inputs, case.outputs = bind(test, constant)
            case.opset = opset_of(case.model, node.domain)
        cases.append(case)
    return cases
