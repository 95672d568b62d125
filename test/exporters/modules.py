"""The small models that make_exports.py exports; forward() gives the loss."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class BatchNorm(nn.Module):
    def __init__(s):
        super().__init__()
        s.conv, s.bn = nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4)
        s.fc, s.norm, s.out = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)

    def forward(s, x, label):
        x = F.relu(s.bn(s.conv(x))).mean((2, 3))
        return F.cross_entropy(s.out(torch.tanh(s.norm(s.fc(x)))), label)


class Dropout(nn.Module):
    def __init__(s, p):
        super().__init__()
        s.fc1, s.drop, s.fc2 = nn.Linear(6, 16), nn.Dropout(p), nn.Linear(16, 3)

    def forward(s, x, label):
        return F.cross_entropy(s.fc2(s.drop(torch.tanh(s.fc1(x)))), label)


class Attention(nn.Module):
    """One head over a sequence. `parts` says which buffers there are."""
    def __init__(s, vocab, length, c, parts):
        super().__init__()
        s.emb, s.qkv, s.norm, s.head = nn.Embedding(vocab, c), nn.Linear(c, 3 * c), nn.LayerNorm(c), nn.Linear(c, vocab)
        s.c, s.parts = c, parts
        if "tables" in parts:
            angle = torch.arange(length)[:, None] * 100.0 ** (-torch.arange(0, c, 2) / c)
            s.register_buffer("pe", torch.cat((angle.sin(), angle.cos()), 1))
            s.register_buffer("inv_freq", 100.0 ** (-torch.arange(0, c, 2) / c), persistent=False)
            s.register_buffer("betas", torch.linspace(1e-2, 0.2, length))
            s.temperature = nn.Parameter(torch.tensor(1.3))
        if "masks" in parts:
            s.register_buffer("bias", torch.ones(length, length).tril()[None, None])
            s.register_buffer("future", torch.full((length, length), -math.inf).triu(1))

    def forward(s, idx, targets):
        x, scale = s.emb(idx), 1 / math.sqrt(s.c)
        if "tables" in s.parts:
            x = x + s.pe + s.betas[:, None]
            scale = scale * s.temperature
        q, k, v = s.qkv(s.norm(x)).chunk(3, -1)
        if "tables" in s.parts:
            angle = torch.arange(idx.size(1)).float()[:, None] * s.inv_freq
            q = q * torch.cat((angle, angle), -1).cos() * torch.tensor([0.5, 1.25] * (s.c // 2))
        w = q @ k.transpose(1, 2) * scale
        if "masks" in s.parts:
            w = (w + s.future).masked_fill(s.bias[0] == 0, -math.inf)
        logits = s.head(x + w.softmax(-1) @ v)
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


class Tied(nn.Module):
    def __init__(s, vocab, c):
        super().__init__()
        s.wte, s.fc, s.head = nn.Embedding(vocab, c), nn.Linear(c, c), nn.Linear(c, vocab, bias=False)
        s.head.weight = s.wte.weight

    def forward(s, idx, targets):
        logits = s.head(torch.tanh(s.fc(s.wte(idx))))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


class Norms(nn.Module):
    """Two layer norms that are equal at the start."""
    def __init__(s):
        super().__init__()
        s.fc, s.norm1, s.fc2, s.norm2, s.out = nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(s, x, label):
        return F.cross_entropy(s.out(s.norm2(s.fc2(torch.tanh(s.norm1(s.fc(x)))))), label)


class Bce(nn.Module):
    def __init__(s, **loss):
        super().__init__()
        s.fc, s.out, s.criterion = nn.Linear(6, 8), nn.Linear(8, 3), nn.BCEWithLogitsLoss(**loss)

    def forward(s, x, label):
        return s.criterion(s.out(torch.tanh(s.fc(x))), label)


class Encoder(nn.Module):
    """A transformer's layer; the projection's bias starts at zero, as in nn.MultiheadAttention."""
    def __init__(s, p):
        super().__init__()
        s.p, s.inp, s.qkv, s.proj, s.out = p, nn.Linear(6, 8), nn.Linear(8, 24), nn.Linear(8, 8), nn.Linear(8, 3)
        s.drop, s.norm = nn.Dropout(p), nn.LayerNorm(8)
        nn.init.zeros_(s.proj.bias)

    def forward(s, x, label):
        x = s.inp(x)
        q, k, v = (y.unflatten(-1, (2, 4)).transpose(1, 2) for y in s.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=s.p if s.training else 0.0).transpose(1, 2).flatten(2)
        # (of two dimensions, as nn.MultiheadAttention multiplies)
        y = s.proj(y.flatten(0, 1)).view_as(x)
        return F.cross_entropy(s.out(s.norm(x + s.drop(y)).mean(1)), label)


class Dlrm(nn.Module):
    def __init__(s):
        super().__init__()
        s.emb = nn.ModuleList(nn.Embedding(9, 4) for _ in range(2))
        s.bottom, s.top = nn.Linear(3, 4), nn.Linear(7, 1)

    def forward(s, x, ids, label):
        e = [s.bottom(x)] + [m(ids[:, k]) for k, m in enumerate(s.emb)]
        z = torch.stack(e, 1)
        i, j = torch.tril_indices(3, 3, -1)
        z = torch.cat((e[0], (z @ z.transpose(1, 2))[:, i, j]), 1)
        return F.binary_cross_entropy_with_logits(s.top(z)[:, 0], label)


class Lora(nn.Module):
    """A frozen layer and a low-rank update of it."""
    def __init__(s):
        super().__init__()
        s.base, s.out = nn.Linear(6, 8).requires_grad_(False), nn.Linear(8, 3)
        s.lora_A, s.lora_B = nn.Parameter(torch.randn(2, 6)), nn.Parameter(torch.zeros(8, 2))

    def forward(s, x, label):
        return F.cross_entropy(s.out(torch.tanh(s.base(x) + 2 * (x @ s.lora_A.T @ s.lora_B.T))), label)


class WeightNorm(nn.Module):
    def __init__(s):
        super().__init__()
        s.fc, s.norm, s.out = nn.utils.parametrizations.weight_norm(nn.Linear(6, 8)), nn.GroupNorm(2, 8), nn.Linear(8, 3)

    def forward(s, x, label):
        return F.cross_entropy(s.out(s.norm(torch.tanh(s.fc(x)))), label)


class Siamese(nn.Module):
    def __init__(s):
        super().__init__()
        s.enc, s.out = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Tanh()), nn.Linear(8, 1)

    def forward(s, a, b, label):
        return F.binary_cross_entropy_with_logits(s.out((s.enc(a) - s.enc(b)).abs())[:, 0], label)


class Recurrent(nn.Module):
    def __init__(s, kind, **options):
        super().__init__()
        s.rnn = kind(3, 4, batch_first=True, **options)
        s.out = nn.Linear(4 * (1 + s.rnn.bidirectional), 3)

    def forward(s, x, label):
        y, last = s.rnn(x)
        last = last[1] if isinstance(last, tuple) else last
        return F.cross_entropy(s.out(torch.tanh(y).mean(1)), label) + last.square().mean()


class Packed(nn.Module):
    """Sequences of different lengths."""
    def __init__(s):
        super().__init__()
        s.rnn, s.out = nn.LSTM(3, 4, batch_first=True, bidirectional=True), nn.Linear(8, 3)

    def forward(s, x, lengths, label):
        x = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        y, (h, c) = s.rnn(x)
        y, _ = nn.utils.rnn.pad_packed_sequence(y, batch_first=True, total_length=5)
        return F.cross_entropy(s.out(y.sum(1) + h.transpose(0, 1).flatten(1)), label)


class Scaled(nn.Module):
    """A learned temperature that passes through exp, as CLIP's, and a learned power, as GeM pooling's."""
    def __init__(s):
        super().__init__()
        s.fc, s.out = nn.Linear(6, 8), nn.Linear(8, 3)
        s.logit_scale, s.p = nn.Parameter(torch.tensor([0.4])), nn.Parameter(torch.tensor([3.0]))

    def forward(s, x, label):
        x = torch.sigmoid(s.fc(x)).pow(s.p)
        return F.cross_entropy(s.out(x) * s.logit_scale.exp(), label)


class Bag(nn.Module):
    """Bags of any number of indices."""
    def __init__(s, mode, weighted=False):
        super().__init__()
        s.weighted, s.emb, s.out = weighted, nn.EmbeddingBag(9, 4, mode=mode), nn.Linear(4, 3)

    def forward(s, idx, offsets, weights, label):
        y = s.emb(idx, offsets, weights) if s.weighted else s.emb(idx, offsets) * weights.mean()
        return F.cross_entropy(s.out(torch.tanh(y)), label)


class Bags(nn.Module):
    """Bags of five indices each."""
    def __init__(s, *modes):
        super().__init__()
        s.bags = nn.ModuleList(nn.EmbeddingBag(9, 4, mode=mode) for mode in modes)
        s.out = nn.Linear(4 * len(modes), 3)

    def forward(s, idx, label):
        return F.cross_entropy(s.out(torch.tanh(torch.cat([bag(idx) for bag in s.bags], 1))), label)


@torch.jit.script
def unroll(x: torch.Tensor, w: torch.Tensor):
    h, all = x[:, 0], [x[:, 0]]
    for t in range(1, x.size(1)):
        h = torch.tanh(x[:, t] + h @ w)
        if t % 2 == 0:
            all.append(h)
    return h, torch.stack(all, 1)


class Scripted(nn.Module):
    """A loop over the steps of a sequence, with a branch and a list."""
    def __init__(s):
        super().__init__()
        s.inp, s.w, s.out = nn.Linear(3, 4), nn.Parameter(torch.randn(4, 4) / 2), nn.Linear(4, 3)

    def forward(s, x, label):
        h, all = unroll(s.inp(x), s.w)
        return F.cross_entropy(s.out(h + all.mean(1)), label)


class Pooled(nn.Module):
    """One token of each sample, as CLIP's text encoder and classifiers of language models take it."""
    def __init__(s):
        super().__init__()
        s.emb, s.out = nn.Embedding(9, 8), nn.Linear(8, 3)

    def forward(s, idx, label):
        x = torch.tanh(s.emb(idx))
        return F.cross_entropy(s.out(x[torch.arange(idx.shape[0]), idx.argmax(-1)]), label)


