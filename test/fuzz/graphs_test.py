#!/usr/bin/env python3
"""Unit tests of the differential fuzzer: every supported operator has a rule, seeds are reproducible, and faults are found."""

import pathlib
import random
import re
import sys
import unittest
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import numpy as np  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.backend.test.case.node import collect_testcases  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

import compare  # noqa: E402
import graphs  # noqa: E402
import program  # noqa: E402
import reference  # noqa: E402
import rules  # noqa: E402
import shrink  # noqa: E402

OPERATORS = pathlib.Path(__file__).resolve().parents[2] / "compiler/Import/Ops"
warnings.filterwarnings("ignore")


def right(case):
    """The results of a compiler without faults."""
    reference = case.reference()
    gradients = {}
    for name, array in case.weights().items():
        gradients[name] = np.zeros(array.shape)
        for place in np.ndindex(*array.shape):
            direction = np.zeros(array.shape)
            direction[place] = 1
            slope = reference.slope({name: direction})
            gradients[name][place] = slope[0] if slope else 0
    return program.Outcome(loss=reference.loss(), gradients=gradients)


# Operators without numbers that a reference has (random ones), without a gradient that differences have (quantized ones: the
# straight-through estimator), of constants alone, that count, and what test/onnx/contrib.py and loops.py test.
NOT_DRAWN = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"} | {
    "ConvInteger", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "QLinearConv", "QLinearMatMul", "QuantizeLinear",
    "BitCast", "MelWeightMatrix", "Optional", "OptionalGetElement", "OptionalHasElement", "SimplifiedLayerNormalization",
    "TfIdfVectorizer", "Unique", "Det", "LinearAttention", "Loop", "Scan", "SequenceMap"}


class Graphs(unittest.TestCase):
    def test_every_operator_has_a_rule(self):
        rows = "".join(f.read_text() for f in OPERATORS.glob("*.cpp"))
        names = set(re.findall(r'\{"([A-Z]\w+)", \d+, (?:\d+|newest)', rows))
        self.assertEqual(names, set(rules.RULES) | NOT_DRAWN)

    def test_operators_in_numpy_are_those_of_onnx(self):
        """Compares with the results that ONNX's node tests contain."""
        ours = {operator.__name__ for operator in reference.OPERATORS}
        left_out = ("3d", "output_shape", "autopad_same", "with_argmax")  # cases that are not drawn
        tried = 0
        for test in collect_testcases():
            nodes = test.model.graph.node
            if len(nodes) > 1 or nodes[0].op_type not in ours or any(word in test.name for word in left_out):
                continue
            inputs, outputs = test.data_sets[0]
            names = [i.name for i in test.model.graph.input]
            got = ReferenceEvaluator(test.model, new_ops=reference.OPERATORS).run(None, dict(zip(names, inputs)))
            np.testing.assert_allclose(got[0], outputs[0], rtol=1e-3, atol=1e-5, err_msg=test.name)
            tried += 1
        self.assertGreater(tried, 40)

    def test_a_normalization_is_in_double(self):
        x = np.random.default_rng(0).standard_normal((2, 4, 3))
        groups = x.reshape(2, 2, 6)
        expected = (groups - groups.mean(-1, keepdims=True)) / np.sqrt(groups.var(-1, keepdims=True) + float(np.float32(1e-5)))
        node = helper.make_node("GroupNormalization", ["x", "w", "b"], ["y"], num_groups=2)
        (got,) = reference.run_node(node, {"x": x, "w": np.ones(4), "b": np.zeros(4)}, 21)
        np.testing.assert_allclose(got, expected.reshape(x.shape), rtol=1e-13)

    def test_a_jump_behind_a_body_is_seen(self):
        value = lambda name, kind, shape: helper.make_tensor_value_info(name, kind, shape)
        body = lambda name, op: helper.make_graph([helper.make_node(op, ["x"], [name])], name, [], [value(name, TensorProto.FLOAT, [2])])
        nodes = [helper.make_node("If", ["yes"], ["y"], then_branch=body("t", "Tanh"), else_branch=body("e", "Neg")),
                 helper.make_node("Mul", ["w", "tenth"], ["z"]), helper.make_node("Ceil", ["z"], ["c"]),
                 helper.make_node("Add", ["y", "c"], ["s"]), helper.make_node("ReduceSum", ["s"], ["loss"], keepdims=0)]
        constants = [numpy_helper.from_array(np.array(a), n) for n, a in (("yes", True), ("tenth", np.float32(0.1)))]
        graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, [2]), value("w", TensorProto.FLOAT, [2])],
                                  [value("loss", TensorProto.FLOAT, [])], constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        del model.graph.input[1]
        model.graph.initializer.append(numpy_helper.from_array(np.array([10, 4], np.float32), "w"))
        found = reference.Reference(model, {"x": np.ones(2, np.float32)}, {"w": np.array([10, 4], np.float32)})
        self.assertTrue(found.jumps(1.0))  # 10 * 0.1 is 1 in float, and more in double
        self.assertFalse(found.jumps(10.0))

    def test_a_seed_draws_the_same(self):
        first, second = (graphs.draw_case(11, 2) for _ in range(2))
        self.assertEqual(first[0].model.SerializeToString(deterministic=True), second[0].model.SerializeToString(deterministic=True))
        self.assertEqual(first[0].plans, second[0].plans)

    def test_wrong_numbers_are_seen(self):
        seen = 0
        for seed in range(40, 52):
            case, _, _ = graphs.draw_case(seed, 0)
            good = right(case)
            if sum(a.size for a in case.weights().values()) > 60 or max(np.abs(g).max() for g in good.gradients.values()) < 1e-3:
                continue
            self.assertEqual(compare.with_reference(case, good, seed)[0], "", seed)
            wrong = program.Outcome(loss=good.loss + 0.1, gradients=good.gradients)
            self.assertIn("loss", compare.with_reference(case, wrong, seed)[0])
            doubled = {n: g * 1.1 for n, g in good.gradients.items()}
            wrong = program.Outcome(loss=good.loss, gradients=doubled)
            self.assertIn("gradient", compare.with_reference(case, wrong, seed)[0], seed)
            self.assertIn("gradient", compare.with_one_device(good, wrong, case.is_double()))
            seen += 1
        self.assertGreaterEqual(seen, 3)

    def test_shrinking_keeps_the_class(self):
        case = next(c for c, ops, _ in (graphs.draw_case(s, 0) for s in range(100, 200)) if "Sigmoid" in ops and len(ops) > 4)
        fails = lambda c: any(node.op_type == "Sigmoid" for node in c.model.graph.node)
        small = shrink.shrink(case, fails)
        self.assertTrue(fails(small))
        self.assertLess(len(small.model.graph.node), len(case.model.graph.node))
        self.assertTrue(np.isfinite(small.reference().loss()))

    def test_errors_of_flags_that_nobody_gave_are_failures(self):
        self.assertTrue(program.judge(1, "error: m.onnx: cut: there is no node 'a' in the forward pass", "compile", True).failure)
        self.assertTrue(program.judge(1, "error: m.onnx: a pipeline of 6 stages needs as many nodes", "compile", True).refusal)

    def test_messages_lose_what_differs(self):
        self.assertEqual(program.general("error: node 'a/b' (Mul): 2x3 and tensor<2x3xf32>"), "node NAME (Mul): NxN and TYPE")


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)
