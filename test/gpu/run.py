#!/usr/bin/env python3
"""Runs the programs of pack.py on a machine with a GPU. Builds nothing.

    run.py [--out RESULT.json] [--part parity|precision|host|kernels|speed|ranks] [--limit SECONDS] [--autotune]

Parity: every test model under each optimizer, losses beside PyTorch's (1e-3). Precision: the same in bf16 (2 % of the first loss: later ones may be
small). Host: a step of a model whose
kernels take next to nothing. Kernels: bytes that the large kernels of two programs move in a second, beside a copy by PyTorch. Speed:
steps of GPT-2 small, BERT base, ResNet-50 and an MLP, with and without epilogue fusion, beside PyTorch eager and torch.compile
with autocast, channels_last and fused optimizers on the same GPU, in turn, three rounds (--autotune: torch.compile's max-autotune, which
takes minutes). Ranks: two processes, and three of which two take microbatches in turn, over TCP, each on a GPU of its own if there are as many; else with
data through the host's memory; and a second time with NCCL between them (NCCL_HOSTID). Each part is a process of its own with a time limit: what hangs ends, is listed, and the next part follows.
One JSON, one table; exit code 1 if parity, precision or ranks fail or a part does not end. What could not be run is listed as such.
"""

import argparse
import array
import ast
import collections
import concurrent.futures
import importlib.util
import json
import math
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tarfile
import tempfile
import time

import launch

HERE = pathlib.Path(__file__).resolve().parent
TOLERANCE, BF16_TOLERANCE, ROUNDS, STEPS = 1e-3, 0.02, 3, 30
PEERS = 4  # models that PyTorch compiles at once, and keeps in the GPU's memory
AT_ONCE = min(6, os.cpu_count() or 1)  # programs whose losses are compared
# Seconds for each part.
LIMITS = {"parity": 1800, "precision": 900, "host": 300, "kernels": 600, "speed": 3600, "ranks": 600}
LARGE = 100_000_000  # bytes of a kernel that is limited by memory bandwidth
# PyTorch: says "ready", then for each line, eager or compiled, the milliseconds of each of some steps.
TORCH = """
import contextlib, json, sys, time
sys.path.insert(0, sys.argv[1])
import torch, speed_models
from speed_models import models
name, compiled, precision, steps = sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5])
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
torch.backends.cudnn.benchmark = True
model, (x, label) = speed_models.build(name).cuda().train(), (t.cuda() for t in speed_models.batch(name))
if x.dim() == 4:
    model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
update = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
half = torch.autocast("cuda", torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()

def run(forward, steps):
    times = []
    for i in range(steps):
        torch.cuda.synchronize()
        start = time.perf_counter()
        update.zero_grad(set_to_none=True)
        with half:
            loss = forward(model, x, label)
        loss.backward()
        update.step()
        loss.item()
        times.append(1e3 * (time.perf_counter() - start))
    return times

ways = {"eager": models.loss, compiled: torch.compile(models.loss, mode="reduce-overhead" if compiled == "compile" else compiled)}
for forward in ways.values():
    run(forward, 10)
print("ready", flush=True)
for line in sys.stdin:
    print(json.dumps(run(ways[line.strip()], steps)), flush=True)
"""
# Bytes a second that a copy of 1 GiB reads and writes.
COPY = """
import torch
x = torch.empty(1 << 28, device="cuda"); y = torch.empty_like(x)
marks = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
for i in range(13):
    if i == 3: marks[0].record()
    y.copy_(x)
marks[1].record(); torch.cuda.synchronize()
print(10 * 2 * 4 * x.numel() / (1e-3 * marks[0].elapsed_time(marks[1])))
"""


def libraries():
    """The environment in which programs find the pack's libraries, and NVIDIA's where Python's packages have them."""
    packages = importlib.util.find_spec("nvidia")
    nvidia = [path for root in (packages.submodule_search_locations if packages else []) for path in sorted(pathlib.Path(root).glob("*/lib"))]
    return dict(os.environ, LD_LIBRARY_PATH=":".join(map(str, [HERE / "lib", *nvidia, os.environ.get("LD_LIBRARY_PATH", "")])))


