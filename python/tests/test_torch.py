"""Modules that PyTorch exports train as in PyTorch."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: DIVISI_PYTHON names an interpreter that has it")
pytest.importorskip("onnxscript", reason="onnxscript is not installed")

import modules  # noqa: E402

import divisi  # noqa: E402

STEPS, RATE = 12, 0.05


def rows(tensors, index):
    """One batch."""
    size = len(tensors[0]) // modules.BATCHES
    return [tensor[index * size : (index + 1) * size] for tensor in tensors]


def pytorch(module, loss, inputs, label):
    """The losses of SGD in PyTorch; the module is trained."""
    module.train()
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE, momentum=0.9)
    losses = []
    for step in range(STEPS):
        *batch, target = rows([*inputs, label], step % modules.BATCHES)
        optimizer.zero_grad()
        value = loss(module(*batch), target)
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses


@pytest.mark.parametrize("dynamo", [True, False], ids=["dynamo", "torchscript"])
@pytest.mark.parametrize("name", modules.ALL)
def test_twelve_steps_are_pytorchs(name, dynamo, tmp_path, recwarn):
    module, loss, inputs, label = modules.make(name)
    *batch, target = rows([*inputs, label], 0)
    exported = divisi.export(module, tuple(batch), tmp_path / "m.onnx", loss=loss, labels=target, dynamo=dynamo)
    program = divisi.compile(exported, tmp_path / "m", lr=RATE, momentum=0.9)
    assert not [w for w in recwarn if w.category is divisi.Warning], [str(w.message) for w in recwarn]
    trained = {n for n, p in module.named_parameters(remove_duplicate=False) if p.requires_grad}
    assert {p.name for p in program.parameters if p.trainable} <= trained
    data = dict(zip([*exported.inputs, *exported.labels], [*inputs, label]))
    history = program.fit(data, steps=STEPS, shuffle=False, quiet=True)
    reference = copy.deepcopy(module)
    expected = pytorch(reference, loss, inputs, label)
    assert history.losses == pytest.approx(expected, rel=1e-4)
    assert np.mean(expected[6:]) < np.mean(expected[:6])  # something was trained
    program.load_into(module)
    for (what, ours), theirs in zip(module.state_dict().items(), reference.state_dict().values()):
        if "num_batches_tracked" not in what:
            np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-4, atol=1e-5, err_msg=what)
