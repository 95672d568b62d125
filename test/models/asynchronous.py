#!/usr/bin/env python3
"""Asynchronous pipelines against a plain sequential reference that applies exactly the staleness of the definition.

    asynchronous.py --divisi PATH [--only SUBSTRING] [--jobs N] [--quick] [--convergence]

Trains perceptrons on the digits under `--schedule pipedream` and compares every loss with ones that are computed here, in float64,
minibatch by minibatch, from lists of all versions of each stage's weights. Then: with a learning rate of 0 every reference model has the
losses and running statistics of one device, and dropout its random numbers; a resumed run repeats an uninterrupted one. With
--quick each reference model has one schedule instead of two. Ends with `N passed, N failed`. --convergence prints a table of
synchronous and asynchronous training instead. Needs the package onnx.
"""

import dataclasses
import functools
import json
import pathlib
import re
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.dont_write_bytecode = True
import check  # noqa: E402
import lines  # noqa: E402

MODELS = pathlib.Path(__file__).resolve().parent
CUTS = {"lstm_tiny": "/gru/GRU"}  # a layer that is unrolled cannot be cut inside
DIGITS = pathlib.Path(__file__).resolve().parents[2] / "examples/digits"
SIZES = (64, 48, 40, 32, 24, 10)
TIED_SIZES = (64, 40, 40, 40, 24, 10)
BATCH, BATCHES, STEPS = 16, 20, 40  # of a step, in an epoch, of a run
TOLERANCE = 1e-5
MOMENTUM = 0.9
BETAS, EPS = (0.9, 0.999), 1e-8  # of adam and adamw
TRUST = 0.5  # of lars
KINDS = ("stashed", "vertical-sync", "latest", "predicted")


@dataclasses.dataclass(frozen=True)
class Run:
    """A program: `stages` stages, or one device; one more layer begins at each cut."""

    staleness: str
    stages: int
    mesh: str = ""
    cuts: tuple = ()  # layers that begin a stage, from 1 on
    flags: str = ""
    replicas: tuple = ()  # of each stage, which take minibatches in turn
    tied: bool = False  # fc2 has the weight of fc1
    shifted: bool = False  # the stage of fc2 begins with a second bias of fc1, so that two stages have one gradient in common
    lr: float = 0.02

    def replicas_of(self, stage):
        return self.replicas[stage] if self.replicas else 1

    def lag(self, stage):
        """Minibatches that enter a stage between the forward and the backward pass of one."""
        return sum(map(self.replicas_of, range(stage, max(1, self.stages)))) - 1

    @property
    def sizes(self):
        return TIED_SIZES if self.tied else SIZES

    def compile_flags(self):
        if not self.stages:
            return self.flags.split()
        schedule = f"pipedream --staleness {self.staleness}" if self.staleness != "2bw" else "pipedream-2bw"
        flags = f"--mesh stage={self.stages}{self.mesh} --schedule {schedule} {self.flags}".split()
        flags += ["--round-robin", ",".join(map(str, self.replicas))] if self.replicas else []
        return flags + ["--cut=shift" if self.shifted and layer == 2 else f"--cut=fc{layer}" for layer in self.cuts]

    def devices(self):
        count = sum(self.replicas) or max(1, self.stages)
        for axis in self.mesh.split(",")[1:]:
            count *= int(axis.split("=")[1])
        return count


