#!/usr/bin/env python3
"""Replicas that are kept in step in other ways than by all_reduce of gradients, against NumPy in float64.

    replicas.py --divisi PATH [--only 'every 3'] [--jobs N]

The losses of 12 steps and all weights after them, for 2 and 4 replicas, alone, with model=2 and with stage=2 inside: mlp, whose gradients NumPy computes, and lenet,
gpt_tiny, moe_tiny and a model of embeddings, whose gradients are those of a program for one device (shared_models.py). With an average after every step and plain SGD, the losses of --sync all-reduce. Dropout: the random numbers of one device. Checkpoints: a resumed run goes on bit by bit, and
the export of one is the mean of what its files contain. Bytes on the wire: the formulas of docs/synchronisation.md. Tolerances: 1e-5 of a
loss, 1e-5 of the norm of a tensor. Needs numpy and onnx; ends with `N passed, N failed`.
"""

import json
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper

import lines
from optimizer_rules import RULES
from optimizers import BATCH, CASE, STEPS, compare, flags_of, read_weights
from shared_models import Embedding, Mlp, Other, smooth_models

SGD = ("sgd", {"lr": 0.1}, [], {})
MOMENTUM = ("sgd", {"lr": 0.1, "momentum": 0.9}, [], {})
ADAMW = ("adamw", {"lr": 0.005, "weight_decay": 0.5}, [], {})
MESHES = {  # replicas, microbatches, devices
    "--mesh data=2": (2, 1, 2),
    "--mesh data=4": (4, 1, 4),
    "--mesh data=2,model=2": (2, 1, 4),
    "--mesh stage=2,data=2 --microbatches 2": (2, 2, 4),
}
MORE_MESHES = {"--mesh data=4,model=2": (4, 1, 8), "--mesh stage=2,data=4 --microbatches 1": (4, 1, 8)}
LOCAL = [  # inner optimizer, steps from one average to the next, other flags: of the outer optimizer
    (SGD, 1, {}),
    (MOMENTUM, 3, {}),
    (MOMENTUM, 3, {"average_state": True}),
    (ADAMW, 5, {}),
    (ADAMW, 4, {"outer_optimizer": "nesterov"}),
    (ADAMW, 4, {"outer_optimizer": "nesterov", "outer_lr": 0.5, "outer_momentum": 0.8, "average_state": True}),
    (MOMENTUM, 3, {"outer_optimizer": "sgd", "outer_lr": 0.9, "outer_momentum": 0.5}),
    (MOMENTUM, 3, {"overlap_average": True}),
    (ADAMW, 1, {"overlap_average": True}),
    (ADAMW, 4, {"overlap_average": True, "outer_optimizer": "nesterov"}),
]
OTHERS = ["lenet", "gpt_tiny", "moe_tiny", "embedding"]


def read_state(path):
    """The tensors of F32 of a file of a checkpoint."""
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    entries = {n: e for n, e in json.loads(raw[8:8 + size]).items() if e.get("dtype") == "F32"}
    return {n: np.frombuffer(raw[8 + size + e["data_offsets"][0]:8 + size + e["data_offsets"][1]], "<f4").reshape(e["shape"])
            for n, e in entries.items()}


def words(flags):
    return [w for name, value in flags.items() for w in ["--" + name.replace("_", "-")] + ([] if value is True else [str(value)])]


def shares(step, replicas, microbatches, batch=BATCH):
    """The rows of each replica: its part of each microbatch."""
    first, each = step % 6 * batch, batch // microbatches
    part = each // replicas
    return [np.concatenate([np.arange(part) + first + m * each + r * part for m in range(microbatches)]) for r in range(replicas)]


def local_steps(replicas, weights, states, gradients_of, batch, run, step, microbatches):
    """The mean loss; the weights and states of all replicas after a step of each on its own share."""
    optimizer, constants, _, _ = run
    constants = dict(constants)
    lr, decay = constants.pop("lr"), constants.pop("weight_decay", 0.0)
    losses = []
    for r, rows in enumerate(shares(step, replicas, microbatches, batch)):
        loss, gradients = gradients_of(weights[r], rows)
        losses.append(loss)
        for name, gradient in gradients.items():
            weights[r][name] = RULES[optimizer](weights[r][name], gradient, states[r][name], lr, step + 1, weight_decay=decay,
                                                adapts=True, **constants)
    return np.mean(losses)


