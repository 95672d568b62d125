"""What is wrong is said in one line that names the input, the file or the flag."""

import os
import pathlib

import numpy as np
import onnx
import pytest
from conftest import BATCH, FEATURES, batches
from onnx import TensorProto, helper, numpy_helper

import divisi
from divisi._command import words_of

X, Y = np.zeros((8, FEATURES), np.float32), np.zeros((8, 1), np.float32)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"x": X}, "no file for input 'y'"),
        ({"x": X, "z": Y}, "data: there is no input 'z'; the inputs are: x, y"),
        ({"x": X[:, :2], "y": Y}, "--data x: expected F32"),
        ({"x": X, "y": Y[:5]}, "samples"),
        ({"x": [["a", "b", "c"]], "y": Y}, "data: 'x' is to be F32"),
        ({"x": "none.npy", "y": Y}, "none.npy"),
        (17, "data: expected a dict of arrays or .npy files by the names of the inputs"),
        ([(X,)], "data: batch 1 has 1 parts, but the program 2 inputs: x, y"),
        ([{"x": X, "y": Y}, {"x": X}], "data: batch 2 has no 'y'"),
        ([{"x": X, "y": Y[:5]}], "data: batch 1: the inputs have different numbers of samples: {'x': 8, 'y': 5}"),
        ([{"x": X[:, :2], "y": Y}], r"data: batch 1: expected F32 \[N, 3\] for 'x', got shape \[8, 2\]"),
        ([], "data: it has fewer samples than one batch of 4"),
        ([{"x": X[:3], "y": Y[:3]}], "data: it has fewer samples than one batch of 4"),
    ],
)
def test_data(linear, data, message):
    with pytest.raises(divisi.Error, match=message) as raised:
        linear.fit(data, quiet=True)
    assert "\n" not in str(raised.value)


def test_a_generator_cannot_be_passed_over_twice(linear):
    with pytest.raises(divisi.Error, match="nothing came in pass 2, but 2 epochs"):
        linear.fit(iter(batches({"x": X, "y": Y})), epochs=2, quiet=True)


def test_the_room_for_a_loader_is_limited(linear):
    def endless():
        while True:
            yield X, Y

    with pytest.raises(divisi.Error, match="more than 100000 bytes"):
        linear.evaluate(endless(), most_bytes=100_000)
    assert len(linear.fit(endless(), steps=5, quiet=True).steps) == 5


def test_an_exception_of_the_data_is_passed_on(linear):
    def broken():
        yield X, Y
        raise OSError("the disk of the data")

    with pytest.raises(OSError, match="the disk of the data"):
        linear.fit(broken(), quiet=True)


def test_flags(linear, linear_file, work):
    with pytest.raises(divisi.Error, match="--lr") as raised:
        linear.fit({"x": X, "y": Y}, lr="fast", quiet=True)
    assert raised.value.code == 2
    with pytest.raises(divisi.Error, match="--bogus"):
        linear.fit({"x": X, "y": Y}, bogus=True, quiet=True)
    with pytest.raises(TypeError, match="'log'"):
        linear.fit({"x": X, "y": Y}, log="log.jsonl")
    with pytest.raises(divisi.Error, match="optimizer"):
        divisi.compile(linear_file, work / "none", optimizer="newton")
    with pytest.raises(divisi.Error, match=r"missing\.onnx") as raised:
        divisi.compile("missing.onnx", work / "none")
    assert raised.value.code == 1


def test_warnings_are_pythons(work):
    """Batch norm that was exported for inference, by an exporter that says nothing about its tensors."""
    ones = [numpy_helper.from_array(np.ones(FEATURES, np.float32), name) for name in "gbmv"]
    graph = helper.make_graph(
        [
            helper.make_node("BatchNormalization", ["x", *"gbmv"], ["h"], name="bn"),
            helper.make_node("ReduceMean", ["h"], ["loss"], keepdims=0, name="mean"),
        ],
        "norm",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [BATCH, FEATURES])],
        [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])],
        ones,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), work / "norm.onnx")
    with pytest.warns(divisi.Warning, match="batch norm"):
        divisi.compile(work / "norm.onnx", work / "norm")


def test_words_of_flags():
    flags = {
        "weight_decay": 0.5,
        "nesterov": True,
        "info": False,
        "loss": None,
        "freeze": ["a.*", "b"],
        "dim": {"batch": 32, "time": 8},
        "mesh": {"data": 2, "model": 4},
        "save": pathlib.Path("m.onnx"),
        "steps": np.int64(3),
        "lr": np.float64(1e-3),
    }
    assert words_of(flags) == (
        "--weight-decay 0.5 --nesterov --freeze a.* --freeze b --dim batch=32 --dim time=8 --mesh data=2,model=4 "
        "--save m.onnx --steps 3 --lr 0.001"
    ).split()


def test_where_the_program_is_found(tmp_path, monkeypatch):
    programs = {}
    for name in ("argument", "variable", "path"):
        programs[name] = tmp_path / name / "divisi"
        programs[name].parent.mkdir()
        programs[name].write_text("#!/bin/sh\n")
        programs[name].chmod(0o755)
    monkeypatch.setenv("DIVISI", str(programs["variable"]))
    monkeypatch.setenv("PATH", str(programs["path"].parent), prepend=os.pathsep)
    assert divisi.find_program(programs["argument"]) == str(programs["argument"])
    assert divisi.find_program() == str(programs["variable"])
    monkeypatch.delenv("DIVISI")
    assert divisi.find_program() == str(programs["path"])
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(divisi.Error, match="set the environment variable DIVISI"):
        divisi.find_program()
    monkeypatch.setenv("DIVISI", str(tmp_path / "nowhere"))
    with pytest.raises(divisi.Error, match="the environment variable DIVISI names"):
        divisi.find_program()
    with pytest.raises(divisi.Error, match="the argument divisi names"):
        divisi.find_program(tmp_path / "nowhere")


def test_a_program_that_is_none(tmp_path):
    with pytest.raises(divisi.Error, match="cannot start"):
        divisi.Program(tmp_path / "none")