def write_numbers(path, shape, count=None, seed=7):
    """Numbers for an input: some thousand drawn ones, again and again, whole ones below `count` or floats between -1 and 1."""
    draw, total = random.Random(seed), math.prod(shape)
    drawn = [draw.randrange(count) if count else draw.uniform(-1, 1) for _ in range(8191)]
    data = array.array("q" if count else "f", drawn) * (total // len(drawn) + 1)
    header = f"{{'descr': '{'<i8' if count else '<f4'}', 'fortran_order': False, 'shape': {tuple(shape)}}}".ljust(117) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data[:total].tobytes())


def losses_of(rows):
    return [row["loss"] for row in rows if "step" in row and "loss" in row and "epoch_end" not in row]


def train(program, data, steps, environment, work, more=(), by_rank=({},)):
    """(the log's lines, error) of a program that is started once for each item of `by_rank`, with these variables."""
    log = work / f"log{time.monotonic_ns()}.jsonl"
    words = [w for f in sorted(data.glob("*.npy")) for w in ("--data", f"{f.stem}={f}")]
    command = [program, *words, "--steps", steps, "--no-shuffle", "--device", "cuda", "--log", log, "--quiet", *more]
    processes = [subprocess.Popen(list(map(str, command)), env=environment | own, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                 for own in by_rank]
    said = ""
    try:
        for process in processes:
            said = said or process.communicate(timeout=300)[1].strip()[-300:]
    except subprocess.TimeoutExpired:
        said = "no end within 300 seconds"
    finally:
        for process in processes:
            process.kill()
    if any(process.wait() != 0 for process in processes):
        return [], said or f"exit codes {[process.returncode for process in processes]}"
    return [json.loads(line) for line in log.read_text().splitlines()], ""


def compare(losses, wanted, least=1e-6):
    """The largest difference, of what was wanted or of `least` if that is more."""
    if len(losses) != len(wanted):
        return float("inf")
    return max(abs(a - b) / max(abs(b), least) for a, b in zip(losses, wanted))


def beside_pytorch(part, runs, tolerance, environment, work):
    """A row for each (case, program, reference's run), some at a time."""

    def row(job):
        case, name, run = job
        rows, wrong = train(case / name, case / "data", len(run["losses"]), environment, work)
        error = compare(losses_of(rows), run["losses"], run["losses"][0] if part == "precision" else 1e-6)
        return {"part": part, "model": case.name, "way": name, "error": error, "ok": error <= tolerance, "said": wrong}

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(row, runs)


def recorded_runs():
    return [(case, json.loads((case / "reference.json").read_text())["runs"]) for case in sorted((HERE / "models").iterdir())]


def parity(environment, work, options):
    runs = [(case, run["optimizer"]["name"], run) for case, all_ in recorded_runs() for run in all_]
    return beside_pytorch("parity", runs, TOLERANCE, environment, work)


def precision(environment, work, options):
    runs = [(case, "bf16", all_[0]) for case, all_ in recorded_runs()]
    return beside_pytorch("precision", runs, BF16_TOLERANCE, environment, work)


def host(environment, work, options):
    case = HERE / "models/mlp"
    rows, wrong = train(case / "sgd", case / "data", 2000, environment, work)
    yield timed({"part": "host", "model": "mlp", "way": "a step", "said": wrong}, [row["step_ms"] for row in rows if "step_ms" in row][100:])


def kernels(environment, work, options):
    done = subprocess.run([sys.executable, "-c", COPY], capture_output=True, text=True)
    copy = float(done.stdout) if done.returncode == 0 else None
    yield {"part": "kernels", "model": "a copy", "way": "PyTorch", "bytes_per_s": copy, "said": done.stderr.strip()[-200:] if not copy else ""}
    write_numbers(work / "x.npy", (1,))
    for calls in sorted((HERE / "kernels").glob("*.json")):
        profile = work / f"{calls.stem}.profile"
        program = calls.with_suffix("")
        command = [program, "--data", f"x={work / 'x.npy'}", "--init", 1, "--steps", 20, "--no-shuffle", "--device", "cuda", "--quiet"]
        done = subprocess.run(list(map(str, [*command, "--profile", profile])), env=environment, capture_output=True, text=True)
        row = {"part": "kernels", "model": calls.stem}
        if done.returncode != 0:
            yield {**row, "way": "", "said": done.stderr.strip()[-300:]}
            continue
        measured = [json.loads(line) for line in profile.read_text().splitlines()[1:]]
        wanted = json.loads(calls.read_text())
        for i, (call, (kind, moved)) in enumerate(zip(measured, wanted, strict=True)):
            if moved >= LARGE:
                rate = moved / (1e-6 * call["us"])
                share = {"share_of_copy": rate / copy} if copy else {}
                yield {**row, "way": f"call {i}: {call['name'] or kind}", "bytes_per_s": rate, **share, "said": ""}


class Torch:
    """A process of PyTorch that has compiled its model."""

    def __init__(self, model, precision_, compiled):
        command = [sys.executable, "-c", TORCH, HERE, model, compiled, precision_, STEPS]
        self.said = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said, text=True)

    def steps(self, mode):
        """(milliseconds, error)"""
        try:
            self.process.stdin.write(mode + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline()), ""
        except (OSError, ValueError):
            self.process.kill()
            self.process.wait()
            self.said.seek(0)
            return [], (self.said.read().strip().splitlines() or ["no words"])[-1][-300:]


