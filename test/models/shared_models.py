"""Models of the tests of --sync: their data, and the loss and gradients of some of their rows, by NumPy or by a program for one device."""

import json
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import lines
from optimizers import CASE, RELU, TANH, differentiate, read_weights

BATCHES = 6  # of the data


class Other:
    """A model of test/models. Its gradients are those of a program for one device, which are tested against PyTorch's. `smooth`: with tanh in place of relu, and means in
    place of maxima."""

    def __init__(self, name, smooth=False):
        self.name, self.folder, self.smooth = name, CASE.parent / name, smooth
        self.data = {path.stem: np.load(path) for path in sorted((self.folder / "data").glob("*.npy"))}
        self.batch = len(next(iter(self.data.values()))) // BATCHES

    def write(self, work):
        if not self.smooth:
            return self.folder / "model.onnx"
        model = onnx.load(self.folder / "model.onnx")
        for node in model.graph.node:
            node.op_type = {"Relu": "Tanh", "MaxPool": "AveragePool"}.get(node.op_type, node.op_type)
        onnx.save(model, work / "smooth.onnx")
        return work / "smooth.onnx"

    def data_flags(self, _):
        return [f"--data={n}={self.folder / 'data' / n}.npy" for n in self.data]

    def gradients(self, divisi, work):
        """A function of weights and rows. A step of plain SGD with a large rate gives the gradient; rows are repeated to a whole batch, whose mean loss is
        the same."""
        rate = 1024.0
        lines.call(divisi, "compile", self.write(work), "-o", work / "one", "--lr", rate)

        def of(weights, rows):
            write_weights(work / "from.safetensors", weights)
            for name, values in self.data.items():
                np.save(work / f"one.{name}.npy", np.resize(values[rows], (self.batch, *values.shape[1:])))
            lines.call(work / "one", "--steps", 1, "--no-shuffle", "--quiet", "--log", work / "one.log", "--weights", work / "from.safetensors", "--save-weights",
                       work / "to.safetensors", *[f"--data={name}={work / f'one.{name}.npy'}" for name in self.data])
            after = read_weights(work / "to.safetensors")
            loss = next(row["loss"] for row in map(json.loads, (work / "one.log").read_text().splitlines()) if "loss" in row)
            return loss, {n: (np.float32(w).astype(np.float64) - after[n]) / rate for n, w in weights.items()}

        return of


class Mlp(Other):
    """The model whose gradients NumPy computes, in float64."""

    def __init__(self, smooth=False):
        super().__init__("mlp", smooth)

    def gradients(self, _divisi, _work):
        return lambda weights, rows: differentiate(weights, self.data["x"][rows].astype(np.float64), self.data["label"][rows], TANH if self.smooth else RELU)


class Embedding(Other):
    """Two of a hundred words a row, summed, then two layers."""

    def __init__(self):
        draw = np.random.default_rng(3)
        self.name, self.batch = "embedding", 16
        self.data = {"words": draw.integers(0, 100, (BATCHES * self.batch, 2)), "label": draw.integers(0, 6, BATCHES * self.batch)}

    def write(self, work):
        draw = np.random.default_rng(4)
        initial = {"table": (100, 24), "hidden": (24, 32), "out": (32, 6)}
        nodes = [
            helper.make_node("Gather", ["table", "words"], ["rows"]),
            helper.make_node("ReduceSum", ["rows", "one"], ["sum"], keepdims=0),
            helper.make_node("MatMul", ["sum", "hidden"], ["product"]),
            helper.make_node("Tanh", ["product"], ["activation"]),
            helper.make_node("MatMul", ["activation", "out"], ["logits"]),
            helper.make_node("SoftmaxCrossEntropyLoss", ["logits", "label"], ["loss"]),
        ]
        inputs = [helper.make_tensor_value_info("words", TensorProto.INT64, [self.batch, 2]), helper.make_tensor_value_info("label", TensorProto.INT64, [self.batch])]
        weights = [numpy_helper.from_array(draw.normal(0, shape[0] ** -0.25, shape).astype(np.float32), name) for name, shape in initial.items()]
        graph = helper.make_graph(nodes, "embedding", inputs, [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])],
                                  [*weights, numpy_helper.from_array(np.array([1]), "one")])
        path = pathlib.Path(work) / "embedding.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        return path

    def data_flags(self, work):
        for name, values in self.data.items():
            np.save(work / f"{name}.npy", values)
        return [f"--data={name}={work / name}.npy" for name in self.data]


def smooth_models():
    """For runs whose order is free: see write_smooth."""
    return [*(Other(name, smooth=True) for name in ("lenet", "gpt_tiny", "moe_tiny")), Embedding()]


def write_weights(path, tensors):
    """A safetensors file, all in f32."""
    header, body = {}, b""
    for name, value in tensors.items():
        raw = np.ascontiguousarray(value, "<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)
