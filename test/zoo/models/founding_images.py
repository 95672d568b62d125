"""Convolutional networks by which data, operator and pipeline parallelism were measured first, at a fraction of their width."""

import torchvision

from .case import BATCH, FEW, SLOW, classifier, conditioned, model, narrowed


@model("AlexNet")
def alexnet(published=False):
    with narrowed(1 if published else 8):
        return classifier(torchvision.models.alexnet(num_classes=10, dropout=0.0), size=224, batch=FEW if published else BATCH)


@model("VGG-16")
def vgg16(published=False):
    with narrowed(1 if published else 8):
        return classifier(torchvision.models.vgg16(num_classes=10, dropout=0.0), size=224, batch=FEW if published else BATCH)


@model("ResNet-50")
def resnet50(published=False):
    with narrowed(1 if published else 8):
        network = conditioned(torchvision.models.resnet50(num_classes=10), shift=1.0, residual=0.2)
    return classifier(network, size=224 if published else 64, batch=FEW if published else BATCH)


@model("Inception-v3")
def inception_v3(published=False):
    with narrowed(1 if published else 8):
        network = torchvision.models.inception_v3(num_classes=10, aux_logits=False, transform_input=False, dropout=0.0, init_weights=False)
    return classifier(conditioned(network, shift=2.0), size=299 if published else 107, batch=FEW if published else BATCH, optimizer=SLOW)
