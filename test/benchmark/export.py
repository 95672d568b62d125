#!/usr/bin/env python3
"""Exports the benchmark models to ONNX with the data that the peers train on.

    export.py OUT [NAME ...]

OUT/NAME.onnx (inputs `x`, `label`; training form, static shapes, weights inside), OUT/NAME/x.npy and OUT/NAME/label.npy
with one batch. The language models have their loss inside (output `loss`); the others end in `logits` and are compiled with
`--loss cross_entropy --label label`.
"""

import pathlib
import sys
import warnings

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "peers"))
import common  # noqa: E402
import models  # noqa: E402


class WithLoss(torch.nn.Module):
    """The model with its loss as the only output; the parameters keep their names."""

    def __init__(self, model):
        super().__init__()
        for name, child in model.named_children():
            self.add_module(name, child)
        object.__setattr__(self, "model", model)

    def forward(self, x, label):
        return models.loss(self.model, x, label)


def export(name, model, x, label, out):
    """Writes OUT/NAME.onnx and OUT/NAME/*.npy."""
    warnings.filterwarnings("ignore")
    inside = name in common.LOSS_INSIDE
    (out / name).mkdir(parents=True, exist_ok=True)
    torch.onnx.export(
        WithLoss(model) if inside else model,
        (x, label) if inside else (x,),
        str(out / f"{name}.onnx"),
        dynamo=False,
        training=torch.onnx.TrainingMode.TRAINING,
        do_constant_folding=False,
        opset_version=17,
        input_names=["x", "label"] if inside else ["x"],
        output_names=["loss"] if inside else ["logits"],
    )
    np.save(out / name / "x.npy", x.numpy())
    np.save(out / name / "label.npy", label.numpy())
    print(f"{out / name}.onnx: {sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters")


def main():
    out = pathlib.Path(sys.argv[1])
    for name in sys.argv[2:] or models.NAMES:
        model, x, label = models.make(name)
        export(name, model.train(), x, label, out)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main()