RUNS = [Run(kind, stages, cuts=cuts) for kind in KINDS for stages, cuts in ((2, (2,)), (4, (1, 2, 4)))] + [
    Run("stashed", 5, cuts=(1, 2, 3, 4), flags="--weight-decay 0.01 --lr-schedule linear --warmup-steps 5"),
    Run("latest", 3, cuts=(1, 3), flags="--weight-decay 0.01 --lr-schedule cosine"),
    Run("predicted", 2, cuts=(2,), flags="--lr-factor fc1.*=0.25"),
    Run("stashed", 2, ",data=2", cuts=(3,)),
    Run("vertical-sync", 2, ",model=2", cuts=(2,)),
    Run("predicted", 2, ",data=2,model=2", cuts=(2,)),
    Run("predicted", 4, cuts=(1, 2, 4), flags="--optimizer adam --weight-decay 0.01", lr=0.005),
    Run("predicted", 3, cuts=(1, 3), flags="--optimizer adamw --weight-decay 0.1 --lr-factor fc1.*=0.25", lr=0.005),
    Run("stashed", 3, cuts=(1, 3), flags="--clip-norm 0.4"),
    Run("stashed", 2, ",model=2", cuts=(2,), flags="--clip-norm 0.4"),
    Run("stashed", 2, ",model=3", cuts=(2,), flags="--clip-norm 0.4"),  # pads the rows of weights
    Run("stashed", 3, cuts=(1, 3), flags=f"--optimizer lars --trust-coefficient {TRUST} --weight-decay 0.01"),
    Run("stashed", 2, cuts=(2,), replicas=(2, 1)),
    Run("stashed", 2, cuts=(3,), replicas=(3, 1), flags="--lr-schedule linear --weight-decay 0.01"),
    Run("stashed", 3, cuts=(1, 3), replicas=(1, 3, 1), flags="--clip-norm 0.4"),
    Run("stashed", 3, ",data=2", cuts=(2, 4), replicas=(2, 2, 1)),
    Run("stashed", 4, cuts=(1, 2, 3), replicas=(9, 5, 1, 1)),
    Run("stashed", 2, ",data=2", cuts=(3,), flags="--zero 1 --optimizer adamw --weight-decay 0.1", lr=0.005),
    Run("vertical-sync", 3, ",data=2", cuts=(2, 4), flags="--zero 3"),
    Run("stashed", 2, cuts=(2,), tied=True),
    Run("vertical-sync", 3, cuts=(2, 3), tied=True),
    Run("predicted", 2, cuts=(2,), tied=True),
    Run("stashed", 3, cuts=(2, 3), tied=True, replicas=(2, 3, 1), flags="--clip-norm 0.4"),
    Run("stashed", 2, cuts=(2,), shifted=True),
    Run("vertical-sync", 3, ",data=2", cuts=(2, 3), flags="--weight-decay 0.01", shifted=True),
    Run("2bw", 3, cuts=(2, 3), flags="--microbatches 4 --weight-decay 0.01", shifted=True),
    Run("2bw", 2, cuts=(2,), flags="--microbatches 2"),
    Run("2bw", 4, cuts=(1, 2, 4), flags="--microbatches 4 --weight-decay 0.01 --lr-schedule linear"),
    Run("2bw", 2, ",data=2", cuts=(3,), flags="--microbatches 8 --optimizer adam --weight-decay 0.01", lr=0.005),
    Run("2bw", 3, ",model=2", cuts=(1, 3), flags="--microbatches 4 --clip-norm 0.4"),
    Run("2bw", 2, ",data=2", cuts=(2,), flags="--microbatches 4 --zero 3", tied=True),
    Run("2bw", 3, cuts=(2, 3), flags="--microbatches 16 --remat all", tied=True),
]


def weights_of(sizes=SIZES, seed=1, shifted=False):
    """[(weight, bias)] by layer, float32; the third layer also has the second bias of the one before it if `shifted`."""
    rng = np.random.default_rng(seed)
    layers = [(rng.normal(0, (2 / fan) ** 0.5, (out, fan)).astype(np.float32), rng.normal(0, 0.1, out).astype(np.float32))
              for fan, out in zip(sizes, sizes[1:])]
    if shifted:
        layers[2] += (rng.normal(0, 0.1, sizes[2]).astype(np.float32),)
    return layers


