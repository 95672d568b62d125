#!/usr/bin/env python3
"""VGG-16 for small images on 16 ranks as PipeDream divides it, in 9, 5, 1 and 1 replicas, beside PyTorch in float64.

    vgg_pipedream.py --divisi PATH

The replicas take minibatches in turn. Every loss is compared with a sequential reference that applies exactly the staleness of the
definition (docs/pipelines.md): PyTorch computes each minibatch's gradients with the versions of the stages' weights that it meets.
Ends with `N passed, N failed`. Needs PyTorch and torchvision.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    import torchvision
except ImportError:
    print("0 passed, 0 failed (PyTorch and torchvision are missing)")
    sys.exit(0)

REPLICAS = (9, 5, 1, 1)  # arXiv 1806.03377, table 1, for 16 machines
CUTS = ("features.14", "classifier.0", "classifier.3")  # the first layers of the stages from 1 on
BATCH, STEPS, RATE, MOMENTUM = 4, 48, 0.003, 0.9  # at larger rates the rounding of a value near a kink of relu grows
TOLERANCE = 1e-5


def make_model():
    torch.manual_seed(1)
    model = torchvision.models.vgg16(num_classes=10, dropout=0.0)
    model.avgpool = torch.nn.Identity()  # small images have one position left
    model.classifier[0] = torch.nn.Linear(512, 4096)
    return model.train()


def stage_of(name):
    """The stage of a parameter: features come before the classifier, and layers are in order."""
    place = lambda layer: (layer.startswith("classifier"), int(layer.split(".")[1]))
    return sum(place(name) >= place(cut) for cut in CUTS)


def lag(stage, replicas):
    """Minibatches that enter a stage between the forward and the backward pass of one."""
    return sum(replicas[stage:]) - 1


def reference(images, labels, replicas):
    """The losses. With one replica of one stage: those of synchronous training."""
    model = make_model().double()
    names = [name for name, _ in model.named_parameters()]
    stages = {name: min(stage_of(name), len(replicas) - 1) for name in names}
    versions = [[{n: p.detach() for n, p in model.named_parameters() if stages[n] == s}] for s in range(len(replicas))]
    speeds = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    rounds, losses = [[] for _ in replicas], []
    for step in range(STEPS):
        met = {}
        for stage, count in enumerate(replicas):
            met |= versions[stage][max(0, step - lag(stage, replicas)) // count]
        met = {name: met[name].clone().requires_grad_() for name in names}
        rows = slice(step * BATCH, (step + 1) * BATCH)
        logits = torch.func.functional_call(model, met, torch.from_numpy(images[rows]).double())
        loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels[rows]))
        losses.append(loss.item())
        gradients = dict(zip(names, torch.autograd.grad(loss, [met[name] for name in names])))
        for stage, count in enumerate(replicas):
            rounds[stage].append({name: gradients[name] for name in versions[stage][-1]})
            if len(rounds[stage]) < count:
                continue
            renewed = {}
            for name, now in versions[stage][-1].items():
                speeds[name] = MOMENTUM * speeds[name] + sum(part[name] for part in rounds[stage]) / count
                renewed[name] = now - RATE * speeds[name]
            versions[stage].append(renewed)
            rounds[stage] = []
            for old in range(max(0, step - lag(stage, replicas)) // count):  # is never met again
                versions[stage][old] = dict.fromkeys(versions[stage][-1])
    return np.array(losses)


def call(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stderr}")


def program(divisi, folder, images, labels):
    """The losses of the program."""
    torch.onnx.export(make_model(), (torch.from_numpy(images[:BATCH]),), folder / "vgg.onnx", dynamo=False, input_names=["image"], output_names=["logits"],
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)  # fmt: skip
    np.save(folder / "x.npy", images)
    np.save(folder / "y.npy", labels)
    kinds = {"features": "Conv", "classifier": "Gemm"}
    cuts = [f"--cut=/{cut.split('.')[0]}/{cut}/{kinds[cut.split('.')[0]]}" for cut in CUTS]
    call(divisi, "compile", folder / "vgg.onnx", "-o", folder / "vgg", "--loss", "cross_entropy", "--label", "label", "--lr", RATE, "--momentum", MOMENTUM,
         "--mesh", f"stage={len(REPLICAS)}", "--round-robin", ",".join(map(str, REPLICAS)), "--schedule", "pipedream", *cuts)  # fmt: skip
    call(divisi, "run", folder / "vgg", f"--data=image={folder / 'x.npy'}", f"--data=label={folder / 'y.npy'}", "--no-shuffle", "--quiet", "--threads", 1,
         "--steps", STEPS, "--log", folder / "log.jsonl")  # fmt: skip
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return np.array([row["loss"] for row in rows if "step" in row and "eval" not in row])


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True, type=lambda path: pathlib.Path(path).resolve(), help="the compiler's command-line program")
    o = p.parse_args()
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 10, BATCH * STEPS)
    images = (rng.normal(0, 1, (BATCH * STEPS, 3, 32, 32)) + rng.normal(0, 1, (10, 3, 1, 1))[labels]).astype(np.float32)
    expected, synchronous = reference(images, labels, REPLICAS), reference(images, labels, (1,))
    with tempfile.TemporaryDirectory() as folder:
        losses = program(o.divisi, pathlib.Path(folder), images, labels)
    good = len(losses) == STEPS
    error = np.max(np.abs(losses - expected) / expected) if good else np.nan
    differs = np.max(np.abs(synchronous - expected) / expected)
    good &= bool(error < TOLERANCE < differs / 10)
    print(f"{'ok  ' if good else 'FAIL'} VGG-16 as {'-'.join(map(str, REPLICAS))}: {len(losses)} losses, error {error:.1e} (synchronous training differs by {differs:.1e})")
    print(f"{int(good)} passed, {int(not good)} failed")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