def start(replicas, weights):
    weights = [{n: w.astype(np.float64) for n, w in weights.items()} for _ in range(replicas)]
    return weights, [{n: {} for n in weights[0]} for _ in range(replicas)]


def mean_of(dictionaries):
    return {n: sum(d[n] for d in dictionaries) / len(dictionaries) for n in dictionaries[0]}


def local_sgd(weights, gradients_of, batch, run, every, flags, replicas, microbatches):
    """(losses, weights after) of local SGD with an outer optimizer, as PyTorch's SGD has it."""
    weights, states = start(replicas, weights)
    anchor, momentum = dict(weights[0]), {n: 0.0 for n in weights[0]}
    outer = flags.get("outer_optimizer")
    rate = flags.get("outer_lr", 0.7 if outer == "nesterov" else 1.0)
    keeps = flags.get("outer_momentum", 0.9 if outer == "nesterov" else 0.0)
    losses, snapshots = [], None

    def outer_step(after):
        nonlocal anchor
        if outer:
            for name in after:
                gradient = anchor[name] - after[name]
                momentum[name] = keeps * momentum[name] + gradient
                direction = gradient + keeps * momentum[name] if outer == "nesterov" else momentum[name]
                after[name] = anchor[name] - rate * direction
        anchor = after
        return after

    for step in range(STEPS):
        losses.append(local_steps(replicas, weights, states, gradients_of, batch, run, step, microbatches))
        if (step + 1) % every and step + 1 < STEPS:
            continue
        if flags.get("overlap_average"):
            if snapshots:  # the mean of the last ones counts now, and what each replica has added since
                after = outer_step(mean_of(snapshots))
                weights = [{n: after[n] + (w[n] - s[n]) for n in w} for w, s in zip(weights, snapshots)]
            snapshots = [dict(w) for w in weights]
            if step + 1 < STEPS:
                continue
        after = outer_step(mean_of(weights))
        weights = [dict(after) for _ in weights]
        if flags.get("average_state"):
            for name in after:
                if states[0][name]:
                    middle = mean_of([{k: np.asarray(v) for k, v in s[name].items()} for s in states])
                    for s in states:
                        s[name] = dict(middle)
    return losses, weights[0]


def mixing(topology, replicas, step):
    """The doubly stochastic matrix of a step, from 0: row i has the weights with which replica i takes the others' parameters."""
    matrix = np.zeros((replicas, replicas))
    for i in range(replicas):
        if topology == "ring":
            others = {(i - 1) % replicas, (i + 1) % replicas}
        elif topology == "exponential":
            others = {(i - 2 ** (step % max(1, int(np.ceil(np.log2(replicas)))))) % replicas}
        else:
            others = {(i + 1 if (i - step % 2) % replicas % 2 == 0 else i - 1) % replicas}
        for j in [i, *others]:
            matrix[i, j] = 1 / (len(others) + 1)
    assert np.allclose(matrix.sum(0), 1) and np.allclose(matrix.sum(1), 1)
    return matrix


def gossip(weights, gradients_of, batch, run, topology, replicas, microbatches):
    """(losses, weights after) of D-PSGD: a local step, then an average by the mixing matrix; in the last step of all."""
    weights, states = start(replicas, weights)
    losses = []
    for step in range(STEPS):
        losses.append(local_steps(replicas, weights, states, gradients_of, batch, run, step, microbatches))
        last = step + 1 == STEPS
        matrix = np.full((replicas, replicas), 1 / replicas) if last else mixing(topology, replicas, step)
        weights = [{n: sum(w * matrix[i, j] for j, w in enumerate(ws)) for n, ws in
                    {n: [other[n] for other in weights] for n in weights[0]}.items()} for i in range(replicas)]
    return losses, weights[0]


def data_flags(model, names):
    return [f"--data={n}={CASE.parent / model / 'data' / n}.npy" for n in names]


def model_of(name):
    return Mlp() if name == "mlp" else Embedding() if name == "embedding" else Other(name)


def run_program(divisi, program, devices, steps, log, *more, model="mlp", names=("x", "label"), delays=""):
    """`model`: a name, or one of shared_models.py."""
    given = data_flags(model, names) if isinstance(model, str) else model.data_flags(log.parent)
    lines.call("env", f"DIVISI_DELAYS={delays}", divisi, "run", "--devices", devices, program, "--steps", steps, "--no-shuffle", "--log", log, *given, *more)
    return [row for row in map(json.loads, log.read_text().splitlines()) if "loss" in row and "step" in row]


