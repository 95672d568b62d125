"""Models written from their papers: recommendation, experts, audio, points, graphs, generation, pairs."""

import torch
from torch import nn
from torch.nn import functional as F

from .case import ADAMW, BATCH, STEPS, Case, classes, images, model
from .founding_text import token_loss

ROWS = STEPS * BATCH


def conv(before, after):
    return nn.Sequential(nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU())


class UNet(nn.Module):
    """arXiv 1505.04597, with padding and batch norm."""

    def __init__(self, channels, width, count, depth=3):
        super().__init__()
        widths = [width << i for i in range(depth + 1)]
        double = lambda before, after: nn.Sequential(conv(before, after), conv(after, after))
        self.down = nn.ModuleList(double(a, b) for a, b in zip([channels, *widths], widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in widths[-2::-1])
        self.join = nn.ModuleList(double(2 * w, w) for w in widths[-2::-1])
        self.out = nn.Conv2d(width, count, 1)

    def forward(self, x, label):
        kept = []
        for block in self.down[:-1]:
            kept.append(block(x))
            x = F.max_pool2d(kept[-1], 2)
        x = self.down[-1](x)
        for up, join in zip(self.up, self.join):
            x = join(torch.cat((kept.pop(), up(x)), 1))
        return F.cross_entropy(self.out(x), label)


@model("UNet")
def unet():
    return Case(UNet(1, 8, 4), {"x": images(1, 32), "label": classes(4, 32, 32)}, "cross-entropy of 4 classes of pixels")


class Experts(nn.Module):
    """Sparsely gated experts (arXiv 1701.06538): two of them for each token, and the balancing loss of arXiv 2101.03961."""

    def __init__(self, width, hidden, experts):
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.inner = nn.Parameter(0.2 * torch.randn(experts, width, hidden))
        self.outer = nn.Parameter(0.2 * torch.randn(experts, hidden, width))

    def forward(self, x):
        scores = torch.softmax(self.gate(x), -1)
        top, which = scores.topk(2, -1)
        share = torch.zeros_like(scores).scatter(-1, which, top / top.sum(-1, keepdim=True))
        hidden = F.gelu(torch.einsum("btw,ewh->bteh", x, self.inner))
        balance = (share > 0).float().mean((0, 1)) @ scores.mean((0, 1)) * scores.size(-1)
        return torch.einsum("bteh,ehw,bte->btw", hidden, self.outer, share), balance


class ExpertModel(nn.Module):
    def __init__(self, vocab, width, heads, layers):
        super().__init__()
        self.embedding, self.out = nn.Embedding(vocab, width), nn.Linear(width, vocab)
        self.attention = nn.ModuleList(nn.MultiheadAttention(width, heads, batch_first=True) for _ in range(layers))
        self.experts = nn.ModuleList(Experts(width, 2 * width, 4) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))

    def forward(self, tokens, label):
        x, balance = self.embedding(tokens), 0.0
        later = torch.ones(tokens.size(1), tokens.size(1), dtype=torch.bool).triu(1)
        for i, (attention, experts) in enumerate(zip(self.attention, self.experts)):
            y = self.norms[2 * i](x)
            x = x + attention(y, y, y, attn_mask=later, need_weights=False)[0]
            y, more = experts(self.norms[2 * i + 1](x))
            x, balance = x + y, balance + more
        return token_loss(self.out(x), label) + 0.01 * balance


@model("MoE")
def moe():
    data = {"tokens": classes(64, 12), "label": classes(64, 12)}
    return Case(ExpertModel(64, 32, 4, 2), data, "cross-entropy of the next token, and balance of the experts", dict(ADAMW))


