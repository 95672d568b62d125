#!/usr/bin/env python3
"""Operators of onnxruntime (domain com.microsoft), recurrent ones and others through the compiler, in double: loss and gradients of one step
against the operators in NumPy (contrib_operators.py, test/fuzz) and their central differences.

    contrib.py --divisi PATH [--filter REGEX]

Ends with `N passed, N failed`.
"""

import pathlib
import sys

import numpy as np
from onnx import helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "fuzz"))
import reference
from case import Case

import contrib_operators
import named_cases

reference.OPERATORS.extend(contrib_operators.ALL)

P = lambda *shape: ("parameter", shape)
I = lambda *values: ("whole", np.array(values, np.int32))
L = lambda *values: ("whole", np.array(values, np.int64))
NONE = None
MASK = I([1, 1, 1, 0], [1, 0, 1, 1])  # of two sequences of four keys

# name: (operator, inputs, attributes[, how many outputs count])
CASES = {
    "matmul": ("FusedMatMul", [P(2, 3, 4), P(2, 5, 4)], {"alpha": 0.5, "transB": 1}),
    "matmul-trans-a": ("FusedMatMul", [P(4, 3), P(4, 5)], {"alpha": 1.5, "transA": 1}),
    "matmul-batch": ("FusedMatMul", [P(3, 2, 4), P(5, 2, 4)], {"transBatchA": 1, "transBatchB": 1, "transB": 1}),
    "matmul-batch-a": ("FusedMatMul", [P(4, 2, 6, 3), P(2, 6, 4, 5)], {"transBatchA": 1, "transA": 1}),
    "gelu": ("Gelu", [P(3, 4)], {}),
    "bias-gelu": ("BiasGelu", [P(2, 3, 4), P(4)], {}),
    "fast-gelu": ("FastGelu", [P(3, 4)], {}),
    "fast-gelu-bias": ("FastGelu", [P(2, 3, 4), P(4)], {}),
    "quick-gelu": ("QuickGelu", [P(3, 4)], {}),
    "quick-gelu-1": ("QuickGelu", [P(3, 4)], {"alpha": 1.0}),
    "bias-softmax": ("BiasSoftmax", [P(2, 3, 4), P(1, 3, 4)], {"axis": 2, "is_inner_broadcast": 0}),
    "bias-softmax-inner": ("BiasSoftmax", [P(2, 3, 4, 5), P(2, 1, 4, 5)], {"axis": 2, "is_inner_broadcast": 1}),
    "conv-relu": ("FusedConv", [P(2, 3, 5, 5), P(4, 3, 3, 3), P(4)], {"activation": "Relu", "pads": [1, 1, 1, 1], "strides": [2, 2]}),
    "conv-sum": ("FusedConv", [P(1, 2, 4, 4), P(3, 2, 2, 2), P(3), P(1, 3, 3, 3)], {"activation": "Relu"}),
    "conv-leaky": ("FusedConv", [P(1, 2, 4, 4), P(3, 2, 3, 3)], {"activation": "LeakyRelu", "activation_params": [0.125]}),
    "conv-clip": ("FusedConv", [P(1, 2, 4, 4), P(3, 2, 3, 3)], {"activation": "Clip", "activation_params": [-1.0, 2.0]}),
    "conv-hard-sigmoid": ("FusedConv", [P(1, 2, 4, 4), P(3, 2, 3, 3)], {"activation": "HardSigmoid", "activation_params": [0.25, 0.5]}),
    "conv-tanh": ("FusedConv", [P(1, 2, 4, 4), P(3, 2, 3, 3), P(3)], {"activation": "Tanh"}),
    "gemm-relu": ("FusedGemm", [P(3, 4), P(5, 4), P(5)], {"activation": "Relu", "transB": 1, "alpha": 0.5, "beta": 2.0}),
    "gemm-leaky": ("FusedGemm", [P(3, 4), P(4, 5), P(5)], {"activation": "LeakyRelu", "activation_alpha": 0.25}),
    "rms": ("SimplifiedLayerNormalization", [P(2, 3, 4), P(4)], {"axis": -1, "epsilon": 1e-3}),
    "skip": ("SkipLayerNormalization", [P(2, 3, 4), P(2, 3, 4), P(4), P(4), P(4)], {"epsilon": 1e-3}),
    "skip-sum": ("SkipLayerNormalization", [P(2, 3, 4), P(1, 3, 4), P(4), NONE, NONE], {"epsilon": 1e-3}, [0, 3]),
    "skip-moments": ("SkipLayerNormalization", [P(2, 3, 4), P(3, 4), P(4), P(4), NONE], {"epsilon": 1e-3}, [0, 1, 2]),
    "skip-rms": ("SkipSimplifiedLayerNormalization", [P(2, 3, 4), P(2, 3, 4), P(4), P(4)], {"epsilon": 1e-3}, [0, 3]),
    "embed": ("EmbedLayerNormalization",
              [I([1, 4, 0], [2, 2, 3]), I([0, 1, 1], [0, 0, 1]), P(5, 4), P(6, 4), P(2, 4), P(4), P(4), I([1, 1, 0], [1, 1, 1])],
              {"epsilon": 1e-3}, [0, 2]),
    "embed-positions": ("EmbedLayerNormalization", [I([1, 4, 0]), NONE, P(5, 4), P(6, 4), NONE, P(4), P(4), NONE, I([2, 0, 5])], {"epsilon": 1e-3}, [0, 2]),
    "attention": ("Attention", [P(2, 4, 6), P(6, 12), P(12)], {"num_heads": 2}),
    "attention-lengths": ("Attention", [P(2, 4, 6), P(6, 12), P(12), I(3, 2)], {"num_heads": 2}),
    "attention-ends-starts": ("Attention", [P(2, 4, 6), P(6, 12), P(12), I(4, 3, 1, 0)], {"num_heads": 2}),
    "attention-mask": ("Attention", [P(2, 4, 6), P(6, 12), P(12), MASK], {"num_heads": 2, "scale": 0.3, "mask_filter_value": -5.0}),
    "attention-causal": ("Attention", [P(2, 4, 6), P(6, 12), P(12)], {"num_heads": 2, "unidirectional": 1}),
    "attention-bias": ("Attention", [P(2, 4, 6), P(6, 12), NONE, MASK, NONE, P(1, 2, 4, 4)], {"num_heads": 2}),
    "attention-sizes": ("Attention", [P(2, 4, 6), P(6, 18), P(18)], {"num_heads": 2, "qkv_hidden_sizes": [4, 4, 10]}),
    "attention-past": ("Attention", [P(2, 4, 6), P(6, 12), P(12), NONE, P(2, 2, 2, 3, 2)], {"num_heads": 2, "unidirectional": 1}, [0, 1]),
    "heads": ("MultiHeadAttention", [P(2, 3, 4), P(2, 4, 4), P(2, 4, 6)], {"num_heads": 2}),
    "heads-bias": ("MultiHeadAttention", [P(2, 3, 4), P(2, 4, 4), P(2, 4, 6), P(14), MASK], {"num_heads": 2}),
    "heads-packed": ("MultiHeadAttention", [P(2, 4, 2, 3, 2)], {"num_heads": 2, "unidirectional": 1}),
    "heads-packed-pairs": ("MultiHeadAttention", [P(2, 3, 4), P(2, 4, 2, 2, 2)], {"num_heads": 2}),
    "heads-of-keys": ("MultiHeadAttention", [P(2, 3, 4), P(2, 2, 4, 2), P(2, 2, 4, 3), NONE, NONE, P(2, 1, 3, 4)], {"num_heads": 2, "scale": 0.5}),
    "heads-past": ("MultiHeadAttention", [P(1, 3, 4), P(1, 3, 4), P(1, 3, 4), P(12), NONE, NONE, P(1, 2, 2, 2), P(1, 2, 2, 2)],
                   {"num_heads": 2, "unidirectional": 1}, [0, 1, 2]),
    "heads-rows": ("MultiHeadAttention", [P(1, 2, 4), P(1, 3, 4), P(1, 3, 4), NONE, I([[1, 0, 1], [1, 1, 0]])], {"num_heads": 2}),
    "rotary": ("RotaryEmbedding", [P(2, 3, 8), L([0, 1, 2], [3, 1, 0]), P(5, 2), P(5, 2)], {}),
    "rotary-pairs": ("RotaryEmbedding", [P(2, 2, 3, 4), L(1), P(5, 2), P(5, 2)], {"interleaved": 1}),
    "rotary-part": ("RotaryEmbedding", [P(1, 3, 12), L([4, 1, 2]), P(5, 2), P(5, 2)], {"num_heads": 2, "rotary_embedding_dim": 4}),
}

