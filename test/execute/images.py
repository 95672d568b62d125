#!/usr/bin/env python3
"""Training from folders and tar files of images: what Pillow gives, on 1, 2 and 4 ranks; killed and resumed; refused files.

    images.py --divisi PATH [--only CASE]

A model writes its pixels as a prediction, which are compared with Pillow's decoding, resizing and cropping, normalised in NumPy. The random parts
of an epoch are those of image_draws.py, an independent account of the program's random numbers. Needs NumPy, onnx and Pillow.
Ends with `N passed, N failed`.
"""

import argparse
import gzip
import io
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import time
import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper
from PIL import Image

import cases
import image_draws
import image_tars
from hangs import outcome
from image_files import picture, png, write_folder, write_kinds, write_shards
from ranks import losses, ranks_of

BATCH, HEIGHT, WIDTH, CLASSES, SEED = 4, 24, 32, 3, 7
MEAN, DEVIATION = np.array([0.485, 0.456, 0.406], "float32"), np.array([0.229, 0.224, 0.225], "float32")
LAYOUTS = {  # by their numbers of ranks
    "1": [],
    "2": ["--devices", "2", "--strategy", "data"],
    "4": ["--mesh", "data=2,model=2"],
    "2 in stages": ["--mesh", "stage=2", "--microbatches", "2"],
}
REFUSED_FLAGS = [
    (["--resize", "31"], "--resize 31: 'image' takes 32 x 24 pixels, which are more"),
    (["--mean", "0.5,0.5"], "--mean: 2 numbers, but 'image' has 3 channels"),
    (["--std", "0"], "--std: expected finite numbers above 0"),
    (["--augment", "crop,flop"], "--augment"),
]
COUNT = 26  # images of a training set: six batches, two left over
EPOCH = COUNT // BATCH


