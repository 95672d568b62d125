#!/usr/bin/env python3
"""Exports one model of the zoo, trains it in PyTorch and by Divisi in several ways, and compares.

    train.py DIVISI SIZE MODEL WAY ...       (SIZE: reduced or published)

A JSON object for each way on standard output. zoo.py starts one process for each model.
"""

import copy
import dataclasses
import json
import logging
import math
import pathlib
import resource
import subprocess
import sys
import tempfile
import warnings

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path += [str(HERE.parent.parent / "python"), str(HERE.parent / "models"), str(HERE)]
warnings.filterwarnings("ignore")
logging.disable(logging.ERROR)

import check  # noqa: E402
import divisi  # noqa: E402
import measure  # noqa: E402
import torch  # noqa: E402
from models import case as cases  # noqa: E402

if not torch.cuda.is_available():
    torch.cuda.is_current_stream_capturing = lambda: False  # asks a library that may be a stub (transformers calls it)

# Relative: of losses, of the norm of all weights, and of their change, in which a wrong gradient or constant shows first.
TOLERANCES = {"loss_error": 1e-4, "norm_error": 1e-4, "change_error": 5e-3}
LOST_BY_SUMS = 2.0**-20  # relative: oneDNN's convolutions add up to 4,608 products one after the other; VGG-16's features are 2e-6 from float64
DISTURBED = 6  # runs of PyTorch at most
# Flags of `divisi compile` for each way to train.
WAYS = {
    "one device": {},
    "other exporter": {},
    "data=2": {"mesh": {"data": 2}},
    "data=4": {"mesh": {"data": 4}},
    "zero=3": {"mesh": {"data": 2}, "zero": 3},
    "model=2": {"mesh": {"model": 2}},
    "auto": {"devices": 2},
    "microbatches=2": {"microbatches": 2},
    "stage=2": {"mesh": {"stage": 2}, "microbatches": 1},
    "stage=2, microbatches=2": {"mesh": {"stage": 2}, "microbatches": 2},
    "stage=2, data=2": {"mesh": {"stage": 2, "data": 2}, "microbatches": 2},
}


class Reference:
    """Some steps of PyTorch: their losses, and the weights before and afterwards."""

    def __init__(self, case, parts=1, double=False):
        cast = lambda t: t.double() if double and t.is_floating_point() else t
        module = copy.deepcopy(case.module).train()
        module = module.double() if double else module
        self.before = weights(module)
        optimizer, self.losses = make_optimizer(case, module), []
        for step in range(cases.STEPS):
            optimizer.zero_grad()
            losses = []
            for part in range(parts):
                loss = module(**{name: cast(t) for name, t in case.rows(step, part, parts).items()}) / parts
                loss.backward()
                losses.append(float(loss.detach()))
            optimizer.step()
            self.losses.append(sum(losses))
        self.after = weights(module)


def make_optimizer(case, module):
    options = dict(case.optimizer)
    kind = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[options.pop("optimizer")]
    return kind([p for p in module.parameters() if p.requires_grad], **options)


def weights(module):
    """All that trains, as one vector in float64."""
    return torch.cat([p.detach().double().flatten() for p in module.parameters() if p.requires_grad])


def errors(losses, after, reference):
    """Relative errors: the largest of a loss, of the norm of all weights, and of their change as a vector."""
    change = float((reference.after - reference.before).norm())
    return {
        "loss_error": max(check.relative(got, want) for got, want in zip(losses, reference.losses)),
        "norm_error": check.relative(float(after.norm()), float(reference.after.norm())),
        "change_error": float((after - reference.after).norm()) / max(change, 1e-30),
    }


def agrees(found):
    return all(found[key] <= limit for key, limit in TOLERANCES.items())


def disturbed(case, relative, seed):
    """The case with all weights moved by this share of themselves, up or down."""
    generator = torch.Generator().manual_seed(seed)
    module = copy.deepcopy(case.module)
    with torch.no_grad():
        for p in module.parameters():
            p.mul_(1 + relative * torch.randn(p.shape, generator=generator).sign())
    return dataclasses.replace(case, module=module)


