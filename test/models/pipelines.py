#!/usr/bin/env python3
"""The reference models in microbatches and pipelines: the losses of PyTorch, whatever the schedule.

    pipelines.py --divisi PATH [--only SUBSTRING] [--quick] [--all] [--draws N [--ways] [--seed S]] [--jobs N]

Trains each model with SGD in each way of WAYS, and compares with PyTorch's run as check.py does. Batch norm uses the statistics
of each microbatch, so that models with it are compared with one device and the same microbatches; and that, with PyTorch's way of
one batch, on batches that repeat their first microbatch. Then: checkpoints that go from a pipeline to one device and back, and
the bytes sent on repeated runs. --quick: every second model in each way that has more than three. --all: each schedule on each shape of 2, 4 and 8 devices instead. --draws: random programs for
2, 4 and 8 devices instead (--ways: after all of the above), each with the losses of the same program for one device; needs the
package onnx. --only runs the lines that contain the text, --jobs N of them at a time. A way that does not divide a model's
batch, or has more stages than the model has nodes, and a draw that the compiler says cannot be, is skipped and counts as nothing;
if more than half of the draws are, that is a failure. Ends with `N passed, N failed`.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import functools
import itertools
import json
import math
import pathlib
import random
import re
import sys
import tempfile
import threading

import numpy as np

sys.dont_write_bytecode = True
import check  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent


def devices_of(axes, stage_axes, replicas=""):
    """The number of devices of a mesh {axis: size} whose stages have all axes, or those of the list --stage-axes, or replicas that
    take microbatches in turn ("2,1")."""
    if replicas:
        return sum(int(count) for count in replicas.split(",")) * math.prod(axes.values()) // axes["stage"]
    if not stage_axes:
        return math.prod(axes.values())
    return sum(math.prod(axes[axis] for axis in stage.split("+") if axis != "none") for stage in stage_axes[0].split(","))


@dataclasses.dataclass(frozen=True)
class Way:
    """The first of `counts` that divides a model's batch is the number of its microbatches."""

    flags: str = ""
    counts: tuple = (4, 8, 2)
    models: tuple = ()  # all, if empty

    def __str__(self):
        return self.flags if "--mesh" in self.flags else f"one device {self.flags}".strip()

    @property
    def axes(self):
        return {axis: int(size) for axis, size in re.findall(r"(\w+)=(\d+)", self.flags)}

    @property
    def devices(self):
        return devices_of(self.axes, re.findall(r"--stage-axes (\S+)", self.flags), self.replicas)

    @property
    def replicas(self):
        return "".join(re.findall(r"--round-robin (\S+)", self.flags))

    def microbatches(self, batch):
        rows, rounds = self.axes.get("data", 1), self.axes.get("stage", 1) if "interleaved" in self.flags else 1
        turns = max(map(int, self.replicas.split(","))) if self.replicas else 1
        return next((n for n in self.counts if batch % (n * rows) == 0 and n % rounds == 0 and n >= turns), None)


WAYS = [
    Way(counts=(2,)),
    Way(counts=(4,)),
    Way("--mesh stage=2 --schedule naive", (2,)),
    Way("--mesh stage=2 --schedule naive", (1,)),
    Way("--mesh stage=4,data=2 --schedule naive", (1,), ("resnet_tiny", "gpt_tiny", "vit_tiny")),
    Way("--mesh stage=2 --schedule gpipe"),
    Way("--mesh stage=2 --schedule 1f1b"),
    Way("--mesh stage=2 --schedule zb-h1"),
    Way("--mesh stage=2 --schedule interleaved --chunks 2"),
    Way("--mesh stage=4 --schedule 1f1b"),
    Way("--mesh stage=2,data=2"),
    Way("--mesh stage=2,model=2"),
    Way("--mesh stage=2,data=2,model=2", models=("gpt_tiny", "unet_tiny")),
    Way("--mesh stage=2,data=2 --stage-axes data,none", (2,)),
    Way("--mesh stage=2,model=2 --stage-axes none,model"),
    Way("--mesh stage=3,data=2,model=2 --stage-axes data+model,none,data --zero 1", (2,), ("gpt_tiny", "mlp", "unet_tiny")),
    Way("--mesh stage=2,data=2 --stage-axes data,none --schedule interleaved", (2,), ("inception_tiny", "moe_tiny")),
    Way("--mesh stage=2 --round-robin 2,1"),
    Way("--mesh stage=2 --round-robin 1,3", models=("gpt_tiny", "unet_tiny", "mlp")),
    Way("--mesh stage=2 --round-robin 7,1", (8,), ("lenet", "mlp", "moe_tiny")),
    Way("--mesh stage=3 --round-robin 3,2,1 --schedule gpipe", models=("gpt_tiny", "lstm_tiny", "vit_tiny")),
    Way("--mesh stage=2,data=2 --round-robin 2,1 --zero 1", (2,), ("gpt_tiny", "resnet_tiny")),
    Way("--mesh stage=2,model=2 --round-robin 1,2 --schedule naive", (2,), ("moe_tiny", "inception_tiny")),
]
SCHEDULES = ["naive", "gpipe", "1f1b", "zb-h1", "interleaved --chunks 2"]
SHAPES = ["stage=2", "stage=4", "stage=2,data=2", "stage=2,model=2", "stage=8", "stage=4,data=2", "stage=4,model=2", "stage=2,data=4",
          "stage=2,model=4", "stage=2,data=2,model=2", "stage=2,data=2 --stage-axes data,none", "stage=2,model=4 --stage-axes none,model",
          "stage=3,data=2,model=2 --stage-axes data+model,none,data"]
