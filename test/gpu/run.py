#!/usr/bin/env python3
"""Runs what pack.py packed, on a machine with a GPU. Builds nothing.

    run.py [--out RESULT.json] [--part parity|ranks|speed]

Parity: every test model under each optimizer, losses beside PyTorch's (1e-3). Ranks: two processes on the GPUs there are, if there is
an mpirun. Speed: steps of the benchmark models beside PyTorch eager and torch.compile on the same GPU, in turn, three rounds, fp32
without TF32. One JSON, one table; exit code 1 if parity fails. What could not be run is listed as such.
"""

import argparse
import json
import lzma
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
TOLERANCE, ROUNDS, STEPS = 1e-3, 3, 50
# One PyTorch run: milliseconds of each step after some to warm up.
TORCH = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
import torch, models
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
torch.backends.cudnn.benchmark = True
model, x, label = models.make(sys.argv[2])
model, x, label = model.cuda().train(), x.cuda(), label.cuda()
if sys.argv[2] == "resnet18" or sys.argv[2] == "lenet":
    model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
update = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
forward = torch.compile(models.loss, mode="max-autotune") if sys.argv[3] == "compile" else models.loss
times = []
for i in range(int(sys.argv[4]) + 10):
    torch.cuda.synchronize()
    start = time.perf_counter()
    update.zero_grad(set_to_none=True)
    loss = forward(model, x, label)
    loss.backward()
    update.step()
    loss.item()
    times.append(1e3 * (time.perf_counter() - start))
print(json.dumps(times[10:]))
"""


def libraries(folder):
    """Unpacks the shared libraries; the environment that finds them."""
    for packed in (HERE / "lib").glob("*.xz"):
        (folder / packed.stem).write_bytes(lzma.decompress(packed.read_bytes()))
    return dict(os.environ, LD_LIBRARY_PATH=f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}")


def losses_of(rows):
    return [row["loss"] for row in rows if "step" in row and "loss" in row and "epoch_end" not in row]


def train(program, data, steps, environment, work, before=(), more=()):
    """(the log's rows, what went wrong)."""
    log = work / f"log{time.monotonic_ns()}.jsonl"
    words = [w for f in sorted(data.glob("*.npy")) for w in ("--data", f"{f.stem}={f}")]
    command = [*before, program, *words, "--steps", steps, "--no-shuffle", "--device", "cuda", "--log", log, "--quiet", *more]
    done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        return [], done.stderr.strip()[-300:]
    return [json.loads(line) for line in log.read_text().splitlines()], ""


def compare(losses, wanted):
    if len(losses) != len(wanted):
        return float("inf")
    return max(abs(a - b) / max(abs(b), 1e-6) for a, b in zip(losses, wanted))


def parity(environment, work):
    for case in sorted((HERE / "models").iterdir()):
        reference = json.loads((case / "reference.json").read_text())
        for run in reference["runs"]:
            name = run["optimizer"]["name"]
            rows, wrong = train(case / name, case / "data", len(run["losses"]), environment, work)
            error = compare(losses_of(rows), run["losses"])
            yield {"part": "parity", "model": case.name, "way": name, "error": error, "ok": error <= TOLERANCE, "said": wrong}


def ranks(environment, work):
    launcher = shutil.which("mpirun")
    if not launcher:
        yield {"part": "ranks", "model": "gpt_tiny", "way": "data=2", "said": "not run: there is no mpirun"}
        return
    case = HERE / "models/gpt_tiny"
    run = json.loads((case / "reference.json").read_text())["runs"][0]
    before = [launcher, "--allow-run-as-root", "--oversubscribe", "-n", "2"]
    rows, wrong = train(case / "two", case / "data", len(run["losses"]), environment, work, before)
    error = compare(losses_of(rows), run["losses"])
    yield {"part": "ranks", "model": "gpt_tiny", "way": "data=2", "error": error, "ok": error <= TOLERANCE, "said": wrong}


def speed(environment, work):
    for folder in sorted((HERE / "speed").iterdir()) if (HERE / "speed").is_dir() else []:
        times = {"divisi": [], "eager": [], "compile": []}
        wrong = {}
        for _ in range(ROUNDS):
            for way in times:
                if way == "divisi":
                    rows, said = train(folder / "program", folder, STEPS + 10, environment, work, more=["--init", 1])
                    times[way] += [row["step_ms"] for row in rows if "step_ms" in row][10:]
                else:
                    command = [sys.executable, "-c", TORCH, HERE / "peers", folder.name, way, STEPS]
                    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
                    said = done.stderr.strip()[-300:] if done.returncode else ""
                    times[way] += json.loads(done.stdout.splitlines()[-1]) if not said else []
                if said:
                    wrong[way] = said
        for way, measured in times.items():
            row = {"part": "speed", "model": folder.name, "way": way, "said": wrong.get(way, "")}
            if measured:
                ordered = sorted(measured)
                row["ms"] = statistics.median(ordered)
                row["p10"], row["p90"] = ordered[len(ordered) // 10], ordered[9 * len(ordered) // 10]
            yield row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gpu.json"))
    parser.add_argument("--part", choices=["parity", "ranks", "speed"], help="this one alone")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        environment = libraries(work)
        for part in (parity, ranks, speed):
            if options.part not in (None, part.__name__):
                continue
            for row in part(environment, work):
                rows.append(row)
                figures = f"error {row['error']:.1e}" if "error" in row else f"{row['ms']:.3f} ms" if "ms" in row else ""
                state = {True: "ok", False: "FAIL"}.get(row.get("ok"), "")
                print(f"| {row['part']} | {row['model']} | {row['way']} | {figures} | {state} {row['said']} |", flush=True)
                options.out.write_text(json.dumps(rows, indent=1))
    if not rows:
        print("nothing to do here: pack.py --exports FOLDER packs the models whose speed is measured")
    return 0 if rows and all(row.get("ok", True) for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
