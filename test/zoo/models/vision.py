"""Networks of torchvision and timm for classes of images and of their pixels."""

import timm
import torchvision
from torch import nn
from torch.nn import functional as F
from torchvision.models import convnext, efficientnet, swin_transformer

from .case import ADAMW, BATCH, FEW, SLOW, Case, classes, classifier, conditioned, images, model, narrowed


@model("DenseNet")
def densenet(published=False):
    if published:
        return classifier(torchvision.models.densenet121(num_classes=10), size=224, batch=FEW)
    return classifier(torchvision.models.DenseNet(growth_rate=4, block_config=(3, 4, 4, 3), num_init_features=8, num_classes=10))


@model("GoogLeNet")
def googlenet(published=False):
    with narrowed(1 if published else 8):
        network = torchvision.models.googlenet(num_classes=10, aux_logits=False, transform_input=False, init_weights=False, dropout=0.0)
    return classifier(conditioned(network, shift=2.0), size=224 if published else 64, batch=FEW if published else BATCH, optimizer=SLOW)


@model("SqueezeNet")
def squeezenet():
    with narrowed(8):
        return classifier(torchvision.models.squeezenet1_1(num_classes=10, dropout=0.0))


@model("ShuffleNet-v2")
def shufflenet():
    return classifier(torchvision.models.ShuffleNetV2([2, 3, 2], [8, 16, 32, 64, 64], num_classes=10))


@model("MobileNet-v3")
def mobilenet():
    return classifier(torchvision.models.mobilenet_v3_small(num_classes=10, width_mult=0.25, dropout=0.0))


@model("MNASNet")
def mnasnet():
    network = conditioned(torchvision.models.MNASNet(0.25, num_classes=10, dropout=0.0), shift=1.0)
    nn.init.normal_(network.classifier[1].weight, std=0.03)
    return classifier(network, optimizer=SLOW)


@model("RegNet")
def regnet():
    parameters = torchvision.models.regnet.BlockParams.from_init_params(depth=6, w_0=8, w_a=8.0, w_m=2.2, group_width=8, se_ratio=0.25)
    return classifier(torchvision.models.RegNet(parameters, num_classes=10, stem_width=8))


@model("EfficientNet")
def efficient():
    block = efficientnet.MBConvConfig
    blocks = [block(1, 3, 1, 16, 8, 1), block(4, 3, 2, 8, 16, 2), block(4, 5, 2, 16, 24, 2), block(4, 3, 2, 24, 32, 1)]
    return classifier(torchvision.models.EfficientNet(blocks, 0.0, stochastic_depth_prob=0.0, num_classes=10, last_channel=64))


@model("ConvNeXt")
def conv_next():
    block = convnext.CNBlockConfig
    blocks = [block(16, 32, 2), block(32, 64, 2), block(64, None, 2)]
    return classifier(torchvision.models.ConvNeXt(blocks, stochastic_depth_prob=0.0, layer_scale=0.5, num_classes=10), optimizer=ADAMW)


@model("Swin")
def swin():
    network = swin_transformer.SwinTransformer([4, 4], 16, [2, 2], [2, 4], [4, 4], stochastic_depth_prob=0.0, num_classes=10)
    return classifier(network, size=32, optimizer=ADAMW)


@model("ViT")
def vit(published=False):
    network = torchvision.models.vit_b_16(num_classes=10) if published else torchvision.models.VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=10)
    nn.init.normal_(network.heads.head.weight, std=0.1)  # zero at first, as published: then nothing else had a gradient in the first step
    return classifier(network, size=224 if published else 32, batch=FEW if published else BATCH, optimizer=ADAMW)


class PixelLoss(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x, label):
        return F.cross_entropy(self.network(x)["out"], label)


def segmentation(build):
    """A network of torchvision with its backbone ResNet-50."""
    with narrowed(16):
        network = build(weights=None, weights_backbone=None, num_classes=5, aux_loss=False)
    for part in network.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    return Case(PixelLoss(conditioned(network, residual=0.2)), {"x": images(size=32), "label": classes(5, 32, 32)}, "cross-entropy of 5 classes of pixels")


@model("FCN")
def fcn():
    return segmentation(torchvision.models.segmentation.fcn_resnet50)


@model("DeepLab-v3")
def deeplab():
    return segmentation(torchvision.models.segmentation.deeplabv3_resnet50)


@model("MLP-Mixer")
def mixer():
    network = timm.models.mlp_mixer.MlpMixer(num_classes=10, img_size=32, patch_size=8, num_blocks=2, embed_dim=32)
    nn.init.normal_(network.head.weight, std=0.1)  # zero at first, as published
    return classifier(network, size=32, optimizer=ADAMW)


@model("ResMLP")
def resmlp():
    mlp = timm.models.mlp_mixer
    network = mlp.MlpMixer(num_classes=10, img_size=32, patch_size=8, num_blocks=2, embed_dim=32, mlp_ratio=4, block_layer=mlp.ResBlock,
                           norm_layer=mlp.Affine)
    nn.init.normal_(network.head.weight, std=0.1)
    return classifier(network, size=32, optimizer=ADAMW)


class TwoHeads(nn.Module):
    """DeiT's training: one head learns the label, the other that of a teacher."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x, label, teacher):
        own, distilled = self.network(x)
        return (F.cross_entropy(own, label) + F.cross_entropy(distilled, teacher)) / 2


@model("DeiT")
def deit():
    network = timm.models.deit.VisionTransformerDistilled(
        img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=4, mlp_ratio=2, num_classes=10)
    network.set_distilled_training(True)
    for head in (network.head, network.head_dist):
        nn.init.normal_(head.weight, std=0.1)
    data = {"x": images(size=32), "label": classes(10), "teacher": classes(10)}
    return Case(TwoHeads(network), data, "cross-entropy of the label and of a teacher's", dict(ADAMW))