class Dlrm(nn.Module):
    """arXiv 1906.00091: sums of embeddings and a network of the numbers, the products of all pairs, a network of these."""

    def __init__(self, sizes, numbers, width):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, width) for size in sizes)
        self.bottom = nn.Sequential(nn.Linear(numbers, 32), nn.ReLU(), nn.Linear(32, width), nn.ReLU())
        count = len(sizes) + 1
        self.register_buffer("pairs", torch.tril_indices(count, count, -1))
        self.top = nn.Sequential(nn.Linear(width + count * (count - 1) // 2, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, numbers, ids, label):
        dense = self.bottom(numbers)
        all_vectors = torch.stack([dense, *(table(ids[:, i]).sum(1) for i, table in enumerate(self.tables))], 1)
        pairs = (all_vectors @ all_vectors.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return F.binary_cross_entropy_with_logits(self.top(torch.cat((dense, pairs), 1))[:, 0], label)


@model("DLRM")
def dlrm():
    data = {"numbers": torch.randn(ROWS, 13), "ids": classes(100, 4, 3), "label": classes(2).float()}
    return Case(Dlrm([100, 200, 300, 100], 13, 16), data, "binary cross-entropy")


class WaveNet(nn.Module):
    """arXiv 1609.03499: dilated causal convolutions with gates, residual and skip connections."""

    def __init__(self, levels, width, dilations):
        super().__init__()
        self.dilations = dilations
        self.first = nn.Embedding(levels, width)
        self.gated = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=d) for d in dilations)
        self.residual = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in dilations[1:])  # behind the last there is nothing
        self.skip = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in dilations)
        self.out = nn.Sequential(nn.ReLU(), nn.Conv1d(width, width, 1), nn.ReLU(), nn.Conv1d(width, levels, 1))

    def forward(self, levels, label):
        x, total = self.first(levels).transpose(1, 2), 0.0
        for i, (dilation, gated, skip) in enumerate(zip(self.dilations, self.gated, self.skip)):
            signal, gate = gated(F.pad(x, (dilation, 0))).chunk(2, 1)
            y = torch.tanh(signal) * torch.sigmoid(gate)
            total = total + skip(y)
            if i < len(self.residual):
                x = x + self.residual[i](y)
        return F.cross_entropy(self.out(total), label)


@model("WaveNet")
def wavenet():
    data = {"levels": classes(32, 64), "label": classes(32, 64)}
    return Case(WaveNet(32, 16, [1, 2, 4, 8] * 2), data, "cross-entropy of the next of 32 levels", dict(ADAMW))


class PointNet(nn.Module):
    """arXiv 1612.00593: a transform learnt from the points, a shared network, the maximum over the points."""

    def __init__(self, width, count):
        super().__init__()
        shared = lambda a, b: nn.Sequential(nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU())
        self.look = nn.Sequential(shared(3, width), shared(width, 2 * width))
        self.turn = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, 9))
        self.points = nn.Sequential(shared(3, width), shared(width, 2 * width), shared(2 * width, 4 * width))
        self.head = nn.Sequential(nn.Linear(4 * width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, count))

    def forward(self, points, label):
        turn = self.turn(self.look(points).amax(-1)).view(-1, 3, 3) + torch.eye(3)
        features = self.points(torch.bmm(turn, points)).amax(-1)
        return F.cross_entropy(self.head(features), label)


@model("PointNet")
def pointnet():
    return Case(PointNet(16, 6), {"points": torch.randn(ROWS, 3, 50), "label": classes(6)}, "cross-entropy of 6 classes")


class Gcn(nn.Module):
    """arXiv 1609.02907, on a batch of small graphs: neighbours are averaged with the square roots of their degrees."""

    def __init__(self, features, width, count):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(features, width), nn.Linear(width, width), nn.Linear(width, count)])

    def forward(self, nodes, edges, label):
        near = edges + torch.eye(edges.size(-1))
        scale = near.sum(-1).rsqrt()
        near = near * scale[:, :, None] * scale[:, None, :]
        for i, layer in enumerate(self.layers):
            nodes = near @ layer(F.relu(nodes) if i else nodes)
        return F.cross_entropy(nodes.flatten(0, 1), label.flatten())


@model("GCN")
def gcn():
    edges = (torch.rand(ROWS, 20, 20) < 0.2).float().triu(1)
    data = {"nodes": torch.randn(ROWS, 20, 12), "edges": edges + edges.transpose(1, 2), "label": classes(5, 20)}
    return Case(Gcn(12, 16, 5), data, "cross-entropy of 5 classes of nodes")


class Vae(nn.Module):
    """arXiv 1312.6114; the noise of the reparametrization is an input, so that both sides draw the same."""

    def __init__(self, width, latent):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, width, 3, 2, 1), nn.ReLU(), nn.Conv2d(width, 2 * width, 3, 2, 1), nn.ReLU(), nn.Flatten())
        self.mean, self.log_variance = nn.Linear(2 * width * 16, latent), nn.Linear(2 * width * 16, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, 2 * width * 16), nn.Unflatten(1, (2 * width, 4, 4)), nn.ReLU(),
                                     nn.ConvTranspose2d(2 * width, width, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(width, 1, 4, 2, 1))

    def forward(self, x, noise):
        h = self.encoder(x)
        mean, log_variance = self.mean(h), self.log_variance(h)
        found = self.decoder(mean + noise * torch.exp(0.5 * log_variance))
        divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(1).mean()
        return F.binary_cross_entropy_with_logits(found, x, reduction="none").sum((1, 2, 3)).mean() + divergence


