"""Packed documents: every token once with its label, and a model that is told which document a token is of computes what it does for each document alone."""

import numpy as np
import pytest

import divisi

LENGTH, VOCABULARY = 16, 20


def documents(count, seed=0, longest=40):
    draw = np.random.default_rng(seed)
    return [draw.integers(0, VOCABULARY, draw.integers(0, longest)).tolist() for _ in range(count)]


@pytest.mark.parametrize("longest", [3, 12, 17, 100])
def test_every_pair_once(longest):
    """The pairs of a token and its next one, in each window's documents, are those of all documents."""
    given = documents(300, longest=longest)
    packed = divisi.Packed(given, LENGTH)
    pairs, used, count = [], 0, 0
    for window in packed:
        count += 1
        for name in ("tokens", "labels", "documents", "positions"):
            assert window[name].shape == (LENGTH,) and window[name].dtype == np.int64
        used += (window["documents"] > 0).sum()
        for number in range(1, window["documents"].max() + 1):
            own = np.flatnonzero(window["documents"] == number)
            assert (np.diff(own) == 1).all() and window["positions"][own].tolist() == list(range(len(own)))
            assert window["labels"][own].tolist() == [*window["tokens"][own][1:].tolist(), -100]
            pairs += list(zip(window["tokens"][own].tolist(), window["labels"][own][:-1].tolist()))
        rest = window["documents"] == 0
        assert (window["labels"][rest] == -100).all() and (window["tokens"][rest] == 0).all()
    assert sorted(pairs) == sorted((a, b) for tokens in given for a, b in zip(tokens, tokens[1:]))
    assert used / (count * LENGTH) > 0.85
    assert [window["tokens"].tolist() for window in packed] == [window["tokens"].tolist() for window in packed]


def test_what_is_refused():
    for length in (1, True, 2.5):
        with pytest.raises(divisi.Error, match="length: expected a whole number from 2"):
            divisi.Packed([[1, 2]], length)
    with pytest.raises(divisi.Error, match="a generator ends after one pass"):
        divisi.Packed(iter([[1, 2]]), LENGTH)
    for document in ([0.5], [[1, 2]], "text"):
        with pytest.raises(divisi.Error, match="document 1 is to be a sequence of whole numbers"):
            list(divisi.Packed([[1, 2], document], LENGTH))


@pytest.mark.parametrize("ranks", [1, 2])
def test_documents_do_not_see_each_other(tmp_path, ranks):
    """Steps on packed windows are PyTorch's on the single documents, each with the mean over the labels of the batch."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: DIVISI_PYTHON names an interpreter that has it")
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    nn, F = torch.nn, torch.nn.functional

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.embed, self.place = nn.Embedding(VOCABULARY, 8), nn.Embedding(LENGTH, 8)
            self.query, self.key, self.value, self.out = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, VOCABULARY)

        def forward(self, tokens, documents, positions):
            x = self.embed(tokens) + self.place(positions)
            scores = self.query(x) @ self.key(x).transpose(1, 2) / 8**0.5
            sees = (documents[:, :, None] == documents[:, None, :]) & torch.ones(x.shape[1], x.shape[1]).tril().bool()
            return self.out(torch.softmax(scores.masked_fill(~sees, -1e9), -1) @ self.value(x))

    def loss(output, labels):
        return F.cross_entropy(output.reshape(-1, VOCABULARY), labels.reshape(-1))

    given = documents(60, longest=14)
    windows = list(divisi.Packed(given, LENGTH))
    batch = 4
    windows = windows[: len(windows) // batch * batch]
    first = {name: torch.from_numpy(np.stack([w[name] for w in windows[:batch]])) for name in windows[0]}
    model, expected = Model(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for i in range(0, len(windows), batch):
        losses, labels = [], 0
        for window in windows[i : i + batch]:
            for number in range(1, window["documents"].max() + 1):
                own = torch.from_numpy(np.flatnonzero(window["documents"] == number))
                tokens, wanted = (torch.from_numpy(window[name])[own][None] for name in ("tokens", "labels"))
                alone = model(tokens, torch.ones_like(tokens), torch.arange(len(own))[None])
                losses.append(F.cross_entropy(alone[0], wanted[0], reduction="sum"))
                labels += (wanted >= 0).sum()
        value = sum(losses) / labels
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        expected.append(value.item())
    inputs = {name: first[name] for name in ("tokens", "documents", "positions")}
    exported = divisi.export(Model(), inputs, tmp_path / "m.onnx", loss=loss, labels={"labels": first["labels"]})
    flags = {"devices": 2, "strategy": "data"} if ranks > 1 else {}
    program = divisi.compile(exported, tmp_path / "m", optimizer="sgd", lr=0.5, **flags)
    got = program.fit(divisi.Packed(given, LENGTH), steps=len(expected), quiet=True).losses
    assert got == pytest.approx(expected, abs=1e-5) and len(got) >= 5
