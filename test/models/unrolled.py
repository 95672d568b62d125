#!/usr/bin/env python3
"""The memory of a cell that is unrolled over many steps: it grows by the activations of a step, not by its weights' gradients.

    unrolled.py --divisi PATH

Compiles a cell unrolled 20, 40 and 80 times, and compares `exec.arena_bytes` with what a step must keep. Ends with `N passed,
N failed`. Needs onnx.
"""

import re
import sys

import numpy as np
import onnx
from onnx import helper

sys.dont_write_bytecode = True
import lines  # noqa: E402

STEPS = (20, 40, 80)
BATCH, HIDDEN, CHANNELS, SIZE = 8, 512, 128, 2
FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def weight(name, *shape):
    return onnx.numpy_helper.from_array((0.05 * np.random.default_rng(len(name)).standard_normal(shape)).astype(np.float32), name)


def matrices(steps):
    """h = tanh(x_t W^T + h R^T). Weights of 2 MiB; each step keeps h and its gradient, and rows of x, h and the gradient in the
    factors of the two joined products, with one more gradient at most: six matrices of the state's size."""
    nodes, state = [], "start"
    weights = [weight("w", HIDDEN, HIDDEN), weight("r", HIDDEN, HIDDEN), weight("out", 3, HIDDEN)]
    weights += [onnx.numpy_helper.from_array(np.array(t), f"at{t}") for t in range(steps)]
    nodes.append(helper.make_node("Gather", ["x", "at0"], ["start"], axis=1))
    for t in range(1, steps):
        nodes += [helper.make_node("Gather", ["x", f"at{t}"], [f"x{t}"], axis=1),
                  helper.make_node("Gemm", [f"x{t}", "w"], [f"a{t}"], transB=1),
                  helper.make_node("Gemm", [state, "r", f"a{t}"], [f"z{t}"], transB=1),
                  helper.make_node("Tanh", [f"z{t}"], [f"h{t}"])]
        state = f"h{t}"
    return [BATCH, steps, HIDDEN], weights, [*nodes, helper.make_node("Identity", [state], ["last"])], 6 * BATCH * HIDDEN * 4


def filters(steps):
    """h = tanh(conv(h)). A filter of 0.6 MiB; each step keeps h alone."""
    nodes, state = [], "x"
    for t in range(steps):
        nodes += [helper.make_node("Conv", [state, "filter"], [f"z{t}"], pads=[1, 1, 1, 1]), helper.make_node("Tanh", [f"z{t}"], [f"h{t}"])]
        state = f"h{t}"
    nodes.append(helper.make_node("ReduceMean", [state], ["last"], axes=[2, 3], keepdims=0))
    weights = [weight("filter", CHANNELS, CHANNELS, 3, 3), weight("out", 3, CHANNELS)]
    return [BATCH, CHANNELS, SIZE, SIZE], weights, nodes, BATCH * CHANNELS * SIZE * SIZE * 4


def arena(divisi, make, steps, folder):
    """Bytes of the arena, and what a step may add to it."""
    shape, weights, nodes, kept = make(steps)
    nodes = [*nodes, helper.make_node("Gemm", ["last", "out"], ["logits"], transB=1),
             helper.make_node("SoftmaxCrossEntropyLoss", ["logits", "label"], ["loss"])]
    inputs = [helper.make_tensor_value_info("x", FLOAT, shape), helper.make_tensor_value_info("label", INT64, [BATCH])]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("loss", FLOAT, [])], weights)
    file = folder / f"{steps}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
    text = lines.call(divisi, "compile", file, "--emit=exec", "--train", "*")
    return int(re.search(r"exec\.arena_bytes = (\d+)", text)[1]), kept


def grows(divisi, make):
    """The arena of each number of steps is that of the first and what the other steps keep, or less."""
    def test(folder):
        first, kept = arena(divisi, make, STEPS[0], folder)
        for steps in STEPS[1:]:
            got, limit = arena(divisi, make, steps, folder)[0], first + (steps - STEPS[0]) * kept
            yield got <= limit, f"{steps} steps take {got} bytes, at most {limit}"
    return test


if __name__ == "__main__":
    options = lines.parser(__doc__.splitlines()[0]).parse_args()
    sys.exit(lines.run([(make.__name__, grows(options.divisi, make)) for make in (matrices, filters)], options))