ROWS = P(4, 3, 2)  # four steps of three sequences
CASES |= {
    "lstm-peepholes": ("LSTM", [ROWS, P(1, 12, 2), P(1, 12, 3), P(1, 24), NONE, P(1, 3, 3), P(1, 3, 3), P(1, 9)], {}, [0, 1, 2]),
    "lstm-lengths": ("LSTM", [ROWS, P(2, 12, 2), P(2, 12, 3), P(2, 24), I(2, 0, 4), P(2, 3, 3), P(2, 3, 3)], {"direction": "bidirectional"}, [0, 1, 2]),
    "lstm-coupled": ("LSTM", [P(3, 4, 2), P(1, 12, 2), P(1, 12, 3)], {"layout": 1, "direction": "reverse", "input_forget": 1}, [0, 1, 2]),
    "lstm-clip": ("LSTM", [ROWS, P(1, 12, 2), P(1, 12, 3), NONE, NONE, NONE, P(1, 3, 3)], {"clip": 0.75, "activations": ["Softsign", "Affine", "ScaledTanh"],
                  "activation_alpha": [0.5, 1.5], "activation_beta": [0.25, 0.75]}, [0, 2]),
    "gru": ("GRU", [ROWS, P(2, 9, 2), P(2, 9, 3), P(2, 18), I(4, 1, 3), P(2, 3, 3)], {"direction": "bidirectional"}, [0, 1]),
    "gru-linear-first": ("GRU", [ROWS, P(1, 9, 2), P(1, 9, 3), P(1, 18)], {"linear_before_reset": 1, "activations": ["HardSigmoid", "Elu"],
                         "activation_alpha": [0.25, 0.5], "activation_beta": [0.5]}, [0, 1]),
    "gru-clip": ("GRU", [P(3, 4, 2), P(1, 9, 2), P(1, 9, 3), P(1, 18)], {"layout": 1, "clip": 0.5}, [0, 1]),
    "rnn": ("RNN", [ROWS, P(2, 3, 2), P(2, 3, 3), P(2, 6), I(4, 2, 1)],
            {"direction": "bidirectional", "activations": ["Softplus", "LeakyRelu"], "activation_alpha": [0.125]}, [0, 1]),
    "rnn-reverse": ("RNN", [ROWS, P(1, 3, 2), P(1, 3, 3), NONE, NONE, P(1, 3, 3)], {"direction": "reverse", "activations": ["Relu"], "clip": 1.5}, [0, 1]),
}


