"""Trains ONNX models and PyTorch modules as native programs, through the command line program `divisi`.

    import divisi

    program = divisi.compile("model.onnx", "model", optimizer="adamw", lr=1e-3)
    history = program.fit({"image": x, "label": y}, epochs=5)
    weights = program.weights()
"""

from ._command import Error, Warning, find_program
from ._compile import compile
from ._export import Exported, export
from ._log import Evaluation, Step
from ._data import Input
from ._packing import Packed
from ._plan import Explanation, Plan, Plans, explain, plan
from ._program import History, Output, Parameter, Program, RateTest
from ._safetensors import read_safetensors
from ._tables import Table
from ._trackers import mlflow_callback, wandb_callback

__all__ = [
    "Error",
    "Evaluation",
    "Explanation",
    "Exported",
    "History",
    "Input",
    "Output",
    "Packed",
    "Parameter",
    "Plan",
    "Plans",
    "Program",
    "RateTest",
    "Step",
    "Table",
    "Warning",
    "compile",
    "explain",
    "export",
    "find_program",
    "mlflow_callback",
    "plan",
    "read_safetensors",
    "wandb_callback",
]
