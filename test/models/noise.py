#!/usr/bin/env python3
"""The noise scale of gradients (--log-noise-scale), against NumPy in float64 and closed forms.

    noise.py --divisi PATH [--only 'mlp'] [--jobs N] [--steps 10000]

mlp: the squares of gradients of single steps, of the batch and of its shares, for replicas and microbatches, alone, with other axes, ZeRO,
clipping and other ways of reducing (1e-5; in 16 bits 5 %). Other reference models: two replicas and two microbatches have the same shares. Linear regression
on fresh random samples with a known covariance, without learning: the means of many steps are within 5 % of the closed form. The log: the
estimates and the scale follow from the squares, also after a resume. What has no shares is refused. Needs numpy and onnx; ends with
`N passed, N failed`.
"""

import itertools
import json
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import lines
from optimizer_rules import RULES
from optimizers import BATCH, CASE, STEPS, differentiate, read_weights
from replicas import data_flags, run_program, shares

MESHES = {  # replicas, microbatches, devices
    "--mesh data=2": (2, 1, 2),
    "--mesh data=4": (4, 1, 4),
    "--microbatches 2": (1, 2, 1),
    "--microbatches 4": (1, 4, 1),
    "--mesh data=2,model=2": (2, 1, 4),
    "--mesh model=2 --microbatches 3": (1, 3, 2),
    "--mesh stage=2,data=2 --microbatches 2": (2, 2, 4),
    "--mesh stage=2 --microbatches 4": (1, 4, 2),
    "--mesh data=2 --microbatches 3": (2, 3, 2),
    "--mesh stage=2 --round-robin 2,1 --microbatches 4": (1, 4, 3),
    "--mesh data=2 --precision fp16": (2, 1, 2),
    "--microbatches 2 --precision bf16": (1, 2, 1),
    "--mesh data=2 --clip-norm 0.1": (2, 1, 2),
    "--microbatches 2 --clip-norm 0.1": (1, 2, 1),
    "--mesh data=2 --zero 1": (2, 1, 2),
    "--mesh data=2 --zero 2": (2, 1, 2),
    "--mesh data=2 --zero 3": (2, 1, 2),
    "--mesh data=4 --sync driver": (4, 1, 4),
    "--mesh data=4 --sync server --servers colocated": (4, 1, 4),
}
SAME = {"lenet": ("image", "label"), "gpt_tiny": ("idx", "targets"), "moe_tiny": ("x", "label")}  # model: inputs
REFUSALS = {  # flags: part of the one line
    "": "take replicas (--mesh data=N, --strategy data) or --microbatches N",
    "--mesh model=2": "take replicas",
    "--mesh data=2 --sync local --average-every 2": "with --sync local each replica has that of its share alone: take --sync all-reduce",
    "--mesh data=2 --sync gossip": "take --sync all-reduce",
    "--mesh stage=2 --schedule pipedream": "take a --schedule that is not asynchronous",
    "--mesh stage=2 --microbatches 1": "take replicas",
    "--mesh stage=2,data=2 --stage-axes data,none --microbatches 2": "leave out --stage-axes",
}
# Of linear regression: the covariance's eigenvalues and the distance from the true weights.
SPREAD = np.array([0.5, 1.0, 1.0, 1.5, 2.0])
DISTANCE = np.array([0.4, -0.3, 0.5, 0.2, -0.1])
NOISE = 0.7  # standard deviation of the labels


def squares_of(weights, x, label):
    _, gradients = differentiate(weights, x, label)
    return gradients, sum(float((g ** 2).sum()) for g in gradients.values())


def reference(weights, data, replicas, microbatches, clip):
    """[(square of the batch's gradient, mean square of the shares')] of steps of SGD with lr 0.1."""
    weights = {n: w.astype(np.float64) for n, w in weights.items()}
    found = []
    for step in range(STEPS):
        first = step % 6 * BATCH
        rows = shares(step, replicas, microbatches) if replicas > 1 else np.split(np.arange(first, first + BATCH), microbatches)
        take = lambda r: (weights, data["x"][r].astype(np.float64), data["label"][r])
        gradients, big = squares_of(*take(np.arange(first, first + BATCH)))
        found.append((big, np.mean([squares_of(*take(r))[1] for r in rows])))
        factor = min(1, clip / (np.sqrt(big) + 1e-6)) if clip else 1
        for name, gradient in gradients.items():
            weights[name] = RULES["sgd"](weights[name], gradient * factor, {}, 0.1, step + 1, weight_decay=0.0, adapts=True)
    return found


