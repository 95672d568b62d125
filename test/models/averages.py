#!/usr/bin/env python3
"""Moving averages of the weights (--ema) against NumPy's float64, under plans: evaluated, saved, resumed, exported.

    averages.py --divisi PATH [--only stages] [--jobs N]

Trains the model of mlp for 12 steps of AdamW, the first 7 of them before a restart. Tolerance: 1e-5 of a loss and of the norm of a tensor.
Needs numpy; ends with `N passed, N failed`.
"""

import json
import sys

import numpy as np

import lines
from optimizer_rules import adamw
from optimizers import BATCH, CASE, STEPS, TOLERANCE, WAYS, differentiate, read_weights

SHARE, BEFORE = 0.8, 7


def reference(weights, data):
    """(loss of each step, average after each step): torch.optim.swa_utils.get_ema_multi_avg_fn, whose first average is the parameter."""
    weights = {name: w.astype(np.float64) for name, w in weights.items()}
    states, losses, averages = {name: {} for name in weights}, [], []
    for step in range(STEPS):
        rows = slice(step % 6 * BATCH, (step % 6 + 1) * BATCH)
        loss, gradients = differentiate(weights, data["x"][rows].astype(np.float64), data["label"][rows])
        losses.append(loss)
        weights = {name: adamw(weights[name], gradients[name], states[name], 0.01, step + 1) for name in weights}
        last = averages[-1] if averages else weights
        averages.append({name: last[name] + (1 - SHARE) * (weights[name] - last[name]) for name in weights})
    return losses, averages


def close(got, want, what):
    """[(passed, text)]"""
    if set(got) != set(want):
        return [(False, f"{what}: {sorted(got)}")]
    error = max(float(np.linalg.norm(got[n] - w) / np.linalg.norm(w)) for n, w in want.items())
    return [(error <= TOLERANCE, f"{what}: error {error:.1e}")]


def check(divisi, data, way, folder):
    lines.call(divisi, "compile", CASE / "model.onnx", "-o", folder / "p", "--optimizer", "adamw", "--lr", "0.01", "--ema", SHARE, *way.split())
    losses, averages = reference(read_weights(folder / "p.safetensors"), data)
    ranks = 4 if "=2,model=2" in way else 2 if way else 1
    files = [f"--data={n}={CASE / 'data' / n}.npy" for n in data]
    start = [divisi, "run", "--devices", ranks, folder / "p", *files, *(word.replace("--data", "--eval") for word in files), "--no-shuffle", "--ema",
             "--log", folder / "log", "--checkpoint", folder / "c", "--eval-every", "1"]
    lines.call(*start, "--steps", BEFORE, "--save-weights", folder / "early.safetensors")
    yield from close(read_weights(folder / "early.safetensors"), averages[BEFORE - 1], f"saved after step {BEFORE}")
    lines.call(*start, "--steps", STEPS, "--resume", "--save-weights", folder / "late.safetensors")
    yield from close(read_weights(folder / "late.safetensors"), averages[-1], f"saved after step {STEPS}")
    lines.call(divisi, "checkpoint", "export", folder / "c", "-o", folder / "exported.safetensors", "--ema")
    yield (folder / "exported.safetensors").read_bytes()[-64:] == (folder / "late.safetensors").read_bytes()[-64:], "exported as saved"
    rows = [json.loads(line) for line in (folder / "log").read_text().splitlines()]
    steps, evaluations = [r for r in rows if not r.get("eval")], [r for r in rows if r.get("eval")]
    apart = [abs(row["loss"] - loss) / loss for row, loss in zip(steps, losses)]
    yield len(apart) == STEPS and max(apart) <= TOLERANCE, f"training goes on as without it: error {max(apart):.1e}"
    wanted = [differentiate(average, data["x"].astype(np.float64), data["label"])[0] for average in averages]
    apart = [abs(row["loss"] - loss) / loss for row, loss in zip(evaluations, wanted)]
    yield len(apart) == STEPS and max(apart) <= TOLERANCE, f"evaluated: error {max(apart):.1e}"


def refusals(divisi, folder):
    lines.call(divisi, "compile", CASE / "model.onnx", "-o", folder / "none")
    lines.call(divisi, "compile", CASE / "model.onnx", "-o", folder / "p", "--ema", "0.9")
    for command, text in (
        ([folder / "none", "--ema"], "compile it with --ema 0.999"),
        ([folder / "p", "--ema", "--eval-only", "--eval=x=x.npy"], "before the first step there is no average"),
        ([divisi, "compile", CASE / "model.onnx", "--ema", "1"], "--ema expects a number from 0 to below 1"),
    ):
        code, said = lines.refusal(*command)
        yield code != 0 and text in said, f"{text}: {said[-200:]}"


def main():
    o = lines.parser(__doc__.splitlines()[0]).parse_args()
    data = {name: np.load(CASE / "data" / f"{name}.npy") for name in ("x", "label")}
    tests = [(name, lambda folder, way=way: check(o.divisi, data, way, folder)) for name, way in WAYS.items()]
    return lines.run([*tests, ("refusals", lambda folder: refusals(o.divisi, folder))], o)


if __name__ == "__main__":
    sys.exit(main())
