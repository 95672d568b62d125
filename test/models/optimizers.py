#!/usr/bin/env python3
"""Every optimizer, alone and under plans, against NumPy: losses of 12 steps and all weights after them.

    optimizers.py --divisi PATH [--only lamb] [--jobs N] [--quick] [--torch]

Trains the model of mlp, whose forward and backward pass stand below. Tolerances: 1e-5 of a loss, 1e-5 of the norm of a tensor.
--quick has each optimizer and constant on one device and by two ways of the other five in turn. --torch compares the rules in optimizer_rules.py with torch.optim instead, and those that PyTorch lacks with timm.optim, if it is installed. Needs numpy and onnx; ends with
`N passed, N failed`.
"""

import json
import pathlib
import sys
import unittest.mock

import numpy as np
import onnx

import lines
from optimizer_rules import RULES

CASE = pathlib.Path(__file__).resolve().parent / "mlp"
BATCH, STEPS, TOLERANCE = 12, 12, 1e-5
WAYS = {  # of a plan; flags
    "one device": "",
    "data=2": "--mesh data=2",
    "model=2": "--mesh model=2",
    "zero 3": "--mesh data=2 --zero 3",
    "data=2,model=2, zero 1": "--mesh data=2,model=2 --zero 1",
    "stages": "--mesh stage=2 --microbatches 2",
}
NO_BIAS, SLOW_FIRST = ["*.bias"], {"fc.0.*": 0.25, "fc.2.bias": 3}
RUNS = [  # optimizer, constants, patterns without decay, factors of the learning rate
    ("adagrad", {"lr": 0.05}, [], {}),
    ("adagrad", {"lr": 0.05, "weight_decay": 0.1, "eps": 1e-3}, NO_BIAS, SLOW_FIRST),
    ("rmsprop", {"lr": 0.003}, [], {}),
    ("rmsprop", {"lr": 0.002, "alpha": 0.9, "momentum": 0.5, "centered": True, "weight_decay": 0.1}, NO_BIAS, {}),
    ("lion", {"lr": 0.003}, [], {}),
    ("lion", {"lr": 0.003, "beta1": 0.8, "beta2": 0.95, "weight_decay": 0.5}, NO_BIAS, SLOW_FIRST),
    ("lamb", {"lr": 0.03}, [], {}),
    ("lamb", {"lr": 0.03, "weight_decay": 0.1}, NO_BIAS, SLOW_FIRST),
    ("lars", {"lr": 0.5, "trust_coefficient": 0.1}, [], {}),
    ("lars", {"lr": 0.5, "trust_coefficient": 0.05, "momentum": 0.9, "weight_decay": 0.1}, NO_BIAS, SLOW_FIRST),
    ("adafactor", {"lr": 0.05}, [], {}),
    ("adafactor", {"lr": 0.3, "beta2_decay": 0.5, "eps": 1e-2, "weight_decay": 0.1}, NO_BIAS, SLOW_FIRST),
    ("muon", {"lr": 0.01}, [], {}),
    ("muon", {"lr": 0.01, "momentum": 0.8, "match_rms": True, "weight_decay": 0.1}, NO_BIAS, SLOW_FIRST),
    ("muon", {"lr": 0.01, "adamw": "fc.0.*"}, [], {}),
    ("sgd", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}, NO_BIAS, SLOW_FIRST),
    ("adam", {"lr": 0.005, "weight_decay": 0.1}, NO_BIAS, SLOW_FIRST),
    ("adamw", {"lr": 0.005, "weight_decay": 0.5}, NO_BIAS, SLOW_FIRST),
]