def check_steps(divisi, data, flags):
    replicas, microbatches, devices = MESHES[flags]

    def test(work):
        lines.call(divisi, "compile", CASE / "model.onnx", "-o", work / "p", "--lr", "0.1", "--log-noise-scale", *flags.split())
        clip = 0.1 if "clip" in flags else 0
        wanted = reference(read_weights(work / "p.safetensors"), data, replicas, microbatches, clip)
        rows = run_program(divisi, work / "p", devices, STEPS, work / "log")
        errors = [max(abs(row["grad_sq_" + kind] / w - 1) for row, w in zip(rows, column))
                  for kind, column in zip(("big", "small"), zip(*wanted))]
        apart = min(small / big for big, small in wanted)
        return [(len(rows) == STEPS and max(errors) <= (0.05 if "precision" in flags else 1e-5) and apart > 1.01,
                 f"errors {errors[0]:.1e} of the batch, {errors[1]:.1e} of shares, at least {apart:.2f} apart")]

    return test


def check_same(divisi, model):
    names = SAME[model]

    def test(work):
        found = []
        for flags, devices in [("--mesh data=2", 2), ("--microbatches 2", 1), ("--mesh data=2,model=2", 4), ("--mesh data=2 --zero 1", 2)]:
            lines.call(divisi, "compile", CASE.parent / model / "model.onnx", "-o", work / "p", "--lr", "0.01", "--log-noise-scale", *flags.split())
            rows = run_program(divisi, work / "p", devices, 3, work / "log", "--log-grad-norms", model=model, names=names)
            found.append([(row["grad_sq_big"], row["grad_sq_small"]) for row in rows])
        norms = sum(n ** 2 for n in rows[0]["grad_norms"].values())
        error = max(np.abs(np.array(a) / np.array(b) - 1).max() for a, b in itertools.combinations(found, 2))
        apart = min(small / big for big, small in found[0])
        return [(error <= 1e-4 and abs(norms / found[0][0][0] - 1) <= 1e-5 and apart > 1.001,
                 f"four ways differ by {error:.1e}, the squares are at least {apart:.2f} apart")]

    return test


def closed_form():
    """(|G|^2, tr Sigma) of the loss (x w - y)^2 with y = x w* + noise and x from N(0, diag SPREAD). The gradient of a sample is
    2 (x d - noise) x with d = w - w*, and E (x d)^2 |x|^2 = (d L d) tr L + 2 d L^2 d by Isserlis' theorem."""
    true = 4 * ((SPREAD * DISTANCE) ** 2).sum()
    second = 4 * ((SPREAD * DISTANCE ** 2).sum() * SPREAD.sum() + 2 * (SPREAD ** 2 * DISTANCE ** 2).sum() + NOISE ** 2 * SPREAD.sum())
    return true, second - true


