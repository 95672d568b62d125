"""Models unlike the others, written from their papers: detection, flows, fields, pointers, memories."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from .case import ADAMW, BATCH, STEPS, Case, classes, images, model
from .founding_text import token_loss

ROWS = STEPS * BATCH


def dense(*widths, act=nn.ReLU):
    layers = [layer for a, b in zip(widths, widths[1:]) for layer in (nn.Linear(a, b), act())]
    return nn.Sequential(*layers[:-1])


class RetinaNet(nn.Module):
    """arXiv 1708.02002: a pyramid of features, one head for all levels, the focal loss of classes and a smooth L1 of boxes."""

    def __init__(self, widths, width, anchors, count):
        super().__init__()
        self.down = nn.ModuleList(nn.Conv2d(a, b, 3, 2, 1) for a, b in zip((3, *widths), widths))
        self.side = nn.ModuleList(nn.Conv2d(w, width, 1) for w in widths)
        self.kind, self.box = nn.Conv2d(width, anchors * count, 3, 1, 1), nn.Conv2d(width, anchors * 4, 3, 1, 1)
        nn.init.constant_(self.kind.bias, -math.log(99))
        self.count = count

    def forward(self, image, label, box):
        levels, top, found = [], image, []
        for layer in self.down:
            top = F.relu(layer(top))
            levels.append(top)
        top = None
        for level, side in zip(levels[::-1], list(self.side)[::-1]):
            top = side(level) + (0 if top is None else F.interpolate(top, size=level.shape[-2:], mode="nearest"))
            found.append([head(top).permute(0, 2, 3, 1).reshape(top.size(0), -1, size) for head, size in ((self.kind, self.count), (self.box, 4))])
        scores, boxes = (torch.cat(parts, 1) for parts in zip(*found))
        wanted = F.one_hot(label, self.count + 1)[..., 1:].to(scores.dtype)  # 0 is background
        share = torch.sigmoid(scores)
        right = wanted * share + (1 - wanted) * (1 - share)
        focal = F.binary_cross_entropy_with_logits(scores, wanted, reduction="none") * (1 - right) ** 2 * (0.25 * wanted + 0.75 * (1 - wanted))
        objects = (label > 0).sum().clamp(min=1)
        far = (boxes - box).abs()
        return (focal.sum() + (torch.where(far < 0.1, 5 * far**2, far - 0.05).sum(-1) * (label > 0)).sum()) / objects


@model("RetinaNet")
def retinanet():
    anchors = 2 * (16 * 16 + 8 * 8 + 4 * 4)
    label = classes(4, anchors) * (torch.rand(ROWS, anchors) < 0.1)
    data = {"image": images(3, 32), "label": label, "box": torch.randn(ROWS, anchors, 4)}
    return Case(RetinaNet((8, 12, 16), 8, 2, 3), data, "focal loss of 3 classes, smooth L1 of boxes")


class SpatialTransformer(nn.Module):
    """arXiv 1506.02025: the network that reads an image moves it first."""

    def __init__(self, width, count):
        super().__init__()
        self.look = nn.Sequential(nn.Conv2d(1, width, 5, 2), nn.ReLU(), nn.Flatten(), nn.Linear(36 * width, 6))
        self.read, self.out = nn.Conv2d(1, width, 3, 2), nn.Linear(49 * width, count)
        nn.init.normal_(self.look[3].weight, std=0.02)
        self.look[3].bias.data = torch.tensor([0.9, 0.0, 0.05, 0.0, 1.1, -0.05])

    def forward(self, image, label):
        grid = F.affine_grid(self.look(image).view(-1, 2, 3), image.size(), align_corners=False)
        moved = F.grid_sample(image, grid, align_corners=False)
        return F.cross_entropy(self.out(F.relu(self.read(moved)).flatten(1)), label)


@model("Spatial transformer")
def spatial_transformer():
    return Case(SpatialTransformer(6, 5), {"image": images(1, 16), "label": classes(5)}, "cross-entropy of 5 classes")


class Rwkv(nn.Module):
    """arXiv 2305.13048: keys that decay with time, whose largest exponent is carried along."""

    def __init__(self, vocab, width):
        super().__init__()
        self.embedding, self.norm, self.out = nn.Embedding(vocab, width), nn.LayerNorm(width), nn.Linear(width, vocab)
        self.key, self.value, self.gate = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.decay_log, self.first_bonus, self.mix_weight = (nn.Parameter(0.3 * torch.randn(width)) for _ in range(3))

    def forward(self, tokens, label):
        x = self.norm(self.embedding(tokens))
        mixed = x * self.mix_weight + F.pad(x, (0, 0, 1, -1)) * (1 - self.mix_weight)
        k, v, decay = self.key(mixed), self.value(mixed), -self.decay_log.exp()
        above = below = torch.zeros_like(k[:, 0])
        most, results = torch.full_like(above, -1e30), []
        for i in range(tokens.size(1)):
            top = torch.maximum(most, self.first_bonus + k[:, i])
            old, new = (most - top).exp(), (self.first_bonus + k[:, i] - top).exp()
            results.append((old * above + new * v[:, i]) / (old * below + new))
            top = torch.maximum(most + decay, k[:, i])
            old, new = (most + decay - top).exp(), (k[:, i] - top).exp()
            above, below, most = old * above + new * v[:, i], old * below + new, top
        return token_loss(self.out(torch.sigmoid(self.gate(mixed)) * torch.stack(results, 1)), label)


@model("RWKV")
def rwkv():
    return Case(Rwkv(40, 24), {"tokens": classes(40, 10), "label": classes(40, 10)}, "cross-entropy of the next token", dict(ADAMW))


class PointerNetwork(nn.Module):
    """arXiv 1506.03134: a tour of points; attention over what is left chooses the next one."""

    def __init__(self, width):
        super().__init__()
        self.read, self.encoder, self.decoder = nn.Linear(2, width), nn.LSTM(width, width, batch_first=True), nn.LSTMCell(width, width)
        self.keys, self.query, self.score = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 1)

    def forward(self, points, order):
        seen = self.read(points)
        memory, (h, c) = self.encoder(seen)
        h, c, at, loss = h[0], c[0], seen.mean(1), 0.0
        visited = torch.zeros_like(order, dtype=torch.bool)
        for i in range(order.size(1)):
            h, c = self.decoder(at, (h, c))
            scores = self.score(torch.tanh(self.keys(memory) + self.query(h)[:, None]))[..., 0]
            loss = loss + F.cross_entropy(scores.masked_fill(visited, -1e9), order[:, i])
            at = seen[torch.arange(seen.size(0)), order[:, i]]
            visited = visited | F.one_hot(order[:, i], order.size(1)).bool()
        return loss / order.size(1)


@model("Pointer network")
def pointer_network():
    order = torch.stack([torch.randperm(6) for _ in range(ROWS)])
    return Case(PointerNetwork(16), {"points": torch.rand(ROWS, 6, 2), "order": order}, "cross-entropy of the next of 6 points")


class RandomField(nn.Module):
    """A conditional random field of tags (Lafferty, McCallum and Pereira 2001): the likelihood of a path among all."""

    def __init__(self, vocab, width, tags):
        super().__init__()
        self.embedding, self.read, self.out = nn.Embedding(vocab, width), nn.Conv1d(width, width, 3, padding=1), nn.Linear(width, tags)
        self.step_weight, self.first_weight = nn.Parameter(0.1 * torch.randn(tags, tags)), nn.Parameter(0.1 * torch.randn(tags))

    def forward(self, tokens, tags, there):
        x = self.out(torch.tanh(self.read(self.embedding(tokens).transpose(1, 2))).transpose(1, 2))
        all_paths = self.first_weight + x[:, 0]
        path = all_paths.gather(1, tags[:, :1])[:, 0]
        for i in range(1, tokens.size(1)):
            one = self.step_weight[tags[:, i - 1], tags[:, i]] + x[:, i].gather(1, tags[:, i : i + 1])[:, 0]
            path = path + one * there[:, i].to(one.dtype)
            longer = torch.logsumexp(all_paths[:, :, None] + self.step_weight + x[:, i][:, None], 1)
            all_paths = torch.where(there[:, i : i + 1], longer, all_paths)
        return (torch.logsumexp(all_paths, 1) - path).mean()


@model("Random field tagger")
def random_field():
    there = torch.arange(9)[None] < torch.randint(2, 10, (ROWS, 1))
    return Case(RandomField(30, 16, 5), {"tokens": classes(30, 9), "tags": classes(5, 9), "there": there}, "negative log-likelihood of paths of 5 tags")


class RealNvp(nn.Module):
    """arXiv 1605.08803: a density by layers that can be inverted, each with a scale and a shift of one half by the other."""

    def __init__(self, size, width, layers):
        super().__init__()
        self.layers = nn.ModuleList(dense(size // 2, width, size, act=nn.Tanh) for _ in range(layers))

    def forward(self, x):
        volume = 0.0
        for i, layer in enumerate(self.layers):
            kept, moved = x[:, i % 2 :: 2], x[:, 1 - i % 2 :: 2]
            scale, shift = layer(kept).chunk(2, 1)
            scale = torch.tanh(scale)
            moved, volume = moved * scale.exp() + shift, volume + scale.sum(1)
            x = torch.stack((kept, moved) if i % 2 == 0 else (moved, kept), 2).flatten(1)
        return (0.5 * (x**2 + math.log(2 * math.pi)).sum(1) - volume).mean()


@model("RealNVP")
def realnvp():
    return Case(RealNvp(8, 24, 4), {"x": torch.randn(ROWS, 8) ** 3}, "negative log-likelihood", dict(ADAMW))


class Nerf(nn.Module):
    """arXiv 2003.08934: colours and densities along rays, by a network of sines and cosines of the positions."""

    def __init__(self, width, octaves):
        super().__init__()
        self.octaves, self.field = octaves, dense(3 + 6 * octaves, width, width, 4)

    def forward(self, origin, direction, colour):
        t = torch.linspace(0.0, 1.0, 8)
        points = origin[:, None] + direction[:, None] * t[:, None]
        angles = points[..., None] * 2.0 ** torch.arange(self.octaves)
        found = self.field(torch.cat((points, angles.sin().flatten(2), angles.cos().flatten(2)), -1))
        absorbed = F.softplus(found[..., 3]) * direction.norm(dim=-1, keepdim=True) / 8
        light = torch.exp(-F.pad(absorbed.cumsum(1)[:, :-1], (1, 0)))
        share = light * (1 - torch.exp(-absorbed))
        seen = (share[..., None] * torch.sigmoid(found[..., :3])).sum(1) + 1 - share.sum(1, keepdim=True)
        return F.mse_loss(seen, colour)


@model("NeRF")
def nerf():
    data = {"origin": torch.randn(ROWS, 3), "direction": torch.randn(ROWS, 3), "colour": torch.rand(ROWS, 3)}
    return Case(Nerf(24, 3), data, "mean square of colours", dict(ADAMW))


class Kan(nn.Module):
    """arXiv 2404.19756: each edge has a function of its own, a sum of cubic B-splines."""

    def __init__(self, widths, count):
        super().__init__()
        pairs = list(zip(widths, widths[1:]))
        self.register_buffer("knots", torch.linspace(-2.5, 2.5, count + 4))
        self.curves = nn.ParameterList(0.3 * torch.randn(b, a, count) for a, b in pairs)
        self.straight = nn.ModuleList(nn.Linear(a, b) for a, b in pairs)

    def forward(self, x, y):
        g = self.knots
        for curves, straight in zip(self.curves, self.straight):
            z = x[..., None]
            basis = ((z >= g[:-1]) & (z < g[1:])).to(x.dtype)
            for k in range(1, 4):
                left, right = (z - g[: -k - 1]) / (g[k:-1] - g[: -k - 1]), (g[k + 1 :] - z) / (g[k + 1 :] - g[1:-k])
                basis = left * basis[..., :-1] + right * basis[..., 1:]
            x = straight(F.silu(x)) + torch.einsum("big,oig->bo", basis, curves)
        return F.mse_loss(x[:, 0], y)


@model("KAN")
def kan():
    return Case(Kan((4, 6, 1), 6), {"x": torch.randn(ROWS, 4), "y": torch.randn(ROWS)}, "mean square")


class TuringMachine(nn.Module):
    """arXiv 1410.5401: an LSTM with a memory that it addresses by content and by shifts."""

    def __init__(self, size, width, slots, cell):
        super().__init__()
        self.slots, self.cell, self.sizes = slots, cell, [cell, 1, 1, 3, cell, cell]
        self.controller, self.head, self.out = nn.LSTMCell(size + cell, width), nn.Linear(width, sum(self.sizes)), nn.Linear(width + cell, size)

    def forward(self, x, wanted):
        memory = torch.full((x.size(0), self.slots, self.cell), 0.01)
        share, got, state, results = F.pad(torch.ones(x.size(0), 1), (0, self.slots - 1)), torch.zeros(x.size(0), self.cell), None, []
        for step in x.unbind(1):
            state = self.controller(torch.cat((step, got), 1), state)
            key, sharp, gate, shift, erase, add = self.head(state[0]).split(self.sizes, 1)
            near = torch.softmax(F.softplus(sharp) * F.cosine_similarity(memory, key[:, None] + 0.1, dim=-1), 1)
            share = torch.sigmoid(gate) * near + (1 - torch.sigmoid(gate)) * share
            moves = torch.softmax(shift, 1)
            share = sum(moves[:, i : i + 1] * share.roll(i - 1, 1) for i in range(3))
            memory = memory * (1 - share[..., None] * torch.sigmoid(erase)[:, None]) + share[..., None] * add[:, None]
            got = torch.bmm(share[:, None], memory)[:, 0]
            results.append(self.out(torch.cat((state[0], got), 1)))
        return F.binary_cross_entropy_with_logits(torch.stack(results, 1), wanted)


@model("Neural Turing machine")
def turing_machine():
    bits = classes(2, 6, 5).float()
    return Case(TuringMachine(5, 16, 6, 4), {"x": bits, "wanted": bits.roll(1, 1)}, "binary cross-entropy of 5 bits", dict(ADAMW))
