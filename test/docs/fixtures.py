"""The files that the command lines of the documents name: models, data, a cluster, profiles of layers."""

import json
import shutil
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTHS = [64, 64, 32, 32, 10]


def perceptron(batch, loss):
    """An ONNX model of four layers on images of 8 x 8: `image` to `logits`, or to the mean cross-entropy with `label`."""
    generator = np.random.default_rng(0)
    nodes, weights, value = [helper.make_node("Flatten", ["image"], ["flat"], "flatten")], [], "flat"
    for layer, (before, after) in enumerate(zip(WIDTHS, WIDTHS[1:]), 1):
        name, last = f"fc{layer}", layer == len(WIDTHS) - 1
        weights.append(numpy_helper.from_array((generator.normal(size=(after, before)) / 8).astype(np.float32), f"{name}.weight"))
        weights.append(numpy_helper.from_array(np.zeros(after, np.float32), f"{name}.bias"))
        out = "logits" if last else f"{name}.out"
        nodes.append(helper.make_node("Gemm", [value, f"{name}.weight", f"{name}.bias"], [out], f"/{name}/Gemm", transB=1))
        value = out
        if not last:
            nodes.append(helper.make_node("Relu", [out], [f"{name}.relu"], f"/{name}/Relu"))
            value = f"{name}.relu"
    inputs = [helper.make_tensor_value_info("image", TensorProto.FLOAT, [batch, 1, 8, 8])]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [batch, 10])]
    if loss:
        inputs.append(helper.make_tensor_value_info("label", TensorProto.INT64, [batch]))
        outputs = [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])]
        nodes.append(helper.make_node("SoftmaxCrossEntropyLoss", ["logits", "label"], ["loss"], "/loss"))
    graph = helper.make_graph(nodes, "perceptron", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def write(folder, root):
    """Puts the files into `folder`; `root` is that of the repository, whose examples are linked."""
    onnx.save(perceptron(32, loss=True), folder / "model.onnx")
    onnx.save(perceptron("batch", loss=True), folder / "symbolic.onnx")
    onnx.save(perceptron(32, loss=False), folder / "logits.onnx")
    generator = np.random.default_rng(1)
    for data, label, rows in (("x", "y", 256), ("xt", "yt", 64)):
        np.save(folder / f"{data}.npy", generator.normal(size=(rows, 1, 8, 8)).astype(np.float32))
        np.save(folder / f"{label}.npy", generator.integers(0, 10, rows))
    shutil.copy(root / "examples/clusters/two-nodes.toml", folder / "cluster.toml")
    shutil.copytree(root / "examples", folder / "examples")
    graph = root / "examples/large-graphs/make_graph.py"
    for words in ("vgg --channels 4 --hidden 24 --image 32 --classes 10 --weights random -o vgg.onnx",
                  "gpt --layers 12 --hidden 768 --heads 12 --vocab 50304 --seq 1024 -o gpt2.onnx"):  # fmt: skip
        subprocess.run([sys.executable, "-B", graph, *words.split()], cwd=folder, check=True, capture_output=True)
    shutil.copy(root / "test/passes/Planning/Pipeline/profiles/resnet101.txt", folder / "graph.txt")
    layers = [{"name": f"layer{i}", "forward_ms": 1.5, "backward_ms": 3, "activation_bytes": 4 << 20, "parameter_bytes": i << 18} for i in range(9)]
    (folder / "layers.json").write_text(json.dumps({"layers": layers}))
