"""What an exporter freezes, loses or cannot train is noticed."""

import pathlib
import warnings

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: DIVISI_PYTHON names an interpreter that has it")
pytest.importorskip("onnxscript", reason="onnxscript is not installed")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import divisi  # noqa: E402
from divisi._variation import varied  # noqa: E402

X, Y = torch.randn(8, 3, generator=torch.Generator().manual_seed(2)), torch.arange(8) % 4


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(3, 4)

    def forward(self, x):
        return self.first(x) if x.sum() > 0 else self.second(x)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 4)

    def forward(self, x):
        return self.layer(x / float(x.abs().max()))


def line_of(text):
    lines = pathlib.Path(__file__).read_text().splitlines()
    return 1 + next(i for i, line in enumerate(lines) if line.strip().startswith(text))


def test_a_branch_that_the_examples_chose(tmp_path):
    with pytest.warns(divisi.Warning) as said:
        divisi.export(Branches(), X.abs(), tmp_path / "m.onnx", loss=F.cross_entropy, labels=Y, dynamo=False)
    texts = [str(each.message) for each in said if each.category is divisi.Warning]
    place = f"test_frozen.py:{line_of('return self.first(x) if')}"
    assert any(place in text and "Converting a tensor to a Python boolean" in text for text in texts)
    assert any("no tensor for these parameters" in text and "second.weight, second.bias" in text for text in texts)
    with pytest.raises(divisi.Error):  # the other exporter refuses it
        divisi.export(Branches(), X.abs(), tmp_path / "m.onnx", loss=F.cross_entropy, labels=Y)


@pytest.mark.parametrize("dynamic_batch", [False, True])
def test_a_number_of_the_examples(tmp_path, dynamic_batch):
    arguments = {"loss": F.cross_entropy, "labels": Y, "dynamo": False, "dynamic_batch": dynamic_batch}
    place = rf"test_frozen.py:{line_of('return self.layer(x / float')} \(Converting a tensor to a Python float\)"
    with pytest.warns(divisi.Warning, match=place):
        with pytest.raises(divisi.Error, match="agrees with the module for the examples, but not for others") as raised:
            divisi.export(Scaled(), X, tmp_path / "m.onnx", **arguments)
    assert "\n" not in str(raised.value)


class Idioms(nn.Module):
    """Looks at shapes alone, in ways that TorchScript warns of."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 12)

    def forward(self, x):
        if x.shape[1] > 5 or int(x.shape[0] / 2) > 10**6:
            raise ValueError("too long")
        first, second, third = self.layer(x).reshape(len(x), 3, 4).permute(1, 0, 2)
        return first + second * third


class Contains(Idioms):
    def forward(self, x):
        return super().forward(x) * (2 if 7.0 in x else 1)


def test_shapes_are_not_values(tmp_path):
    arguments = {"loss": F.cross_entropy, "labels": Y, "dynamo": False}
    with warnings.catch_warnings():
        warnings.simplefilter("error", divisi.Warning)
        divisi.export(Idioms(), X, tmp_path / "m.onnx", **arguments)
    with pytest.warns(divisi.Warning, match="looks at tensors in Python") as said:
        divisi.export(Contains(), X, tmp_path / "m.onnx", **arguments)
    text = next(str(each.message) for each in said if each.category is divisi.Warning)
    assert f"test_frozen.py:{line_of('return super().forward(x) * (2')} " in text and text.count(".py:") == 1
    with pytest.warns(divisi.Warning, match=rf"test_frozen.py:{line_of('first, second, third')} \(.*Iterating over a tensor\)"):
        divisi.export(Idioms(), X, tmp_path / "m.onnx", **arguments, dynamic_batch=True)


def test_rows_whose_order_matters_are_compared_once(tmp_path):
    class Sorted(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 4)

        def forward(self, x, lengths):
            if not torch.onnx.is_in_onnx_export() and not bool((lengths.diff() <= 0).all()):
                raise ValueError("lengths are to be sorted")
            return self.layer(x * lengths[:, None])

    arguments = {"loss": F.cross_entropy, "labels": Y, "dynamo": False}
    with pytest.warns(divisi.Warning, match=r"for the examples alone: the module does not take them in another order \(ValueError\)"):
        divisi.export(Sorted(), (X, torch.arange(8, 0, -1)), tmp_path / "m.onnx", **arguments)


def test_rows_that_the_program_refuses_in_another_order(tmp_path, monkeypatch):
    """A program refuses an index that is out of range; PyTorch takes it where a module looks first."""

    class Picked(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.layer = nn.Embedding(8, 3), nn.Linear(3, 4)

        def forward(self, x, index):
            rows = index if torch.onnx.is_in_onnx_export() else index.clamp(max=7)
            return self.layer(x + self.words(rows))

    monkeypatch.setattr("divisi._export.varied", lambda given: given | {"index": given["index"] + 1})
    arguments = {"loss": F.cross_entropy, "labels": Y, "dynamo": False}
    with pytest.warns(divisi.Warning, match="for the examples alone: the program refuses them in another order"):
        divisi.export(Picked(), (X, torch.arange(8)), tmp_path / "m.onnx", **arguments)


def test_parameters_that_are_not_used(tmp_path):
    module = Branches()
    module.forward = module.first.forward
    with pytest.warns(divisi.Warning, match="m.onnx has no tensor for these parameters.*: second.weight, second.bias; they do not train"):
        divisi.export(module, X, tmp_path / "m.onnx", loss=F.cross_entropy, labels=Y, dynamo=False)
    module.second.requires_grad_(False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", divisi.Warning)
        divisi.export(module, X, tmp_path / "m.onnx", loss=F.cross_entropy, labels=Y, dynamo=False)


@pytest.mark.parametrize("dynamo", [True, False], ids=["dynamo", "torchscript"])
@pytest.mark.parametrize("module", [nn.Softmax(1), nn.Linear(3, 4).requires_grad_(False)], ids=["none", "frozen"])
def test_nothing_to_train(tmp_path, module, dynamo):
    with pytest.raises(divisi.Error, match="has no parameter with requires_grad: there is nothing to train"):
        divisi.export(module, X, tmp_path / "m.onnx", loss=F.cross_entropy, labels=Y, dynamo=dynamo)


def test_a_loss_that_depends_on_no_parameter(tmp_path):
    def loss(logits, label):
        return F.cross_entropy(logits.detach(), label)

    with pytest.raises(divisi.Error, match="the loss depends on no parameter with requires_grad"):
        divisi.export(nn.Linear(3, 4), X, tmp_path / "m.onnx", loss=loss, labels=Y, dynamo=False)


def test_varied():
    given = {"real": X, "class": Y, "mask": Y > 1, "code": torch.tensor([0.0, 1, 2, 3, 4, 5, 6, 7]), "one": torch.tensor(2.5)}
    found = varied(given)
    for name, tensor in found.items():
        assert tensor.dtype == given[name].dtype and tensor.shape == given[name].shape, name
        assert given[name].min() <= tensor.min() and tensor.max() <= given[name].max(), name
    assert torch.equal(found["code"].sort().values, given["code"]) and not (found["code"] == given["code"]).any()
    assert torch.equal(found["class"], Y[found["code"].long()])  # the same order for all
    assert not (found["real"] == X).any() and found["real"].sum() != X.sum()
    assert torch.equal(varied(given)["real"], found["real"])
    single = varied({"x": X[:1]})["x"]
    assert single.min() == X[:1].min() and single.max() < X[:1].max()