def read_weights(path):
    """The tensors of a safetensors file, all in f32."""
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    tensors = {}
    for name, entry in json.loads(raw[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            tensors[name] = np.frombuffer(raw[8 + size + begin:8 + size + end], "<f4").reshape(entry["shape"])
    return tensors


RELU = (lambda y: np.maximum(y, 0), lambda out: out > 0)  # a function, and its derivative from what it gives
TANH = (np.tanh, lambda out: 1 - out * out)


def write_smooth(path):
    """The model with tanh in place of relu, for runs whose order is free: now and then one comes so close to a kink that rounding decides on a gradient."""
    model = onnx.load(CASE / "model.onnx")
    for node in model.graph.node:
        node.op_type = {"Relu": "Tanh"}.get(node.op_type, node.op_type)
    onnx.save(model, path)
    return path


def differentiate(weights, x, label, activation=RELU):
    """The loss of a batch and its gradients: three linear layers, an activation between them, cross-entropy."""
    layers = sorted({name.rsplit(".", 1)[0] for name in weights})
    inputs = [x]
    for i, layer in enumerate(layers):
        y = inputs[-1] @ weights[layer + ".weight"].T + weights[layer + ".bias"]
        inputs.append(activation[0](y) if i + 1 < len(layers) else y)
    logits = inputs.pop()
    logits = logits - logits.max(1, keepdims=True)
    log = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    rows = np.arange(len(label))
    slope, gradients = np.exp(log), {}
    slope[rows, label] -= 1
    slope /= len(label)
    for layer, given in zip(reversed(layers), reversed(inputs)):
        gradients[layer + ".weight"], gradients[layer + ".bias"] = slope.T @ given, slope.sum(0)
        slope = (slope @ weights[layer + ".weight"]) * activation[1](given)
    return -log[rows, label].mean(), gradients


def matches(pattern, name):
    """Whether a name matches; the patterns here have a * at an end, or none."""
    if pattern.startswith("*"):
        return name.endswith(pattern[1:])
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def trajectory(weights, data, run):
    """(losses, weights after) of the reference."""
    optimizer, constants, no_decay, factors = run
    constants = dict(constants)
    lr, decay, by_adamw = constants.pop("lr"), constants.pop("weight_decay", 0.0), constants.pop("adamw", "")
    weights = {name: w.astype(np.float64) for name, w in weights.items()}
    states, losses = {name: {} for name in weights}, []
    for step in range(STEPS):
        rows = slice(step % 6 * BATCH, (step % 6 + 1) * BATCH)
        loss, gradients = differentiate(weights, data["x"][rows].astype(np.float64), data["label"][rows])
        losses.append(loss)
        for name, gradient in gradients.items():
            decays = not any(matches(pattern, name) for pattern in no_decay)
            factor = next((f for pattern, f in factors.items() if matches(pattern, name)), 1.0)
            rule = "adamw" if matches(by_adamw, name) else optimizer
            weights[name] = RULES[rule](weights[name], gradient, states[name], lr * factor, step + 1,
                                        weight_decay=decay if decays else 0.0, adapts=decays, **constants)
    return losses, weights


def flags_of(run):
    optimizer, constants, no_decay, factors = run
    words = ["--optimizer", optimizer]
    for name, value in constants.items():
        words += ["--" + name.replace("_", "-")] + ([] if value is True else [str(value)])
    for pattern in no_decay:
        words += ["--no-decay", pattern]
    for pattern, factor in factors.items():
        words += ["--lr-factor", f"{pattern}={factor}"]
    return words


def compare(losses, weights, got_losses, got):
    """[(passed, text)]"""
    errors = [abs(g - w) / abs(w) for g, w in zip(got_losses, losses)]
    if len(got_losses) != STEPS or set(got) != set(weights):
        return [(False, f"{len(got_losses)} losses, weights {sorted(got)}")]
    apart = {n: float(np.linalg.norm(got[n] - w) / np.linalg.norm(w)) for n, w in weights.items()}
    worst = max(apart, key=apart.get)
    return [(max(errors) <= TOLERANCE and apart[worst] <= TOLERANCE,
             f"loss error {max(errors):.1e}, weight error {apart[worst]:.1e} ({worst})")]


def check(divisi, data, run, way):
    def test(work):
        program = work / "p"
        lines.call(divisi, "compile", CASE / "model.onnx", "-o", program, *flags_of(run), *way.split())
        losses, weights = trajectory(read_weights(work / "p.safetensors"), data, run)
        ranks = 4 if "=2,model=2" in way else 2 if way else 1
        lines.call(divisi, "run", "--devices", ranks, program, "--steps", STEPS, "--no-shuffle", "--log", work / "log",
                   "--save-weights", work / "after.safetensors", *(f"--data={n}={CASE / 'data' / n}.npy" for n in data))
        rows = [json.loads(line) for line in (work / "log").read_text().splitlines()]
        return compare(losses, weights, [row["loss"] for row in rows if "loss" in row and "step" in row],
                       read_weights(work / "after.safetensors"))

    return test


def beside_torch(data, run):
    """The rules beside torch.optim: float64, the same gradients."""
    import torch

    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW,
             "adagrad": torch.optim.Adagrad, "rmsprop": torch.optim.RMSprop, "adafactor": torch.optim.Adafactor,
             "muon": torch.optim.Muon}
    try:
        import timm.optim

        kinds |= {"lamb": timm.optim.Lamb, "lars": timm.optim.Lars, "lion": timm.optim.Lion}
    except ImportError:
        pass
    optimizer, constants, no_decay, factors = run

    def test(work):
        draw = np.random.default_rng(1)
        shapes = {f"fc.{i}.{kind}": shape for i in range(3) for kind, shape in (("weight", (7, 5)), ("bias", (7,)))}
        weights = {name: draw.normal(size=shape) for name, shape in shapes.items()}
        tensors = {name: torch.tensor(w, requires_grad=True) for name, w in weights.items()}
        args = dict(constants)
        lr, decay = args.pop("lr"), args.pop("weight_decay", 0.0)
        own = dict(args)
        if optimizer == "muon":  # PyTorch's is for matrices, and rounds to bf16
            args = {"momentum": args.get("momentum", 0.95), "adjust_lr_fn": "match_rms_adamw" if args.get("match_rms") else None}
            weights = {name: w for name, w in weights.items() if w.ndim == 2}
            tensors = {name: tensors[name] for name in weights}
        if optimizer == "adafactor":
            own["least"] = float(np.finfo(np.float64).eps)
            args = {"beta2_decay": -args.get("beta2_decay", 0.8), "eps": (None, args.get("eps", 1e-3))}
        if optimizer == "lamb":  # timm also clips, unless it is told not to
            args |= {"max_grad_norm": None, "always_adapt": True}
        if optimizer == "lars":
            args = {"momentum": args.get("momentum", 0.0), "trust_coeff": args.get("trust_coefficient", 1e-3), "always_adapt": True}
        if "adam" in optimizer or optimizer in ("lamb", "lion"):
            args["betas"] = args.pop("beta1", 0.9), args.pop("beta2", 0.99 if optimizer == "lion" else 0.999)
        decays = {n: not any(matches(pattern, n) for pattern in no_decay) for n in weights}
        rate = {n: lr * next((f for pattern, f in factors.items() if matches(pattern, n)), 1.0) for n in weights}
        theirs = kinds[optimizer]([{"params": [t], "lr": rate[n], "weight_decay": decay * decays[n]} for n, t in tensors.items()], **args)
        states = {name: {} for name in weights}
        for step in range(STEPS):
            for name, t in tensors.items():
                gradient = draw.normal(size=t.shape)
                t.grad = torch.tensor(gradient)
                weights[name] = RULES[optimizer](weights[name], gradient, states[name], rate[name], step + 1,
                                                 weight_decay=decay * decays[name], **own)
            with unittest.mock.patch.object(torch.Tensor, "bfloat16", lambda tensor: tensor):
                theirs.step()
        error = max(float(np.abs(t.detach().numpy() - weights[n]).max()) for n, t in tensors.items())
        return [(error < 1e-12, f"difference {error:.1e}")]

    return test if optimizer in kinds and "adamw" not in constants else None


def main():
    p = lines.parser(__doc__.splitlines()[0])
    p.add_argument("--torch", action="store_true", help="compare the rules with torch.optim")
    p.add_argument("--quick", action="store_true", help="half of the lines")
    o = p.parse_args()
    data = {name: np.load(CASE / "data" / f"{name}.npy") for name in ("x", "label")}
    if o.torch:
        o.jobs = 1  # PyTorch is patched
        tests = [(" ".join(flags_of(run)), beside_torch(data, run)) for run in RUNS]
        return lines.run([line for line in tests if line[1]], o)
    alone, *split = WAYS
    ways = [[alone, split[2 * i % len(split)], split[(2 * i + 1) % len(split)]] if o.quick else WAYS for i in range(len(RUNS))]
    return lines.run([(f"{' '.join(flags_of(run))}, {name}", check(o.divisi, data, run, WAYS[name])) for run, names in zip(RUNS, ways) for name in names], o)


if __name__ == "__main__":
    sys.exit(main())
