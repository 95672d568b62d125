"""What a model of the zoo is: a module whose forward gives the loss, and the batches of some steps."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import inspect
import pathlib

import torch
from torch import nn

STEPS = 3
BATCH = 8
FEW = 2  # samples of a batch at published size
BUILDERS = {}


@dataclasses.dataclass
class Case:
    module: nn.Module  # forward(**inputs of one batch) is the loss, a scalar
    data: dict  # tensors by the names of the inputs, STEPS batches one behind the other
    loss: str  # in words
    optimizer: dict = dataclasses.field(default_factory=lambda: dict(SGD))
    batch: int = BATCH

    def rows(self, step, part=0, parts=1):
        """The inputs of a step, or of one of the microbatches of a step."""
        size = self.batch // parts
        start = (step % STEPS) * self.batch + part * size
        return {name: tensor[start : start + size] for name, tensor in self.data.items()}

    def has_batch_norm(self):
        return any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in self.module.modules())


SGD = {"optimizer": "sgd", "lr": 0.01, "momentum": 0.9}
SLOW = {**SGD, "lr": 1e-3}
ADAMW = {"optimizer": "adamw", "lr": 1e-3, "weight_decay": 0.01}


def model(name):
    """Registers a function that builds a Case, at published size where it takes `published`; random weights come from one seed."""

    def register(build):
        def seeded(published=False):
            torch.manual_seed(0)
            return build(published) if inspect.signature(build).parameters else build()

        BUILDERS[name] = seeded
        return build

    return register


def load():
    for file in sorted(pathlib.Path(__file__).parent.glob("*.py")):
        if file.stem not in ("__init__", "case"):
            importlib.import_module(f"models.{file.stem}")
    return BUILDERS


class WithLoss(nn.Module):
    """A module of one input and a loss of its output and a label."""

    def __init__(self, model, loss):
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, x, label):
        return self.loss(self.model(x), label)


def images(channels=3, size=64, batch=BATCH):
    return torch.randn(STEPS * batch, channels, size, size)


def classes(count, *shape, batch=BATCH):
    return torch.randint(count, (STEPS * batch, *shape))


def classifier(network, count=10, size=64, batch=BATCH, optimizer=None):
    """The case of a network that gives classes of images."""
    case = Case(
        WithLoss(network, nn.functional.cross_entropy),
        {"x": images(size=size, batch=batch), "label": classes(count, batch=batch)},
        f"cross-entropy of {count} classes",
        batch=batch,
    )
    return dataclasses.replace(case, optimizer=dict(optimizer)) if optimizer else case


def conditioned(network, shift=0.0, residual=None):
    """The network with other numbers in its batch norms: biases of `shift`, and the last weights of ResNet's blocks `residual`. Deep networks with
    batch norm are chaotic at their usual random start: gradients grow with the depth, relus are near their kinks, and three steps of PyTorch in float32
    differ from float64 by some per cent. So begun, they differ by rounding."""
    for part in network.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.constant_(part.bias, shift)
        if residual is not None and hasattr(part, "bn3"):
            nn.init.constant_(part.bn3.weight, residual)
    return network


@contextlib.contextmanager
def narrowed(factor):
    """Networks that are built meanwhile have layers a `factor` narrower: numbers of channels and features that it divides, from 16 on."""

    def less(size):
        return size // factor if size >= 16 and size % factor == 0 else size

    kinds = [
        (nn.Conv2d, 2), (nn.ConvTranspose2d, 2), (nn.Linear, 2), (nn.BatchNorm2d, 1),
    ]  # each with the number of its first arguments that are widths
    before = [kind.__init__ for kind, _ in kinds]

    def wrap(init, count):
        def narrow(self, *args, **options):
            names = ("in_channels", "in_features", "num_features"), ("out_channels", "out_features")
            args = [less(a) if i < count else a for i, a in enumerate(args)]
            options = {key: less(value) if key in (*names[0], *names[1]) else value for key, value in options.items()}
            if isinstance(options.get("groups"), int) and options["groups"] > 1:
                options["groups"] = less(options["groups"])
            init(self, *args, **options)

        return narrow

    try:
        for (kind, count), init in zip(kinds, before):
            kind.__init__ = wrap(init, count)
        yield
    finally:
        for (kind, _), init in zip(kinds, before):
            kind.__init__ = init
