"""What divisi.export takes, what it leaves alone, and what it refuses."""

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: DIVISI_PYTHON names an interpreter that has it")
pytest.importorskip("onnxscript", reason="onnxscript is not installed")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import divisi  # noqa: E402

BOTH = pytest.mark.parametrize("dynamo", [True, False], ids=["dynamo", "torchscript"])


class Normed(nn.Module):
    """A linear layer, batch norm in eval(), a parameter that does not train, and a buffer whose name says nothing."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(3, 6), nn.BatchNorm1d(6), nn.Linear(6, 4)
        self.first.weight.requires_grad_(False)
        self.register_buffer("weighting", torch.linspace(0.5, 2, 6))

    def forward(self, x):
        return self.last(F.relu(self.norm(self.first(x))) * self.weighting)


@pytest.fixture
def normed():
    torch.manual_seed(1)
    return Normed()


X, Y = torch.randn(8, 3, generator=torch.Generator().manual_seed(2)), torch.arange(8) % 4


@BOTH
def test_the_module_stays_as_it_was(normed, tmp_path, dynamo):
    normed.eval()
    normed.last.train()
    normed.last.bias.grad = torch.full((4,), 7.0)
    before = {name: tensor.clone() for name, tensor in normed.state_dict().items()}
    state, kind = torch.get_rng_state(), type(normed)
    exported = divisi.export(normed, X, tmp_path / "m.onnx", loss=F.cross_entropy, labels=Y, dynamo=dynamo)
    assert torch.equal(torch.get_rng_state(), state)
    assert not normed.training and not normed.norm.training and normed.last.training
    assert type(normed) is kind and "forward" not in vars(normed)
    assert torch.equal(normed.last.bias.grad, torch.full((4,), 7.0)) and normed.first.bias.grad is None
    for name, tensor in normed.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    # The file begins with the module's buffers, though the older exporter runs the module before it writes them.
    weights = divisi.compile(exported, tmp_path / "m").weights()
    for name in ("norm.running_mean", "norm.running_var", "weighting"):
        np.testing.assert_array_equal(weights[name], before[name].numpy())


@BOTH
def test_only_parameters_with_gradients_train(normed, tmp_path, dynamo):
    exported = divisi.export(normed, X, tmp_path / "m.onnx", loss=F.cross_entropy, labels=Y, dynamo=dynamo)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = divisi.compile(exported, tmp_path / "m", freeze="last.bias")
    trains = {parameter.name for parameter in program.parameters if parameter.trainable}
    assert trains == {"first.bias", "norm.weight", "norm.bias", "last.weight"}
    assert str(exported).startswith(f"divisi compile {tmp_path}/m.onnx") and "--freeze first.weight" in str(exported)


@BOTH
@pytest.mark.parametrize("loss", [F.cross_entropy, "cross_entropy"], ids=["inside", "named"])
def test_dynamic_batch(normed, tmp_path, dynamo, loss):
    exported = divisi.export(
        normed, X, tmp_path / "m.onnx", loss=loss, labels=Y, dynamo=dynamo, dynamic_batch=True
    )
    program = divisi.compile(exported, tmp_path / "m", dim={"batch": 4})
    assert [(x.name, x.shape) for x in program.inputs] == [("x", (4, 3)), ("label", (4,))]
    history = program.fit([(X, Y)], quiet=True)
    with torch.no_grad():
        expected = F.cross_entropy(normed(X[:4]), Y[:4]).item()
    assert history.losses[0] == pytest.approx(expected, rel=1e-5) and len(history.steps) == 2


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 7)

    def forward(self, x):
        return self.head(x) / len(x)


def test_a_batch_that_the_module_fixes_is_an_error(tmp_path):
    with pytest.raises(divisi.Error, match=r"torch.export has fixed the batch, .* as len\(x\)"):
        divisi.export(Counted(), X, tmp_path / "m.onnx", loss="mse", dynamo=True, dynamic_batch=True)


class Dictionary(nn.Module):
    """Arguments by keyword, several outputs: as the models of transformers."""

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(9, 5), nn.Linear(5, 2)

    def forward(self, input_ids, attention_mask=None, labels=None):
        share = attention_mask / attention_mask.sum(1, keepdim=True)
        logits = self.head((self.words(input_ids) * share[..., None]).sum(1))
        return {"loss": F.cross_entropy(logits, labels) if labels is not None else None, "logits": logits}


@pytest.fixture
def words():
    torch.manual_seed(1)
    ids = torch.randint(9, (4, 6))
    return Dictionary(), {"input_ids": ids, "attention_mask": (ids > 2).float() + 0.1}, torch.randint(2, (4,))


@pytest.mark.parametrize("loss", [None, "cross_entropy", lambda out, label: F.cross_entropy(out["logits"], label)])
def test_keyword_arguments_and_where_the_loss_is(words, tmp_path, loss):
    module, inputs, label = words
    given = dict(inputs, labels=label) if loss is None else inputs
    exported = divisi.export(
        module, given, tmp_path / "m.onnx", loss=loss, labels=None if loss is None else {"target": label}, dynamo=False
    )
    program = divisi.compile(exported, tmp_path / "m")
    name = "labels" if loss is None else "target"
    assert {x.name for x in program.inputs} == {"input_ids", "attention_mask", name}
    history = program.fit({**inputs, name: label}, quiet=True)
    assert history.losses == [pytest.approx(module(**inputs, labels=label)["loss"].item(), rel=1e-5)]


@pytest.mark.parametrize("shape", [(2, 3), (2, 5, 3)])
@pytest.mark.parametrize("loss", ["mse", "bce"])
def test_named_losses_need_no_example_of_a_label(tmp_path, loss, shape):
    exported = divisi.export(nn.Linear(3, 2), torch.randn(shape), tmp_path / "m.onnx", loss=loss, dynamo=False)
    assert (exported.inputs, exported.labels) == (("input",), ())
    assert exported.flags == {"loss": loss, "output": "output", "label": "label"}


def test_a_loss_with_weights_of_classes(normed, tmp_path):
    loss = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0, 4.0]))
    exported = divisi.export(normed, X, tmp_path / "m.onnx", loss=loss, labels=Y)  # checks the loss
    assert not hasattr(normed, "loss")
    assert "loss.weight" not in {p.name for p in divisi.compile(exported, tmp_path / "m").parameters if p.trainable}


def test_a_data_loader(normed, tmp_path):
    exported = divisi.export(normed, X, tmp_path / "m.onnx", loss=F.cross_entropy, labels=Y, dynamo=False)
    program = divisi.compile(exported, tmp_path / "m")
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X.repeat(3, 1), Y.repeat(3)), batch_size=8)
    history = program.fit(loader, epochs=2, quiet=True)
    assert len(history.steps) == 6 and history.steps[5].epoch == 2
    assert program.evaluate(loader).accuracy is not None


def test_random_numbers_cannot_be_compared(tmp_path):
    module = nn.Sequential(nn.Linear(3, 40), nn.Dropout(0.5), nn.Linear(40, 4))
    with pytest.warns(divisi.Warning, match="is not compared with the module: it draws random numbers"):
        exported = divisi.export(module, X, tmp_path / "m.onnx", loss=F.cross_entropy, labels=Y, dynamo=False)
    assert len(divisi.compile(exported, tmp_path / "m").fit([(X, Y)], quiet=True).steps) == 1


def test_stopped_gradients_agree(tmp_path):
    class Stops(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.first, self.second = nn.Embedding(5, 3, padding_idx=0), nn.Linear(3, 4), nn.Linear(3, 4)

        def forward(self, ids):
            x = self.table(ids).mean(1)
            return self.first(x) + self.second(x).detach()

    ids = torch.arange(24).reshape(8, 3) % 5
    divisi.export(
        Stops(), ids, tmp_path / "m.onnx", loss=lambda y, t: F.cross_entropy(y, t, label_smoothing=0.1), labels=Y % 4, dynamo=True
    )


@BOTH
def test_names_of_operators(tmp_path, dynamo):
    """A parameter and an input with names that torch.export gives to results of nodes, too."""

    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.mean = nn.Linear(5, 4), nn.Parameter(torch.full((4,), 0.5))

        def forward(self, x, pad):
            y = self.fc(F.pad(x, (1, 1)).mean(0) + F.pad(x[:, :1], (1, 3)) - pad)
            return y + self.mean * y.mean(1, keepdim=True)

    exported = divisi.export(
        Named(), {"x": X, "pad": X[:, :1]}, tmp_path / "m.onnx", loss=F.cross_entropy, labels=Y, dynamo=dynamo
    )
    assert exported.inputs == ("x", "pad")


@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.parametrize("head", [nn.Identity(), nn.BatchNorm1d(6)])
def test_batch_norm_in_eval(tmp_path, head, dynamo):
    """A backbone that keeps its statistics, alone and beside batch norm that trains."""
    backbone = nn.Sequential(nn.Linear(3, 6), nn.BatchNorm1d(6), nn.Tanh()).requires_grad_(False)
    backbone[1].running_mean.normal_()
    module = nn.Sequential(backbone, head, nn.Linear(6, 4)).train()
    backbone.eval()
    exported = divisi.export(module, X, tmp_path / "m.onnx", loss=F.cross_entropy, labels=Y, dynamo=dynamo)
    assert "--batch-norm" in str(exported) and not backbone[1].training


def test_a_file_that_disagrees(normed, tmp_path):
    """A file with other numbers than the module: here one whose exporter was led astray."""

    def loss(logits, label):
        return F.cross_entropy(logits, label) * (1.01 if torch.onnx.is_in_onnx_export() else 1.0)

    with pytest.raises(divisi.Error, match="the file and the module disagree: the loss is .* in the file and .* in PyTorch"):
        divisi.export(normed, X, tmp_path / "m.onnx", loss=loss, labels=Y, dynamo=False)

    def detached(logits, label):  # ONNX has no detach(): the same loss with another gradient
        return F.cross_entropy(2 * logits - logits.detach(), label)

    with pytest.raises(divisi.Error, match="the file and the module disagree: the gradient of '.*' has the norm"):
        divisi.export(normed, X, tmp_path / "m.onnx", loss=detached, labels=Y, dynamo=False)

    class Half(nn.Module):  # the same gradients, and one more
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(3, 4), nn.Linear(3, 4)

        def forward(self, x):
            return self.first(x) + self.second(x).detach()

    with pytest.raises(divisi.Error, match="the gradient of 'second.* has the norm .* in PyTorch there is none"):
        divisi.export(Half(), X, tmp_path / "m.onnx", loss=F.cross_entropy, labels=Y, dynamo=False)
    divisi.export(normed, X, tmp_path / "m.onnx", loss=loss, labels=Y, dynamo=False, check=False)


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 7)

    def forward(self, x):
        return self.head(x)


REFUSED = {
    "classes along another axis": (
        dict(example_inputs=torch.randn(2, 5, 3), loss="cross_entropy", labels=torch.zeros(2, 5, dtype=torch.int64)),
        r"loss='cross_entropy' does not fit an output of shape \[2, 5, 7\] and a label of shape \[2, 5\]; its classes are along axis 1",
    ),
    "shape of a label": (
        dict(example_inputs=X, loss="mse", labels=torch.zeros(8, 6)),
        r"loss='mse' does not fit an output of shape \[8, 7\] and a label of shape \[8, 6\]",
    ),
    "name of a loss": (dict(example_inputs=X, loss="huber"), "loss: 'huber' is no loss of the compiler"),
    "no tensor": (dict(example_inputs=(3,), loss="mse"), "'x' is to be a tensor, got int"),
    "no input": (dict(example_inputs=(), loss="mse"), "example_inputs: there is none"),
    "labels without a loss": (dict(example_inputs=X, labels=Y), "labels: without a loss"),
    "a name twice": (dict(example_inputs=X, loss=F.mse_loss, labels={"x": Y}), "labels: 'x' is the name of an input"),
    "no scalar": (dict(example_inputs=X), r"the loss has the shape \[8, 7\]"),
    "batch of one": (dict(example_inputs=X[:1], loss="mse", dynamic_batch=True), "at least two samples"),
    "an exporter's refusal": (
        dict(example_inputs=X, loss=lambda y, t: F.cross_entropy(y, t, label_smoothing=0.1), labels=Y),
        r"torch.onnx.export\(dynamo=False\) cannot export Sequence: .*label_smoothing \(dynamo=True may\)",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(tmp_path, case):
    arguments, message = REFUSED[case]
    with pytest.raises(divisi.Error, match=message) as raised:
        divisi.export(Sequence(), path=tmp_path / "m.onnx", dynamo=False, **arguments)
    assert "\n" not in str(raised.value)


class Odd(nn.Module):
    """A layer behind an operator that no exporter knows."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 7)

    def forward(self, x):
        return torch.ops.divisi_tests.odd(self.head(x))