class Strided(nn.Module):
    """An average over an image whose channels lie last: torch.export writes as_strided."""
    def __init__(s):
        super().__init__()
        s.fc, s.out = nn.Linear(2, 6), nn.Linear(6, 3)

    def forward(s, x, label):
        x = torch.tanh(s.fc(x)).permute(0, 3, 1, 2)
        return F.cross_entropy(s.out(F.adaptive_avg_pool2d(x, 1).flatten(1)), label)


class Mixed(nn.Module):
    """A layer in half precision between layers in single."""
    def __init__(s):
        super().__init__()
        s.fc1, s.fc2, s.out = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(s, x, label):
        x = torch.tanh(s.fc1(x))
        x = s.fc2(x.to(s.fc2.weight.dtype)).to(x.dtype)
        return F.cross_entropy(s.out(torch.tanh(x)), label)

    def to(s, *args):
        """For the exporters only: PyTorch trains it in single."""
        s.fc2.half()
        return s


class Stops(nn.Module):
    """Where no gradient flows: behind detach(), and to an embedding's row of padding. And smoothed labels."""
    def __init__(s):
        super().__init__()
        s.emb, s.fc, s.teacher, s.out = nn.Embedding(9, 8, padding_idx=0), nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)
        s.register_buffer("shares", torch.tensor([1.0, 0.5, 2.0]))

    def forward(s, idx, label):
        x = s.emb(idx).mean(1)
        y = torch.tanh(s.fc(x))
        target = torch.tanh(s.teacher(x))
        loss = F.cross_entropy(s.out(y), label, s.shares, ignore_index=2, label_smoothing=0.2) + F.mse_loss(y, target.detach())
        return loss + F.cross_entropy(s.out(2 * x.detach() - x), label, label_smoothing=0.1)


