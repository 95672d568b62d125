#!/usr/bin/env python3
"""Images per second that a program is fed, beside PyTorch's DataLoader of torchvision's ImageFolder with as many workers.

    images.py --divisi PATH [--workers 2] [--images 512] [--rounds 3]

JPEG files of 500 x 375 pixels become random parts of 224 x 224, mirrored and normalised, in batches of 64; the model of the program is a mean of each channel and a
linear layer, so that hardly anything else is measured. An epoch of warm-up does not count. Needs torch, torchvision, onnx and Pillow.
"""

import argparse
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy as np
import onnx
import torch
import torchvision
from onnx import TensorProto, helper
from PIL import Image

BATCH, SIDE, CLASSES, EPOCHS = 64, 224, 8, 2
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def write_images(folder, count):
    """Smooth images with edges and some noise, of some 60 KB each."""
    draw = np.random.default_rng(0)
    for i in range(count):
        small = draw.integers(0, 256, (24, 32, 3), "uint8")
        pixels = np.asarray(Image.fromarray(small).resize((500, 375), Image.Resampling.BICUBIC), "float32") + draw.normal(0, 6, (375, 500, 3))
        place = folder / f"class{i % CLASSES}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.clip(0, 255).astype("uint8")).save(place / f"{i}.jpg", quality=90)


def compile_program(divisi, work):
    weight = np.random.default_rng(0).normal(0, 0.1, (3, CLASSES)).astype("float32")
    nodes = [helper.make_node("GlobalAveragePool", ["image"], ["mean"]), helper.make_node("Flatten", ["mean"], ["flat"]), helper.make_node("MatMul", ["flat", "weight"], ["logits"])]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("image", [BATCH, 3, SIDE, SIDE]), ("logits", [BATCH, CLASSES]))]
    graph = helper.make_graph(nodes, "means", values[:1], values[1:], [onnx.numpy_helper.from_array(weight, "weight")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), work / "model.onnx")
    subprocess.run([divisi, "compile", work / "model.onnx", "-o", work / "program", "--loss", "cross_entropy", "--label", "label", "--optimizer", "sgd"], check=True)


def program_rate(work, images, workers):
    """Images per second of the program, from the difference of a short and a long run."""
    def seconds(epochs):
        start = time.monotonic()
        command = [work / "program", "--data", f"image={work}/images", "--augment", "crop,flip", "--workers", workers, "--threads", 1, "--epochs", epochs, "--quiet"]
        subprocess.run([str(word) for word in command], check=True)
        return time.monotonic() - start

    return images * EPOCHS / (seconds(1 + EPOCHS) - seconds(1))


def loader_rate(work, images, workers):
    """Images per second of a DataLoader whose workers have started."""
    transforms = torchvision.transforms
    steps = [transforms.RandomResizedCrop(SIDE), transforms.RandomHorizontalFlip(), transforms.ToTensor(), transforms.Normalize(MEAN, DEVIATION)]
    dataset = torchvision.datasets.ImageFolder(work / "images", transforms.Compose(steps))
    loader = torch.utils.data.DataLoader(dataset, BATCH, shuffle=True, num_workers=workers, persistent_workers=True, drop_last=True)
    times = []
    for _ in range(1 + EPOCHS):
        start = time.monotonic()
        for batch, _ in loader:
            assert batch.shape == (BATCH, 3, SIDE, SIDE)
        times.append(time.monotonic() - start)
    return images * EPOCHS / sum(times[1:])


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--images", type=int, default=512)
    p.add_argument("--rounds", type=int, default=3)
    o = p.parse_args()
    torch.set_num_threads(1)
    o.images -= o.images % BATCH
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        write_images(work / "images", o.images)
        compile_program(o.divisi, work)
        rates = {"program": [], "DataLoader": []}
        for _ in range(o.rounds):
            rates["program"].append(program_rate(work, o.images, o.workers))
            rates["DataLoader"].append(loader_rate(work, o.images, o.workers))
    for name, found in rates.items():
        print(f"{name:<12}{statistics.median(found):>8.0f} images/s with {o.workers} workers ({min(found):.0f} to {max(found):.0f} in {o.rounds} rounds)")


if __name__ == "__main__":
    main()
