#!/usr/bin/env python3
"""How far PyTorch's own bf16 or fp16 (autocast on the CPU) drifts from fp32 on the test models: the measure for `--precision`.

    half_drift.py [--fp16] [NAME ...]

Needs torch and onnx, as make_models.py does. One line per model and optimizer: the largest relative difference of a loss in 12 steps.
"""

import sys

import numpy as np
import torch

import make_models


HALF = torch.float16 if "--fp16" in sys.argv else torch.bfloat16
NAMES = [word for word in sys.argv[1:] if word != "--fp16"]


def drift(name, model, data, batch, sgd, adamw, loss_of=None, **_):
    """Takes the place of make_models.make."""
    make_models.perturb(model)
    data = {n: np.ascontiguousarray(v) for n, v in data.items()}
    loss_of = loss_of or (lambda f, row: f(*row)[0])

    def reduced(f, row):
        with torch.autocast("cpu", HALF):
            return loss_of(f, row)

    adam = {"name": "adamw", "lr": adamw[0], "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": adamw[1]}
    for optimizer in ({"name": "sgd", "lr": sgd[0], "momentum": 0.9, "weight_decay": sgd[1]}, adam):
        full, gradients, _ = make_models.train(model, data, batch, optimizer, loss_of)
        half, rounded, _ = make_models.train(model, data, batch, optimizer, reduced)
        loss = max(abs(a - b) / abs(a) for a, b in zip(full, half))
        norm = max(abs(gradients[n] - rounded[n]) / gradients[n] for n in gradients)
        print(f"{name} {optimizer['name']}: loss {loss:.2%}, first gradient norms {norm:.2%}", flush=True)


if __name__ == "__main__":
    make_models.make = drift
    for i, case in enumerate(make_models.CASES):
        if not NAMES or case.__name__ in NAMES:
            torch.manual_seed(1000 + i)
            case(case.__name__)
