#!/usr/bin/env python3
"""PipeDream's published configurations and speed-ups, beside `divisi plan --objective pipedream`.

    pipedream_papers.py --divisi PATH [--only TEXT] [--table]

A row is a model on the hardware of table 1 of arXiv 1806.03377 or of the SOSP'19 paper. It is planned by both costs
(docs/pipelines.md) on the cluster's levels, and, where there are two, on as many equal devices whose bandwidth is that
between servers: 15-1 is no plan of 4 x 4 or 2 x 8. Profiles are brought to the paper's minibatch: times and activations
are proportional to it. pipedream/README.md says what is sourced and what is from memory. Nothing is measured.

"over DP" is data parallelism (pipedream_layers.py) over the plan's slowest stage; where divisi's own figure for data
parallelism is another one, it stands in brackets. Exit code 1 if a plan for equal devices is slower than the paper's own
configuration, or than the best one along the order of the layers, counted apart. --table: that of docs/numbers.md.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import typing

import pipedream_layers as pl

HERE = pathlib.Path(__file__).resolve().parent
PROFILES = [HERE / "pipedream", HERE.parent / "passes/Planning/Pipeline/profiles"]
STRAIGHT = "straight"
# VGG-16, ms an image: github.com/jcjohnson/cnn-benchmarks, Titan X (Pascal), over the profile.
TITAN_X = (128.62 / 16) / (672.5 / 128)


class Row(typing.NamedTuple):
    model: str
    profile: str
    minibatch: float  # the paper's over the profile's
    cluster: str
    devices: int
    config: str  # the paper's
    speedup: float  # over data parallelism, the paper's; 0: not sourced
    source: str  # A: sourced; M: a part of it is from memory (pipedream/README.md)
    why: str = ""
    times: float = 1  # of the profile: another GPU
    single: float = 0  # over one device, the paper's


VGG, RESNET, ALEXNET = ("VGG-16", "vgg16", 64 / 128), ("ResNet-50", "resnet50", 1), ("AlexNet", "alexnet", 1)
GNMT_16, GNMT_8, S2VT = ("GNMT-16", "gnmt_large", 64 / 128), ("GNMT-8", "gnmt", 64 / 32), ("S2VT", "s2vt", 1)
VGG_32, INCEPTION = ("VGG-16", "vgg16", 32 / 128), ("Inception-v3", "inception_v3", 32 / 128)
RESNET_WHY = ("Same configuration. The paper's 1 is data parallelism over itself; the formula adds synchronisation "
              "to it as a baseline, and overlaps it as a plan. By `code`, whose cuts are free, a pipeline is "
              "faster than it; PipeDream's optimizer finds the same 29.2 ms.")
GNMT_WHY = ("By `code` on levels the configuration is hybrid_conf.json of PipeDream's repository; its runs use "
            "mp_conf.json, the same without the replicas ({}). The speed-up: half of the formula's synchronisation "
            "(both directions of a link at once), and the paper's configuration at {} ms, would make {}.")
S2VT_WHY = ("Not the paper's profile: by FLOPs `predict` is 71 % of the compute, so 2-1-1, which has it on one "
            "GPU, is at most 1.4 times one GPU. The paper has 3.34: no layer that it left alone took over 30 %.")
ROWS = [
    Row(*VGG, "sosp-a", 16, "15-1", 5.28, "A"),
    Row(*VGG, "sosp-b", 16, "15-1", 2.98, "A"),
    Row(*RESNET, "sosp-a", 16, "16", 1, "A", RESNET_WHY),
    Row(*RESNET, "sosp-b", 16, "16", 1, "A", "As on A."),
    Row(*ALEXNET, "sosp-a", 16, "15-1", 4.92, "A",
        "A tie: at 10 Gb/s the cut behind the convolutions takes 15.1 ms, with 6 devices before it or with 15. "
        "Without that (`code`) 15-1 takes 9.0 ms, 5.68 over DP (1.15)."),
    Row(*ALEXNET, "sosp-b", 16, "15-1", 2.04, "A",
        "By the formula two GPUs for the last layers are faster (6.0 ms) than one (9.0); PipeDream's own optimizer "
        "says 14-1-1, too. 15-1 at 9.0 ms is 1.88 over data parallelism on the levels (0.92)."),
    Row(*GNMT_16, "sosp-a", 4, STRAIGHT, 1.46, "M",
        "Same configuration by `code`; by `paper` 1-3 is 4 % faster. With half of the formula's synchronisation "
        "(both directions of a link at once) data parallelism takes 99.8 ms: 1.45 over it (1.00)."),
    Row(*GNMT_16, "sosp-a", 16, STRAIGHT, 2.34, "M", GNMT_WHY.format("14 stages", 38.4, "2.82 (1.20)")),
    Row(*GNMT_16, "sosp-b", 16, STRAIGHT, 3.14, "A",
        "By `code` on equal devices the configuration is hybrid_conf.json of PipeDream's repository, and 1.17 "
        "times the paper's speed-up; its runs use the same without the replicas (14 stages, 38.4 ms): 2.59 over "
        "that DP (0.83)."),
    Row(*GNMT_8, "sosp-a", 4, STRAIGHT, 1.5, "M",
        "Same configuration by `code` (1.20; 1.33 over data parallelism with half of the formula's "
        "synchronisation, 0.89); by `paper` 1-3 is 13 % faster."),
    Row(*GNMT_8, "sosp-a", 12, STRAIGHT, 2.95, "M", GNMT_WHY.format("10 stages", 38.1, "2.41 (0.82)")),
    Row(*GNMT_8, "sosp-b", 16, "16", 1, "M",
        "Not by this profile: PipeDream's own optimizer does not choose data parallelism either (5 stages, 2.89 "
        "over it). Measured with 32 sequences of 48 tokens; GNMT-16's has 128 of 25."),
    Row(*S2VT, "sosp-c", 4, "2-1-1", 3.01, "A", S2VT_WHY),
    Row(*VGG_32, "arxiv-a", 4, "2-1-1", 0, "M",
        "By the formula 3-1 is 11 % faster on this profile; the paper's, of Caffe on a Titan X, is not published. "
        "Its speed-up over DP is not sourced.", TITAN_X, 3.14),
    Row(*VGG_32, "arxiv-a", 8, "7-1", 2.99, "A", "", TITAN_X, 7.04),
    Row(*VGG_32, "arxiv-a", 16, "9-5-1-1", 3.00, "A",
        "By the formula 15-1 is faster (16.2 ms) than 9-5-1-1 (21.9) on this profile; the paper's, of Caffe on a "
        "Titan X, is not published.", TITAN_X, 9.86),
    Row(*VGG_32, "arxiv-b", 8, "7-1", 5.12, "M",
        "Same configuration, and 1.08 times the paper's speed-up over one GPU. Data parallelism: 1.36 over one GPU "
        "in the paper, 0.78 by the formula, whose synchronisation alone (1,549 ms) is longer than the round of 8 "
        "minibatches that was measured (988 ms on this profile); half of it makes 1.43, and 5.31 over that (1.04).",
        single=6.98),
    Row(*INCEPTION, "arxiv-a", 8, "8", 1, "A",
        "Same configuration; 1.04 times the paper's speed-up over one GPU. The paper's 1 is data parallelism over "
        "itself.", TITAN_X, 7.66),
    Row(*INCEPTION, "arxiv-b", 8, "7-1", 1.45, "A",
        "Same configuration, and 1.16 times the paper's speed-up over one GPU. Data parallelism: 4.74 over one GPU "
        "in the paper, 2.89 by the formula, 4.25 with half of its synchronisation, and 1.88 over that (1.30). The "
        "paper's network has 157 MB of weights, the profile 109.", single=6.88),
    Row(*S2VT, "arxiv-a", 4, "2-1-1", 3.01, "A", S2VT_WHY, single=3.34),
]


def levels_of(cluster, devices):
    """(size, bytes/s) of the levels that the first `devices` devices take up, from the inside out."""
    levels = []
    for size, number, unit in re.findall(r'size = (\d+)\nbandwidth = "(\d+)(GB|Gb)/s"', cluster.read_text()):
        size = min(int(size), devices)
        devices //= size
        if size > 1:
            levels.append((size, float(number) * 1e9 / (1 if unit == "GB" else 8)))
    return levels


def layers_of(row):
    if row.profile == "s2vt":
        return pl.s2vt()
    file = next(f for f in (folder / f"{row.profile}.txt" for folder in PROFILES) if f.exists())
    return pl.read(file.read_text(), row.times, row.minibatch)


def plan(divisi, profile, cost, *flags):
    done = subprocess.run([divisi, "plan", "--profile", profile, "--objective", "pipedream", "--cost", cost, "--json",
                           *flags], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{profile}: {done.stderr}")
    return json.loads(done.stdout)


def config_of(found):
    """2-1-1; a long pipeline as `straight` or by the stages that are replicated."""
    replicas = [s["replicas"] for s in found["stages"]]
    if len(replicas) > 1 and set(replicas) == {1}:
        return f"{STRAIGHT} of {len(replicas)}"
    runs = []
    for m in replicas:
        if runs and runs[-1][0] == m:
            runs[-1][1] += 1
        else:
            runs.append([m, 1])
    return "-".join(f"{m}(x{n})" if n > 2 else "-".join([str(m)] * n) for m, n in runs)


def price(layers, bandwidth, cost, config, devices):
    cuts = pl.Cuts(layers, bandwidth, cost)
    if config == STRAIGHT:
        return min(cuts.price([1] * n) for n in range(2, devices + 1))
    return cuts.price([int(m) for m in config.split("-")])


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--divisi", required=True)
    a.add_argument("--only", default="", help="a part of `MODEL CLUSTER`")
    a.add_argument("--table", action="store_true", help="only the table, as Markdown")
    o = a.parse_args()
    failures = 0

    def say(text):
        if not o.table:
            print(text, flush=True)

    if o.table:
        print("| model | GPUs | the paper | `paper` | `code` | `paper`, levels | `code`, levels |\n" + "|---" * 7 + "|")
    with tempfile.TemporaryDirectory() as folder:
        profile = pathlib.Path(folder) / "layers.json"
        for row in ROWS:
            if o.only not in f"{row.model} {row.cluster}":
                continue
            layers = layers_of(row)
            profile.write_text(json.dumps(pl.as_json(layers)))
            cluster = HERE / f"pipedream/{row.cluster}.toml"
            levels = levels_of(cluster, row.devices)
            one = sum(layer.forward + layer.backward for layer in layers)
            equal = [(row.devices, levels[-1][1])]
            say(f"{row.model}, {row.devices} GPUs of {row.cluster}; the paper: {row.config}"
                + (f", {row.speedup:.2f} over DP" if row.speedup else "")
                + (f", {row.single:.2f} over one GPU" if row.single else "") + f" [{row.source}]")
            cells = []
            for name, shape, flags in [
                    ("equal devices", equal, ["--devices", str(row.devices), "--bandwidth", f"{equal[0][1]:.0f}B/s"]),
                    ("levels", levels, ["--cluster", str(cluster), "--devices", str(row.devices)])][:len(levels)]:
                dp = pl.data_parallel_ms(layers, shape)
                half = (dp + one / row.devices) / 2
                say(f"  {name} " + ", ".join(f"{n} x {b / 1e9:g} GB/s" for n, b in shape)
                    + f": DP {dp:.1f} ms, {one / dp:.2f} over one GPU; with half of its synchronisation {half:.1f} ms, "
                    f"{one / half:.2f}")
                for cost in (pl.PAPER, pl.CODE):
                    found = plan(o.divisi, profile, cost, *flags)
                    ms, config = found["slowest_ms"], config_of(found)
                    text = f"    {cost:5} {config:30} {ms:7.1f} ms {dp / ms:6.2f} over DP"
                    if row.speedup:
                        text += f" (ratio {dp / ms / row.speedup:.2f})"
                    text += f" {one / ms:6.2f} over one"
                    if abs(found["data_parallel_ms"] - dp) > 1e-6 * dp:
                        text += f" [divisi's DP: {found['data_parallel_ms']:.1f} ms]"
                    if len(shape) == 1:
                        theirs = price(layers, shape[0][1], cost, row.config, row.devices)
                        best = pl.Cuts(layers, shape[0][1], cost).least(row.devices)
                        text += f"; the paper's {theirs:.1f} ms"
                        if ms > min(theirs, best) * (1 + 1e-6):
                            failures += 1
                            text += f"  FAILED: {min(theirs, best):.3f} ms is possible"
                    say(text)
                    ratio = f" ({dp / ms / row.speedup:.2f})" if row.speedup else ""
                    cells.append(f"{config}, {dp / ms:.2f}{ratio}")
            if row.why:
                say(f"  {row.why}")
            if o.table:
                theirs = f"{row.config}, {row.speedup:.2f}" if row.speedup else row.config
                theirs += "" if row.source == "A" else " *"
                cells += [""] * (4 - len(cells))
                print("| " + " | ".join([row.model, f"{row.devices}, {row.cluster}", theirs, *cells]) + " |", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