def check_local(divisi, model, mesh, run, every, flags):
    replicas, microbatches, devices = (MESHES | MORE_MESHES)[mesh]

    def test(work):
        lines.call(divisi, "compile", model.write(work), "-o", work / "p", *flags_of(run), *mesh.split(), "--sync", "local",
                   "--average-every", every, *words(flags))
        losses, weights = local_sgd(read_weights(work / "p.safetensors"), model.gradients(divisi, work), model.batch, run, every, flags, replicas, microbatches)
        rows = run_program(divisi, work / "p", devices, STEPS, work / "log", "--save-weights", work / "after.safetensors", model=model)
        return compare(losses, weights, [row["loss"] for row in rows], read_weights(work / "after.safetensors"))

    return test


def check_gossip(divisi, model, mesh, run, topology):
    replicas, microbatches, devices = (MESHES | MORE_MESHES)[mesh]

    def test(work):
        lines.call(divisi, "compile", model.write(work), "-o", work / "p", *flags_of(run), *mesh.split(), "--sync", "gossip",
                   "--topology", topology)
        losses, weights = gossip(read_weights(work / "p.safetensors"), model.gradients(divisi, work), model.batch, run, topology, replicas, microbatches)
        rows = run_program(divisi, work / "p", devices, STEPS, work / "log", "--save-weights", work / "after.safetensors", model=model)
        results = compare(losses, weights, [row["loss"] for row in rows], read_weights(work / "after.safetensors"))
        if model.name != "mlp":
            return results
        elements, activations = sum(w.size for w in weights.values()), 0
        if "stage" in mesh:  # whose first one is fc.0
            elements, activations = weights["fc.0.weight"].size + weights["fc.0.bias"].size, BATCH // replicas * len(weights["fc.0.bias"])
        sent = 2 if topology == "ring" and replicas > 2 else 1
        counted = rows[0]["comm_bytes"] - 4 * (sent * elements + activations)  # the rest is results
        if "model" not in mesh:
            results.append((0 < counted <= lines.tree_messages(replicas) * 8 * 16, f"{sent} times the parameters and {counted} bytes are sent"))
        return results

    return test


def check_equal(divisi, model, mesh):
    """An average after every step of plain SGD is an average of gradients, and sends as much; between two replicas gossip is one, too."""
    replicas, _, devices = MESHES[mesh]
    model = model_of(model)

    def test(work):
        losses, sent = [], []
        for sync in ["all-reduce", "local --average-every 1"] + ["gossip"] * (replicas == 2):
            lines.call(divisi, "compile", model.write(work), "-o", work / "p", "--lr", "0.01", *mesh.split(), "--sync", *sync.split())
            rows = run_program(divisi, work / "p", devices, STEPS, work / "log", model=model)
            losses.append([row["loss"] for row in rows])
            sent.append(rows[0]["comm_bytes"])
        error = max(abs(a - b) / abs(a) for row in losses for a, b in zip(losses[0], row))
        results = [({*map(len, losses)} == {STEPS} and error <= 1e-5, f"loss error {error:.1e}")]
        return results + [one for other in sent[1:] * (replicas == 2) for one in same_bytes([sent[0], other])]

    return test


def same_bytes(sent, more=0):
    """Of two replicas a rank sends the gradients or the parameters once in every mode, and perhaps `more`: whatever is sent inside a replica, two runs differ by results alone."""
    return [(abs(sent[1] - sent[0] - more) <= 512 and sent[0] > 4096, f"{sent[1]} bytes are sent, {more} of them again, and {sent[0]} with all-reduce")]


def compare_runs(divisi, work, model, runs):
    """(results, bytes of the first step of each run, weights) of two runs, (devices, flags) each: the second one's losses and weights are the first one's."""
    losses, after, sent = [], [], []
    for devices, flags in runs:
        lines.call(divisi, "compile", model.write(work), "-o", work / "p", "--lr", "0.01", *flags.split())
        rows = run_program(divisi, work / "p", devices, STEPS, work / "log", "--save-weights", work / "after.safetensors", model=model)
        losses.append([row["loss"] for row in rows])
        after.append(read_weights(work / "after.safetensors"))
        sent.append(rows[0]["comm_bytes"])
    error = max(abs(a - b) / max(abs(a), 0.1) for a, b in zip(*losses))  # logits are rounded, not a small loss
    weights = max(np.linalg.norm(after[1][n] - w) / np.linalg.norm(w) for n, w in after[0].items())
    return [(len(losses[0]) == len(losses[1]) == STEPS and error <= 1e-5, f"loss error {error:.1e}"),
            (len(after[0]) > 0 and weights <= 1e-4, f"weights error {weights:.1e}")], sent, after[0]


