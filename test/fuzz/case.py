"""A case: a model with its inputs, the flags of the compiler, and the files of its folder."""

import dataclasses
import json

import numpy as np
import onnx
from onnx import numpy_helper

import reference


@dataclasses.dataclass
class Case:
    model: onnx.ModelProto
    inputs: dict  # name: array, as the program reads it
    parameters: list  # names of the initializers that train
    flags: list = dataclasses.field(default_factory=list)  # of the compiler, whatever the plan
    plans: list = dataclasses.field(default_factory=list)  # lists of flags of the compiler
    evaluates: bool = False  # the program also evaluates the model that it begins with

    def is_double(self):
        return any(t.data_type == onnx.TensorProto.DOUBLE for t in self.model.graph.initializer)

    def weights(self):
        return {t.name: numpy_helper.to_array(t) for t in self.model.graph.initializer if t.name in self.parameters}

    def reference(self):
        return reference.Reference(self.model, self.inputs, self.weights())

    def save(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.onnx").write_bytes(self.model.SerializeToString(deterministic=True))
        for name, array in self.inputs.items():
            np.save(folder / f"{name}.npy", array)
        about = {"inputs": list(self.inputs), "parameters": self.parameters, "flags": self.flags, "plans": self.plans,
                 "evaluates": self.evaluates}
        (folder / "case.json").write_text(json.dumps(about, indent=1) + "\n")


def load(folder):
    about = json.loads((folder / "case.json").read_text())
    inputs = {name: np.load(folder / f"{name}.npy") for name in about["inputs"]}
    return Case(onnx.load(folder / "model.onnx"), inputs, about["parameters"], about["flags"], about["plans"], about.get("evaluates", False))
