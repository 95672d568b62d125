#!/usr/bin/env python3
"""Writes the untrained models of this example: model.onnx (a small CNN) and mlp.onnx.

    make_model.py [--train]

Input `image`, output `logits`, a batch of 32, no loss inside. With --train nothing is written: PyTorch trains both from
the exported weights by the recipe of the README and prints the held-out accuracy of each. Needs torch and onnxscript;
make_data.py writes the data.
"""

import pathlib
import sys
import warnings

import numpy as np
import torch
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
BATCH, EPOCHS = 32, 20


class CNN(nn.Module):
    """Two convolutions, one pooling, two linear layers."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.fc1 = nn.Linear(32 * 4 * 4, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, image):
        x = torch.relu(self.conv1(image))
        x = self.pool(torch.relu(self.conv2(x)))
        return self.fc2(torch.relu(self.fc1(torch.flatten(x, 1))))


class MLP(nn.Module):
    """64-64-32-10."""

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(64, 64)
        self.fc2 = nn.Linear(64, 32)
        self.fc3 = nn.Linear(32, 10)

    def forward(self, image):
        x = torch.relu(self.fc1(torch.flatten(image, 1)))
        return self.fc3(torch.relu(self.fc2(x)))


MODELS = {"model.onnx": CNN, "mlp.onnx": MLP}


def make(kind):
    """The untrained model: always the same weights."""
    torch.manual_seed(0)
    return kind().train()


def export(model, path):
    torch.onnx.export(
        model,
        (torch.zeros(BATCH, 1, 8, 8),),
        str(path),
        dynamo=False,
        opset_version=17,
        training=torch.onnx.TrainingMode.TRAINING,
        do_constant_folding=False,
        input_names=["image"],
        output_names=["logits"],
    )
    print(f"{path.name}: {sum(p.numel() for p in model.parameters())} parameters")


def train(model, seed):
    """Held-out accuracy after the README's recipe."""
    x, y, xt, yt = (torch.from_numpy(np.load(HERE / f"{n}.npy")) for n in ("x", "y", "xt", "yt"))
    shuffle = torch.Generator().manual_seed(seed)
    update = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _ in range(EPOCHS):
        order = torch.randperm(len(x), generator=shuffle)
        for k in range(len(x) // BATCH):  # the last partial batch is dropped
            rows = order[k * BATCH : (k + 1) * BATCH]
            update.zero_grad()
            nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            update.step()
    with torch.no_grad():
        return float((model(xt).argmax(1) == yt).float().mean())


def main():
    warnings.filterwarnings("ignore")
    for name, kind in MODELS.items():
        if sys.argv[1:] == ["--train"]:
            accuracies = [train(make(kind), seed) for seed in range(5)]
            print(
                f"{name}: held-out accuracy {' '.join(f'{100 * a:.2f} %' for a in accuracies)} for five shuffling seeds"
            )
        else:
            export(make(kind), HERE / name)


if __name__ == "__main__":
    main()
