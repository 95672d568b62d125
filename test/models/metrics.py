#!/usr/bin/env python3
"""The metrics of evaluations against scikit-learn's formulas in NumPy, over a whole set, however the program is split.

    metrics.py --divisi PATH [--only stages] [--jobs N]

A perceptron on 29 samples in batches of 16, some of whose labels are ignored: accuracy, top2, top3 and perplexity of classes, with and
without label smoothing; mae of numbers. Weights are as saved. Tolerance: 1e-5. Needs numpy; ends with `N passed, N failed`.
"""

import json
import pathlib
import sys

import numpy as np

import lines
from optimizers import read_weights

CASE = pathlib.Path(__file__).resolve().parent / "mlp_no_loss"
SAMPLES, TOLERANCE = 29, 1e-5
WAYS = {
    "one device": "",
    "data=2": "--mesh data=2",
    "model=2": "--mesh model=2",
    "data=2,model=2": "--mesh data=2,model=2 --zero 1",
    "stages": "--mesh stage=2 --microbatches 2",
    "microbatches": "--microbatches 4",
}
LOSSES = {
    "classes": "--loss cross_entropy --metric top2 --metric perplexity --metric top3",
    "smoothed classes": "--loss cross_entropy --label-smoothing 0.2 --metric top2",
    "numbers": "--loss huber --metric mae",
}


def forward(weights, x):
    layers = sorted({name.rsplit(".", 1)[0] for name in weights})
    for layer in layers:
        x = x @ weights[layer + ".weight"].T.astype(float) + weights[layer + ".bias"]
        x = np.maximum(x, 0) if layer != layers[-1] else x
    return x


def of_classes(scores, label):
    """As sklearn.metrics: accuracy_score, top_k_accuracy_score, and exp of log_loss, of the labels that count."""
    scores, label = scores[label >= 0], label[label >= 0]
    logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    order = np.argsort(-scores, 1, kind="stable")
    found = {f"top{k}": (order[:, :k] == label[:, None]).any(1).mean() for k in (2, 3)}
    return found | {"accuracy": (order[:, 0] == label).mean(), "perplexity": np.exp(-logs[np.arange(len(label)), label].mean())}


def check(divisi, folder, kind, way):
    draw = np.random.default_rng(5)
    shape = json.loads((CASE / "reference.json").read_text())["inputs"]["x"]["shape"]
    x = draw.normal(size=(SAMPLES, *shape[1:])).astype("float32") * 2
    lines.call(divisi, "compile", CASE / "model.onnx", "-o", folder / "model", "--label", "label", "--lr", "0", *LOSSES[kind].split(), *WAYS[way].split())
    weights = read_weights(folder / "model.safetensors")
    scores = forward(weights, x.astype(float))
    if kind == "numbers":
        label = (scores + draw.normal(size=scores.shape)).astype("float32")
        want = {"mae": abs(scores - label).mean()}
    else:
        label = np.where(draw.random(SAMPLES) < 0.2, -100, draw.integers(0, scores.shape[1], SAMPLES))
        want = of_classes(scores, label)
    np.save(folder / "x.npy", x)
    np.save(folder / "label.npy", label)
    data = [w for flag in ("--data", "--eval") for name in ("x", "label") for w in (flag, f"{name}={folder}/{name}.npy")]
    start = [divisi, "run", "--devices", str(np.prod([int(part[-1]) for part in WAYS[way].split()[1].split(",")]))] if "--mesh" in WAYS[way] else []
    said = lines.call(*start, folder / "model", *data, "--steps", "1", "--threads", "1", "--log", folder / "log")
    got = json.loads((folder / "log").read_text().splitlines()[-1])
    assert got["eval"] and f" mae {got['mae']:.9g}" in said if kind == "numbers" else f" top2 {got['top2']:.9g}" in said, said
    for name, value in want.items():
        if name not in got and name == "top3" and "top3" not in LOSSES[kind]:
            continue
        yield abs(got[name] - value) <= TOLERANCE * abs(value), f"{name} {got[name]:.6g}, expected {value:.6g}"


def main():
    o = lines.parser(__doc__.splitlines()[0]).parse_args()
    tests = [(f"{kind}, {way}", lambda folder, kind=kind, way=way: check(o.divisi, folder, kind, way)) for kind in LOSSES for way in WAYS]
    return lines.run(tests, o)


if __name__ == "__main__":
    sys.exit(main())
