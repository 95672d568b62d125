"""Losses that are modules with buffers or parameters of their own."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: DIVISI_PYTHON names an interpreter that has it")
pytest.importorskip("onnxscript", reason="onnxscript is not installed")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import divisi  # noqa: E402

STEPS, RATE = 6, 0.1
X, Y = torch.randn(48, 3, generator=torch.Generator().manual_seed(2)), torch.arange(48) % 4


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 4)

    def forward(self, x):
        return self.head(x)


class Children(nn.Module):
    """A module that has something called `loss`, too."""

    def __init__(self):
        super().__init__()
        self.first, self.loss, self.last = nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 4)

    def forward(self, x):
        for part in self.children():
            x = part(x)
        return x


class Tempered(nn.Module):
    """A loss that is trained with the module."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([1.5]))

    def forward(self, logits, label):
        return F.cross_entropy(logits * self.scale, label)


MODULES = {
    "sequential": lambda: nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 4)),
    "own": Own,
    "children": Children,
}
LOSSES = {
    "weights": lambda: nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0, 4.0])),
    "trained": Tempered,
}


def losses_of_pytorch(module, loss):
    optimizer = torch.optim.SGD([*module.parameters(), *loss.parameters()], lr=RATE)
    found = []
    for i in range(STEPS):
        value = loss(module(X[8 * i : 8 * i + 8]), Y[8 * i : 8 * i + 8])
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        found.append(value.item())
    return found


@pytest.mark.parametrize("dynamo", [True, False], ids=["dynamo", "torchscript"])
@pytest.mark.parametrize("which", LOSSES)
@pytest.mark.parametrize("name", MODULES)
def test_train_as_in_pytorch(tmp_path, name, which, dynamo):
    torch.manual_seed(1)
    module, loss = MODULES[name](), LOSSES[which]()
    parts = list(module._modules)
    exported = divisi.export(module, X[:8], tmp_path / "m.onnx", loss=loss, labels=Y[:8], dynamo=dynamo)
    assert list(module._modules) == parts
    program = divisi.compile(exported, tmp_path / "m", lr=RATE)
    history = program.fit(dict(zip([*exported.inputs, "label"], [X, Y])), steps=STEPS, shuffle=False, quiet=True)
    reference, criterion = copy.deepcopy(module), copy.deepcopy(loss)
    assert history.losses == pytest.approx(losses_of_pytorch(reference, criterion), rel=1e-4)
    program.load_into(module, loss)
    for ours, theirs in ((module, reference), (loss, criterion)):
        for what, tensor in ours.state_dict().items():
            np.testing.assert_allclose(tensor.numpy(), theirs.state_dict()[what].numpy(), atol=1e-5, err_msg=what)
    again = divisi.Program(tmp_path / "m")  # which knows nothing of the export
    if which == "trained":
        with pytest.warns(divisi.Warning, match="give the loss, too: these trained parameters are its own: .*loss.scale"):
            program.load_into(module)
    else:
        again.load_into(module)
    with pytest.raises(divisi.Error, match="the module has no parameter or buffer"):
        again.load_into(nn.Linear(3, 4))


def test_a_loss_that_is_a_part_of_the_module(tmp_path):
    module = Own()
    module.criterion = LOSSES["weights"]()
    exported = divisi.export(module, X[:8], tmp_path / "m.onnx", loss=module.criterion, labels=Y[:8], dynamo=False)
    program = divisi.compile(exported, tmp_path / "m")
    program.load_into(module)
    assert {each.name for each in program.parameters if each.trainable} == {"head.weight", "head.bias"}


class Counting(nn.Module):
    """A loss that keeps a mean of its values."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([2.0]))

    def forward(self, logits, label):
        value = F.cross_entropy(logits, label)
        self.mean.mul_(0.5).add_(0.5 * value.detach())
        return value * self.mean.clamp(min=1.0, max=1.0).sum()


@pytest.mark.filterwarnings("ignore:the module changes its buffer")
@pytest.mark.parametrize("dynamo", [True, False], ids=["dynamo", "torchscript"])
def test_buffers_of_a_loss_stay_as_they_were(tmp_path, dynamo):
    module, loss = Own(), Counting()
    exported = divisi.export(module, X[:8], tmp_path / "m.onnx", loss=loss, labels=Y[:8], dynamo=dynamo)
    assert loss.mean.tolist() == [2.0]
    weights = divisi.compile(exported, tmp_path / "m").weights()
    assert weights.get("loss.mean", np.array([2.0])).tolist() == [2.0]