class Stable(nn.Module):
    """Functions whose exported form loses digits or overflows, and a loss with an infinite derivative behind a clamp."""
    def __init__(s):
        super().__init__()
        s.fc, s.gate = nn.Linear(6, 1), nn.Linear(6, 4)

    def forward(s, x, label):
        h = s.gate(x)
        small = torch.expm1(1e-6 * h).mean() * 1e6 + torch.log1p(1e-7 * h.square()).mean() * 1e7
        large = torch.expm1(h).mean() + torch.log1p(h.square()).mean() - F.logsigmoid(200 * h - 100).mean()
        return nn.BCELoss()(torch.sigmoid(40 * s.fc(x)[:, 0]), label) + 0.1 * small.abs() + 0.01 * large


class FrozenNorm(nn.Module):
    """A backbone that stays in eval(), and a head in train(); one batch norm keeps no statistics."""
    def __init__(s):
        super().__init__()
        s.backbone = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU()).requires_grad_(False)
        s.head = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.BatchNorm1d(8, track_running_stats=False), nn.Linear(8, 3))
        with torch.no_grad():
            s.backbone[1].running_mean.normal_()
            s.backbone[1].running_var.uniform_(0.5, 2)

    def train(s, mode=True):
        super().train(mode)
        s.backbone.eval()
        return s

    def forward(s, x, label):
        return F.cross_entropy(s.head(s.backbone(x)), label)