def check_synchronous(divisi, model, mesh, sync):
    """The losses and weights of all-reduce; the first of R replicas sends R - 1 times the gradients and results through a driver, and
    with colocated servers as much as around a ring."""
    replicas, microbatches, devices = (MESHES | MORE_MESHES)[mesh]

    def test(work):
        flags = f"--optimizer adamw --clip-norm 1 {mesh}"
        results, sent, after = compare_runs(divisi, work, model_of(model), [(devices, f"{flags} {way}") for way in ("--sync all-reduce", sync)])
        if devices > replicas:
            # Colocated servers get gradients with every microbatch, but for those that they do not share out; these are of the first stage.
            pushed = [w for n, w in after.items() if n.startswith(("fc.0", "conv")) and any(size % replicas == 0 for size in w.shape)]
            again = (microbatches - 1) * (replicas - 1) / replicas * 4 * sum(w.size for w in pushed) if sync == "--sync server" else 0
            results += same_bytes(sent, int(again)) if replicas == 2 and model in ("mlp", "lenet") else []
        elif sync == "--sync driver" or model != "gpt_tiny":  # whose tied weights are pushed by use
            times = replicas - 1 if sync == "--sync driver" else 2 * (replicas - 1) / replicas
            rest = sent[1] - times * 4 * sum(w.size for w in after.values())
            # Of shares of a collective that differ by one element, the first replica's is the larger one.
            results.append((0 < rest <= (replicas - 1) * 64 + 8 * replicas * len(after), f"{times} times the gradients and {rest} bytes are sent"))
        return results

    return test


def write_dropout(path):
    """mlp with a Dropout of 0.4 behind each Relu."""
    model = onnx.load(CASE / "model.onnx")
    graph, nodes = model.graph, []
    graph.initializer.extend([numpy_helper.from_array(np.float32(0.4), "ratio"), numpy_helper.from_array(np.array(True), "training")])
    for node in graph.node:
        nodes.append(node)
        if node.op_type == "Relu":
            inner, node.output[0] = node.output[0], node.output[0] + "_kept"
            nodes.append(helper.make_node("Dropout", [node.output[0], "ratio", "training"], [inner], inner + "_drop"))
    assert len(nodes) == len(graph.node) + 2
    del graph.node[:]
    graph.node.extend(nodes)
    onnx.save(model, path)


def check_dropout(divisi, mesh, sync, rate):
    """The losses of one device: without learning, since each row has the random numbers that it has in the whole batch; and with plain SGD
    and an average in every step, since that is an average of gradients."""
    devices = MESHES[mesh][2]

    def test(work):
        write_dropout(work / "dropout.onnx")
        losses = []
        for flags, ranks in [([], 1), ([*mesh.split(), "--sync", *sync.split()], devices)]:
            lines.call(divisi, "compile", work / "dropout.onnx", "-o", work / "p", "--lr", rate, *flags)
            losses.append([row["loss"] for row in run_program(divisi, work / "p", ranks, STEPS, work / "log")])
        error = max(abs(a - b) / abs(a) for a, b in zip(*losses))
        epochs = max(abs(a - b) for a, b in zip(losses[0][:6], losses[0][6:]))  # of the same batches
        return [(len(losses[1]) == STEPS and error <= 1e-5 and epochs > 0.01, f"loss error {error:.1e}, epochs differ by {epochs:.2f}")]

    return test


def run_and_resume(divisi, work, devices):
    """(lines of the log, weights) of a whole run of the program, and of one that goes on after step 6; the checkpoints are in work / "c"."""
    kept = ["--checkpoint", work / "c", "--every", 3, "--keep-checkpoints", 10]
    whole = run_program(divisi, work / "p", devices, STEPS, work / "whole", *kept, "--save-weights", work / "a.safetensors")
    for step in (9, 12):  # as if it had been killed after step 6
        lines.call("rm", "-r", work / "c" / f"step-{step}")
    (work / "c/latest").write_text("step-6\n")
    again = run_program(divisi, work / "p", devices, STEPS, work / "again", *kept, "--resume", "--save-weights", work / "b.safetensors")
    return (whole, read_weights(work / "a.safetensors")), (again, read_weights(work / "b.safetensors"))