TOKENS = P(2, 3, 8)  # two sequences of three tokens
CASES |= {
    "linear-attention": ("LinearAttention", [TOKENS, TOKENS, P(2, 3, 6)], {"update_rule": "linear", "q_num_heads": 2, "kv_num_heads": 2}, [0, 1]),
    "linear-attention-gated": ("LinearAttention", [TOKENS, P(2, 3, 4), P(2, 3, 3), P(2, 1, 4, 3), P(2, 3, 4)],
                               {"update_rule": "gated", "q_num_heads": 2, "kv_num_heads": 1, "scale": 0.75}, [0, 1]),
    "linear-attention-delta": ("LinearAttention", [TOKENS, TOKENS, TOKENS, NONE, NONE, P(2, 3, 1)],
                               {"update_rule": "delta", "q_num_heads": 2, "kv_num_heads": 2}, [0]),
    "linear-attention-gated-delta": ("LinearAttention", [TOKENS, TOKENS, TOKENS, P(2, 2, 4, 4), P(2, 3, 2), P(2, 3, 2)],
                                     {"q_num_heads": 2, "kv_num_heads": 2}, [0, 1]),
    "det": ("Det", [P(2, 2, 3, 3)], {}),
    "det-6": ("Det", [P(6, 6)], {}),
}
MAIN = ("SimplifiedLayerNormalization", "LSTM", "GRU", "RNN", "LinearAttention", "Det")


def make(name):
    """The case of a name: the loss is a weighted sum of the outputs that count."""
    operator, inputs, attributes, *rest = CASES[name]
    counted = rest[0] if rest else [0]
    domain = "" if operator in MAIN else "com.microsoft"
    draw = np.random.default_rng(len(name))
    tensors, names, parameters = [], [], []
    for k, value in enumerate(inputs):
        names.append("" if value is None else f"in{k}")
        if value is None:
            continue
        kind, content = value
        array = draw.normal(size=content) if kind == "parameter" else content
        tensors.append(numpy_helper.from_array(array, names[-1]))
        parameters += [names[-1]] if kind == "parameter" else []
    while names[-1] == "":
        names.pop()
    outputs = [f"y{k}" if k in counted else "" for k in range(max(counted) + 1)]
    nodes, terms = [helper.make_node(operator, names, outputs, domain=domain, **attributes)], []
    for k in counted:  # cos(y) weighs the elements differently
        nodes += [helper.make_node("Cos", [f"y{k}"], [f"c{k}"]), helper.make_node("Mul", [f"y{k}", f"c{k}"], [f"m{k}"]),
                  helper.make_node("ReduceSum", [f"m{k}"], [f"s{k}"], keepdims=0)]
        terms.append(f"s{k}")
    nodes += [helper.make_node("ReduceSum", ["none"], ["nothing"], keepdims=0), helper.make_node("Sum", [*terms, "nothing"], ["loss"])]
    double = helper.np_dtype_to_tensor_dtype(np.dtype(np.float64))
    graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info("none", double, [1])],
                              [helper.make_tensor_value_info("loss", double, [])], tensors)
    imports = [helper.make_opsetid("", 27 if operator == "LinearAttention" else 18), helper.make_opsetid("com.microsoft", 1)]
    return Case(helper.make_model(graph, opset_imports=imports, ir_version=8), {"none": np.zeros(1)}, parameters)


def check(divisi, name, folder):
    return named_cases.with_reference(divisi, make(name), name, folder)


if __name__ == "__main__":
    sys.exit(named_cases.main(__doc__.splitlines()[0], CASES, check))