@torch.library.custom_op("divisi_tests::odd", mutates_args=())
def odd(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@odd.register_fake
def _(x):
    return torch.empty_like(x)


odd.register_autograd(lambda ctx, gradient: gradient)


def test_the_reason_of_an_exporter(tmp_path, capfd):
    """The innermost cause, in one line without escape sequences, and nothing else on standard output and error."""
    for dynamo, reason in ((True, "No ONNX function found for .*divisi_tests.odd"), (False, "unrecognized namespace divisi_tests::odd")):
        with pytest.raises(divisi.Error, match=f"cannot export Odd: [A-Za-z]*Error: .*{reason}") as raised:
            divisi.export(Odd(), X, tmp_path / "m.onnx", loss=F.cross_entropy, labels=Y, dynamo=dynamo)
        assert "\n" not in str(raised.value) and "\x1b" not in str(raised.value)
    assert "graph(" not in "".join(capfd.readouterr())


def test_load_into(normed, tmp_path):
    exported = divisi.export(normed, X, tmp_path / "m.onnx", loss=F.cross_entropy, labels=Y, dynamo=False)
    program = divisi.compile(exported, tmp_path / "m", lr=0.1)
    program.fit([(X, Y)], steps=5, quiet=True)
    other = Normed()
    with torch.no_grad():
        other.weighting.zero_()
    program.load_into(other)
    for name, array in program.weights().items():
        np.testing.assert_array_equal(other.state_dict()[name].numpy(), array)
    assert torch.equal(other.first.weight, normed.first.weight)  # which did not train
    assert not torch.equal(other.last.weight, normed.last.weight)
    with pytest.raises(divisi.Error, match="the module has no parameter or buffer '.*': is it the one"):
        program.load_into(nn.Linear(3, 4))
    other.last = nn.Linear(6, 5)
    before = other.first.bias.clone()
    with torch.no_grad():
        other.first.bias.zero_()
    with pytest.raises(divisi.Error, match=r"'last.* has the shape \[4.*, in the module \[5"):
        program.load_into(other)
    assert not other.first.bias.any() and before.any()  # nothing was changed
    more = Normed()
    more.extra = nn.Linear(1, 1, bias=False)
    with pytest.warns(divisi.Warning, match="no tensor of the program is for these parameters, which stay as they are: extra.weight"):
        program.load_into(more)