class Queries(nn.Module):
    """Learned queries in sequence-first layout, as DETR's, that pass layers before they meet the data."""
    def __init__(s):
        super().__init__()
        s.queries, s.att = nn.Parameter(torch.randn(3, 8)), nn.MultiheadAttention(8, 2)
        s.fc, s.out = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(s, x, label):
        q = s.queries.unsqueeze(1).repeat(1, x.size(0), 1)
        q = s.fc(torch.tanh(q + s.att(q, q, q)[0])).transpose(0, 1)
        return F.cross_entropy(s.out((torch.softmax(q @ x.transpose(1, 2), 2) @ x).mean(1)), label)


class Views(nn.Module):
    """Two views of each sample, one behind the other along the batch."""
    def __init__(s):
        super().__init__()
        s.fc, s.mid, s.out = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(s, a, b):
        z = F.normalize(s.out(torch.tanh(s.mid(torch.tanh(s.fc(torch.cat((a, b))))))), dim=1)
        apart = torch.eye(z.size(0), dtype=torch.bool)
        return F.cross_entropy((z @ z.t() / 0.5).masked_fill(apart, -1e4), torch.arange(16).roll(8))


class Ties(nn.Module):
    """Values that lie on the bounds of a clamp, of hardtanh and relu6, and share a maximum: PyTorch says call by call where the gradient goes.
    As in quantisation-aware training, whole numbers have the gradient of what they are rounded from."""
    def __init__(s):
        super().__init__()
        s.fc, s.out = nn.Linear(6, 8), nn.Linear(28, 3)

    def forward(s, x, label):
        h = s.fc(x)
        q = (h - h.detach()) + torch.round(2 * h.detach()) / 2
        ends = [q.max(1, keepdim=True).values, q.min(1, keepdim=True).values, q.amax(1, keepdim=True), torch.maximum(q[:, :1], q[:, 1:2])]
        return F.cross_entropy(s.out(torch.cat([q.clamp(-0.5, 0.5), F.relu6(3 * q), F.hardtanh(q), *ends], 1)), label)


class Mixup(nn.Module):
    """Samples that are mixed with others: labels are distributions, with weights of classes, smoothed, and of positions."""
    def __init__(s):
        super().__init__()
        s.fc, s.out, s.each = nn.Linear(6, 8), nn.Linear(8, 3), nn.Linear(8, 6)
        s.register_buffer("shares", torch.tensor([1.0, 0.5, 2.0]))

    def forward(s, x, label):
        y = torch.tanh(s.fc(x))
        loss = F.cross_entropy(s.out(y), label, s.shares, label_smoothing=0.2)
        each = F.cross_entropy(s.each(y).unflatten(1, (3, 2)), torch.stack((label, label.flip(1)), 2), reduction="none")
        return loss + each.amax(1).mean() + 0.1 * F.cross_entropy(s.out(y.flip(1)), label, reduction="sum")


class Resized(nn.Module):
    """Factors that float32 has only nearly, a range that begins with a float, and repeats that a tensor tells."""
    def __init__(s):
        super().__init__()
        s.fc, s.out = nn.Linear(6, 10), nn.Linear(11, 3)
        s.register_buffer("times", torch.tensor([1, 2, 0, 3, 1, 1, 2, 0, 0, 1]))

    def forward(s, x, label):
        h = torch.tanh(s.fc(x))
        less = F.interpolate(h[:, None], scale_factor=0.7, mode="nearest")[:, 0]
        more = F.interpolate(h[:, None], scale_factor=1.7, mode="nearest")[:, 0]
        smooth = F.interpolate(h[:, None], scale_factor=0.7, mode="linear")[:, 0]
        weighted = (more * torch.arange(1.0, 18)).mean(1, keepdim=True) + (less - smooth).square().sum(1, keepdim=True)
        return F.cross_entropy(s.out(h.repeat_interleave(s.times, 1)) * weighted, label)


