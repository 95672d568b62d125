#!/usr/bin/env python3
"""Training from folders and tar files of images: what Pillow gives, on 1, 2 and 4 ranks; killed and resumed; refused files.

    images.py --divisi PATH [--only CASE]

A model writes its pixels as a prediction, which are compared with Pillow's decoding, resizing and cropping, normalised in NumPy. The random parts
of an epoch are those of image_draws.py, an independent account of the program's random numbers. Needs NumPy, onnx and Pillow.
Ends with `N passed, N failed`.
"""

import argparse
import io
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper
from PIL import Image

import cases
import image_draws
from hangs import outcome
from ranks import losses, ranks_of

BATCH, HEIGHT, WIDTH, CLASSES, SEED = 4, 24, 32, 3, 7
MEAN, DEVIATION = np.array([0.485, 0.456, 0.406], "float32"), np.array([0.229, 0.224, 0.225], "float32")
LAYOUTS = {1: [], 2: ["--devices", "2", "--strategy", "data"], 4: ["--mesh", "data=2,model=2"]}
COUNT = 26  # images of a training set: six batches, two left over
EPOCH = COUNT // BATCH


def make_model(path, shape):
    """logits = relu(flat(pixels * scale) W1) W2, with pixels * scale, whose scale is 1, as an output."""
    draw = np.random.default_rng(0)
    size = int(np.prod(shape))
    weights = {
        "scale": np.ones(1, "float32"),
        "w1": draw.normal(0, size**-0.5, (size, 16)).astype("float32"),
        "w2": draw.normal(0, 0.25, (16, CLASSES)).astype("float32"),
    }
    nodes = [
        helper.make_node("Mul", ["image", "scale"], ["pixels"]),
        helper.make_node("Flatten", ["pixels"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w1"], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["active"]),
        helper.make_node("MatMul", ["active", "w2"], ["logits"]),
    ]
    graph = helper.make_graph(
        nodes,
        "images",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [BATCH, *shape])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [BATCH, CLASSES]), helper.make_tensor_value_info("pixels", TensorProto.FLOAT, [BATCH, *shape])],
        [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def compile(divisi, work, ranks=1, shape=(3, HEIGHT, WIDTH)):
    program = work / f"program{ranks}-{'x'.join(map(str, shape))}"
    if not program.exists():
        make_model(work / "model.onnx", shape)
        flags = ["--loss", "cross_entropy", "--label", "label", "--output", "logits"]
        subprocess.run(
            [divisi, "compile", work / "model.onnx", "-o", program, "--optimizer", "sgd", "--lr", "0.05", "--predict", "pixels", *flags, *LAYOUTS[ranks]], check=True, stderr=subprocess.DEVNULL
        )
    return program


def picture(draw, width, height, mode="RGB"):
    """A smooth image with edges and noise, unlike its mirror."""
    y, x = np.mgrid[:height, :width]
    planes = [127 + 90 * np.sin(x / draw.uniform(3, 40) + draw.uniform(0, 6)) * np.cos(y / draw.uniform(3, 40)) for _ in mode]
    pixels = np.stack(planes, -1) + draw.normal(0, 12, (height, width, len(mode)))
    pixels[: height // 3, : width // 4] = draw.integers(0, 256, len(mode))
    pixels = pixels.clip(0, 255).astype("uint8")
    return Image.fromarray(pixels[..., 0] if mode == "L" else pixels, mode=None if mode != "CMYK" else "CMYK")


def write_folder(folder, count=COUNT):
    """Images of any size in folders of classes, which also hold another file and a folder; (path, class) in torchvision's order."""
    draw = np.random.default_rng(3)
    names = ["cat", "Dog", "owl"]
    for i in range(count):
        path = folder / names[i % 3] / ("more" if i % 5 == 4 else "") / (f"{i * 37 % 100:03}" + (".png", ".JPG", ".jpeg")[i % 3 if i % 2 else 0])
        path.parent.mkdir(parents=True, exist_ok=True)
        image = picture(draw, int(draw.integers(8, 90)), int(draw.integers(8, 90)))
        image.save(path, "PNG" if path.suffix == ".png" else "JPEG", **({} if path.suffix == ".png" else {"quality": 90}))
    (folder / "cat" / "notes.txt").write_text("no image")
    found = []
    for label, name in enumerate(sorted(names)):  # as torchvision.datasets.folder.make_dataset goes through them
        for root, _, files in sorted(os.walk(folder / name, followlinks=True)):
            found += [(pathlib.Path(root) / file, label) for file in sorted(files) if not file.endswith(".txt")]
    assert len(found) == count
    return found


def normalised(image, mean=MEAN, deviation=DEVIATION):
    """ToTensor and Normalize of torchvision: [C, H, W]."""
    pixels = np.asarray(image, "float32") / np.float32(255)
    return ((pixels.reshape(*pixels.shape[:2], -1) - mean) / deviation).transpose(2, 0, 1)


def run(command, code=0):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, f"exit code {done.returncode}: {done.stderr}"
    return done


def predicted(divisi, work, path, *flags, shape=(3, HEIGHT, WIDTH)):
    run([compile(divisi, work, shape=shape), "--data", f"image={path}", "--predict", f"pixels={work}/pixels.npy", "--quiet", "--threads", "1", *flags])
    return np.load(work / "pixels.npy")


def worst(got, want, deviation=DEVIATION):
    """The largest difference in steps of 1/255."""
    assert got.shape == want.shape, f"{got.shape} and {want.shape}"
    return float(np.abs((got - want) * np.reshape(deviation, (-1, 1, 1)) * 255).max())


def pixels(divisi, work):
    """The middle of images in folders, by each way of resizing and normalising."""
    files = write_folder(work / "train")
    images = [Image.open(path).convert("RGB") for path, _ in files]
    for flags, shorter in ([], None), (["--resize", 40], 40):
        got = predicted(divisi, work, work / "train", *flags)
        want = np.stack([normalised(image_draws.middle(image, WIDTH, HEIGHT, shorter)) for image in images])
        difference = worst(got, want)
        assert difference < 0.01, f"{flags}: {difference} of 1/255"
        yield f"{len(images)} images {' '.join(map(str, flags))}: {difference:.3f} of 1/255 from Pillow"
    got = predicted(divisi, work, f"{work}/train/", "--mean", "0.5,0.25,0", "--std", "0.5")
    want = np.stack([normalised(image_draws.middle(image, WIDTH, HEIGHT), np.float32([0.5, 0.25, 0]), np.float32([0.5])) for image in images])
    assert worst(got, want, [0.5]) < 0.01, "--mean and --std"
    yield "--mean and --std"
    got = predicted(divisi, work, work / "train", shape=(HEIGHT, WIDTH, 3))
    want = np.stack([normalised(image_draws.middle(image, WIDTH, HEIGHT)) for image in images]).transpose(0, 2, 3, 1)
    assert np.abs(got - want).max() < 1e-5, "channels last"
    yield "channels last"
    got = predicted(divisi, work, work / "train", shape=(1, HEIGHT, WIDTH))
    want = np.stack([normalised(image_draws.middle(image.convert("L"), WIDTH, HEIGHT), 0, 1) for image in images])
    assert worst(got, want, [1]) < 0.01, "gray"
    yield "gray"


def words(divisi, work, ranks, *flags):
    launcher = [divisi, "run", "--devices", str(ranks)] if ranks > 1 else []
    return [*launcher, compile(divisi, work, ranks), "--threads", "1", "--seed", SEED, "--quiet", *flags]


def train(divisi, work, ranks, *flags):
    """Losses by step, and of evaluations."""
    log = work / "log.jsonl"
    log.unlink(missing_ok=True)
    run(words(divisi, work, ranks, *flags, "--log", log))
    evaluations = [line for line in log.read_text().splitlines() if '"eval":true' in line]
    return losses(log), [line.partition('"loss":')[2].partition(",")[0] for line in evaluations]


def write_arrays(work, files, augment, epochs=2):
    """What is fed in some epochs, as .npy files, and all images in their order for an evaluation."""
    images = [Image.open(path).convert("RGB") for path, _ in files]
    order = [(e, i) for e in range(epochs) for i in image_draws.order(SEED, e, len(files))[: EPOCH * BATCH]]
    parts = [image_draws.augmented(images[i], WIDTH, HEIGHT, image_draws.Draws(SEED, e, i), *augment) for e, i in order]
    np.save(work / "image.npy", np.stack([normalised(part) for part in parts]))
    np.save(work / "label.npy", np.array([files[i][1] for _, i in order]))
    np.save(work / "image_eval.npy", np.stack([normalised(image_draws.middle(image, WIDTH, HEIGHT)) for image in images]))
    np.save(work / "label_eval.npy", np.array([label for _, label in files]))


def order(divisi, work):
    """Two epochs and an evaluation with an incomplete batch give the losses of .npy files, on any number of ranks."""
    files, alone = write_folder(work / "train"), {}
    for augment in [], ["--augment", "crop,flip"]:
        write_arrays(work, files, (bool(augment),) * 2)
        arrays = [w for n in ("image", "label") for w in ("--data", f"{n}={work}/{n}.npy", "--eval", f"{n}={work}/{n}_eval.npy")]
        folder = ["--data", f"image={work}/train", "--eval", f"image={work}/train/", "--eval-every", 2 * EPOCH, *augment]
        for ranks in LAYOUTS:
            got, evaluated = train(divisi, work, ranks, *folder, "--steps", 2 * EPOCH, "--workers", ranks)
            want, wanted = train(divisi, work, ranks, *arrays, "--no-shuffle", "--steps", 2 * EPOCH)
            assert len(want) == 2 * EPOCH and got == want, f"{ranks} ranks {augment}: losses {got} and of arrays {want}"
            assert len(wanted) == 1 and evaluated == wanted, f"{ranks} ranks: evaluation {evaluated} and of arrays {wanted}"
            first = alone.setdefault(len(augment), got)
            difference = max(abs(float(got[step]) / float(first[step]) - 1) for step in got)
            assert difference < 1e-5, f"{ranks} ranks differ from one by {difference}"
            yield f"{ranks} ranks {' '.join(augment)}: {2 * EPOCH} losses and an evaluation as of arrays; from one rank {difference:.1e}"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    p.add_argument("--only", default="")
    o = p.parse_args()
    chosen = [case for case in (pixels, order) if o.only in case.__name__]
    return cases.run(chosen, lambda case, work: case(o.divisi, work))


if __name__ == "__main__":
    sys.exit(main())