def make_model(path, shape, kind):
    """logits = relu(flat(pixels) W1) W2, with pixels = image * 1, whose factor trains, as an output. `kind` is the type of the image."""
    draw = np.random.default_rng(0)
    size = int(np.prod(shape))
    weights = {
        "scale": np.ones(1, "float32"),
        "w1": draw.normal(0, size**-0.5, (size, 16)).astype("float32"),
        "w2": draw.normal(0, 0.25, (16, CLASSES)).astype("float32"),
    }
    nodes = [
        helper.make_node("Cast", ["image"], ["cast"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["cast", "scale"], ["pixels"]),
        helper.make_node("Flatten", ["pixels"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w1"], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["active"]),
        helper.make_node("MatMul", ["active", "w2"], ["logits"]),
    ]
    graph = helper.make_graph(
        nodes,
        "images",
        [helper.make_tensor_value_info("image", kind, [BATCH, *shape])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [BATCH, CLASSES]), helper.make_tensor_value_info("pixels", TensorProto.FLOAT, [BATCH, *shape])],
        [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def compile(divisi, work, layout="1", shape=(3, HEIGHT, WIDTH), kind=TensorProto.FLOAT):
    program = work / f"program-{layout.replace(' ', '-')}-{'x'.join(map(str, shape))}-{kind}"
    if not program.exists():
        make_model(work / "model.onnx", shape, kind)
        flags = ["--loss", "cross_entropy", "--label", "label", "--output", "logits"]
        subprocess.run(
            [divisi, "compile", work / "model.onnx", "-o", program, "--optimizer", "sgd", "--lr", "0.01", "--predict", "pixels", *flags, *LAYOUTS[layout]], check=True, stderr=subprocess.DEVNULL
        )
    return program


def normalised(image, mean=MEAN, deviation=DEVIATION):
    """ToTensor and Normalize of torchvision: [C, H, W]."""
    pixels = np.asarray(image, "float32") / np.float32(255)
    return ((pixels.reshape(*pixels.shape[:2], -1) - mean) / deviation).transpose(2, 0, 1)


def run(command, code=0):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, f"exit code {done.returncode}: {done.stderr}"
    return done


def predicted(divisi, work, path, *flags, **form):
    run([compile(divisi, work, **form), "--data", f"image={path}", "--predict", f"pixels={work}/pixels.npy", "--quiet", "--threads", "1", *flags])
    return np.load(work / "pixels.npy")


def worst(got, want, deviation=DEVIATION):
    """The largest difference in steps of 1/255."""
    assert got.shape == want.shape, f"{got.shape} and {want.shape}"
    return float(np.abs((got - want) * np.reshape(deviation, (-1, 1, 1)) * 255).max())


def pixels(divisi, work):
    """The middle of images in folders, by each way of resizing and normalising."""
    files = write_folder(work / "train", COUNT)
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
    got = predicted(divisi, work, work / "train", shape=(HEIGHT, WIDTH))
    assert worst(got[:, None], want, [1]) < 0.01, "gray without channels"
    yield "gray without channels"
    got = predicted(divisi, work, work / "train", shape=(HEIGHT, WIDTH, 3), kind=TensorProto.UINT8)
    want = np.stack([np.asarray(image_draws.middle(image, WIDTH, HEIGHT)) for image in images])
    assert np.array_equal(got, want) and want.max() > 200, "whole numbers"
    yield "whole numbers"
    for kind in TensorProto.INT16, TensorProto.INT32, TensorProto.INT64:
        assert np.array_equal(predicted(divisi, work, work / "train", shape=(HEIGHT, WIDTH, 3), kind=kind), want), kind
    yield "whole numbers of 16, 32 and 64 bits"
    done = run([compile(divisi, work, shape=(HEIGHT, WIDTH, 3), kind=TensorProto.INT8), "--data", f"image={work}/train"], 1)
    assert "whole numbers that hold 0 to 255 (not I8 or BOOL), but the input takes I8 [" in done.stderr, done.stderr
    yield "int8 is refused"
    (work / "train" / ".cache").mkdir()
    (work / "train" / ".cache" / "notes.txt").write_text("a hidden folder without images is no class")
    path = next(path for path, _ in files if path.suffix == ".jpeg")
    path.rename(path.with_suffix(".jfif"))
    assert np.array_equal(predicted(divisi, work, work / "train", shape=(HEIGHT, WIDTH, 3), kind=TensorProto.UINT8), want), ".jfif, and a hidden folder"
    run([compile(divisi, work), "--data", f"image={work}/train", "--quiet"])
    yield ".jfif, and a hidden folder without images"


def words(divisi, work, layout, *flags):
    ranks = layout.split()[0]
    launcher = [divisi, "run", "--devices", ranks] if ranks != "1" else []
    return [*launcher, compile(divisi, work, layout), "--threads", "1", "--seed", SEED, "--quiet", *flags]


def train(divisi, work, layout, *flags):
    """Losses by step, and of evaluations."""
    log = work / "log.jsonl"
    log.unlink(missing_ok=True)
    run(words(divisi, work, layout, *flags, "--log", log))
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
    files, alone = write_folder(work / "train", COUNT), {}
    for augment in [], ["--augment", "crop,flip"]:
        write_arrays(work, files, (bool(augment),) * 2)
        arrays = [w for n in ("image", "label") for w in ("--data", f"{n}={work}/{n}.npy", "--eval", f"{n}={work}/{n}_eval.npy")]
        folder = ["--data", f"image={work}/train", "--eval", f"image={work}/train/", "--eval-every", 2 * EPOCH, *augment]
        for layout in LAYOUTS:
            got, evaluated = train(divisi, work, layout, *folder, "--steps", 2 * EPOCH, "--workers", layout[0])
            want, wanted = train(divisi, work, layout, *arrays, "--no-shuffle", "--steps", 2 * EPOCH)
            assert len(want) == 2 * EPOCH and got == want, f"{layout} ranks {augment}: losses {got} and of arrays {want}"
            assert len(wanted) == 1 and evaluated == wanted, f"{layout} ranks: evaluation {evaluated} and of arrays {wanted}"
            first = alone.setdefault(len(augment), got)
            difference = max(abs(float(got[step]) / float(first[step]) - 1) for step in got)
            assert difference < 1e-5, f"{layout} ranks differ from one by {difference}"
            yield f"{layout} ranks {' '.join(augment)}: {2 * EPOCH} losses and an evaluation as of arrays; from one rank {difference:.1e}"


def kinds(divisi, work):
    """Every kind of JPEG and PNG, in colour and in gray, from a folder without classes."""
    found = write_kinds(work / "kinds", WIDTH, HEIGHT)
    got = predicted(divisi, work, work / "kinds", "--mean", "0", "--std", "1")
    gray = predicted(divisi, work, work / "kinds", shape=(1, HEIGHT, WIDTH))
    for i, name in enumerate(sorted(found)):
        pixels, allowed = found[name]
        difference = worst(got[i], normalised(pixels, 0, 1), [1])
        assert difference < allowed + 0.01, f"{name}: {difference} of 1/255"
        luma = (pixels.astype("int64") @ [19595, 38470, 7471] + 0x8000) >> 16
        darker = worst(gray[i], normalised(luma, 0, 1), [1])
        assert darker < allowed + 0.01, f"{name} in gray: {darker} of 1/255"
        yield f"{name}: {difference:.2f} of 1/255, in gray {darker:.2f}"


def shards(divisi, work):
    """Tar files give the losses of the folder with the same images, named by a pattern, a range, or one by one."""
    files = write_folder(work / "train", COUNT)
    write_shards(work, files)
    flags = ["--augment", "crop,flip", "--steps", 2 * EPOCH, "--workers", 3]
    folder = ["--data", f"image={work}/train", "--eval", f"image={work}/train"]
    wanted = {layout: train(divisi, work, layout, *folder, *flags) for layout in ("1", "2")}
    for name in [f"{work}/train-*.tar"], [f"{work}/train-{{000..002}}.tar"], [f"{work}/train-{i:03}.tar" for i in range(3)]:
        named = [w for flag in ("--data", "--eval") for path in name for w in (flag, f"image={path}")]  # the latter half evaluates
        for layout, want in wanted.items():
            got = train(divisi, work, layout, *named, *flags)
            assert got == want and len(got[0]) == 2 * EPOCH, f"{name} on {layout} ranks: {got} and of the folder {want}"
        for layout, want in wanted.items():  # a folder's names of classes are nothing to the numbers of tar files
            got = train(divisi, work, layout, *folder[:2], *named[len(named) // 2:], *flags)
            assert got == want, f"trained on the folder, evaluated on {name} on {layout} ranks: {got} and of the folder {want}"
        yield f"{pathlib.Path(name[-1]).name}: {2 * EPOCH} losses and evaluations as of the folder, on 1 and 2 ranks"


def own_rows(divisi, work):
    """A rank decodes its own rows only: each sees a folder in which the other's images are damaged."""
    files = write_folder(work / "train", 4 * BATCH)
    for rank in range(2):
        shutil.copytree(work / "train", work / f"rank{rank}")
        for i, (path, _) in enumerate(files):
            if (i % BATCH < BATCH // 2) != (rank == 0):
                (work / f"rank{rank}" / path.relative_to(work / "train")).write_bytes(b"no image")
    program = compile(divisi, work, "2")
    script = work / "rank.sh"
    script.write_text(f'#!/bin/sh\nexec {program} --data image={work}/rank$RANK "$@"\n')
    script.chmod(0o755)
    flags = ["--threads", "1", "--no-shuffle", "--epochs", "1", "--quiet", "--augment", "flip"]
    run([divisi, "run", "--devices", "2", script, *flags])
    failed = run([divisi, "run", "--devices", "2", program, "--data", f"image={work}/rank0", *flags], 1)
    assert "is no JPEG or PNG image" in failed.stderr, failed.stderr
    return "two ranks train on folders that have only their own images"


def newest(folder):
    """The step of the newest complete checkpoint; 0 without one."""
    return max((int(path.name.removeprefix("step-")) for path in folder.glob("step-*")), default=0)


def resumed(divisi, work):
    """Killed after a checkpoint in the second epoch: the rest is as undisturbed, with the augmentation that the checkpoint names."""
    files = write_folder(work / "train", COUNT)
    data, augment = ["--data", f"image={work}/train"], ["--augment", "crop,flip", "--mean", "0.5", "--std", "0.25,0.5,1", "--resize", "32"]
    for ranks in ("1", "2"):
        folder, log = work / f"checkpoints{ranks}", work / "part.jsonl"
        keep = ["--checkpoint", folder, "--every", "3"]
        log.unlink(missing_ok=True)
        command = words(divisi, work, ranks, *data, *augment, "--epochs", "100000", *keep, "--log", log)
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        deadline = time.monotonic() + 60
        while newest(folder) <= EPOCH and time.monotonic() < deadline:
            time.sleep(0.001)
        for pid in [process.pid] if ranks == "1" else ranks_of(compile(divisi, work, ranks)):
            os.kill(pid, signal.SIGKILL)
        outcome(process, 60, "the job, of which ranks were killed,")
        before, last = losses(log), newest(folder)
        steps = last + EPOCH + 4
        whole, _ = train(divisi, work, ranks, *data, *augment, "--steps", steps, "--workers", 1)
        after, _ = train(divisi, work, ranks, *data, "--steps", steps, *keep, "--resume", "--workers", 4)
        assert last > EPOCH and list(after) == list(range(last + 1, steps + 1)), f"checkpoint {last}, resumed at {min(after, default=None)}"
        same = {**{step: loss for step, loss in before.items() if step <= last}, **after}
        assert same == whole, f"{same} and undisturbed {whole}"
        yield f"{ranks} ranks: killed after step {max(before)}, {len(after)} steps from step {last + 1} the same"
        evaluate = [*keep[:2], "--resume", "--eval-only", "--eval", f"image={work}/train"]
        _, kept = train(divisi, work, ranks, *evaluate)
        _, given = train(divisi, work, ranks, *evaluate, *augment[2:])
        _, others = train(divisi, work, ranks, *evaluate, "--mean", "0", "--std", "1", "--resize", WIDTH)
        assert len(kept) == 1 and kept == given != others, f"evaluation {kept}, with the flags of training {given}, with others {others}"
        yield f"{ranks} ranks: an evaluation alone has the images of training"
        images = [image_draws.middle(Image.open(path).convert("RGB"), WIDTH, HEIGHT, 32) for path, _ in files]
        np.save(work / "x.npy", np.stack([normalised(image, np.float32([0.5]), np.float32([0.25, 0.5, 1])) for image in images]))
        np.save(work / "y.npy", np.array([label for _, label in files]))
        arrays = [f"image={work}/x.npy", f"label={work}/y.npy"]
        _, fed = train(divisi, work, ranks, *evaluate[:4], *(w for array in arrays for w in ("--eval", array)))
        assert fed == kept, f"evaluation of arrays {fed}, of images {kept}"
        run(words(divisi, work, ranks, *keep[:2], "--resume", "--data", arrays[0], "--predict", work / "pixels.npy"))
        more, _ = train(divisi, work, ranks, *keep, "--resume", "--steps", steps + 2, *(w for array in arrays for w in ("--data", array)))
        assert list(more) == [steps + 1, steps + 2], more
        yield f"{ranks} ranks: flags of images that the checkpoint keeps are no obstacle for arrays"


def refused(divisi, work):
    """One line names what is wrong, on one rank and on two."""
    files = write_folder(work / "train", COUNT)
    whole = {path.suffix: path.read_bytes() for path, _ in files}

    def folder(name, contents=None, file="cat/new.png"):
        shutil.copytree(work / "train", work / name)
        (work / name / file).parent.mkdir(exist_ok=True)
        if contents is not None:
            (work / name / file).write_bytes(contents)
        return f"{work}/{name}"

    def shard(name, members, cut=None):
        with tarfile.open(work / name, "w") as tar:
            for member, data in members.items():
                info = tarfile.TarInfo(member)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
        if cut:
            os.truncate(work / name, cut)
        return f"{work}/{name}"

    small = png(2, 2, 8, 2, lambda line: bytes(3 * len(line)))
    header = b"IHDR" + struct.pack(">II", 60000, 60000) + small[24:29]
    huge = small[:12] + header + struct.pack(">I", zlib.crc32(header)) + small[33:]
    progressive = io.BytesIO()
    picture(np.random.default_rng(0), 16, 16, "CMYK").save(progressive, "JPEG", progressive=True)
    frame = progressive.getvalue().index(b"\xff\xc2") + 5  # its height and width
    progressive = progressive.getvalue()[:frame] + struct.pack(">HH", 13300, 13300) + progressive.getvalue()[frame + 4 :]
    labelled = {f"{i}.{kind}": data for i in range(BATCH) for kind, data in (("png", whole[".png"]), ("cls", b"1"))}
    messages = {
        folder("cut-jpeg", whole[".JPG"][:-300], "cat/new.jpg"): "cut-jpeg/cat/new.jpg' is truncated",
        folder("cut-png", whole[".png"][:-300]): "cut-png/cat/new.png' is truncated",
        folder("empty-file", b""): "new.png' is no JPEG or PNG image; it looks like an empty file",
        folder("text", b"no image"): "new.png' is no JPEG or PNG image",
        folder("huge", huge): "new.png' has 60000 x 60000 pixels; images have from 1 to 178956970",
        folder("webp", b"", "cat/new.webp"): "new.webp' is neither a JPEG nor a PNG image: convert it, or remove it",
        folder("progressive", progressive, "cat/new.jpg"): "new.jpg' needs more than 512 MiB to be decoded: save it as a baseline JPEG",
        folder("avif", b"", "cat/new.avif"): "new.avif' is neither a JPEG nor a PNG image: convert it, or remove it",
        folder("beside", whole[".png"], "top.png"): "beside/top.png' lies beside folders of classes such as 'Dog': move it into one of them, or remove it",
        folder("webp-beside", b"", "top.webp"): "webp-beside/top.webp' lies beside folders of classes",
        folder("hidden", whole[".png"], ".thumbs/1.png"): "hidden/.thumbs/1.png' lies in a hidden folder: move it, or remove it",
        folder("hidden-within", whole[".png"], "cat/.thumbs/1.png"): "hidden-within/cat/.thumbs/1.png' lies in a hidden folder",
        broken_link(folder("no-class"), "a-class"): "no-class/a-class' is a symbolic link to what is not there: repair it, or remove it",
        broken_link(folder("no-image"), "cat/1.png"): "no-image/cat/1.png' is a symbolic link to what is not there",
        broken_link(folder("loop"), "a-class", "a-class"): "cannot read '",
        folder("empty-class", None, "other/none"): "empty-class/other' has no .jpg, .jpeg or .png images",
        folder("class", whole[".png"], "other/new.png"): "has 4 folders of classes, but the input takes",
        f"{work}/train/owl/more": "has no folders of classes: give the labels as label=FILE.npy",
        f"{work}/none.tar": "cannot open",
        shard("no-label.tar", {**labelled, "x.png": whole[".png"]}): "no-label.tar:x.png' has no label",
        shard("wrong-label.tar", {**labelled, "x.png": whole[".png"], "x.cls": b"cat"}): "wrong-label.tar' has the label 'cat' in 'x.cls', which is no whole number",
        shard("large-label.tar", {**labelled, "x.png": whole[".png"], "x.cls": b"3"}): "large-label.tar:x.png' has the label 3, but input 'label' takes",
        shard("cut.tar", labelled, 1024 + len(whole[".png"]) // 2): "cut.tar' is truncated",
        shard("nothing.tar", {"x.txt": b""}): "nothing.tar' has no images",
    }
    (work / "packed.tar").write_bytes(gzip.compress(pathlib.Path(f"{work}/cut.tar").read_bytes()))
    messages[f"{work}/packed.tar"] = "packed.tar' is no tar file; it looks like"
    for path, message in messages.items():
        for ranks in ("1", "2") if "cut" in path else ("1",):
            done = run(words(divisi, work, ranks, "--data", f"image={path}", "--epochs", "2"), 1)
            lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
            assert len(lines) == 1 and message in lines[0], f"{path} on {ranks} ranks: {done.stderr}"
        yield message
    for flags, message in REFUSED_FLAGS:
        done = run(words(divisi, work, "1", "--data", f"image={work}/train", *flags), 2)
        assert done.stderr.startswith("error: " + message), done.stderr
        yield message
    np.save(work / "image.npy", np.zeros((BATCH, 3, HEIGHT, WIDTH), "float32"))
    np.save(work / "label.npy", np.zeros(BATCH, "int64"))
    arrays = ["--data", f"image={work}/image.npy", "--data", f"label={work}/label.npy"]
    done = run(words(divisi, work, "1", *arrays, "--augment", "flip"), 2)
    assert "are for images, and no file of --data or --eval has any" in done.stderr, done.stderr
    yield "--augment without images"


def broken_link(folder, name, to="nowhere"):
    os.symlink(to, f"{folder}/{name}")
    return folder


def tars(divisi, work):
    """No sample of a tar file vanishes: each is read, or the file is refused with the member's name and the remedy."""
    images = [picture(np.random.default_rng(i), WIDTH, HEIGHT) for i in range(6)]
    want = np.stack([normalised(image) for image in images])
    for name, (data, message) in image_tars.files(images).items():
        path = work / f"{name}.tar"
        path.write_bytes(data)
        if message:
            (work / "pixels.npy").unlink(missing_ok=True)
            done = run([compile(divisi, work), "--data", f"image={path}", "--data", f"label={path}", "--no-shuffle", "--quiet", "--threads", "1"], 1)
            assert done.stderr.startswith(f"error: --data image: '{path}' {message}") or f"'{path}:{message}" in done.stderr, f"{name}: {done.stderr}"
        else:
            assert worst(predicted(divisi, work, path), want) < 0.01, name
            run([compile(divisi, work), "--data", f"image={path}", "--quiet", "--threads", "1"])
        yield f"{name}: {message or 'all samples'}"


def classes(divisi, work):
    """Labels are those of training's folders by name, in evaluations of a part of them and after a resume; other names are refused."""
    files = write_folder(work / "train", COUNT)
    for name in "part", "renamed":
        shutil.copytree(work / "train", work / name)
    shutil.rmtree(work / "part" / "Dog")  # the first class: labels of all others would change
    (work / "renamed" / "owl").rename(work / "renamed" / "eagle")
    part = [(path, label) for path, label in files if label > 0]
    np.save(work / "labels.npy", np.array([label for _, label in part]))
    np.save(work / "all.npy", np.array([label for _, label in files]))
    data, keep = ["--data", f"image={work}/train", "--steps", "3"], ["--checkpoint", work / "checkpoints", "--resume"]
    folder, given = ["--eval", f"image={work}/part"], ["--eval", f"image={work}/part", "--eval", f"label={work}/labels.npy"]
    _, named = train(divisi, work, "1", *data, *folder)
    _, numbered = train(divisi, work, "1", *data, *given)
    assert named and named == numbered, f"evaluation of a part {named}, with labels as a file {numbered}"
    yield "a part of the classes for --eval"
    train(divisi, work, "1", *data, *keep[:2])
    _, named = train(divisi, work, "1", *folder, *keep, "--eval-only")
    _, numbered = train(divisi, work, "1", *given, *keep, "--eval-only")
    assert named == numbered and len(named) == 1, f"evaluation alone of a part {named}, with labels as a file {numbered}"
    yield "a part of the classes for an evaluation of a checkpoint"
    renamed, other = f"image={work}/renamed", f"'{work}/renamed' has folders of classes that training did not have: 'eagle'; rename or remove them"
    for flags, message in (
        ([*data, "--eval", renamed], f"--eval: {other}"),
        (["--eval", renamed, *keep, "--eval-only"], f"--eval: {other}"),
        (["--data", renamed, "--steps", "4", *keep], "--resume: step-3 was trained on other classes than --data has: without 'owl', with 'eagle'; the labels are their numbers"),
    ):
        done = run(words(divisi, work, "1", *flags), 1)
        assert done.stderr.startswith("error: " + message), done.stderr
        yield message
    train(divisi, work, "1", "--data", renamed, "--data", f"label={work}/all.npy", "--steps", "4", *keep)
    yield "labels of a file have no names of classes"


def two_labels(divisi, work):
    """Two inputs of labels from different folders: the classes of each are kept, and evaluations number each as training did."""
    draw, hidden, names = np.random.default_rng(0), 3 * HEIGHT * WIDTH, ("first", "second")
    weights = {name: draw.normal(0, 0.02, (hidden, CLASSES)).astype("float32") for name in names}
    nodes = [helper.make_node("Flatten", ["image"], ["flat"])]
    for name in names:
        nodes += [helper.make_node("MatMul", ["flat", name], [f"{name}_logits"]), helper.make_node("SoftmaxCrossEntropyLoss", [f"{name}_logits", f"{name}_label"], [f"{name}_loss"])]
    nodes.append(helper.make_node("Add", [f"{name}_loss" for name in names], ["loss"]))
    inputs = [helper.make_tensor_value_info("image", TensorProto.FLOAT, [BATCH, 3, HEIGHT, WIDTH])]
    inputs += [helper.make_tensor_value_info(f"{name}_label", TensorProto.INT64, [BATCH]) for name in names]
    graph = helper.make_graph(nodes, "two", inputs, [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])], [onnx.numpy_helper.from_array(v, n) for n, v in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), work / "two.onnx")
    run([divisi, "compile", work / "two.onnx", "-o", work / "two", "--optimizer", "sgd", "--lr", "0.01"])
    for folder, classes in ("first", "abc"), ("second", "xyz"):
        for i in range(12):
            place = work / folder / classes[i % 3]
            place.mkdir(parents=True, exist_ok=True)
            picture(draw, WIDTH, HEIGHT).save(place / f"{i}.png")
        shutil.copytree(work / folder, work / f"{folder}-renamed")
        (work / f"{folder}-renamed" / classes[1]).rename(work / f"{folder}-renamed" / f"{classes[1]}2")

    def data(flag, first="first", second="second"):
        return [w for pair in (f"image={work}/first", f"first_label={work}/{first}", f"second_label={work}/{second}") for w in (flag, pair)]

    keep, program = ["--checkpoint", work / "kept"], [work / "two", "--quiet", "--threads", 1]
    run([*program, *data("--data"), "--steps", 2, *keep])
    for given in ({"first": "first-renamed"}, {"second": "second-renamed"}):
        which, old = next(iter(given)), {"first": "b", "second": "y"}[next(iter(given))]
        done = run([*program, *data("--data", **given), "--steps", 4, *keep, "--resume"], 1)
        assert f"of '{which}_label': without '{old}', with '{old}2'" in done.stderr, done.stderr
        done = run([*program, *data("--eval", **given), *keep, "--resume", "--eval-only"], 1)
        assert f"'{work}/{which}-renamed' has folders of classes that training did not have: '{old}2'" in done.stderr, done.stderr
        yield f"{which}: {done.stderr.strip()}"
    run([*program, *data("--data"), "--steps", 4, *keep, "--resume"])
    yield "the same folders are resumed"


def texts(side):
    """A PNG file with 60 compressed texts of 7 MiB."""
    image = png(side, side, 8, 2, lambda line: bytes(3 * len(line)))
    text = b"zTXt" + b"a\0\0" + zlib.compress(bytes(7 << 20), 9)
    return image[:33] + 60 * (struct.pack(">I", len(text) - 4) + text + struct.pack(">I", zlib.crc32(text))) + image[33:]


def memory(divisi, work):
    """Images do not stay in the process: 1000 of 192 KiB as fed, of which ten batches are in flight at most."""
    side, count = 128, 1000
    program = compile(divisi, work, shape=(3, side, side))

    def peak(folder):
        return cases.peak_memory([program, "--data", f"image={folder}", "--quiet", "--threads", "1", "--workers", "2", "--epochs", "1"])

    for name, images in ("few", 8), ("many", count):
        (work / name / "class").mkdir(parents=True)
        picture(np.random.default_rng(0), side, side).save(work / name / "class" / "0.jpg")
        for i in range(1, images):
            os.link(work / name / "class" / "0.jpg", work / name / "class" / f"{i}.jpg")
    (work / "texts" / "class").mkdir(parents=True)
    for i in range(8):
        (work / "texts" / "class" / f"{i}.png").write_bytes(texts(side))
    (work / "declared").mkdir()
    (work / "declared" / "0.png").write_bytes(texts(side)[:33] + struct.pack(">I", 0x7FFFFFFF) + b"tEXtabc")
    declared = cases.peak_memory([program, "--data", f"image={work}/declared", "--predict", work / "pixels.npy", "--quiet", "--workers", "1"], 1)
    few, many, packed = peak(work / "few"), peak(work / "many"), peak(work / "texts")
    assert packed - few < 40, f"peak memory {packed:.0f} MiB for texts that are 420 MiB unpacked, with 8 images {few:.0f} MiB"
    assert declared - few < 40, f"peak memory {declared:.0f} MiB for a chunk of 2 GiB that is not there, with 8 images {few:.0f} MiB"
    yield f"peak memory {declared:.0f} MiB for a chunk of 2 GiB that is not there"
    yield f"peak memory {packed:.0f} MiB for texts that are 420 MiB unpacked"
    assert many - few < 40, f"peak memory {many:.0f} MiB, with 8 images {few:.0f} MiB"
    yield f"peak memory {many:.0f} MiB, with 8 images {few:.0f} MiB"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    p.add_argument("--only", default="")
    o = p.parse_args()
    chosen = [case for case in (pixels, kinds, order, shards, own_rows, resumed, refused, tars, classes, two_labels, memory) if o.only in case.__name__]
    return cases.run(chosen, lambda case, work: case(o.divisi, work))


if __name__ == "__main__":
    sys.exit(main())
