#!/usr/bin/env python3
"""The metrics of evaluations against scikit-learn's formulas in NumPy, over a whole set, however the program is split.

    metrics.py --divisi PATH [--only stages] [--jobs N] [--sklearn]

A perceptron on 29 samples in batches of 16, some of whose labels are ignored: accuracy, top2, top3, perplexity, f1, iou and auc of classes, with and
without label smoothing; mae of numbers. Weights are as saved. Tolerance: 1e-5. --sklearn compares the formulas here with scikit-learn itself instead. Needs numpy; ends with `N passed, N failed`.
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
    "classes": "--loss cross_entropy --metric top2 --metric perplexity --metric top3 --metric f1 --metric iou --metric auc",
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
    """As sklearn.metrics: accuracy_score, top_k_accuracy_score, exp of log_loss, f1_score and jaccard_score (macro), roc_auc_score (one class against the rest), of the labels that count."""
    scores, label = scores[label >= 0], label[label >= 0]
    logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    order = np.argsort(-scores, 1, kind="stable")
    found = {f"top{k}": (order[:, :k] == label[:, None]).any(1).mean() for k in (2, 3)}
    chosen, overlaps, areas = order[:, 0], [], []
    for c in range(scores.shape[1]):
        both, either = ((chosen == c) & (label == c)).sum(), ((chosen == c) | (label == c)).sum()
        if either:
            overlaps.append((2 * both / (both + either), both / either))
        if 0 < (label == c).sum() < len(label):  # of all pairs of a sample of the class and another
            own, other = (np.exp(logs[rows, c])[:, None] for rows in (label == c, label != c))
            areas.append(((own > other.T) + 0.5 * (own == other.T)).mean())
    found |= {"f1": np.mean(overlaps, 0)[0], "iou": np.mean(overlaps, 0)[1], "auc": np.mean(areas)}
    return found | {"accuracy": (order[:, 0] == label).mean(), "perplexity": np.exp(-logs[np.arange(len(label)), label].mean())}


def beside_sklearn(seed):
    """The formulas on scores with ties, and labels that lack a class now and then."""
    import warnings

    import sklearn.metrics as sk

    draw = np.random.default_rng(seed)
    classes, rows = 3 + seed % 3, 40
    scores, label = draw.integers(-3, 4, (rows, classes)) / 2.0, draw.integers(0, classes, rows)
    scores[np.arange(rows), label] += draw.random(rows) < 0.4
    found, logs = of_classes(scores, label), scores - np.log(np.exp(scores).sum(1, keepdims=True))
    chosen, unique = np.argsort(-scores, 1, kind="stable")[:, 0], scores - 1e-9 * np.arange(classes)  # scikit-learn takes the last of equal scores
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = {
            "accuracy": sk.accuracy_score(label, chosen),
            "perplexity": np.exp(sk.log_loss(label, np.exp(logs), labels=range(classes))),
            "f1": sk.f1_score(label, chosen, average="macro"),
            "iou": sk.jaccard_score(label, chosen, average="macro"),
            "auc": sk.roc_auc_score(label, np.exp(logs), average="macro", multi_class="ovr"),
            **{f"top{k}": sk.top_k_accuracy_score(label, unique, k=k, labels=range(classes)) for k in (2, 3)},
        }
    for name, value in want.items():
        yield abs(found[name] - value) < 1e-12, f"{name} {found[name]}, scikit-learn {value}"


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
        if name not in got and name in ("top3", "f1", "iou", "auc") and name not in LOSSES[kind]:
            continue
        yield abs(got[name] - value) <= TOLERANCE * abs(value), f"{name} {got[name]:.6g}, expected {value:.6g}"


def main():
    p = lines.parser(__doc__.splitlines()[0])
    p.add_argument("--sklearn", action="store_true", help="compare the formulas with scikit-learn")
    o = p.parse_args()
    if o.sklearn:
        return lines.run([(f"draw {seed}", lambda folder, seed=seed: beside_sklearn(seed)) for seed in range(20)], o)
    tests = [(f"{kind}, {way}", lambda folder, kind=kind, way=way: check(o.divisi, folder, kind, way)) for kind in LOSSES for way in WAYS]
    return lines.run(tests, o)


if __name__ == "__main__":
    sys.exit(main())
