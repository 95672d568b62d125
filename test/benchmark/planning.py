#!/usr/bin/env python3
"""Times `divisi plan`, the whole command, on models of the size that it is made for.

    planning.py --divisi PATH [--rounds 5] [--only WORD] [--out FOLDER]

One fresh process for each row, the cases in turn. Prints and writes the median, the fastest and the slowest run, the
processor's time (of all cores: what a busy machine does not change), the highest memory, the optimality gap and the best plan.
Exit code 1 if a case is slower or less certain than it must be, or if the processor's time grows faster than the layers
(by more than a tenth), on devices with memory enough for all depths: what is short of memory takes more searches.
Needs the package onnx.
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
import time

MAKE_GRAPH = pathlib.Path(__file__).resolve().parents[2] / "examples/large-graphs/make_graph.py"
GPT2 = "gpt --layers 12 --hidden 768 --heads 12 --vocab 50304 --seq 1024"
GPT39 = "gpt --layers {} --hidden 8192 --heads 64 --vocab 51200 --seq 1024"
# Name, model, cluster, batch, seconds allowed on two cores (none: for the growth only).
CASES = [
    ("GPT-2 small, 8 devices", GPT2, "8xh100", 64, 0.5),
    ("GPT 39 B, 64 devices", GPT39.format(48), "8x8xh100", 64, 2),
    ("GPT 39 B, 1,024 devices", GPT39.format(48), "128x8xh100", 1024, 10),
    *((f"{layers} layers, 64 roomy devices", GPT39.format(layers), "roomy.toml", 64, None) for layers in (12, 24, 48, 96)),
]
GAP = 0.002
GROWTH = 1.1  # of the processor's time, over that of the layers
ROOMY = """[cluster]
name = "8x8xh100 with memory for all"
[device]
preset = "h100"
memory = "2TB"
[[level]]
name = "nvlink"
size = 8
bandwidth = "450GB/s"
latency = "2us"
[[level]]
name = "infiniband"
size = 8
bandwidth = "400GB/s"
latency = "5us"
"""


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True, help="the compiler's command-line program")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--only", default="", help="a part of the names of the cases to run")
    p.add_argument("--out", type=pathlib.Path, help="where to write planning.json and planning.md")
    return p.parse_args()


def run(divisi, model, cluster, batch):
    """Seconds, MB and seconds of the processor of one process, and its report."""
    with tempfile.TemporaryFile() as out:
        start = time.monotonic()
        process = subprocess.Popen([divisi, "plan", model, "--cluster", cluster, "--dim", f"batch={batch}", "--json"], stdout=out)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, 3):
            sys.exit(f"{model}: exit {process.returncode}")
        out.seek(0)
        return seconds, usage.ru_maxrss / 1e3, usage.ru_utime + usage.ru_stime, json.load(out)["plans"]


def percent(gap):
    return "none" if gap is None else f"{gap:.3%}"


def main():
    o = arguments()
    divisi = str(pathlib.Path(shutil.which(o.divisi) or sys.exit(f"no program {o.divisi}")).resolve())
    cases = [case for case in CASES if o.only in case[0]]
    runs = {name: [] for name, *_ in cases}
    with tempfile.TemporaryDirectory() as folder:
        models = {}
        roomy = pathlib.Path(folder) / "roomy.toml"
        roomy.write_text(ROOMY)
        for words in dict.fromkeys(case[1] for case in cases):
            models[words] = pathlib.Path(folder) / f"{len(models)}.onnx"
            subprocess.run([sys.executable, MAKE_GRAPH, *words.split(), "-o", models[words]], check=True,
                           stdout=subprocess.DEVNULL)
        for _ in range(o.rounds):
            for name, words, cluster, batch, _limit in cases:
                runs[name].append(run(divisi, models[words], roomy if cluster == roomy.name else cluster, batch))
                print(f"{name}: {runs[name][-1][0]:.2f} s", file=sys.stderr, flush=True)
    rows, bad = [], []
    for name, _words, _cluster, _batch, limit in cases:
        seconds = [r[0] for r in runs[name]]
        plans = runs[name][0][3]
        search = next((plan["search"] for plan in plans if "search" in plan), {"gap": None})  # none where nothing fits
        best, of = plans[0], lambda i: [r[i] for r in runs[name]]
        row = dict(case=name, median_s=round(statistics.median(seconds), 3), least_s=round(min(seconds), 3),
                   most_s=round(max(seconds), 3), limit_s=limit, processor_s=round(statistics.median(of(2)), 3),
                   memory_mb=round(max(of(1))), **search, best=best["name"], parallelism=best["parallelism"], fits=best["fits"],
                   step_ms=best["step_ms"])
        rows.append(row)
        if limit and row["median_s"] > limit:
            bad.append(f"{name}: {row['median_s']} s, at most {limit} are allowed")
        if limit and (row["gap"] is None or row["gap"] > GAP):
            bad.append(f"{name}: optimality gap {percent(row['gap'])}, at most {percent(GAP)} are allowed")
        if any(r[3] != plans for r in runs[name]):
            bad.append(f"{name}: the runs' answers differ")
    depths = [(int(row["case"].split()[0]), row) for row in rows if "layers" in row["case"]]
    for (few, before), (many, after) in zip(depths, depths[1:]):
        if after["processor_s"] > GROWTH * before["processor_s"] * many / few:
            bad.append(f"{few} to {many} layers: {before['processor_s']} to {after['processor_s']} s of the processor")
    lines = [f"`divisi plan`, whole command, {o.rounds} runs each", "",
             "| case | s, median [least-most] | at most | processor, s | memory, MB | optimality gap | best plan |",
             "|---|---|---|---|---|---|---|"]
    for r in rows:
        lines.append(f"| {r['case']} | {r['median_s']:.2f} [{r['least_s']:.2f}-{r['most_s']:.2f}] | {r['limit_s'] or ''} | "
                     f"{r['processor_s']:.2f} | {r['memory_mb']:,} | {percent(r['gap'])} | {r['best']} ({' '.join(r['parallelism'])}), "
                     f"{r['step_ms']:.0f} ms |")
    if o.out:
        o.out.mkdir(parents=True, exist_ok=True)
        (o.out / "planning.json").write_text(json.dumps(rows, indent=1) + "\n")
        (o.out / "planning.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines + [""] + bad))
    sys.exit(1 if bad else 0)


main()