CHECKPOINTED = ("gpt_tiny", "adamw", 4, 2)  # model, optimizer, steps before the resume, steps between checkpoints
PIPELINE = Way("--mesh stage=2 --microbatches 2")
CHECKPOINTS = [pair for alone in (Way("--microbatches 2"), Way()) for pair in ((PIPELINE, alone), (alone, PIPELINE))]
COUNTED = ("inception_tiny", Way("--mesh stage=2,data=2 --microbatches 2"))
DRAWN_STEPS = 6
# Wrong flags; cuts that are no nodes of the imported model, or in another order; conditions of a schedule.
CANNOT_BE = re.compile(r"compile: exit 2:|cut: there is no node|cut: expected .* in their order|schedule \S+ needs microbatches in multiples")


class Skip(Exception):
    pass


def computed_nodes(model):
    """Names of the nodes that depend on a batch, in their order: other nodes may fold away."""
    import onnx

    graph = onnx.load(model).graph
    known = {i.name for i in graph.input} - {i.name for i in graph.initializer}
    names = []
    for node in graph.node:
        if node.op_type != "Shape" and known.intersection(node.input):
            known.update(node.output)
            names.append(node.name)
    return names


def draw(rng, cases, nodes):
    """A random program: (model, optimizer, devices, flags of the pipeline, flags of one device, too)."""
    name, devices = rng.choice(list(cases)), rng.choice((2, 4, 8))
    shapes = [shape for shape in itertools.product((1, 2, 4, 8), repeat=3) if math.prod(shape) == devices and shape[0] > 1]
    stages, data, model = rng.choice(shapes)
    axes = [f"{axis}={size}" for axis, size in (("data", data), ("model", model)) if size > 1]
    rng.shuffle(axes)
    fits = {schedule: [n for n in (2, 4, 8) if cases[name]["batch"] % n == 0 and (n % stages == 0 or "interleaved" not in schedule)]
            for schedule in SCHEDULES}
    schedule = rng.choice([schedule for schedule in SCHEDULES if fits[schedule]])
    flags = f"--mesh {','.join([f'stage={stages}', *axes])} --schedule {schedule}"
    if axes and rng.randrange(3) == 0:
        names = [axis.split("=")[0] for axis in axes]
        having = [[name for name in names if rng.randrange(2)] for _ in range(stages)]
        having[rng.randrange(stages)] = names  # some stage has all
        narrow = ",".join("+".join(list) or "none" for list in having)
        flags += f" --stage-axes {narrow}"
        devices = devices_of({"data": data, "model": model}, [narrow])
    both = f"--microbatches {rng.choice(fits[schedule])}"
    if data > 1:
        flags += f" --zero {rng.choice((0, 1, 3))}"
    optimizer = rng.choice(("sgd", "adamw"))
    if rng.randrange(3) == 0:
        both += " --clip-norm 0.5"
    cuts, later = stages * (2 if "interleaved" in schedule else 1) - 1, nodes[name][1:]
    if rng.randrange(3) == 0 and cuts <= len(later):
        flags += "".join(f" --cut {later[i]}" for i in sorted(rng.sample(range(len(later)), cuts)))
    return name, optimizer, devices, flags, both


