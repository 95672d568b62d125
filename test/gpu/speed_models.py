"""The models whose steps are measured on a GPU, in PyTorch alone, with the shapes of one batch."""

import torch
import torch.nn as nn
import torch.nn.functional as F

# Inputs x and label: shapes, and the number of different whole numbers in them (None: floats).
SHAPES = {
    "gpt2_small": (((8, 1024), 50257), ((8, 1024), 50257)),
    "bert_base": (((32, 128), 30522), ((32, 128), 30522)),
    "resnet50": (((256, 3, 224, 224), None), ((256,), 1000)),
    "mlp_large": (((4096, 1024), None), ((4096,), 1024)),
}


class Layer(nn.Module):
    """GPT-2's layer (norms first, causal, gelu by tanh) or BERT's (norms behind, gelu by erf)."""

    def __init__(self, width, heads, decoder):
        super().__init__()
        self.heads, self.decoder = heads, decoder
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.proj = nn.Linear(width, width)
        self.fc, self.fp = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attend(self, x):
        b, t, c = x.shape
        q, k, v = (f(x).view(b, t, self.heads, c // self.heads).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.decoder)
        return self.proj(y.transpose(1, 2).reshape(b, t, c))

    def feed(self, x):
        return self.fp(F.gelu(self.fc(x), approximate="tanh" if self.decoder else "none"))

    def forward(self, x):
        if self.decoder:
            x = x + self.attend(self.ln1(x))
            return x + self.feed(self.ln2(x))
        x = self.ln1(x + self.attend(x))
        return self.ln2(x + self.feed(x))


class Transformer(nn.Module):
    """Learned positions, 12 layers of 768 with 12 heads, the head tied to the embedding."""

    def __init__(self, vocabulary, length, decoder, layers=12, width=768, heads=12):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(Layer(width, heads, decoder) for _ in range(layers))
        self.ln = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.wte.weight
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, 0, 0.02)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.ln(x))


class Bottleneck(nn.Module):
    def __init__(self, inside, width, stride):
        super().__init__()
        out = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(inside, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out)
        plain = stride == 1 and inside == out
        self.short = None if plain else nn.Sequential(nn.Conv2d(inside, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return F.relu(self.bn3(self.conv3(y)) + (x if self.short is None else self.short(x)))


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        blocks, inside = [], 64
        for stage, count in enumerate((3, 4, 6, 3)):
            for i in range(count):
                blocks.append(Bottleneck(inside, 64 << stage, 2 if stage and i == 0 else 1))
                inside = 256 << stage
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(inside, 1000)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        return self.fc(self.blocks(x).mean((2, 3)))


def loss(model, x, label):
    """Mean cross-entropy over every label."""
    logits = model(x)
    return F.cross_entropy(logits.flatten(0, -2).float(), label.flatten())


def build(name):
    torch.manual_seed(0)
    if name == "gpt2_small":
        return Transformer(50257, 1024, decoder=True)
    if name == "bert_base":
        return Transformer(30522, 128, decoder=False)
    if name == "resnet50":
        return ResNet50()
    return nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1024))


def batch(name, rows=None):
    shapes = [((rows or shape[0], *shape[1:]), count) for shape, count in SHAPES[name]]
    return [torch.randn(shape) if count is None else torch.randint(0, count, shape) for shape, count in shapes]


def export(name, path):
    """The model with its loss inside, for inputs x and label whose first dimension is N: one row is enough to trace it."""

    class WithLoss(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, x, label):
            return loss(self.model, x, label)

    x, label = batch(name, rows=2)
    torch.onnx.export(WithLoss(build(name)), (x, label), str(path), dynamo=False, training=torch.onnx.TrainingMode.TRAINING,
                      do_constant_folding=False, opset_version=17, input_names=["x", "label"], output_names=["loss"],
                      dynamic_axes={"x": {0: "N"}, "label": {0: "N"}})


if __name__ == "__main__":
    import sys

    export(sys.argv[1], sys.argv[2])