def shapes_of(model):
    return ast.literal_eval(re.search(r"^SHAPES = (\{.*?^\})", (HERE / "speed_models.py").read_text(), re.S | re.M)[1])[model]


def speed(environment, work, options):
    folders = sorted((HERE / "speed").iterdir()) if (HERE / "speed").is_dir() else []
    if not folders:
        yield {"part": "speed", "model": "", "way": "", "said": "not run: pack.py --exports packs the models"}
    modes = ["eager", "max-autotune" if options.autotune else "compile"]
    programs = collections.defaultdict(lambda: collections.defaultdict(list))  # by precision and model
    for folder in folders:
        for path in sorted(folder.iterdir()):
            programs[path.name.split("-")[0]][folder].append(path.name)
    for precision_, of in sorted(programs.items()):
        rows = list(of.items())
        for first in range(0, len(rows), PEERS):
            yield from speed_in(precision_, dict(rows[first:first + PEERS]), modes, environment, work)


def speed_in(precision_, programs, modes, environment, work):
    peers = {folder: Torch(folder.name, precision_, modes[1]) for folder in programs}  # they compile at once
    for peer in peers.values():
        peer.process.stdout.readline()  # "ready"
    for folder, names in programs.items():
        data = work / folder.name
        if not data.exists():
            data.mkdir()
            for name, (shape, count) in zip(("x", "label"), shapes_of(folder.name)):
                write_numbers(data / f"{name}.npy", shape, count)
        times, wrong = {way: [] for way in [*names, *modes]}, {}
        for _ in range(ROUNDS):
            for way in times:
                if way in modes:
                    measured, said = peers[folder].steps(way)
                else:
                    rows, said = train(folder / way, data, STEPS + 10, environment, work, more=["--init", 1])
                    measured = [row["step_ms"] for row in rows if "step_ms" in row][10:]
                times[way] += measured
                if said:
                    wrong[way] = said
        for way, measured in times.items():
            full = way if way not in modes else f"{precision_} PyTorch {way}"
            yield timed({"part": "speed", "model": folder.name, "way": full, "said": wrong.get(way, "")}, measured)
        peers[folder].process.kill()


def gpus():
    """The number of GPUs, as far as nvidia-smi says."""
    tool = shutil.which("nvidia-smi")
    listed = subprocess.run([tool, "-L"], capture_output=True, text=True, timeout=60).stdout if tool else ""
    return max(1, listed.count("GPU "))


