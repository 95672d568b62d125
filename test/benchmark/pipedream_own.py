#!/usr/bin/env python3
"""`divisi plan --objective pipedream` beside the answers of PipeDream's own optimizer, on the profiles that it ships.

    pipedream_own.py --divisi PATH --pipedream CHECKOUT [--only PROFILE] [--machines 4,8,...] [--limit SECONDS] [--table]

CHECKOUT is github.com/msr-fiddle/pipedream, whose `optimizer/optimizer_graph_hierarchical.py` is run as it is (Python with NumPy; its
drawings are left out), at most --limit seconds for each answer (default 300; the places to cut Inception and NASNet are too many for
it). Machines are equal and have 10 Gb/s between them. Both answers are counted apart, from
their stages, by both costs (docs/pipelines.md). Exit code 1 if one of PipeDream's is faster than ours by either cost.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import pipedream_layers as pl
from pipedream_papers import config_of, plan

BANDWIDTH = 1.25e9  # bytes/s
DRAWINGS = "class Digraph:\n    def __getattr__(self, name):\n        return lambda *arguments, **named: None\n"


def price(layers, stages, cost):
    """Milliseconds of the slowest stage, or cut. `stages`: (names of layers, replicas)."""
    stage_of = {name: i for i, (names, _) in enumerate(stages) for name in names}
    assert stage_of.keys() == {layer.name for layer in layers}
    last = {}  # by layer: the last stage that reads it
    for layer in layers:
        for source in layer.inputs:
            last[source] = max(last.get(source, 0), stage_of[layer.name])
    slowest = 0.0
    for i, (names, m) in enumerate(stages):
        mine = [layer for layer in layers if layer.name in names]
        compute = sum(layer.forward + layer.backward for layer in mine)
        sync = 4 * (m - 1) / m * sum(layer.weights for layer in mine) / BANDWIDTH * 1e3
        slowest = max(slowest, (max(compute, sync) if cost == pl.PAPER else compute + sync) / m)
        if cost == pl.PAPER:
            crossing = sum(layer.activation for j, layer in enumerate(layers) if stage_of[layer.name] <= i < last.get(j, 0))
            slowest = max(slowest, 2 * crossing / BANDWIDTH * 1e3)
    return slowest


def own_answer(checkout, profile, machines, limit, folder):
    """The stages of PipeDream's optimizer, as for `price`; None if it takes too long."""
    (folder / "graphviz.py").write_text(DRAWINGS)
    try:
        done = subprocess.run(
            [sys.executable, checkout / "optimizer/optimizer_graph_hierarchical.py", "-n", str(machines), "-f", profile, "-b",
             str(BANDWIDTH), "-o", folder], cwd=checkout / "optimizer", env={"PYTHONPATH": str(folder)}, capture_output=True, text=True,
            timeout=limit)  # fmt: skip
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        sys.exit(f"PipeDream's optimizer, {profile}: {done.stderr[-500:]}")
    replicas = [int(m) for m in re.findall(r"^\(\d+, \d+\) \S+ (\d+)$", done.stdout, re.MULTILINE)]
    stages = [(set(), m) for m in replicas]
    for line in (folder / f"gpus={machines}.txt").read_text().splitlines():
        if node := re.match(r"(\S+) -- .* -- stage_id=(\d+)", line):
            stages[int(node[2])][0].add(node[1])
    return stages


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--divisi", required=True)
    a.add_argument("--pipedream", required=True, type=lambda path: pathlib.Path(path).resolve())
    a.add_argument("--only", default="")
    a.add_argument("--machines", default="4,8,16,32,64")
    a.add_argument("--limit", type=float, default=300)
    a.add_argument("--table", action="store_true", help="as Markdown")
    o = a.parse_args()
    profiles = sorted(o.pipedream.glob(f"profiler/*/profiles/*{o.only}*/graph.txt"))
    failures = rows = 0
    if o.table:
        print("| profile | machines | PipeDream's own: ms by `code`, `paper`; seconds | `code`: ms, over data parallelism; seconds "
              "| `paper`: ms, over data parallelism; seconds |\n" + "|---" * 5 + "|")
    for profile in profiles:
        name, layers, too_long = profile.parent.name, pl.read(profile.read_text()), False
        for machines in map(int, o.machines.split(",")):
            with tempfile.TemporaryDirectory() as folder:
                start = time.monotonic()
                own = None if too_long else own_answer(o.pipedream, profile, machines, o.limit, pathlib.Path(folder))
                cells, too_long = [f"not in {o.limit:.0f} s"], own is None
                theirs = {}
                if own:
                    names = {layer.name for layer in layers}
                    own = [(stage & names, m) for stage, m in own]  # without inputs, which it puts on the first stage
                    theirs = {cost: price(layers, own, cost) for cost in (pl.CODE, pl.PAPER)}
                    config = config_of({"stages": [{"replicas": m} for _, m in own]})
                    cells = [f"{config}: {theirs[pl.CODE]:.2f}, {theirs[pl.PAPER]:.2f}; {time.monotonic() - start:.1f}"]
            for cost in (pl.CODE, pl.PAPER):
                start = time.monotonic()
                found = plan(o.divisi, profile, cost, "--devices", str(machines), "--bandwidth", f"{BANDWIDTH:.0f}B/s")
                seconds = time.monotonic() - start
                ms = price(layers, [(set(stage["layers"]), stage["replicas"]) for stage in found["stages"]], cost)
                over = pl.data_parallel_ms(layers, [(machines, BANDWIDTH)]) / ms
                text = f"{config_of(found)}: {ms:.2f}, {over:.2f}; {seconds:.2f}"
                if abs(ms - found["slowest_ms"]) > 1e-6 * ms or ms > theirs.get(cost, ms) * (1 + 1e-9):
                    failures += 1
                    text += f" FAILED: {found['slowest_ms']:.4f} ms is said"
                cells.append(text)
            rows += 1
            print("| " * o.table + (" | " if o.table else "; ").join([name, str(machines), *cells]) + " |" * o.table, flush=True)
    if not o.table:
        print(f"{2 * rows - failures} passed, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