class Tester:
    def __init__(self, divisi):
        self.base = dict(divisi=divisi, devices=1, launcher="local", strategy=None, model="model.onnx", tolerance=1e-4, norm_tolerance=1e-3,
                         compile_args="", run_args="")
        self.cases = {f.parent.name: json.loads(f.read_text()) for f in sorted(HERE.glob("*/reference.json"))}
        self.alone, self.locks, self.lock = {}, {}, threading.Lock()

    def options(self, **changed):
        return argparse.Namespace(**self.base | changed)

    def run(self, name, optimizer="sgd"):
        return next(run for run in self.cases[name]["runs"] if run["optimizer"]["name"] == optimizer)

    def what_it_does(self, case, name, folder, flags="", optimizer="sgd", steps=None):
        """The run of a program for one device, in the form of a reference."""
        opt, run, ref = self.options(compile_args=flags), self.run(name, optimizer), self.cases[name]
        prog, log, weights = folder / "alone", folder / "alone.jsonl", folder / "alone.safetensors"
        wrong = check.build(case, ref, run["optimizer"], opt, prog)
        wrong = wrong or check.train(case, ref, steps or len(run["losses"]), opt, prog, log, weights)
        if wrong:
            raise RuntimeError(f"one device {flags}: {wrong}")
        norms = check.read_norms(weights)
        return run | {"losses": check.read_losses(log), "grad_norms": check.first_grad_norms(log),
                      "param_norms_after": {n: norms[n] for n in run["param_norms_after"]}}

    def one_device(self, name, folder, *how):
        """The run of one device, computed once for all lines that need it."""
        key = name, *how
        with self.lock:
            lock = self.locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self.alone:
                self.alone[key] = self.what_it_does(HERE / name, name, folder, *how)
            return self.alone[key]

    def repeating(self, name, microbatches, folder):
        """A copy of a case whose batches repeat their first microbatch: its statistics are those of the whole batch."""
        batch = self.cases[name]["batch"]
        (folder / "data").mkdir()
        (folder / "model.onnx").symlink_to(HERE / name / "model.onnx")
        for file in (HERE / name / "data").glob("*.npy"):
            rows = np.load(file)
            parts = rows.reshape(-1, microbatches, batch // microbatches, *rows.shape[1:])
            np.save(folder / "data" / file.name, np.repeat(parts[:, :1], microbatches, axis=1).reshape(rows.shape))
        return folder

    def backwards(self, name, folder):
        """A copy of a case whose rows come in the opposite order."""
        (folder / "data").mkdir(parents=True)
        (folder / "model.onnx").symlink_to(HERE / name / "model.onnx")
        for file in (HERE / name / "data").glob("*.npy"):
            np.save(folder / "data" / file.name, np.load(file)[::-1])
        return folder

    def train(self, way, name, folder):
        """One model in one way."""
        case, run, microbatches = HERE / name, self.run(name), way.microbatches(self.cases[name]["batch"])
        flags = f"--microbatches {microbatches}"
        opt = self.options(devices=way.devices, compile_args=f"{way.flags} {flags}")
        normalized = b"BatchNormalization" in (case / "model.onnx").read_bytes() and microbatches > 1
        if normalized and way.devices > 1:
            run = self.one_device(name, folder, flags)
        elif normalized:
            case = self.repeating(name, microbatches, folder)
            run = self.what_it_does(case, name, folder)
        ok, text = check.check(case, self.cases[name], run, opt, folder, name)
        if ok or name not in check.KINKED or way.devices == 1:
            return ok, text
        # A fault shows with any data; two runs that rounding parts at the kink of a relu agree with other data.
        case = self.backwards(name, folder / "backwards")
        ok, again = check.check(case, self.cases[name], self.what_it_does(case, name, folder, flags), opt, folder, "")
        return ok, f"{again}, of the rows backwards; of the rows as they are: {text}"

    def checkpoint(self, first, second, folder):
        """Some steps by one program, the remaining ones by the other."""
        name, optimizer, before, every = CHECKPOINTED
        run, ref = self.run(name, optimizer), self.cases[name]
        for i, (way, steps, more) in enumerate([(first, before, f"--every {every}"), (second, len(run["losses"]), "--resume")]):
            opt = self.options(devices=way.devices, compile_args=way.flags, run_args=f"--checkpoint {folder / 'kept'} {more}")
            prog, log, weights = folder / f"prog{i}", folder / f"log{i}.jsonl", folder / f"{i}.safetensors"
            wrong = check.build(HERE / name, ref, run["optimizer"], opt, prog)
            wrong = wrong or check.train(HERE / name, ref, steps, opt, prog, log, weights)
            if wrong:
                return False, f"{way}: {wrong}"
        results = [check.compare_losses(check.read_losses(log), run["losses"][before:], opt),
                   check.compare_norms("norm", check.read_norms(weights), run["param_norms_after"], opt)]
        return all(ok for ok, _ in results), ", ".join(text for _, text in results)

    def counts(self, folder):
        """The bytes that each step sends, of two runs."""
        name, way = COUNTED
        run, ref, opt = self.run(name), self.cases[name], self.options(devices=way.devices, compile_args=way.flags)
        wrong, sent = check.build(HERE / name, ref, run["optimizer"], opt, folder / "prog"), []
        for log in folder / "first.jsonl", folder / "second.jsonl":
            wrong = wrong or check.train(HERE / name, ref, 4, opt, folder / "prog", log, folder / "out.safetensors")
            if wrong:
                return False, wrong
            sent.append([row["comm_bytes"] for row in map(json.loads, log.read_text().splitlines()) if "step" in row])
        good = sent[0] == sent[1] and len(set(sent[0])) == 1 and sent[0][0] > 0
        return good, f"{sent[0][0]} bytes in each step" if good else f"{sent[0]} and {sent[1]}"

    def drawn(self, name, optimizer, devices, flags, both, folder):
        """The losses of a random program."""
        case, run, ref = HERE / name, self.run(name, optimizer), self.cases[name]
        opt = self.options(devices=devices, compile_args=f"{flags} {both}")
        prog, log, weights = folder / "prog", folder / "log.jsonl", folder / "out.safetensors"
        wrong = check.build(case, ref, run["optimizer"], opt, prog)
        if wrong and CANNOT_BE.search(wrong):
            raise Skip(wrong)
        wrong = wrong or check.train(case, ref, DRAWN_STEPS, opt, prog, log, weights)
        if wrong:
            return False, wrong
        alone = self.one_device(name, folder, both, optimizer, DRAWN_STEPS)
        return check.compare_losses(check.read_losses(log), alone["losses"], opt, name)

    def draws(self, count, seed):
        """Lines of random programs."""
        rng, nodes = random.Random(seed), {name: computed_nodes(HERE / name / "model.onnx") for name in self.cases if count}
        for i in range(count):
            name, optimizer, devices, flags, both = draw(rng, self.cases, nodes)
            test = functools.partial(self.drawn, name, optimizer, devices, flags, both)
            yield f"draw {i}: {name} {optimizer} {flags} {both}", test

    def lines(self, ways, quick=False):
        """(what, the test of a folder, or None if no number of microbatches divides the batch)."""
        for number, way in enumerate(ways):
            models = way.models or list(self.cases)
            for name in models[number % 2:: 2] if quick and len(models) > 3 else models:
                count = way.microbatches(self.cases[name]["batch"])
                test = functools.partial(self.train, way, name) if count else None
                yield f"{way}{f' --microbatches {count}' if count else ''} {name}", test
        for first, second in CHECKPOINTS:
            yield f"checkpoint of {first} resumed on {second}", functools.partial(self.checkpoint, first, second)
        yield f"comm_bytes of two runs, {COUNTED[1]} {COUNTED[0]}", self.counts


def outcome(line):
    """(ok, FAIL or skip, what to say)."""
    what, test = line
    if not test:
        return "skip", f"{what}: no number of microbatches divides the batch"
    with tempfile.TemporaryDirectory() as folder:
        try:
            ok, text = test(pathlib.Path(folder))
        except Skip as error:
            return "skip", f"{what}: {error}"
        except Exception as error:  # a broken output file is a failure of this line only
            ok, text = False, f"{type(error).__name__}: {error}"
    few = re.search(r"a pipeline of (\d+) stages needs as many nodes: the model has (\d+)", text)
    if few and int(few[2]) < int(few[1]):
        return "skip", f"{what}: {few[0]}"
    return "ok  " if ok else "FAIL", f"{what}: {text}"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    p.add_argument("--only", default="", help="a part of the lines to run")
    p.add_argument("--all", action="store_true", help="each schedule on each shape")
    p.add_argument("--quick", action="store_true", help="half of the models in each way")
    p.add_argument("--draws", type=int, default=0, help="this number of random programs instead")
    p.add_argument("--ways", action="store_true", help="with --draws: the other lines, too")
    p.add_argument("--seed", type=int, default=0, help="of the random programs (default 0)")
    p.add_argument("--jobs", type=int, default=2, help="lines at a time (default 2)")
    o = p.parse_args()
    ways = [Way(f"--mesh {shape} --schedule {schedule}") for shape in SHAPES for schedule in SCHEDULES] if o.all else WAYS
    tester = Tester(str(pathlib.Path(o.divisi).resolve()))
    lines = [] if o.draws and not o.ways else list(tester.lines(ways, o.quick))
    lines = [line for line in (*lines, *tester.draws(o.draws, o.seed)) if o.only in line[0]]
    results, drawn = collections.Counter(), collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        for (what, _), (result, text) in zip(lines, pool.map(outcome, lines)):
            results[result] += 1
            drawn[result] += what.startswith("draw ")
            print(f"{result} {text}", flush=True)
    if 2 * drawn["skip"] > drawn.total():
        results["FAIL"] += 1
        print(f"FAIL {drawn['skip']} of {drawn.total()} draws were skipped")
    print(f"{results['ok  ']} passed, {results['FAIL']} failed")
    return 1 if results["FAIL"] or not results["ok  "] else 0


if __name__ == "__main__":
    sys.exit(main())
