"""The models whose steps are measured on a GPU, in PyTorch alone, with the shapes of one batch."""

import pathlib
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "peers"), str(HERE.parent / "benchmark/peers")]  # in a pack, and in the repository
import models  # noqa: E402

# Inputs x and label: shapes, and the number of different whole numbers in them (None: floats).
SHAPES = {
    "gpt2_small": (((8, 1024), 50257), ((8, 1024), 50257)),
    "bert_base": (((32, 128), 30522), ((32, 128), 30522)),
    "resnet50": (((256, 3, 224, 224), None), ((256,), 1000)),
    "mlp_large": (((4096, 1024), None), ((4096,), 1024)),
    "gpt2_medium": (((4, 1024), 50257), ((4, 1024), 50257)),
    "bert_large": (((16, 512), 30522), ((16, 512), 30522)),
    "convnext_tiny": (((64, 3, 224, 224), None), ((64,), 1000)),
    "densenet121": (((64, 3, 224, 224), None), ((64,), 1000)),
    "efficientnet_b0": (((128, 3, 224, 224), None), ((128,), 1000)),
    "inception_v3": (((64, 3, 299, 299), None), ((64,), 1000)),
    "mobilenet_v3_large": (((256, 3, 224, 224), None), ((256,), 1000)),
    "swin_t": (((64, 3, 224, 224), None), ((64,), 1000)),
    "vgg16": (((64, 3, 224, 224), None), ((64,), 1000)),
    "vit_b_16": (((64, 3, 224, 224), None), ((64,), 1000)),
}


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


def build(name):
    torch.manual_seed(0)
    if name in models.GPTS:
        return models.GPT(**models.GPTS[name])
    if name == "gpt2_medium":
        return models.GPT(layers=24, width=1024, heads=16, vocabulary=50257, length=1024)
    if name == "bert_large":
        return models.GPT(layers=24, width=1024, heads=16, vocabulary=30522, length=512, block=models.BertBlock)
    if name == "resnet50":
        return ResNet50()
    if name != "mlp_large":
        import torchvision

        return getattr(torchvision.models, name)(weights=None, **({"aux_logits": False, "init_weights": False} if name == "inception_v3" else {}))
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
            return models.loss(self.model, x, label)

    x, label = batch(name, rows=2)
    torch.onnx.export(WithLoss(build(name)), (x, label), str(path), dynamo=False, training=torch.onnx.TrainingMode.TRAINING,
                      do_constant_folding=False, opset_version=17, input_names=["x", "label"], output_names=["loss"],
                      dynamic_axes={"x": {0: "N"}, "label": {0: "N"}})


if __name__ == "__main__":
    export(sys.argv[1], sys.argv[2])