def ranks(environment, work, options):
    case = HERE / "models/gpt_tiny"
    run = json.loads((case / "reference.json").read_text())["runs"][0]
    # NCCL takes ranks with different ids for different hosts, and uses its network between them.
    for program, count, split, apart in (("two", 2, "data=2", False), ("turns", 3, "stage=2 in turn 2,1", False),
                                         ("two", 2, "data=2", True), ("turns", 3, "stage=2 in turn 2,1", True)):
        few = gpus() < count and not apart
        port = launch.free_port()
        by_rank = [launch.variables(rank, count, port) | {"LOCAL_RANK": str(rank)} | ({"NCCL_HOSTID": str(rank), "NCCL_SOCKET_IFNAME": "lo"} if apart else {})
                   for rank in range(count)]
        rows, wrong = train(case / program, case / "data", len(run["losses"]), environment, work, ["--no-nccl"] if few else [], by_rank)
        error = compare(losses_of(rows), run["losses"])
        row = {"part": "ranks", "model": "gpt_tiny", "way": split + (" through the host" if few else ", NCCL_HOSTID" if apart else ""), "error": error, "said": wrong}
        yield row if apart else {**row, "ok": error <= TOLERANCE}


def timed(row, milliseconds):
    if milliseconds:
        ordered = sorted(milliseconds)
        row["ms"] = statistics.median(ordered)
        row["p10"], row["p90"] = ordered[len(ordered) // 10], ordered[9 * len(ordered) // 10]
    return row


PARTS = (parity, precision, host, kernels, speed, ranks)


def measure(part, options):
    """Runs one part in this process; prints each row and writes all of them."""
    rows = []
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        for row in part(libraries(), work, options):
            rows.append(row)
            show(row)
            options.out.write_text(json.dumps(rows))


def show(row):
    figures = f"error {row['error']:.1e}" if "error" in row else f"{row['ms']:.3f} ms" if "ms" in row else ""
    if row.get("bytes_per_s"):
        figures = f"{row['bytes_per_s'] / 1e9:.0f} GB/s" + (f", {row['share_of_copy']:.0%} of a copy" if "share_of_copy" in row else "")
    state = {True: "ok", False: "FAIL"}.get(row.get("ok"), "")
    print(f"| {row['part']} | {row['model']} | {row['way']} | {figures} | {state} {row['said']} |", flush=True)


def guarded(part, options, work):
    """The rows of a part that runs in a process of its own, with a row more if it does not end well within its time."""
    limit = options.limit or LIMITS[part.__name__]
    out = work / f"{part.__name__}.json"
    command = [sys.executable, __file__, "--part", part.__name__, "--unguarded", "--out", out, *(["--autotune"] if options.autotune else [])]
    process = subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True, start_new_session=True)
    wrong = ""
    try:
        said = process.communicate(timeout=limit)[1].strip()
        if process.returncode != 0:
            wrong = f"ended with code {process.returncode}: {said.splitlines()[-1][-300:] if said else ''}"
    except subprocess.TimeoutExpired:
        wrong = f"no end within {limit} seconds"
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)  # whatever hangs
        except ProcessLookupError:
            pass
        process.wait()
    rows = json.loads(out.read_text()) if out.exists() else []
    if wrong:
        rows.append({"part": part.__name__, "model": "", "way": "", "ok": False, "said": wrong})
        show(rows[-1])
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gpu.json"))
    parser.add_argument("--part", choices=[part.__name__ for part in PARTS], help="this one alone")
    parser.add_argument("--limit", type=float, help="seconds for each part, instead of its own limit")
    parser.add_argument("--autotune", action="store_true", help="torch.compile's max-autotune")
    parser.add_argument("--unguarded", action="store_true", help="the part in this process, without a time limit")
    options = parser.parse_args()
    parts = [part for part in PARTS if options.part in (None, part.__name__)]
    if options.unguarded:
        for part in parts:
            measure(part, options)
        return 0
    rows, packed = [], HERE / "programs.tar.xz"
    if packed.exists() and not (HERE / "models").exists():
        with tarfile.open(packed) as tar:
            tar.extractall(HERE, filter="data")
    with tempfile.TemporaryDirectory() as work:
        for part in parts:
            rows += guarded(part, options, pathlib.Path(work))
            options.out.write_text(json.dumps(rows, indent=1))
    return 0 if all(row.get("ok", True) for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