def is_rounding(case, parts, losses, after):
    """(ok, text): whether PyTorch is as far from itself in float64 as Divisi is; else whether it is from weights that are
    moved by what sums of thousands of numbers lose, where a relu or a maximum may turn over."""
    exact = Reference(case, parts, double=True)
    own = errors(losses, after, exact)
    told = lambda found: " / ".join(f"{found[key]:.0e}" for key in TOLERANCES)
    text = f"from float64 (loss / norm / change) Divisi {told(own)}, PyTorch"
    for seed in range(1 + DISTURBED):
        single = Reference(disturbed(case, LOST_BY_SUMS, seed) if seed else case, parts)
        theirs = errors(single.losses, single.after, exact)
        text += f" {told(theirs)}" + ("; from disturbed weights" if seed == 0 else ",")
        if all(own[key] <= max(2 * theirs[key], limit) for key, limit in TOLERANCES.items()):
            return True, text.rstrip(",").removesuffix("; from disturbed weights")
    return False, text.rstrip(",")


class Zoo:
    def __init__(self, tool, size, name, work):
        self.tool, self.size, self.name, self.work = tool, size, name, work
        self.case = cases.load()[name](size == "published")
        self.files, self.refusals, self.references = {}, {}, {}
        for exporter, dynamo in (("dynamo", True), ("TorchScript", False)):
            path = work / f"{exporter}.onnx"
            try:
                self.files[exporter] = divisi.export(self.case.module, self.case.rows(0), path, dynamo=dynamo, check=False, divisi=tool)
            except Exception as error:  # whatever an exporter raises
                self.refusals[exporter] = one_line(error)

    def reference(self, parts):
        """What PyTorch computes: the statistics of batch norm are those of a microbatch, everything else is the same."""
        parts = parts if self.case.has_batch_norm() else 1
        if parts not in self.references:
            self.references[parts] = Reference(self.case, parts)
        return self.references[parts]

    def train(self, way):
        """The row of a way."""
        exporters = list(self.files)
        row = {"model": self.name, "size": self.size, "way": way}
        if not exporters or (way == "other exporter" and len(exporters) < 2):
            return row | {"refused": "; ".join(f"{key}: {text}" for key, text in self.refusals.items())}
        exporter = exporters[way == "other exporter"]
        row["exporter"] = exporter
        flags = WAYS[way] | self.case.optimizer
        start = child_seconds()
        try:
            program = divisi.compile(self.files[exporter], self.work / "program", divisi=self.tool, **flags)
        except divisi.Error as error:
            return row | {"refused": one_line(error)}
        row["compile_s"] = round(child_seconds() - start, 2)
        parts = flags.get("microbatches", 1)
        try:
            history = program.fit(self.case.data, steps=cases.STEPS, shuffle=False, quiet=True)
        except divisi.Error as error:
            return row | {"failed": one_line(error)}
        trained = copy.deepcopy(self.case.module)
        program.load_into(trained)
        row |= errors(history.losses, weights(trained), self.reference(parts))
        row["ok"] = agrees(row)
        if not row["ok"]:
            row["ok"], row["rounding"] = is_rounding(self.case, parts if self.case.has_batch_norm() else 1, history.losses, weights(trained))
        if way == "one device":
            row["parameters"] = sum(p.numel() for p in self.case.module.parameters() if p.requires_grad)
            row["loss"] = self.case.loss
            row["exporters"] = exporters
            row["refusals"] = self.refusals
        return row


    def plan(self):
        """The row of a plan on 16 H100: the processor seconds of `divisi plan`."""
        row = {"model": self.name, "size": self.size, "way": "plan"}
        flags = [word for name, value in self.case.optimizer.items() for word in (f"--{name.replace('_', '-')}", str(value))]
        start = child_seconds()
        done = subprocess.run([self.tool, "plan", next(iter(self.files.values())), "--cluster", "2x8xh100", *flags], capture_output=True, text=True)
        return row | ({"failed": one_line(done.stderr)} if done.returncode else {"plan_s": round(child_seconds() - start, 2)})


def one_line(error):
    return " ".join(f"{error}".split())[:400] or type(error).__name__


def child_seconds():
    """Processor seconds of all processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main():
    tool, size, name, *ways = sys.argv[1:]
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="divisi-zoo-") as work:
        zoo = Zoo(tool, size, name, pathlib.Path(work))
        for way in ways:
            row = measure.compare(zoo) if way == "speed" else zoo.plan() if way == "plan" else zoo.train(way)
            row = {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