def write_regression(path, weights, batch, made_by=""):
    """`made_by`: the weights are this function of the parameters."""
    nodes = [helper.make_node(made_by, ["w"], ["made"], "made")] if made_by else []
    graph = helper.make_graph([*nodes, helper.make_node("MatMul", ["x", "made" if made_by else "w"], ["y"])], "regression",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, len(weights)])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 1])],
                              [numpy_helper.from_array(weights.astype(np.float32)[:, None], "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


def check_made(divisi, flags, devices):
    """Weights that are made of parameters: the shares' gradients pass their derivative."""
    def test(work, batch=8, steps=3):
        random = np.random.default_rng(7)
        w = random.normal(size=len(SPREAD))
        x, y = random.normal(size=(steps, 2, batch // 2, len(SPREAD))), random.normal(size=(steps, 2, batch // 2, 1))
        np.save(work / "x.npy", x.reshape(-1, len(SPREAD)).astype(np.float32))
        np.save(work / "y.npy", y.reshape(-1, 1).astype(np.float32))
        write_regression(work / "m.onnx", w, batch, "Exp")
        lines.call(divisi, "compile", work / "m.onnx", "-o", work / "p", "--loss", "mse", "--label", "label", "--lr", 0, "--log-noise-scale", *flags.split())
        lines.call(divisi, "run", "--devices", devices, work / "p", "--steps", steps, "--no-shuffle", "--quiet", "--log", work / "log",
                   f"--data=x={work}/x.npy", f"--data=label={work}/y.npy")
        rows = [row for row in map(json.loads, (work / "log").read_text().splitlines()) if "grad_sq" in row]
        made = np.exp(w.astype(np.float32).astype(np.float64))
        shares = np.einsum("tsri,tsr->tsi", x, x @ made - y[..., 0]) * 4 / batch * made
        expected = [((shares.mean(1) ** 2).sum(1)), (shares ** 2).sum(2).mean(1)]
        errors = [max(abs(row[name] / value - 1) for row, value in zip(rows, values)) for name, values in zip(("grad_sq_big", "grad_sq_small"), expected)]
        return [(len(rows) == steps and max(errors) <= 1e-5, f"errors {errors[0]:.1e} of the batch, {errors[1]:.1e} of shares")]

    return test


def check_regression(divisi, flags, devices, batch, steps):
    def test(work):
        random = np.random.default_rng([devices, batch])
        x = random.normal(size=(steps * batch, len(SPREAD))) * np.sqrt(SPREAD)
        truth = np.array([1.0, -1.0, 0.5, 0.0, 2.0])
        y = x @ truth[:, None] + NOISE * random.normal(size=(steps * batch, 1))
        np.save(work / "x.npy", x.astype(np.float32))
        np.save(work / "y.npy", y.astype(np.float32))
        write_regression(work / "m.onnx", truth + DISTANCE, batch)
        lines.call(divisi, "compile", work / "m.onnx", "-o", work / "p", "--loss", "mse", "--label", "label", "--lr", 0, "--log-noise-scale", *flags.split())
        lines.call(divisi, "run", "--devices", devices, work / "p", "--steps", steps, "--no-shuffle", "--quiet", "--log", work / "log",
                   f"--data=x={work}/x.npy", f"--data=label={work}/y.npy")
        rows = [json.loads(line) for line in (work / "log").read_text().splitlines()]
        rows = [row for row in rows if "grad_sq" in row]
        true, variance = closed_form()
        got = [np.mean([row[name] for row in rows]) for name in ("grad_sq", "grad_variance")]
        errors = [got[0] / true - 1, got[1] / variance - 1, got[1] / got[0] / (variance / true) - 1]
        return [(len(rows) == steps and max(map(abs, errors)) <= 0.05,
                 f"noise scale {got[1] / got[0]:.3f}, in closed form {variance / true:.3f}; errors {errors[0]:+.2%} of |G|^2, "
                 f"{errors[1]:+.2%} of tr Sigma, {errors[2]:+.2%} of the scale")]

    return test


def follows(rows, batch, parts):
    """Whether the estimates and the scale of all rows follow from the squares."""
    gradient = variance = 0.0
    good = True
    for row in rows:
        big, small = row["grad_sq_big"], row["grad_sq_small"]
        # arXiv 1812.06162, (A.2) and (A.3)
        wanted = [(batch * big - batch / parts * small) / (batch - batch / parts), (small - big) / (parts / batch - 1 / batch)]
        good &= bool(np.allclose([row["grad_sq"], row["grad_variance"]], wanted, rtol=1e-6, atol=1e-7 * small * batch))
        gradient, variance = 0.99 * gradient + 0.01 * row["grad_sq"], 0.99 * variance + 0.01 * row["grad_variance"]
        known = gradient > 0 and variance > 0
        good &= row["noise_scale"] is not None and abs(row["noise_scale"] / (variance / gradient) - 1) < 1e-6 if known else row["noise_scale"] is None
    return good


def check_log(divisi):
    """Of two microbatches; a run that was killed after step 6 goes on with the averages."""

    def test(work):
        lines.call(divisi, "compile", CASE / "model.onnx", "-o", work / "p", "--lr", "0.1", "--log-noise-scale", "--microbatches", 2)
        kept = ["--checkpoint", work / "c", "--every", 3, "--keep-checkpoints", 10]
        command = [work / "p", "--steps", STEPS, "--no-shuffle", "--log", work / "log", *data_flags("mlp", ("x", "label")), *kept]
        read = lambda: [row for row in map(json.loads, (work / "log").read_text().splitlines()) if "grad_sq" in row]
        lines.call(*command)
        whole = read()
        for step in (9, 12):
            lines.call("rm", "-r", work / "c" / f"step-{step}")
        (work / "c/latest").write_text("step-6\n")
        lines.call(*command, "--resume")
        names = ("step", "grad_sq_big", "grad_sq_small", "grad_sq", "grad_variance", "noise_scale")
        same = [[row[n] for n in names] for row in whole] == [[row[n] for n in names] for row in read()]
        finite = sum(row["noise_scale"] is not None for row in whole)
        return [(len(whole) == STEPS and finite > 0 and follows(whole, BATCH, 2), f"12 lines follow from the squares, {finite} with a scale"),
                (same, "a resumed run goes on with the averages")]

    return test


def check_advice(divisi, command):
    """The table of plan and explain: efficiency and goodput of each batch by their formulas, the best of them, the times of separate searches."""

    def test(work):
        write_regression(work / "m.onnx", DISTANCE, "batch")
        noise = [{"schema": 1, "step": 1, "grad_sq": 7.0, "grad_variance": 1.0}, {"step": 2, "grad_sq": 0.5, "grad_variance": 1500.0}]
        (work / "log").write_text("".join(json.dumps(line) + "\n" for line in noise))
        flags = [work / "m.onnx", "--loss", "mse", "--label", "label", "--cluster", "cpu:2", "--no-calibration", "--json"]
        call = lambda size, *more: json.loads(lines.call(divisi, command, *flags, "--dim", f"batch={size}", *more))
        facts = call(4096, "--log", work / "log")["batch_advice"]
        scale, own = 3000.0, 4096
        sizes = [row["size"] for row in facts["batches"]]
        good = True
        for row in facts["batches"]:
            progress = row["size"] / (row["size"] + scale) / row["step_ms"]  # of a millisecond
            present = own / (own + scale)  # of a step
            good &= abs(row["efficiency"] - row["size"] / (row["size"] + scale)) < 1e-9
            good &= abs(row["goodput"] / (own * 1e3 * progress / present) - 1) < 1e-9
        best = max(facts["batches"], key=lambda row: row["size"] / (row["size"] + scale) / row["step_ms"])
        alone = call(8192)["plans"][0]["step_ms"] if command == "plan" else facts["batches"][3]["step_ms"]
        return [(good and facts["noise_scale"] == scale and facts["steps"] == [2, 2] and sizes == [1024, 2048, 4096, 8192, 16384],
                 f"batches {sizes}, a noise scale of {facts['noise_scale']}"),
                (facts["best"] == best["size"] and abs(facts["batches"][3]["step_ms"] / alone - 1) < 1e-6, f"the best is {best['size']}")]

    return test


def check_refusal(divisi, flags, text):
    def test(work):
        code, said = lines.refusal(divisi, "compile", CASE / "model.onnx", "-o", work / "p", "--log-noise-scale", *flags.split())
        return [(code == 1 and text in said and said.count("error:") == 1, said.splitlines()[-1][:160] if said else f"exit {code}")]

    return test


def main():
    p = lines.parser(__doc__.splitlines()[0])
    p.add_argument("--steps", type=int, default=10000, help="of linear regression (default 10000)")
    o = p.parse_args()
    data = {name: np.load(CASE / "data" / f"{name}.npy") for name in ("x", "label")}
    tests = [(f"mlp {flags}", check_steps(o.divisi, data, flags)) for flags in MESHES]
    tests += [(f"{model}: replicas and microbatches", check_same(o.divisi, model)) for model in SAME]
    tests.append(("the log", check_log(o.divisi)))
    for flags, devices, batch in [("--mesh data=2", 2, 8), ("--mesh data=4", 4, 8), ("--microbatches 2", 1, 8), ("--microbatches 4", 1, 16)]:
        tests.append((f"linear regression {flags} of {batch}", check_regression(o.divisi, flags, devices, batch, o.steps)))
    tests += [(f"weights by exp {flags}", check_made(o.divisi, flags, devices)) for flags, devices in (("--mesh data=2", 2), ("--microbatches 2", 1))]
    tests += [(f"the advice of {command}", check_advice(o.divisi, command)) for command in ("plan", "explain")]
    tests += [(f"refused: {flags or 'one device'}", check_refusal(o.divisi, flags, text)) for flags, text in REFUSALS.items()]
    return lines.run(tests, o)


if __name__ == "__main__":
    sys.exit(main())
