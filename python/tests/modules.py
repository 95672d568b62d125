"""Small modules of the usual kinds, each with its loss and random data."""

import torch
import torch.nn.functional as F
from torch import nn

BATCHES = 6


def mlp():
    module = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 5))
    return module, F.cross_entropy, (torch.randn(48, 16),), torch.randint(5, (48,))


def convolutions():
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(16, 4),
    )  # fmt: skip
    return module, F.cross_entropy, (torch.randn(48, 3, 12, 12),), torch.randint(4, (48,))


class Block(nn.Module):
    """Causal self-attention and a feed-forward network, each after a layer norm and beside an identity."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, time, width = x.shape
        q, k, v = self.qkv(self.first(x)).view(batch, time, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, time, width))
        return x + self.down(F.gelu(self.up(self.second(x))))


class Gpt(nn.Module):
    """A small GPT whose output layer has the weights of its embedding."""

    def __init__(self, words=40, time=12, width=32):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(time, width)
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight
        self.register_buffer("position", torch.arange(time), persistent=False)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.1) if parameter.dim() > 1 else None

    def forward(self, tokens):
        x = self.words(tokens) + self.places(self.position)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def next_word(logits, label):
    return F.cross_entropy(logits.flatten(0, 1), label.flatten())


def gpt():
    return Gpt(), next_word, (torch.randint(40, (24, 12)),), torch.randint(40, (24, 12))


class Encoder(nn.Module):
    """PyTorch's own transformer encoder, with a table of sines as a buffer."""

    def __init__(self, width=16, time=10):
        super().__init__()
        angle = torch.arange(time)[:, None] / 100 ** (torch.arange(0, width, 2) / width)
        self.register_buffer("sines", torch.stack([angle.sin(), angle.cos()], -1).flatten(1))
        layer = nn.TransformerEncoderLayer(width, 4, 32, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        return self.head(self.encoder(x + self.sines).mean(1))


def encoder():
    return Encoder(), nn.CrossEntropyLoss(), (torch.randn(24, 10, 16),), torch.randint(3, (24,))


class Experts(nn.Module):
    """Embeddings, and experts that are mixed by a gate."""

    def __init__(self, words=30, width=12, experts=4):
        super().__init__()
        self.words, self.gate = nn.Embedding(words, width), nn.Linear(width, experts)
        self.up = nn.Parameter(torch.randn(experts, width, 2 * width) * 0.2)
        self.down = nn.Parameter(torch.randn(experts, 2 * width) * 0.2)

    def forward(self, tokens, weight):
        x = (self.words(tokens) * weight[..., None]).sum(1)
        share = self.gate(x).softmax(-1)
        hidden = F.silu(torch.einsum("bi,eid->ebd", x, self.up))
        return (torch.einsum("ebd,ed->be", hidden, self.down) * share).sum(1)


def experts():
    inputs = (torch.randint(30, (48, 5)), torch.rand(48, 5))
    return Experts(), F.mse_loss, inputs, torch.randn(48)


class Unet(nn.Module):
    """Down and up again, with a long skip and a residual block."""

    def __init__(self, width=8):
        super().__init__()
        self.start = nn.Conv2d(1, width, 3, padding=1)
        self.down = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(4, 2 * width)
        self.middle = nn.Conv2d(2 * width, 2 * width, 3, padding=1)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.end = nn.Conv2d(2 * width, 1, 1)

    def forward(self, image):
        top = F.relu(self.start(image))
        low = F.relu(self.norm(self.down(top)))
        low = low + F.relu(self.middle(low))
        return self.end(torch.cat([top, self.up(low)], 1))


def unet():
    return Unet(), F.binary_cross_entropy_with_logits, (torch.randn(24, 1, 8, 8),), torch.rand(24, 1, 8, 8).round()


ALL = {case.__name__: case for case in (mlp, convolutions, gpt, encoder, experts, unet)}


def make(name):
    """(module, loss, inputs, label) of a case, the same at each call; BATCHES batches of data."""
    torch.manual_seed(1)
    return ALL[name]()
