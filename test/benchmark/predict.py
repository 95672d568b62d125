#!/usr/bin/env python3
"""Compares the time that Divisi expects for a training step with the measured one, on CPU ranks of this machine.

    predict.py --divisi PATH --exports FOLDER [--models mlp,lenet,gpt2,resnet18] [--ranks 1,2] [--ways data,1f1b,...] [--rounds 3] [--out FOLDER]

For each model, number of ranks and strategy, alternating: one job whose kernels, library calls and collectives go into the
database (as `divisi profile` does it), and another one that is measured. At the end each strategy is compiled again, and the
program says what is expected of it. A run's spread is that of its rounds' medians. Also: whether strategies that differ by more than 15 % come out in the expected order;
predict.json has the arena of each program, which is the memory of a step.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "peers"))
import common  # noqa: E402

PIPELINES = ("1f1b", "gpipe", "naive", "zb-h1")
STEPS = dict(mlp=80, lenet=50, resnet18=8, gpt2=20)


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True, help="the compiler's command-line program")
    p.add_argument("--exports", type=pathlib.Path, required=True, help="where export.py has written the models")
    p.add_argument("--models", default="mlp,lenet,gpt2,resnet18")
    p.add_argument("--ranks", default="1,2")
    p.add_argument("--ways", help="of more than one rank, instead of data,operator,auto: also 1f1b,gpipe,naive,zb-h1 (pipelines of 4 microbatches)")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path("bench-results"))
    return p.parse_args()


class Bench:
    def __init__(self, o, work):
        self.o, self.work = o, work
        self.env = dict(os.environ, DIVISI_PROFILE=str(work / "profile.json"))

    def divisi(self, *args):
        result = subprocess.run([self.o.divisi, *map(str, args)], env=self.env, text=True, capture_output=True)
        if result.returncode:
            sys.exit(f"divisi {' '.join(map(str, args))}: {result.stderr}")
        return result.stdout

    def flags(self, model):
        loss = [] if model in common.LOSS_INSIDE else ["--loss", "cross_entropy", "--label", "label"]
        return [*loss, "--optimizer", "sgd", "--lr", "0.001", "--momentum", "0.9"]

    def run(self, model, ranks, program):
        """The head of the program's profile: the measured step (median) and the expected one, microseconds."""
        out = self.work / "run.jsonl"
        out.unlink(missing_ok=True)
        data = [f"--data={name}={self.o.exports / model / name}.npy" for name in ("x", "label")]
        start = [self.o.divisi, "run", "--devices", ranks, program] if ranks > 1 else [program]
        command = [*start, *data, "--no-shuffle", "--quiet", "--profile", out, "--steps", STEPS[model]]
        subprocess.run([str(word) for word in command], check=True, capture_output=True, env=self.env)
        return json.loads(out.read_text().splitlines()[0])

    def arena(self, program):
        return json.loads(subprocess.check_output([program, "--describe", "json"]))["arena_bytes"]

    def compile(self, model, ranks, way):
        """The program of a strategy; with auto, that of the plan that was chosen first."""
        name = f"{model}-{way.replace(' ', '-')}"
        path, program, plan = self.o.exports / f"{model}.onnx", self.work / name, self.work / f"{name}.mlir"
        if way in PIPELINES:
            split = ["--mesh", f"stage={ranks}", "--microbatches", "4", "--schedule", way]
        else:
            split = ["--devices", ranks, "--strategy", way] if ranks > 1 else []
        if way == "auto" and not plan.exists():
            try:
                self.divisi("compile", path, *self.flags(model), *split, "--emit", "plan", "-o", plan)
            except SystemExit:
                plan.write_text("")  # one device is the best
        if way == "auto":
            split = ["--plan", plan] if plan.read_text() else []
        self.divisi("compile", path, "-o", program, *self.flags(model), *split)
        return program, (1 if way == "auto" and not split else ranks)

    def compare(self, model, ranks):
        ways = (self.o.ways.split(",") if self.o.ways else ["data", "operator", "auto"]) if ranks > 1 else ["one device"]
        programs = {way: self.compile(model, ranks, way) for way in ways}
        times = {way: [] for way in ways}
        for _ in range(self.o.rounds):
            for way in ways:
                self.run(model, programs[way][1], programs[way][0])
                self.divisi("profile", "--from", self.work / "run.jsonl")
                times[way].append(self.run(model, programs[way][1], programs[way][0])["us"] / 1e3)
        for way in ways:
            program, count = self.compile(model, ranks, way)  # now with measured times
            measured, expected = statistics.median(times[way]), self.run(model, count, program)["expected_us"] / 1e3
            yield dict(model=model, ranks=ranks, way=way, expected_ms=expected, measured_ms=measured, error=expected / measured - 1,
                       spread=(max(times[way]) - min(times[way])) / measured, arena_bytes=self.arena(program))


def order_mistakes(rows):
    """Pairs of strategies whose measured times differ by more than 15 % in the opposite direction than expected."""
    pairs = [(a, b) for a in rows for b in rows if a["measured_ms"] > 1.15 * b["measured_ms"]]
    return len(pairs), sum(a["expected_ms"] <= b["expected_ms"] for a, b in pairs)


def main():
    o = arguments()
    o.divisi = str(pathlib.Path(shutil.which(o.divisi) or sys.exit(f"no program {o.divisi}")).resolve())
    o.exports = o.exports.resolve()
    rows, pairs, mistakes = [], 0, 0
    for model in o.models.split(","):
        for ranks in map(int, o.ranks.split(",")):
            with tempfile.TemporaryDirectory() as work:
                mine = list(Bench(o, pathlib.Path(work)).compare(model, ranks))
            for row in mine:
                print(json.dumps(row), flush=True)
            rows += mine
            found = order_mistakes(mine)
            pairs, mistakes = pairs + found[0], mistakes + found[1]
    errors = sorted(abs(row["error"]) for row in rows)
    lines = [f"{o.rounds} rounds", "", "| model | ranks | strategy | expected ms | measured ms | error | spread |", "|---|---|---|---|---|---|---|"]
    for r in rows:
        lines.append(f"| {r['model']} | {r['ranks']} | {r['way']} | {r['expected_ms']:.2f} | {r['measured_ms']:.2f} | "
                     f"{r['error']:+.1%} | {r['spread']:.1%} |")
    lines += ["", f"Error: median {statistics.median(errors):.1%}, worst {errors[-1]:.1%}. Order of strategies that differ by more than "
              f"15 %: {pairs - mistakes} of {pairs} as expected."]
    o.out.mkdir(parents=True, exist_ok=True)
    (o.out / "predict.json").write_text(json.dumps(rows, indent=1) + "\n")
    (o.out / "predict.md").write_text("\n".join(lines) + "\n")
    print("\n" + "\n".join(lines))


main()
