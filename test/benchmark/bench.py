#!/usr/bin/env python3
"""Times one training step of Divisi beside PyTorch (eager, channels_last, torch.compile) and JAX on the CPU.

    bench.py [--divisi PATH] [--models mlp,lenet,gpt2,lstm,resnet18] [--peers eager,compile,max_autotune,jax]
             [--precision fp32|bf16] [--optimizer sgdm|adam] [--threads 2] [--rounds 3] [--exports FOLDER] [--out FOLDER]
             [--compile-args "..."]

Every row is a fresh process; the peers alternate within a round, so a change of the machine hits all alike. Rows in
which something else kept more than a tenth of a core busy are left out where quieter ones exist, and starred where not.
Convolutional models also run in PyTorch's channels_last format. In bf16 PyTorch has autocast, and JAX is left out.
Writes OUT/bench.json (every row) and OUT/bench.md (the table). Without --divisi only the peers run.
"""

import argparse
import collections
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CONVOLUTIONAL = ("lenet", "resnet18", "resnet50")
IN_JAX = ("mlp", "lenet", "gpt2", "resnet18")  # peers/jax_models.py
QUIET = 0.1  # cores that something else may keep busy
TIMEOUT = 600  # seconds for one row


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", help="the compiler's command-line program")
    p.add_argument("--models", default="mlp,lenet,gpt2,lstm,resnet18")
    p.add_argument("--peers", default="eager,compile,jax", help="comma-separated; empty for Divisi alone")
    p.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    p.add_argument("--optimizer", default="sgdm", choices=["sgdm", "adam"])
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--exports", type=pathlib.Path, help="where export.py has written the models (default: export now)")
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path("bench-results"))
    p.add_argument("--compile-args", default="", help="more words for `divisi compile`")
    return p.parse_args()


def compiles(peer):
    return peer.startswith("compile") or peer == "max_autotune"


def command_of(peer, model, o):
    """The command of the process that measures one row."""
    script, threads = lambda name: str(HERE / "peers" / name), str(o.threads)
    if peer == "divisi":
        extra = [*o.compile_args.split(), "--precision", o.precision]
        return [script("divisi_step.py"), o.divisi, str(o.exports), model, o.optimizer, threads, *extra]
    if peer == "jax":
        return [script("jax_step.py"), model, o.optimizer]
    return [script("torch_step.py"), peer, model, o.optimizer, threads, o.precision]


def run(peer, model, o, caches):
    """One row, or None when the process failed."""
    env = dict(os.environ, OMP_NUM_THREADS=str(o.threads), MKL_NUM_THREADS=str(o.threads), PYTHONDONTWRITEBYTECODE="1")
    cache = caches / peer / model
    warm = cache.exists()
    env["TORCHINDUCTOR_CACHE_DIR"] = str(cache)
    processors = sorted(os.sched_getaffinity(0))[-o.threads :]
    try:
        done = subprocess.run(
            [sys.executable, *command_of(peer, model, o)],
            env=env,
            text=True,
            capture_output=True,
            timeout=TIMEOUT,
            preexec_fn=lambda: os.sched_setaffinity(0, processors),
        )
        row = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        print(f"{model} {peer}: no end after {TIMEOUT} s", flush=True)
        return None
    except (ValueError, IndexError):
        print(f"{model} {peer}: exit {done.returncode}\n{(done.stdout + done.stderr)[-2000:]}", flush=True)
        return None
    row.update(peer=peer, optimizer=o.optimizer, threads=o.threads, precision=o.precision)
    if compiles(peer):
        row["cache"] = "warm" if warm else "cold"
    print(
        f"{model} {peer}: {row['median_ms']} ms [{row['p10_ms']}-{row['p90_ms']}], first {row['first_s']} s, "
        f"{row['peak_mb'] - row['base_mb']} MB, other load {row['other_cpu']}",
        flush=True,
    )
    return row


def quiet(rows):
    """The undisturbed rows, or all of them; and whether those are all."""
    good = [r for r in rows if r["other_cpu"] <= QUIET]
    return good or rows, not good


