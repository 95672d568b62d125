#!/usr/bin/env python3
"""`--precision fp16` in asynchronous pipelines against a sequential reference that rounds as fp16 does.

    asynchronous_half.py --divisi PATH [--only SUBSTRING] [--jobs N]

The reference of asynchronous.py, whose products have operands and results of 16 bits, and dynamic loss scaling by its definition
(docs/pipelines.md): which updates each stage skips, what the scale is at the end, and every loss. Where large inputs or weights make
gradients overflow, stages skip other numbers of updates. Without overflow the losses are also near those of the reference in float64.
A resumed run repeats an uninterrupted one. Ends with `N passed, N failed`. Needs the package onnx.
"""

import dataclasses
import functools
import sys

import numpy as np
import onnx
from onnx import numpy_helper

sys.dont_write_bytecode = True
import asynchronous  # noqa: E402
import lines  # noqa: E402
from asynchronous import BATCHES, STEPS, Reference, Run, Tester  # noqa: E402
from loss_scaling import FIRST, tensors  # noqa: E402

ROUNDED, NEAR = 2e-3, 1e-2  # largest errors of losses: beside the same rounding (of values that differ in fp32), beside float64


@dataclasses.dataclass(frozen=True)
class Case:
    run: Run
    gains: tuple = ()  # (layer, factor): larger weights; layer -1: larger inputs
    differ: bool = False  # the stages skip other numbers of updates

    def gain(self, layer):
        return dict(self.gains).get(layer, 1)


def half(staleness, stages, *rest, flags="", **more):
    return Run(staleness, stages, *rest, flags=f"--precision fp16 {flags}".strip(), **more)


FIRST_LAYER, LATE = ((-1, 40),), ((4, 20),)  # what overflows: the gradient of fc0's weight; what goes into that of fc3's
SLOW = {FIRST_LAYER: 0.0005, LATE: 0.0002}  # learning rates at which rounding does not grow


def overflowing(gains, run, differ=False):
    return Case(dataclasses.replace(run, lr=SLOW[gains]), gains, differ)


CASES = [
    Case(half("latest", 0)),
    overflowing(FIRST_LAYER, half("latest", 0)),
    *(Case(half(kind, 4, cuts=(1, 2, 4))) for kind in asynchronous.KINDS),
    overflowing(FIRST_LAYER, half("stashed", 4, cuts=(1, 2, 4)), True),
    overflowing(FIRST_LAYER, half("vertical-sync", 3, cuts=(1, 3)), True),
    overflowing(LATE, half("stashed", 3, cuts=(1, 3))),
    overflowing(FIRST_LAYER, half("latest", 3, cuts=(1, 3), flags="--clip-norm 0.4"), True),
    overflowing(FIRST_LAYER, half("stashed", 4, cuts=(1, 2, 4), flags="--optimizer adam"), True),
    overflowing(LATE, half("predicted", 4, cuts=(1, 2, 4), flags="--optimizer adam"), True),
    overflowing(FIRST_LAYER, half("predicted", 3, cuts=(1, 3)), True),
    overflowing(FIRST_LAYER, half("stashed", 2, ",data=2", cuts=(3,)), True),
    overflowing(FIRST_LAYER, half("stashed", 2, ",data=2", cuts=(3,), flags="--zero 1 --optimizer adamw"), True),
    Case(half("stashed", 2, ",model=2", cuts=(2,), flags="--clip-norm 0.4")),
    overflowing(FIRST_LAYER, half("stashed", 3, cuts=(2, 3), tied=True), True),
    overflowing(FIRST_LAYER, half("stashed", 3, cuts=(1, 3), replicas=(2, 3, 1)), True),
    overflowing(LATE, half("stashed", 3, cuts=(1, 3), replicas=(2, 3, 1), flags="--optimizer adam"), True),
]


class HalfReference(Reference):
    """Beside a minibatch travels the scale that stage 0 has for it; a stage updates if gradients are finite on it and on later stages."""

    def __init__(self, case):
        super().__init__(case.run)
        for layer, versions in enumerate(self.versions):
            versions[0] = [versions[0][0] * case.gain(layer), versions[0][1]]
        stages = max(1, case.run.stages)
        self.scales, self.successive = [FIRST], 0
        self.finite, self.skipped = [[] for _ in range(stages)], [0] * stages

    def product(self, a, b):
        if a.shape[1] == asynchronous.BATCH and "data=2" in self.run.mesh:  # a sum over the batch: each device has half of it
            return sum(self.rounded(*parts) for parts in zip(np.split(a, 2, 1), np.split(b, 2)))
        return self.rounded(a, b)

    def rounded(self, a, b):
        a, b = a.astype(np.float16).astype(np.float64), b.astype(np.float16).astype(np.float64)
        return (a @ b).astype(np.float16).astype(np.float64)

    def scale(self, minibatch):
        return self.scales[self.version(0, minibatch - self.run.lag(0))]

    def take(self, gradients):
        super().take(gradients)
        for stage, finite in enumerate(self.finite):
            parts = [part for layer, given in enumerate(gradients) if self.stage_of[layer] >= stage for part in given]
            finite.append(all(np.isfinite(part).all() for part in parts))

    def update(self, layers, rate):
        stage = self.stage_of[layers[0]]
        finite, self.finite[stage] = all(self.finite[stage]), []
        if finite:
            super().update(layers, rate)
        else:
            self.skipped[stage] += len(self.round[layers[0]])
            for layer in layers:
                for of in self.versions, self.states, self.counted:
                    of[layer].append(of[layer][-1])
                self.round[layer] = []
        if stage == 0:
            self.scales.append(self.scales[-1] if finite else max(1, self.scales[-1] / 2))
            self.successive = self.successive + 1 if finite else 0

    def state(self):
        """The scale, successive finite updates of the first stage, and skipped minibatches by stage."""
        return self.scales[-1], self.successive, self.skipped