def goes_on(first, second):
    """Whether the losses after step 6 and the weights are the same, bit by bit."""
    (whole, a), (again, b) = first, second
    return [(w["step"], w["loss"]) for w in whole][6:] == [(w["step"], w["loss"]) for w in again] and all((a[n] == b[n]).all() for n in a)


def check_resume(divisi, mesh, sync):
    """A run that ends between two averages goes on bit by bit; an export is the mean over the replicas."""
    replicas, _, devices = MESHES[mesh]

    def test(work):
        lines.call(divisi, "compile", CASE / "model.onnx", "-o", work / "p", *flags_of(ADAMW), *mesh.split(), *sync.split())
        results = [(goes_on(*run_and_resume(divisi, work, devices)), "goes on bit by bit after step 6, two steps after an average")]
        step = work / "c/step-6"
        lines.call(divisi, "checkpoint", "export", step, "-o", work / "m.safetensors")
        mean = read_weights(work / "m.safetensors")
        shards = [read_state(file) for file in sorted(step.glob("state-*.safetensors"))]
        apart, error = 0, 0
        for name in mean:
            own = [p[name].reshape(p[name].shape[1:]) for p in shards if name in p]
            if len(own) == replicas and own[0].shape == mean[name].shape:  # not split further
                apart = max(apart, np.abs(own[0] - own[1]).max())
                error = max(error, np.abs(np.mean(np.float64(own), 0) - mean[name]).max())
        return results + [(apart > 1e-4 and error < 1e-7, f"replicas are {apart:.1e} apart, their export {error:.1e} off the mean")]

    return test


def check_long(divisi, every):
    """Averages that overlap with steps, beside the messages with which ranks agree on stopping: the same losses over MPI and TCP."""
    steps = 48

    def test(work):
        lines.call(divisi, "compile", CASE / "model.onnx", "-o", work / "p", "--mesh", "data=3", "--sync", "local", "--average-every", every, "--overlap-average")
        over = []
        for launch, kept in [(["--devices", 3], []), (["--min-devices", 3], ["--checkpoint", work / "c"])]:
            (work / "log").unlink(missing_ok=True)
            lines.call(divisi, "run", *launch, work / "p", "--steps", steps, "--epochs", 100, "--no-shuffle", "--quiet", "--log", work / "log", *kept, *data_flags("mlp", ("x", "label")))
            over.append([row["loss"] for row in map(json.loads, (work / "log").read_text().splitlines()) if "loss" in row and "step" in row])
        return [(over[0] == over[1] and len(over[0]) == steps and over[0][-1] < over[0][0], f"{len(over[0])} and {len(over[1])} losses, to {over[0][-1]:.4f}")]

    return test


def check_bytes(divisi, every):
    """Of 12 steps, rank 0 sends log2 R times the parameters, which are small, in each that averages, with the results of all since the last one, and nothing in others."""

    def test(work):
        lines.call(divisi, "compile", CASE / "model.onnx", "-o", work / "p", "--mesh", "data=4", "--sync", "local", "--average-every", every)
        rows = run_program(divisi, work / "p", 4, STEPS, work / "log", "--quiet")
        elements = sum(w.size for w in read_weights(work / "p.safetensors").values())
        wanted, found = 2 * 4 * elements, [r["comm_bytes"] for r in rows if r["step"] % every == 0]
        results = [f - wanted for f in found]
        fits = len(found) == STEPS // every and not any(r["comm_bytes"] for r in rows if r["step"] % every)
        return [(fits and all(0 < r <= every * 2 * 8 * 16 for r in results), f"{wanted} bytes of parameters and {results[0]} of results in a step that averages")]

    return test


