"""Fixtures: small models whose training NumPy can follow."""

import pathlib
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

sys.dont_write_bytecode = True

import divisi  # noqa: E402

BATCH, FEATURES = 4, 3


@pytest.fixture(scope="session")
def work(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("programs")


def linear_model(batch: int | str = BATCH) -> onnx.ModelProto:
    """pred = x w^T + b, with w = 0.1, 0.2, 0.3 and b = 0.5."""
    w = numpy_helper.from_array(np.array([[0.1, 0.2, 0.3]], np.float32), "w")
    b = numpy_helper.from_array(np.array([0.5], np.float32), "b")
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w", "b"], ["pred"], transB=1, name="fc")],
        "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, FEATURES])],
        [helper.make_tensor_value_info("pred", TensorProto.FLOAT, [batch, 1])],
        [w, b],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="session")
def linear_file(work: pathlib.Path) -> pathlib.Path:
    onnx.save(linear_model(), work / "linear.onnx")
    return work / "linear.onnx"


@pytest.fixture
def linear(work: pathlib.Path, linear_file: pathlib.Path) -> divisi.Program:
    """The linear model with a mean squared error, trained by SGD with the rate 0.1."""
    return divisi.compile(linear_file, work / "linear", loss="mse", label="y", lr=0.1)


class Reference:
    """The same in NumPy, in float64."""

    def __init__(self, rate: float = 0.1) -> None:
        self.w, self.b, self.rate = np.array([[0.1, 0.2, 0.3]]), np.array([0.5]), rate

    def loss(self, x: np.ndarray, y: np.ndarray) -> float:
        return float(np.mean((x @ self.w.T + self.b - y) ** 2))

    def step(self, x: np.ndarray, y: np.ndarray) -> float:
        loss, error = self.loss(x, y), x @ self.w.T + self.b - y
        self.w = self.w - self.rate * 2 * error.T @ x / error.size
        self.b = self.b - self.rate * 2 * error.sum(axis=0) / error.size
        return loss


@pytest.fixture
def reference() -> Reference:
    return Reference()


@pytest.fixture
def data() -> dict[str, np.ndarray]:
    """Six batches of a noisy linear function."""
    draw = np.random.default_rng(1)
    x = draw.normal(size=(6 * BATCH, FEATURES))
    y = x @ np.array([[1.0, -2.0, 0.5]]).T + 0.3 + 0.1 * draw.normal(size=(6 * BATCH, 1))
    return {"x": x.astype(np.float32), "y": y.astype(np.float32)}


def batches(data: dict[str, np.ndarray], size: int = BATCH) -> list[dict[str, np.ndarray]]:
    count = len(data["x"])
    return [{name: rows[i : i + size] for name, rows in data.items()} for i in range(0, count, size)]