class HalfTester(Tester):
    def prepare(self, case, folder):
        asynchronous.write_data(folder)
        np.save(folder / "x.npy", np.load(folder / "x.npy") * np.float32(case.gain(-1)))
        asynchronous.write_model(folder / "gained.onnx", tied=case.run.tied)
        model = onnx.load(folder / "gained.onnx")
        for layer, gain in case.gains:
            for tensor in model.graph.initializer:
                if tensor.name == f"fc{layer}.weight":
                    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * np.float32(gain), tensor.name))
        onnx.save(model, folder / "gained.onnx")
        return folder / "gained.onnx"

    def state(self, case, checkpoint, folder):
        lines.call(self.divisi, "checkpoint", "export", checkpoint, "--all", "-o", folder / "state")
        found = tensors(folder / "state")
        names = ["divisi.skipped_steps"] + [f"divisi.skipped_steps.{stage}" for stage in range(1, case.run.stages)]
        number = lambda name: found[name].reshape(-1)[0]
        return float(FIRST + number("divisi.loss_scale_offset")), int(number("divisi.finite_steps")), [int(number(name)) for name in names]

    def against_rounding(self, case, folder):
        model = self.prepare(case, folder)
        rows = self.train(case.run, folder, model, more=("--checkpoint", folder / "c", "--every", BATCHES))
        losses = self.losses(rows)
        rates = [row["lr"] for row in rows if "step" in row]
        x, y = np.load(folder / "x.npy"), np.load(folder / "y.npy")
        with np.errstate(all="ignore"):
            reference = HalfReference(case)
            error = np.max(np.abs(losses / reference.losses(x, y, rates) - 1))
        plain = 0 if case.gains else np.max(np.abs(losses / Reference(case.run).losses(x, y, rates) - 1))
        state, expected = self.state(case, folder / "c" / f"step-{STEPS}", folder), reference.state()
        skips = (max(expected[2]) > 0) == bool(case.gains) and (len(set(expected[2])) > 1) == case.differ
        return bool(len(losses) == STEPS and error < ROUNDED and plain < NEAR and state == expected and skips), (
            f"loss error {error:.1e}" + f", {plain:.1e} to float64" * (not case.gains) + f"; scale, finite steps, skipped {state}, expected {expected}")  # fmt: skip

    def resumed(self, case, folder):
        model, every, more = self.prepare(case, folder), 7, {}
        for name, steps, flags in ("whole", STEPS, ()), ("first", 2 * every, ()), ("rest", STEPS, ("--resume",)):
            kept = folder / ("a" if name == "whole" else "b")
            more[name] = self.losses(self.train(case.run, folder, model, steps, name=name, more=("--checkpoint", kept, "--every", every, *flags)))
        skipped = self.state(case, max((folder / "b").glob("step-*"), key=lambda path: int(path.name[5:])), folder)[2]
        same = np.array_equal(more["whole"][2 * every :], more["rest"]) and max(skipped) > 0
        return bool(same), f"{'the same' if same else 'other'} losses; skipped {skipped}"

    def tests(self):
        for case in CASES:
            run, gains = case.run, "".join(f" gain {layer}:{gain}" for layer, gain in case.gains)
            more = f" round-robin {run.replicas}" * bool(run.replicas) + " tied" * run.tied
            yield f"{run.staleness} stage={run.stages}{run.mesh}{more} {run.flags}{gains}", functools.partial(self.against_rounding, case)
        for flags, kind in (("--optimizer adam", "stashed"), ("", "predicted")):
            case = overflowing(FIRST_LAYER, half(kind, 4, cuts=(1, 2, 4), flags=flags))
            yield f"resumed after a checkpoint, {kind} {flags}", functools.partial(self.resumed, case)


if __name__ == "__main__":
    options = lines.parser(__doc__.splitlines()[0]).parse_args()
    sys.exit(lines.run(HalfTester(options.divisi).lines(), options))