class Edges(nn.Module):
    """A loss of large logits, norms and deviations of rows of zeros, and corners that a factor does not hit."""
    def __init__(s):
        super().__init__()
        s.fc, s.out = nn.Linear(6, 8, bias=False), nn.Linear(8, 3)

    def forward(s, x, label):
        h = s.fc(x)
        lengths = h.norm(p=3, dim=1) + torch.linalg.vector_norm(h, dim=1) + h.std(1) + F.pairwise_distance(h, 2 * h, eps=0)
        image = h.view(-1, 1, 2, 4)
        linear = F.interpolate(image, scale_factor=1.7, mode="bilinear", align_corners=True)
        cubic = F.interpolate(image, scale_factor=(1.6, 1.3), mode="bicubic", align_corners=True)
        resized = (linear * torch.arange(1.0, linear.shape[-1] + 1)).mean() + (cubic * torch.arange(1.0, cubic.shape[-1] + 1)).mean()
        return F.binary_cross_entropy_with_logits(20 * s.out(h), label) + 0.1 * lengths.mean() + resized.square()


class MaskedRows(nn.Module):
    """Attention with a query whose keys are all masked, and a transposed convolution with more output padding than its stride."""
    def __init__(s):
        super().__init__()
        s.qkv, s.up, s.out = nn.Linear(6, 18), nn.ConvTranspose1d(6, 4, 3, stride=2, padding=1, dilation=4, output_padding=3), nn.Linear(4, 3)
        keep = torch.ones(5, 5, dtype=torch.bool).tril(1)
        keep[1] = False
        s.register_buffer("keep", keep)

    def mask(s):
        return s.keep

    def forward(s, x, label):
        q, k, v = s.qkv(x).unsqueeze(1).chunk(3, dim=-1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=s.mask()).squeeze(1)
        return F.cross_entropy(s.out(s.up(y.transpose(1, 2)).tanh().mean(2)), label)


class Scattered(MaskedRows):
    """The same with a mask of numbers, and what only torch.export writes: means by index, a smoothing filter, idle squeezes, no element to
    scatter."""
    def __init__(s):
        super().__init__()
        s.start = nn.Parameter(torch.randn(4, 6))
        s.register_buffer("nowhere", torch.zeros(4, 6, dtype=torch.bool))
        s.register_buffer("rows", torch.tensor([0, 2, 0, 3, 2])[:, None].expand(5, 6).contiguous())

    def mask(s):
        return torch.zeros(5, 5).masked_fill(~s.keep, float("-inf"))

    def forward(s, x, label):
        mean, own = (s.start.scatter_reduce(0, s.rows, x[0], "mean", include_self=self) for self in (True, False))
        own = own.masked_scatter(s.nowhere, x[0])
        image = F.interpolate(x[:, None].squeeze(2), scale_factor=(1.0, 0.6), mode="bilinear", align_corners=True, antialias=True)
        return super().forward(x, label) + (mean * own).mean() * (image * torch.arange(1.0, image.shape[-1] + 1)).mean()


class FrozenStatistics(nn.Module):
    """What a detector has in place of batch norm: all four are buffers."""
    def __init__(s, c):
        super().__init__()
        for name, value in ("weight", torch.rand(c) + 0.5), ("bias", torch.randn(c)), ("running_mean", torch.randn(c)), ("running_var", torch.rand(c) + 0.5):
            s.register_buffer(name, value)

    def forward(s, x):
        scale = s.weight.view(1, -1, 1, 1) * (s.running_var.view(1, -1, 1, 1) + 1e-5).rsqrt()
        return x * scale + (s.bias.view(1, -1, 1, 1) - s.running_mean.view(1, -1, 1, 1) * scale)


class Blur(nn.Module):
    def __init__(s, c):
        super().__init__()
        line = torch.tensor([1.0, 2.0, 1.0])
        s.c = c
        s.register_buffer("kernel", (line[:, None] * line / 16).expand(c, 1, 3, 3).contiguous())

    def forward(s, x):
        return F.conv2d(x, s.kernel, stride=2, padding=1, groups=s.c)


class Filters(nn.Module):
    """Buffers with names that parameters have."""
    def __init__(s):
        super().__init__()
        s.conv, s.norm, s.blur, s.fc = nn.Conv2d(2, 4, 3, padding=1), FrozenStatistics(4), Blur(4), nn.Linear(4, 3)
        angle = torch.arange(9)[:, None] * 100.0 ** (-torch.arange(0, 4, 2) / 4)
        s.register_buffer("pos_embed", torch.stack((angle.sin(), angle.cos()), 2).flatten(1)[None])

    def forward(s, x, label):
        x = s.blur(F.relu(s.norm(s.conv(x)))).flatten(2).transpose(1, 2) + s.pos_embed
        return F.cross_entropy(s.fc(torch.tanh(x).mean(1)), label)
