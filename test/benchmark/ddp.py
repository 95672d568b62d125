#!/usr/bin/env python3
"""Times one data-parallel training step of Divisi beside PyTorch's DistributedDataParallel (gloo), 2 ranks of 1 thread.

    ddp.py --divisi PATH --exports FOLDER [--models mlp,lenet,gpt2,resnet18] [--peers eager,compile] [--optimizer sgdm|adam]
           [--rounds 3] [--out FOLDER]

The global batch is the same on both sides, half on each rank. DDP runs in all formats that PyTorch has for the model (for
convolutional networks also channels_last); the ratio is against the fastest. Batch norm: DDP's ranks have statistics of their
own, so Divisi is compiled with --batch-norm-stats local for the ratio, and once more with global ones. The share of
overlapped communication is 1 - waited / spent on rank 0, from the program's log. Alternating, one fresh job per row.
"""

import argparse
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "peers"))
import common  # noqa: E402

CONVOLUTIONAL = ("lenet", "resnet18")
NORMALIZED = ("resnet18",)
STEPS = dict(mlp=100, lenet=30, resnet18=6, gpt2=16)
OPTIMIZERS = {
    "sgdm": ["--optimizer", "sgd", "--lr", "0.001", "--momentum", "0.9"],
    "adam": ["--optimizer", "adam", "--lr", "0.0001"],
}
RANKS = 2


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True, help="the compiler's command-line program")
    p.add_argument("--exports", type=pathlib.Path, required=True, help="where export.py has written the models")
    p.add_argument("--models", default="mlp,lenet,gpt2,resnet18")
    p.add_argument("--peers", default="eager,compile")
    p.add_argument("--optimizer", default="sgdm", choices=sorted(OPTIMIZERS))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path("bench-results"))
    return p.parse_args()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run_ddp(mode, model, o, caches):
    """One row of PyTorch: the ranks are processes of this script."""
    env = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()),
               WORLD_SIZE=str(RANKS), GLOO_SOCKET_IFNAME="lo", TORCHINDUCTOR_CACHE_DIR=str(caches / mode / model),
               PYTHONDONTWRITEBYTECODE="1")
    command = [sys.executable, str(HERE / "peers/ddp_step.py"), mode, model, o.optimizer, "1", str(STEPS[model])]
    ranks = [subprocess.Popen(command, env=dict(env, RANK=str(r)), text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) for r in range(RANKS)]
    said = [p.communicate(timeout=900) for p in ranks]
    if any(p.returncode for p in ranks):
        sys.exit(f"{model} {mode}: {said[0][1][-2000:]}")
    return json.loads(said[0][0].splitlines()[-1])


def run_divisi(model, statistics_of, o, work):
    """One row of Divisi: step times and communication from rank 0's log."""
    program, log = work / "program", work / "run.jsonl"
    command = [o.divisi, "compile", o.exports / f"{model}.onnx", "-o", program, "--devices", str(RANKS), "--strategy", "data",
               *OPTIMIZERS[o.optimizer], "--batch-norm-stats", statistics_of]
    if model not in common.LOSS_INSIDE:
        command += ["--loss", "cross_entropy", "--label", "label"]
    subprocess.run(command, check=True)
    log.unlink(missing_ok=True)
    data = [f"--data={name}={o.exports / model / name}.npy" for name in ("x", "label")]
    subprocess.run([o.divisi, "run", "--devices", str(RANKS), program, *data, "--no-shuffle", "--log", log, "--quiet",
                    "--threads", "1", "--steps", str(STEPS[model] + common.WARM)], check=True, capture_output=True)
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    measured = rows[common.WARM:]
    spent, waited = (sum(r[key] for r in measured) for key in ("comm_ms", "comm_wait_ms"))
    return dict(loss=round(rows[0]["loss"], 5), hidden=round(1 - waited / spent, 3) if spent else 1.0,
                comm_ms=round(spent / len(measured), 2), wait_ms=round(waited / len(measured), 2),
                **common.summary([r["step_ms"] / 1e3 for r in measured]))


def main():
    o = arguments()
    o.divisi = str(pathlib.Path(shutil.which(o.divisi) or sys.exit(f"no program {o.divisi}")).resolve())
    o.exports = o.exports.resolve()
    rows = []
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        for _ in range(o.rounds):
            for model in o.models.split(","):
                peers = o.peers.split(",") + (["channels_last"] if model in CONVOLUTIONAL else [])
                ours = [("divisi", "local")] + ([("divisi global", "global")] if model in NORMALIZED else [])
                for name, kind in ours:
                    rows.append(dict(run_divisi(model, kind, o, work), model=model, peer=name))
                    print(json.dumps(rows[-1]), flush=True)
                for mode in peers:
                    rows.append(dict(run_ddp(mode, model, o, work / "inductor"), model=model, peer=f"DDP {mode}"))
                    print(json.dumps(rows[-1]), flush=True)
    lines = [f"{o.optimizer}, {RANKS} ranks of 1 thread, {o.rounds} rounds", "",
             "| model | peer | ms per step [p10-p90] | Divisi / this | hidden |", "|---|---|---|---|---|"]
    for model in o.models.split(","):
        of = lambda peer: [r for r in rows if r["model"] == model and r["peer"] == peer]
        median = lambda peer: statistics.median(r["median_ms"] for r in of(peer))
        for peer in dict.fromkeys(r["peer"] for r in rows if r["model"] == model):
            mine = of(peer)
            ratio = "" if peer.startswith("divisi") else f"{median('divisi') / median(peer):.2f}"
            hidden = f"{statistics.median(r['hidden'] for r in mine):.0%}" if peer.startswith("divisi") else ""
            low, high = min(r["p10_ms"] for r in mine), max(r["p90_ms"] for r in mine)
            lines.append(f"| {model} | {peer} | {median(peer):.1f} [{low:.1f}-{high:.1f}] | {ratio} | {hidden} |")
    o.out.mkdir(parents=True, exist_ok=True)
    (o.out / "ddp.json").write_text(json.dumps(rows, indent=1) + "\n")
    (o.out / "ddp.md").write_text("\n".join(lines) + "\n")
    print("\n" + "\n".join(lines))


main()