def figures(rows):
    """The figures of one peer and model in the table."""
    rows, disturbed = quiet(rows)
    middle = lambda key: statistics.median(r[key] for r in rows)
    first = lambda cache: [r["first_s"] for r in rows if r.get("cache") in (cache, None)]
    return dict(
        median=middle("median_ms"),
        p10=min(r["p10_ms"] for r in rows),
        p90=max(r["p90_ms"] for r in rows),
        net=round(statistics.median(r["peak_mb"] - r["base_mb"] for r in rows)),
        gross=round(middle("peak_mb")),
        cold=first("cold"),
        warm=first("warm"),
        disturbed=disturbed,
        rows=len(rows),
    )


def table(rows):
    """The markdown table; the ratio is against the fastest of the others."""
    groups = collections.defaultdict(list)
    for r in rows:
        groups[r["model"], r["peer"]].append(r)
    lines = [
        "| model | peer | ms per step [p10-p90] | Divisi / this | first step, s | memory, MB (with base) | rows |",
        "|---|---|---|---|---|---|---|",
    ]
    for model in dict.fromkeys(m for m, _ in groups):
        all_figures = {p: figures(g) for (m, p), g in groups.items() if m == model}
        ours = all_figures.get("divisi")
        for peer, f in all_figures.items():
            seconds = f"{statistics.median(f['cold'] or f['warm']):.2f}"
            if compiles(peer):
                warm = f"{statistics.median(f['warm']):.2f} warm" if f["warm"] else ""
                cold = f"{statistics.median(f['cold']):.2f} cold" if f["cold"] else ""
                seconds = ", ".join(filter(None, (cold, warm)))
            ratio = f"{ours['median'] / f['median']:.2f}" if ours and peer != "divisi" else ""
            lines.append(
                f"| {model} | {peer}{' *' if f['disturbed'] else ''} | {f['median']:.1f} [{f['p10']:.1f}-"
                f"{f['p90']:.1f}] | {ratio} | {seconds} | {f['net']} ({f['gross']}) | {f['rows']} |"
            )
    return "\n".join(lines) + "\n"


def same_start(rows, tolerance):
    """Divisi starts from PyTorch's weights and data, so the first loss must be PyTorch's. Lists what is not."""
    want = {r["model"]: r["loss"] for r in rows if r["peer"] == "eager"}
    return [
        f"{r['model']}: first loss {r['loss']}, PyTorch's {want[r['model']]}"
        for r in rows
        if r["peer"] == "divisi" and r["model"] in want and abs(r["loss"] / want[r["model"]] - 1) > tolerance
    ]


def main():
    o = arguments()
    if "--precision" in o.compile_args:
        sys.exit("--precision is a flag of its own, which peers have, too")
    models, peers = o.models.split(","), [p for p in o.peers.split(",") if p]
    if o.divisi:
        o.divisi = shutil.which(o.divisi) or sys.exit(f"no program {o.divisi}")
    o.out.mkdir(parents=True, exist_ok=True)
    rows = []
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        if o.divisi and not o.exports:
            o.exports = work / "exports"
            subprocess.run([sys.executable, str(HERE / "export.py"), str(o.exports), *models], check=True)
        for _ in range(o.rounds):
            for model in models:
                have = [p for p in peers if p != "jax" or (model in IN_JAX and o.precision == "fp32")]
                also = [f"{p}_channels_last".removeprefix("eager_") for p in ("eager", "compile") if p in have and model in CONVOLUTIONAL]
                for peer in (["divisi"] if o.divisi else []) + have + also:
                    rows.append(run(peer, model, o, work / "inductor"))
    failed = rows.count(None)
    rows = [r for r in rows if r]
    (o.out / "bench.json").write_text(json.dumps(rows, indent=1) + "\n")
    text = f"{o.precision}, {o.optimizer}, {o.threads} threads, {o.rounds} rounds; a star: no undisturbed row.\n\n{table(rows)}"
    (o.out / "bench.md").write_text(text)
    print("\n" + text)
    wrong = same_start(rows, 1e-4 if o.precision == "fp32" else 2e-3)
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if failed or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