REFUSALS = {  # flags: part of the one line
    "--mesh data=2 --sync local": "needs --average-every",
    "--mesh model=2 --sync local --average-every 2": "needs replicas: an axis data",
    "--mesh data=2 --zero 1 --sync local --average-every 2": "leave out --zero",
    "--mesh data=2 --average-every 2": "is for --sync local",
    "--mesh data=2 --overlap-average": "is for --sync local",
    "--mesh data=2 --sync local --average-every 2 --overlap-average --average-state": "would come too late",
    "--mesh data=2 --sync local --average-every 2 --outer-lr 1": "is for --outer-optimizer",
    "--mesh data=2 --sync gossip --average-every 2": "is for --sync local",
    "--mesh data=2 --zero 1 --sync driver": "leave out --zero",
    "--mesh data=2 --topology ring": "is for --sync gossip",
    "--mesh data=2 --servers colocated": "is for --sync server",
    "--mesh data=2 --zero 1 --sync server": "leave out --zero",
    "--devices 2 --strategy auto --sync server": "needs --strategy data, or --mesh without a search",
    "--mesh data=2 --zero 3 --sync gossip": "leave out --zero",
    "--mesh data=2 --sync local --average-every 2 --precision fp16": "take --precision bf16",
    "--mesh stage=2,data=2 --schedule pipedream --sync local --average-every 2": "take another schedule",
    "--mesh stage=2,data=2 --stage-axes data,none --microbatches 2 --sync local --average-every 2": "leave it out",
    "--devices 2 --strategy auto --sync local --average-every 2": "does not choose other numbers",
    "--mesh data=2 --sync local --average-every 2 --outer-optimizer sgd --outer-momentum 1": "below 1",
    "--mesh data=8 --sync local --average-every 2": "splits no input over the axis 'data'",
}


def check_refusal(divisi, flags, wanted):
    def test(work):
        try:
            lines.call(divisi, "compile", CASE / "model.onnx", "-o", work / "p", *flags.split())
        except RuntimeError as error:
            said = [line for line in str(error).splitlines() if "error:" in line]
            return [(wanted in str(error) and len(said) == 1, said[0] if said else str(error))]
        return [(False, "was compiled")]

    return test


def main():
    p = lines.parser(__doc__.splitlines()[0])
    options = p.parse_args()
    tests = []
    for mesh in MESHES:
        for run, every, flags in LOCAL:
            tests.append((f"mlp {mesh} {run[0]} every {every} {' '.join(words(flags))}", check_local(options.divisi, Mlp(), mesh, run, every, flags)))
        for run, topology in [(MOMENTUM, "ring"), (MOMENTUM, "exponential"), (ADAMW, "pairs")]:
            tests.append((f"mlp {mesh} {run[0]} gossip {topology}", check_gossip(options.divisi, Mlp(), mesh, run, topology)))
        for model in ["mlp", *OTHERS]:
            for sync in ["--sync driver", "--sync server"]:
                tests.append((f"{model} {mesh} {sync}", check_synchronous(options.divisi, model, mesh, sync)))
        for model in OTHERS:
            tests.append((f"{model} {mesh} as all-reduce", check_equal(options.divisi, model, mesh)))
    for mesh in MORE_MESHES:
        for model in ["mlp", *OTHERS]:
            tests += [(f"{model} {mesh} {sync}", check_synchronous(options.divisi, model, mesh, sync)) for sync in ["--sync driver", "--sync server"]]
    for mesh in [*MESHES, *MORE_MESHES]:
        for model in smooth_models():
            tests.append((f"{model.name} {mesh} every 3", check_local(options.divisi, model, mesh, MOMENTUM, 3, {"outer_optimizer": "nesterov"})))
            tests += [(f"{model.name} {mesh} gossip {topology}", check_gossip(options.divisi, model, mesh, SGD, topology))
                      for topology in ["ring", "exponential", "pairs"]]
    for mesh in MESHES:
        for sync, rate in [("local --average-every 3", 0), ("gossip", 0), ("local --average-every 1", 0.1)]:
            tests.append((f"dropout {mesh} {sync}, learning rate {rate}", check_dropout(options.divisi, mesh, sync, rate)))
    resumed = [(mesh, "--sync local --average-every 4 --outer-optimizer nesterov" + overlap) for mesh in MESHES for overlap in ("", " --overlap-average")]
    for mesh, sync in [*resumed, ("--mesh data=4", "--sync gossip --topology exponential")]:
        tests.append((f"resume {mesh} {sync}", check_resume(options.divisi, mesh, sync)))
    tests += [(f"mlp long, every {every}", check_long(options.divisi, every)) for every in (3, 5)]
    tests += [(f"bytes every {every}", check_bytes(options.divisi, every)) for every in (2, 6)]
    tests += [(f"refused {flags}", check_refusal(options.divisi, flags, wanted)) for flags, wanted in REFUSALS.items()]
    return lines.run(tests, options)


if __name__ == "__main__":
    sys.exit(main())
