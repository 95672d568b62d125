"""The benchmark models in PyTorch, with one batch of random data each."""

import torch
import torch.nn as nn
import torch.nn.functional as F

NAMES = ("mlp", "lenet", "gpt2", "lstm", "resnet18")
LARGE = ("gpt2_small", "bert_base", "vit_b_16", "resnet50")


class MLP(nn.Module):
    """784-1024-1024-10."""

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(784, 1024)
        self.fc2 = nn.Linear(1024, 1024)
        self.fc3 = nn.Linear(1024, 10)

    def forward(self, x):
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class LeNet(nn.Module):
    """The network of PyTorch's MNIST example, without its dropout."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, 1)
        self.conv2 = nn.Conv2d(32, 64, 3, 1)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = F.max_pool2d(x, 2)
        return self.fc2(F.relu(self.fc1(torch.flatten(x, 1))))


def resnet18():
    """torchvision's ResNet-18 with the stem for 32x32 images."""
    import torchvision

    model = torchvision.models.resnet18(num_classes=10)
    model.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
    model.maxpool = nn.Identity()
    return model


class Block(nn.Module):
    """One decoder layer, layer norm first."""

    causal, gelu = True, "tanh"

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.ln2 = nn.LayerNorm(width)
        self.fc = nn.Linear(width, 4 * width)
        self.fp = nn.Linear(4 * width, width)

    def attend(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in self.qkv(x).split(c, 2))
        return self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2).reshape(b, t, c))

    def feed(self, x):
        return self.fp(F.gelu(self.fc(x), approximate=self.gelu))

    def forward(self, x):
        x = x + self.attend(self.ln1(x))
        return x + self.feed(self.ln2(x))


class BertBlock(Block):
    """One encoder layer, layer norms behind, gelu by erf."""

    causal, gelu = False, "none"

    def forward(self, x):
        x = self.ln1(x + self.attend(x))
        return self.ln2(x + self.feed(x))


class GPT(nn.Module):
    """A decoder in the shape of GPT-2: learned positions, the head tied to the embedding."""

    def __init__(self, layers=4, width=256, heads=8, vocabulary=8192, length=128, block=Block):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Embedding(length, width)
        self.b = nn.ModuleList(block(width, heads) for _ in range(layers))
        self.ln = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.wte.weight
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, 0, 0.02)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
        for block in self.b:
            x = block(x)
        return self.head(self.ln(x))


# Published ones.
GPTS = {
    "gpt2_small": dict(layers=12, width=768, heads=12, vocabulary=50257, length=1024),
    "bert_base": dict(layers=12, width=768, heads=12, vocabulary=30522, length=128, block=BertBlock),
}


class LanguageModel(nn.Module):
    """A recurrent language model: two layers of LSTM of 512 units."""

    def __init__(self, width=512, vocabulary=2000):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, 2, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids):
        return self.head(self.lstm(self.embedding(ids))[0])


def loss(model, x, label):
    """Mean cross-entropy over every label."""
    logits = model(x)
    return F.cross_entropy(logits.flatten(0, -2), label.flatten())


def make(name):
    """(model, x, label): the same weights and numbers in every process."""
    torch.manual_seed(0)
    if name == "mlp":
        return MLP(), torch.randn(256, 784), torch.randint(0, 10, (256,))
    if name == "lenet":
        return LeNet(), torch.randn(128, 1, 28, 28), torch.randint(0, 10, (128,))
    if name == "resnet18":
        return resnet18(), torch.randn(64, 3, 32, 32), torch.randint(0, 10, (64,))
    if name == "gpt2":
        return GPT(), torch.randint(0, 8192, (8, 128)), torch.randint(0, 8192, (8, 128))
    if name == "lstm":
        return LanguageModel(), torch.randint(0, 2000, (32, 50)), torch.randint(0, 2000, (32, 50))
    if name in GPTS:
        words, shape = GPTS[name]["vocabulary"], (1024 // GPTS[name]["length"], GPTS[name]["length"])
        return GPT(**GPTS[name]), torch.randint(0, words, shape), torch.randint(0, words, shape)
    if name in ("vit_b_16", "resnet50"):
        import torchvision

        return getattr(torchvision.models, name)(), torch.randn(8, 3, 224, 224), torch.randint(0, 1000, (8,))
    raise SystemExit(f"no model named {name}; there are {', '.join(NAMES + LARGE)}")


def optimizer(name, model):
    """PyTorch's optimizer (fused, which is its fastest) with the rates that every side uses."""
    if name == "sgdm":
        return torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=True)
    return torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
