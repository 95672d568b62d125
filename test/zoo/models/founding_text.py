"""Sequence models of the founding papers: recurrent translation, video captions, the first transformers."""

import torch
from torch import nn
from torch.nn import functional as F

from .case import ADAMW, BATCH, STEPS, Case, classes, model


def language_case(module, vocab, length, loss="cross-entropy of the next token", **options):
    return Case(module, {"tokens": classes(vocab, length), "label": classes(vocab, length)}, loss, dict(ADAMW), **options)


def token_loss(logits, label):
    return F.cross_entropy(logits.flatten(0, 1), label.flatten())


class Gnmt(nn.Module):
    """Google's neural machine translation (arXiv 1609.08144): a bidirectional first layer, residual connections from the third layer
    on, and attention whose context is a part of the input of every layer of the decoder."""

    def __init__(self, layers, vocab, width):
        super().__init__()
        self.source, self.target = nn.Embedding(vocab, width), nn.Embedding(vocab, width)
        self.first = nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.second = nn.LSTM(2 * width, width, batch_first=True)
        self.encoder = nn.ModuleList(nn.LSTM(width, width, batch_first=True) for _ in range(layers - 2))
        self.bottom = nn.LSTM(width, width, batch_first=True)
        self.query, self.key = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.score = nn.Linear(width, 1, bias=False)
        self.decoder = nn.ModuleList(nn.LSTM(2 * width, width, batch_first=True) for _ in range(layers - 1))
        self.out = nn.Linear(width, vocab)

    def forward(self, source, target, label):
        x = self.second(self.first(self.source(source))[0])[0]
        for layer in self.encoder:
            x = x + layer(x)[0]
        y = self.bottom(self.target(target))[0]
        scores = self.score(torch.tanh(self.query(y)[:, :, None] + self.key(x)[:, None]))[..., 0]
        context = torch.softmax(scores, -1) @ x
        for i, layer in enumerate(self.decoder):
            z = layer(torch.cat((y, context), -1))[0]
            y = z if i == 0 else y + z
        return token_loss(self.out(y), label)


def gnmt(layers):
    data = {"source": classes(50, 7), "target": classes(50, 6), "label": classes(50, 6)}
    return Case(Gnmt(layers, 50, 24), data, "cross-entropy of the target's tokens", dict(ADAMW))


@model("GNMT-8")
def gnmt8():
    return gnmt(8)


@model("GNMT-16")
def gnmt16():
    return gnmt(16)


class LanguageModel(nn.Module):
    """Recurrent neural network regularization (arXiv 1409.2329), without its dropout: published is the medium size."""

    def __init__(self, vocab, width):
        super().__init__()
        self.embedding, self.lstm = nn.Embedding(vocab, width), nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.out = nn.Linear(width, vocab)

    def forward(self, tokens, label):
        return token_loss(self.out(self.lstm(self.embedding(tokens))[0]), label)


@model("LSTM language model")
def lstm_language_model(published=False):
    vocab, width, length, batch = (10000, 650, 35, 20) if published else (60, 24, 9, BATCH)
    data = {"tokens": classes(vocab, length, batch=batch), "label": classes(vocab, length, batch=batch)}
    return Case(LanguageModel(vocab, width), data, "cross-entropy of the next word", batch=batch)


class S2vt(nn.Module):
    """Sequence to sequence, video to text (arXiv 1505.00487): one LSTM reads the frames and then nothing, the second, above it, first nothing and
    then the words."""

    def __init__(self, features, vocab, width):
        super().__init__()
        self.frame, self.word = nn.Linear(features, width), nn.Embedding(vocab, width)
        self.below, self.above = nn.LSTM(width, width, batch_first=True), nn.LSTM(2 * width, width, batch_first=True)
        self.out = nn.Linear(width, vocab)

    def forward(self, frames, words, label):
        x, w = self.frame(frames), self.word(words)
        seen = self.below(torch.cat((x, torch.zeros_like(w)), 1))[0]
        said = torch.cat((torch.zeros_like(x), w), 1)
        y = self.above(torch.cat((seen, said), -1))[0]
        return token_loss(self.out(y[:, frames.size(1) :]), label)


@model("S2VT")
def s2vt():
    data = {"frames": torch.randn(STEPS * BATCH, 8, 40), "words": classes(60, 6), "label": classes(60, 6)}
    return Case(S2vt(40, 60, 32), data, "cross-entropy of the caption's words")


class Translator(nn.Module):
    """The transformer of arXiv 1706.03762, by nn.Transformer, with sines as positions and the embedding as the last layer."""

    def __init__(self, vocab, width, heads, layers, longest=64):
        super().__init__()
        self.embedding, self.width = nn.Embedding(vocab, width), width
        self.transformer = nn.Transformer(width, heads, layers, layers, 4 * width, dropout=0.0, batch_first=True)
        angles = torch.arange(longest)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
        self.register_buffer("pe", torch.stack((angles.sin(), angles.cos()), -1).flatten(1))
        nn.init.normal_(self.embedding.weight, std=width**-0.5)

    def forward(self, source, target, label):
        x, y = (self.embedding(ids) * self.width**0.5 + self.pe[: ids.size(1)] for ids in (source, target))
        later = torch.ones(target.size(1), target.size(1), dtype=torch.bool).triu(1)
        return token_loss(F.linear(self.transformer(x, y, tgt_mask=later, tgt_is_causal=True), self.embedding.weight), label)


@model("Transformer (WMT)")
def transformer():
    data = {"source": classes(64, 9), "target": classes(64, 8), "label": classes(64, 8)}
    return Case(Translator(64, 32, 4, 2), data, "cross-entropy of the target's tokens", dict(ADAMW))