@model("VAE")
def vae():
    data = {"x": torch.rand(ROWS, 1, 16, 16), "noise": torch.randn(ROWS, 8)}
    return Case(Vae(8, 8), data, "binary cross-entropy of pixels, and divergence", dict(ADAMW))


class Tagger(nn.Module):
    """arXiv 1508.01991 without the random field: tags of words by an LSTM in both directions."""

    def __init__(self, vocab, width, tags):
        super().__init__()
        self.embedding, self.lstm = nn.Embedding(vocab, width), nn.LSTM(width, width, num_layers=2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * width, tags)

    def forward(self, tokens, label):
        return token_loss(self.out(self.lstm(self.embedding(tokens))[0]), label)


@model("BiLSTM tagger")
def tagger():
    return Case(Tagger(50, 24, 7), {"tokens": classes(50, 12), "label": classes(7, 12)}, "cross-entropy of 7 tags")


class Denoiser(nn.Module):
    """Of the network of denoising diffusion (arXiv 2006.11239): a residual block that knows the time, attention between pixels, a way down and up."""

    def __init__(self, width):
        super().__init__()
        self.width, self.first = width, nn.Conv2d(3, width, 3, padding=1)
        self.time = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, 2 * width))
        self.norm1, self.conv1 = nn.GroupNorm(4, width), nn.Conv2d(width, 2 * width, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(4, 2 * width), nn.Conv2d(2 * width, 2 * width, 3, padding=1)
        self.short, self.down = nn.Conv2d(width, 2 * width, 1), nn.Conv2d(2 * width, 2 * width, 3, 2, 1)
        self.norm3, self.qkv, self.mix = nn.GroupNorm(4, 2 * width), nn.Conv2d(2 * width, 6 * width, 1), nn.Conv2d(2 * width, 2 * width, 1)
        self.up, self.out = nn.Conv2d(2 * width, width, 3, padding=1), nn.Conv2d(2 * width, 3, 3, padding=1)

    def forward(self, image, noise, time, kept):
        share = kept[:, None, None, None]
        noisy = share.sqrt() * image + (1 - share).sqrt() * noise
        x = self.first(noisy)
        angles = time[:, None] * torch.exp(-torch.arange(self.width // 2) * (9.21 / (self.width // 2)))
        about = self.time(torch.cat((angles.sin(), angles.cos()), -1))
        h = self.conv1(F.silu(self.norm1(x))) + about[:, :, None, None]
        h = self.down(self.short(x) + self.conv2(F.silu(self.norm2(h))))
        q, k, v = self.qkv(self.norm3(h)).flatten(2).transpose(1, 2)[:, None].chunk(3, -1)
        h = h + self.mix(F.scaled_dot_product_attention(q, k, v)[:, 0].transpose(1, 2).reshape(h.shape))
        h = self.up(F.interpolate(h, scale_factor=2.0, mode="nearest"))
        return F.mse_loss(self.out(torch.cat((h, x), 1)), noise)


@model("Diffusion UNet block")
def diffusion():
    data = {"image": images(3, 16), "noise": images(3, 16), "time": classes(1000).float(), "kept": torch.rand(ROWS)}
    return Case(Denoiser(16), data, "mean square of the noise", dict(ADAMW))


class Siamese(nn.Module):
    """One network for both of a pair, and the contrastive loss of Hadsell, Chopra and LeCun (2006)."""

    def __init__(self, width):
        super().__init__()
        self.network = nn.Sequential(nn.Conv2d(1, width, 3, 2, 1), nn.ReLU(), nn.Conv2d(width, 2 * width, 3, 2, 1), nn.ReLU(),
                                     nn.Flatten(), nn.Linear(2 * width * 16, 8))

    def forward(self, first, second, same):
        distance = F.pairwise_distance(self.network(first), self.network(second))
        return (same * distance**2 + (1 - same) * F.relu(1 - distance) ** 2).mean()


@model("Siamese")
def siamese():
    return Case(Siamese(8), {"first": images(1, 16), "second": images(1, 16), "same": classes(2).float()}, "contrastive, of pairs")