def write_model(path, dropout=0.0, activation="Tanh", tied=False, shifted=False):
    """A perceptron whose linear layers are the nodes fc0, fc1, ... (With relu, two runs may diverge at a value near its kink.)"""
    nodes, constants, value = [], [], "image"
    for i, (weight, bias) in enumerate(weights_of(TIED_SIZES if tied else SIZES)):
        name = "fc1.weight" if tied and i == 2 else f"fc{i}.weight"
        constants += ([] if tied and i == 2 else [numpy_helper.from_array(weight, name)]) + [numpy_helper.from_array(bias, f"fc{i}.bias")]
        last = i == len(SIZES) - 2
        nodes.append(helper.make_node("Gemm", [value, name, f"fc{i}.bias"], ["logits" if last else f"y{i}"], f"fc{i}", transB=1))
        value = f"y{i}"
        if shifted and i == 1:
            constants.append(numpy_helper.from_array(weights_of(shifted=True)[2][2], "shift.bias"))
            nodes.append(helper.make_node("Add", [value, "shift.bias"], ["shifted"], "shift"))
            value = "shifted"
        if not last:
            nodes.append(helper.make_node(activation, [value], [f"act{i}"], f"act{i}"))
        value = f"act{i}"
        if dropout and not last:
            constants += [numpy_helper.from_array(np.array(x), f"{n}{i}") for n, x in (("ratio", np.float32(dropout)), ("training", True))]
            nodes.append(helper.make_node("Dropout", [value, f"ratio{i}", f"training{i}"], [f"drop{i}"], f"drop{i}"))
            value = f"drop{i}"
    inputs = [helper.make_tensor_value_info("image", TensorProto.FLOAT, [BATCH, SIZES[0]])]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [BATCH, SIZES[-1]])]
    graph = helper.make_graph(nodes, "perceptron", inputs, outputs, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def write_data(folder):
    for name, rows in (("", BATCH * BATCHES), ("t", None)):
        np.save(folder / f"x{name}.npy", np.load(DIGITS / f"x{name}.npy").reshape(-1, SIZES[0])[:rows].astype(np.float32))
        np.save(folder / f"y{name}.npy", np.load(DIGITS / f"y{name}.npy")[:rows])


class Reference:
    """PipeDream's training (arXiv 1806.03377, section 3.3), one minibatch after the other. The replicas of a stage that take
    minibatches in turn update together, by the mean of their gradients, at the end of each round."""

    def __init__(self, run):
        self.run, flags = run, run.flags.split()
        value = {flag: float(number) for flag, number in zip(flags, flags[1:]) if flag in ("--weight-decay", "--clip-norm")}
        self.decay, self.limit = value.get("--weight-decay", 0), value.get("--clip-norm", np.inf)
        factor = re.search(r"--lr-factor fc(\d)\.\*=(\S+)", run.flags)
        self.factors = [float(factor[2]) if factor and layer == int(factor[1]) else 1 for layer in range(len(SIZES) - 1)]
        self.stage_of = [sum(layer >= cut for cut in run.cuts) for layer in range(len(SIZES) - 1)]
        start = [[x.astype(np.float64) for x in layer] for layer in weights_of(run.sizes, shifted=run.shifted)]
        self.versions = [[layer] for layer in start]  # by layer, by number of updates
        rule = re.search(r"--optimizer (\w+)", run.flags)
        self.rule = rule[1] if rule else "sgd"
        self.adam = self.rule.startswith("adam")
        nothing = [[np.zeros_like(x) for x in layer] for layer in start]
        self.states = [[[(x, x) if self.adam else x for x in layer]] for layer in nothing]  # of the optimizer, by layer and version
        self.first = [(0, 0)] * len(start)  # by layer: the minibatch that entered the empty pipeline first, and its version
        self.round = [[] for _ in start]  # by layer: gradients of the minibatches in the present round
        self.counted = [[0] for _ in start]  # by layer and version: minibatches, as the optimizer counts them

    def version(self, layer, minibatch):
        """The number of the version that holds all updates of minibatches before this one."""
        first, version = self.first[layer]
        return version + max(0, minibatch - first) // self.run.replicas_of(self.stage_of[layer])

    def weights(self, layer, minibatch, rate, backward):
        """The weights that a pass of a minibatch reads."""
        if self.run.tied and layer == 2:  # the owner's, as its pass of the same minibatch forward reads them
            return [self.weights(1, minibatch, rate, False)[0], self.own_weights(2, minibatch, rate, backward)[1]]
        return self.own_weights(layer, minibatch, rate, backward)

    def own_weights(self, layer, minibatch, rate, backward):
        stage, kind = self.stage_of[layer], self.run.staleness
        lag = self.run.lag(stage)
        forward = self.version(layer, minibatch - lag)  # updates that are complete when the minibatch enters
        if kind == "2bw":  # arXiv 2006.09503, section 3.1: gradients of the version before the newest
            version = self.version(layer, minibatch - 1)
        elif kind == "stashed":
            version = forward
        elif kind == "vertical-sync":
            version = self.version(layer, minibatch - self.run.lag(0))  # those of the first stage, at that time
        else:
            version = self.version(layer, minibatch) if backward else forward
        chosen = self.versions[layer][version]
        if kind != "predicted" or self.run.stages < 2:
            return chosen
        updates = stage // 2 + (0 if backward else lag)
        rate *= self.factors[layer]
        state = self.states[layer][version]
        return [w - updates * rate * self.change(w, of, max(1, self.counted[layer][version])) for w, of in zip(chosen, state)]

    def change(self, weight, state, updates):
        """What an update subtracts, over the learning rate, when the optimizer's state is this."""
        if not self.adam:
            return state
        mean, square = (average / (1 - beta**updates) for average, beta in zip(state, BETAS))
        return mean / (np.sqrt(square) + EPS) + (self.decay * weight if self.rule == "adamw" else 0)

    def renewed(self, weight, state, gradient):
        """The optimizer's state after one more gradient."""
        if self.rule == "lars":  # arXiv 1708.03888
            size = np.linalg.norm(weight)
            trust = TRUST * size / (np.linalg.norm(gradient) + self.decay * size + EPS)
            gradient = trust * (gradient + self.decay * weight)
        elif self.rule != "adamw":
            gradient = gradient + self.decay * weight
        if not self.adam:
            return MOMENTUM * state + gradient
        return tuple(beta * average + (1 - beta) * x for average, beta, x in zip(state, BETAS, (gradient, gradient**2)))

    def product(self, a, b):
        return a @ b

    def scale(self, minibatch):
        """By which the loss of a minibatch is multiplied, and its gradients are divided."""
        return 1

    def step(self, minibatch, rate, x, labels, drains):
        """The loss; afterwards the round is longer, or there is one more version."""
        values = [x]
        last = len(SIZES) - 2
        for layer in range(last + 1):
            weight, bias = self.weights(layer, minibatch, rate, backward=False)[:2]
            y = self.product(values[-1], weight.T) + bias
            if self.run.shifted and layer == 1:
                y += self.weights(2, minibatch, rate, backward=False)[2]
            values.append(y if layer == last else np.tanh(y))
        shifted = values[-1] - values[-1].max(1, keepdims=True)
        logs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
        rows = np.arange(len(labels))
        gradient = np.exp(logs)
        gradient[rows, labels] -= 1
        scale = self.scale(minibatch)
        gradient *= scale / len(labels)
        gradients = []
        for layer in range(last, -1, -1):
            if layer < last:
                gradient = gradient * (1 - values[layer + 1] ** 2)
            gradients.append([self.product(gradient.T, values[layer]) / scale, gradient.sum(0) / scale])
            gradient = self.product(gradient, self.weights(layer, minibatch, rate, backward=True)[0])
        gradients.reverse()
        if self.run.tied:
            gradients[1][0] = gradients[1][0] + gradients[2][0]
            gradients[2][0] = np.zeros_like(gradients[2][0])
        if self.run.shifted:
            gradients[2].append(gradients[1][1])
        self.take(gradients)
        for stage in range(max(1, self.run.stages)):
            layers = [layer for layer in range(last + 1) if self.stage_of[layer] == stage]
            if len(self.round[layers[0]]) == self.run.replicas_of(stage) or drains:
                self.update(layers, rate)
        if drains:
            self.first = [(minibatch + 1, len(versions) - 1) for versions in self.versions]
        return -logs[rows, labels].mean()

    def take(self, gradients):
        for layer, given in enumerate(gradients):
            self.round[layer].append(given)

    def update(self, layers, rate):
        """The update of a stage; it clips the gradients of its own layers by their own norm."""
        means = {layer: [np.mean(parts, axis=0) for parts in zip(*self.round[layer])] for layer in layers}
        norm = np.sqrt(sum((part**2).sum() for mean in means.values() for part in mean))
        clip = min(1, self.limit / (norm + 1e-6))
        for layer in layers:
            now, updates = self.versions[layer][-1], self.counted[layer][-1] + len(self.round[layer])
            state = [self.renewed(w, of, clip * g) for w, of, g in zip(now, self.states[layer][-1], means[layer])]
            self.states[layer].append(state)
            self.counted[layer].append(updates)
            self.versions[layer].append([w - rate * self.factors[layer] * self.change(w, of, updates) for w, of in zip(now, state)])
            self.round[layer] = []

    def evaluate(self, x, labels):
        """The loss of the newest weights."""
        y = x
        for layer, newest in enumerate(versions[-1] for versions in self.versions):
            weight, bias = newest
            y = y @ weight.T + bias
            y = y if layer == len(SIZES) - 2 else np.tanh(y)
        return -(y - np.log(np.exp(y - y.max(1, keepdims=True)).sum(1, keepdims=True)) - y.max(1, keepdims=True))[np.arange(len(labels)), labels].mean()

    def losses(self, x, labels, rates):
        """The pipeline drains at the end of every epoch."""
        result = []
        for step, rate in enumerate(rates):
            batch = slice(step % BATCHES * BATCH, (step % BATCHES + 1) * BATCH)
            drains = step % BATCHES == BATCHES - 1 or step == len(rates) - 1
            result.append(self.step(step, rate, x[batch].astype(np.float64), labels[batch], drains))
        return np.array(result)


class Tester:
    def __init__(self, divisi, quick=False):
        self.divisi, self.quick = divisi, quick

    def train(self, run, folder, model=None, steps=STEPS, lr=None, more=(), name="prog"):
        """The lines of the log."""
        program, log = folder / name, folder / f"{name}.jsonl"
        if not (folder / "x.npy").exists():
            write_data(folder)
        if not model:
            model = folder / "model.onnx"
            write_model(model, tied=run.tied, shifted=run.shifted)
        optimizer = [] if "--optimizer" in run.flags else ["--optimizer", "sgd"]
        optimizer += [] if "adam" in run.flags else ["--momentum", MOMENTUM]
        lines.call(self.divisi, "compile", model, "-o", program, "--loss", "cross_entropy", "--label", "label",
             "--lr", run.lr if lr is None else lr, *optimizer, *run.compile_flags())  # fmt: skip
        start = [self.divisi, "run", "--devices", run.devices(), program] if run.devices() > 1 else [program]
        lines.call(*start, f"--data=image={folder / 'x.npy'}", f"--data=label={folder / 'y.npy'}", "--no-shuffle", "--quiet", "--threads", 1,
             "--log", log, "--steps", steps, *more)  # fmt: skip
        return [json.loads(line) for line in log.read_text().splitlines()]

    def losses(self, rows):
        return np.array([row["loss"] for row in rows if "step" in row and "eval" not in row])

    def against_reference(self, run, folder):
        rows = self.train(run, folder)
        losses = self.losses(rows)
        rates = [row["lr"] for row in rows if "step" in row and "eval" not in row]
        expected = Reference(run).losses(np.load(folder / "x.npy"), np.load(folder / "y.npy"), rates)
        if len(losses) != STEPS:
            return False, f"{len(losses)} losses of {STEPS} steps"
        error = np.max(np.abs(losses - expected) / np.abs(expected))
        synchronous = Reference(Run("latest", 1, tied=run.tied, shifted=run.shifted)).losses(np.load(folder / "x.npy"), np.load(folder / "y.npy"), rates)
        differs = np.max(np.abs(expected - synchronous) / synchronous)
        return bool(error < TOLERANCE < differs / 100), f"loss error {error:.1e} (synchronous training differs by {differs:.1e})"

    def reference_itself(self, folder):
        """The reference with one stage computes the same as a program for one device."""
        rows = self.train(Run("latest", 0), folder)
        rates = [row["lr"] for row in rows if "step" in row]
        expected = Reference(Run("latest", 1)).losses(np.load(folder / "x.npy"), np.load(folder / "y.npy"), rates)
        error = np.max(np.abs(self.losses(rows) - expected) / expected)
        return bool(error < TOLERANCE), f"loss error {error:.1e}"

    def dropout(self, piped, folder):
        """Random numbers are those of the minibatch: without learning, only they distinguish the steps of an epoch from those of the next."""
        write_model(folder / "dropout.onnx", dropout=0.5)
        alone, piped = (self.losses(self.train(run, folder, folder / "dropout.onnx", lr=0, name=name))
                        for run, name in ((Run("latest", 0), "alone"), (piped, "piped")))  # fmt: skip
        error = np.max(np.abs(alone - piped) / alone)
        differ = np.max(np.abs(alone[:BATCHES] - alone[BATCHES:]))
        return bool(error < TOLERANCE and differ > 0.01), f"loss error {error:.1e}"

    def without_learning(self, name, schedule, folder):
        """Forward passes, and the buffers that they renew."""
        parts = [] if schedule == "pipedream" else ["--microbatches", 2]
        case, losses, weights = MODELS / name, [], []
        loss = ["--loss", "cross_entropy", "--label", "label"] if name == "mlp_no_loss" else []
        data = [f"--data={file.stem}={file}" for file in sorted((case / "data").glob("*.npy"))]
        for stages in 0, 2:
            program, log, saved = (folder / f"{part}{stages}" for part in ("prog", "log", "weights"))
            split = parts + (["--mesh", f"stage={stages}", "--schedule", schedule] if stages else [])
            split += ["--cut", CUTS[name]] if stages and name in CUTS else []
            lines.call(self.divisi, "compile", case / "model.onnx", "-o", program, *loss, "--lr", 0, "--momentum", MOMENTUM, *split)
            start = [self.divisi, "run", "--devices", stages, program] if stages else [program]
            lines.call(*start, *data, "--no-shuffle", "--quiet", "--threads", 1, "--steps", 9, "--log", log, "--save-weights", saved)
            losses.append(self.losses([json.loads(line) for line in log.read_text().splitlines()]))
            weights.append(check.read_norms(saved))
        error = np.max(np.abs(losses[0] - losses[1]) / np.abs(losses[0]))
        worst = max(abs(weights[0][n] - weights[1][n]) / max(weights[0][n], 1e-9) for n in weights[0])
        return bool(error < TOLERANCE and worst < TOLERANCE), f"loss error {error:.1e}, norm error {worst:.1e}"

    def evaluated(self, replicas, folder):
        """Evaluations at the end of each epoch, and alone, where replicas take minibatches in turn."""
        run = Run("stashed", 3, cuts=(1, 3), replicas=replicas)
        write_data(folder)
        held_out = [f"--eval=image={folder / 'xt.npy'}", f"--eval=label={folder / 'yt.npy'}"]
        rows = self.train(run, folder, more=held_out)
        rates = [row["lr"] for row in rows if "step" in row and "eval" not in row]
        reference = Reference(run)
        reference.losses(np.load(folder / "x.npy"), np.load(folder / "y.npy"), rates)
        expected = reference.evaluate(np.load(folder / "xt.npy").astype(np.float64), np.load(folder / "yt.npy"))
        found = [row["loss"] for row in rows if row.get("eval")]
        good = len(found) == STEPS // BATCHES and abs(found[-1] - expected) < TOLERANCE * expected
        return bool(good), f"losses {found}, expected {expected:.7f} at the end"

    def resumed(self, run, folder):
        every = 7
        whole = self.train(run, folder, name="whole", more=("--checkpoint", folder / "a", "--every", every))
        self.train(run, folder, name="first", steps=2 * every, more=("--checkpoint", folder / "b", "--every", every))
        rest = self.train(run, folder, name="rest", more=("--checkpoint", folder / "b", "--every", every, "--resume"))
        same = np.array_equal(self.losses(whole)[2 * every :], self.losses(rest))
        return bool(same), "the same losses" if same else "other losses"

    def lines(self):
        """Each test has one result."""
        for what, test in self.tests():
            yield what, lambda folder, test=test: [test(folder)]

    def tests(self):
        yield "one device", self.reference_itself
        for run in RUNS:
            more = f"round-robin {run.replicas} " * bool(run.replicas) + "tied " * run.tied + "common gradient " * run.shifted
            yield f"{run.staleness} stage={run.stages}{run.mesh} {more}{run.flags}".strip(), functools.partial(self.against_reference, run)
        for run in Run("stashed", 4, cuts=(1, 2, 3)), Run("2bw", 3, cuts=(1, 3), flags="--microbatches 4"):
            yield f"dropout {run.staleness}", functools.partial(self.dropout, run)
            yield f"resumed after a checkpoint {run.staleness}", functools.partial(self.resumed, run)
        schedules = ["pipedream", "pipedream-2bw"]
        for number, name in enumerate(sorted(file.parent.name for file in MODELS.glob("*/reference.json"))):
            for schedule in schedules[number % 2:][:1] if self.quick else schedules:
                yield f"without learning {name} {schedule}", functools.partial(self.without_learning, name, schedule)
        for replicas in ((1, 2, 1), (2, 3, 1)):
            yield f"evaluated with replicas {replicas}", functools.partial(self.evaluated, replicas)

    def convergence(self, folder, epochs=20):
        """A table in Markdown."""
        for name in ("x", "y", "xt", "yt"):
            data = np.load(DIGITS / f"{name}.npy")
            np.save(folder / f"{name}.npy", data.reshape(-1, SIZES[0]).astype(np.float32) if name[0] == "x" else data)
        evaluation = [f"--eval=image={folder / 'xt.npy'}", f"--eval=label={folder / 'yt.npy'}"]
        model = folder / "relu.onnx"
        write_model(model, activation="Relu")
        print("| schedule | lr | held-out loss, 1 epoch | 5 | 20 | accuracy, 20 |\n|---|---|---|---|---|---|")
        for lr in (0.005, 0.02):
            ways = [("synchronous", Run("", 0))] + [(f"pipedream, {kind}", Run(kind, 4, cuts=(1, 2, 4))) for kind in KINDS]
            for name, run in ways:
                steps = epochs * (len(np.load(folder / "x.npy")) // BATCH)
                try:
                    rows = [row for row in self.train(run, folder, model, steps=steps, lr=lr, more=evaluation) if row.get("eval")]
                except RuntimeError as error:
                    print(f"| {name} | {lr} | {str(error).strip().splitlines()[-1][-60:]} | | | |")
                    continue
                at = [rows[epoch - 1]["loss"] for epoch in (1, 5, epochs)]
                print(f"| {name} | {lr} | {' | '.join(f'{loss:.3f}' for loss in at)} | {rows[-1]['accuracy']:.1%} |", flush=True)


def main():
    p = lines.parser(__doc__.splitlines()[0])
    p.add_argument("--quick", action="store_true", help="reference models by one schedule each")
    p.add_argument("--convergence", action="store_true", help="print the table of held-out losses instead")
    o = p.parse_args()
    tester = Tester(o.divisi, o.quick)
    if o.convergence:
        with tempfile.TemporaryDirectory() as folder:
            return tester.convergence(pathlib.Path(folder))
    return lines.run(tester.lines(), o)


if __name__ == "__main__":
    sys.exit(main())
