#!/usr/bin/env python3
"""Training from large data on 1 and 4 ranks, killed and resumed bit by bit: 10 GB of tokens (sparse), a tar of 10,000 JPEG files, a CSV of 300,000 rows.

    large_data.py --divisi PATH [--only tokens]

Of the tokens, those windows are written that token_order.py (NumPy) says are drawn, so that each step has its own loss; a small file with the same windows in that order must give the same losses. No rank's peak
memory may be more than 48 MiB above that of a small file. Needs NumPy, onnx and Pillow. Ends with `N passed, N failed`.
"""

import argparse
import io
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import time

import numpy as np
from PIL import Image

import cases
import image_files
import images
import token_order
import tokens
from hangs import outcome
from ranks import losses, ranks_of

MODELS = pathlib.Path(__file__).resolve().parent.parent / "models"
STEPS, KILLED = 40, 15  # of a training; after which checkpoint it is killed
SEED, GROWTH = 11, 48  # MiB


def command(divisi, program, ranks, log, *flags):
    launcher = [divisi, "run", "--devices", ranks] if ranks > 1 else []
    return [str(word) for word in (*launcher, program, "--threads", 1, "--seed", SEED, "--quiet", "--log", log, *flags)]


def peaks_of(process, program, ranks):
    """The largest resident memory of each rank while a program runs, in MiB, by process."""
    peaks = {}
    while process.poll() is None:
        for pid in [process.pid] if ranks == 1 else ranks_of(program):
            try:
                status = pathlib.Path(f"/proc/{pid}/status").read_text()
            except OSError:
                continue
            if "VmHWM:" in status:
                peaks[pid] = int(status.partition("VmHWM:")[2].split()[0]) / 1024
        time.sleep(0.02)
    assert process.returncode == 0, process.returncode
    return max(peaks.values(), default=0)


def check(divisi, work, program, ranks, flags, small=()):
    """The losses of a training that is killed and resumed are those of one that is not; its memory is that of `small` data."""
    log = work / "log.jsonl"
    whole = peaks_of(subprocess.Popen(command(divisi, program, ranks, log, *flags, "--steps", STEPS)), program, ranks)
    want = losses(log)
    assert list(want) == list(range(1, STEPS + 1)) and len(set(want.values())) > STEPS / 2, want
    keep = ["--checkpoint", work / f"kept{ranks}", "--every", 5]
    log.unlink()
    # Far too many steps, so that it is killed in its midst.
    process = subprocess.Popen(command(divisi, program, ranks, log, *flags, "--steps", 10**6, *keep), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    deadline = time.monotonic() + 120
    while tokens.newest(work / f"kept{ranks}") < KILLED and time.monotonic() < deadline:
        time.sleep(0.001)
    for pid in [process.pid] if ranks == 1 else ranks_of(program):
        os.kill(pid, signal.SIGKILL)
    outcome(process, 60, "the job, of which ranks were killed,")
    last = tokens.newest(work / f"kept{ranks}")
    log.unlink()
    steps = max(STEPS, last + 10)
    subprocess.run(command(divisi, program, ranks, log, *flags, "--steps", steps, *keep, "--resume"), check=True)
    after = losses(log)
    if steps > STEPS:
        log.unlink()
        subprocess.run(command(divisi, program, ranks, log, *flags, "--steps", steps), check=True)
        want = losses(log)
    assert list(after) == list(range(last + 1, steps + 1)) and all(after[step] == want[step] for step in after), f"resumed at {last}: {after}, undisturbed {want}"
    said = f"{ranks} ranks: killed, {len(after)} steps from step {last + 1} the same"
    if small:
        log.unlink()
        alone = peaks_of(subprocess.Popen(command(divisi, program, ranks, log, *small, "--steps", STEPS)), program, ranks)
        assert whole - alone < GROWTH, f"a rank's peak memory is {whole:.0f} MiB, with little data {alone:.0f} MiB"
        said += f"; a rank's peak memory {whole:.0f} MiB, with little data {alone:.0f} MiB"
    return said, want


def tokens_10_gb(divisi, work):
    count, length, drawn = 10_000_000_000 // 2, tokens.LENGTH, 600 * tokens.BATCH
    windows = (count - 1) // length
    order = token_order.order(SEED, 0, windows, drawn)
    draw, rows = np.random.default_rng(3), []
    with open(work / "large.bin", "wb") as file:
        file.truncate(2 * count)
        for window in order:
            rows.append(draw.integers(0, tokens.VOCABULARY, length + 1, dtype="<u2"))
            file.seek(2 * window * length)
            file.write(rows[-1].tobytes())
    for name, part in ("idx", slice(0, length)), ("targets", slice(1, length + 1)):
        np.save(work / f"{name}.npy", np.array([row[part] for row in rows], "int64"))
    taken = os.stat(work / "large.bin")
    assert taken.st_size == 10_000_000_000 and taken.st_blocks * 512 < 100 << 20
    np.zeros(10_000, "<u2").tofile(work / "small.bin")
    for ranks in (1, 4):
        program = tokens.compile(divisi, work, ranks)
        said, want = check(divisi, work, program, ranks, ["--data", f"idx={work}/large.bin"], ["--data", f"idx={work}/small.bin"])
        arrays = [w for name in ("idx", "targets") for w in ("--data", f"{name}={work}/{name}.npy")]
        (work / "log.jsonl").unlink()
        subprocess.run(command(divisi, program, ranks, work / "log.jsonl", *arrays, "--no-shuffle", "--steps", STEPS), check=True)
        got = losses(work / "log.jsonl")
        assert all(got[step] == want[step] for step in got), "the windows are not those of the reference"
        yield said


def tar_10_000(divisi, work):
    draw = np.random.default_rng(4)
    with tarfile.open(work / "all.tar", "w") as tar:
        for i in range(10_000):
            file = io.BytesIO()
            image_files.picture(draw, 48, 40).save(file, "JPEG", quality=80)
            for end, content in (("jpg", file.getvalue()), ("cls", str(i % images.CLASSES).encode())):
                member = tarfile.TarInfo(f"{i:05}.{end}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    for layout in ("1", "4"):
        program = images.compile(divisi, work, layout)
        yield check(divisi, work, program, int(layout), ["--data", f"image={work}/all.tar", "--augment", "crop,flip", "--workers", 2])[0]


def csv_300_000(divisi, work):
    draw = np.random.default_rng(2)
    features = np.load(MODELS / "mlp/data/x.npy").shape[1]
    names = [f"x{i}" for i in range(features)]
    with open(work / "all.csv", "w") as file:
        file.write(",".join([*names, "label"]) + "\n")
        block = ["".join(f"{v:.4f}," for v in row) for row in draw.normal(size=(1000, features))]
        for start in range(0, 300_000, 1000):
            file.write("\n".join(block[int(j)] + str(int(j) % 5) for j in draw.permutation(1000)) + "\n")
            block[int(draw.integers(1000))] = "".join(f"{v:.4f}," for v in draw.normal(size=features))
    flags = [w for name in ("x", "label") for w in ("--data", f"{name}={work}/all.csv" + (":x*" if name == "x" else ""))]
    for ranks, mesh in ((1, []), (4, ["--mesh", "data=2,model=2"])):
        program = work / f"mlp{ranks}"
        subprocess.run([divisi, "compile", MODELS / "mlp/model.onnx", "-o", program, "--optimizer", "adamw", "--lr", "1e-3", *mesh], check=True, stderr=subprocess.DEVNULL)
        yield check(divisi, work, program, ranks, flags)[0]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    p.add_argument("--only", default="")
    o = p.parse_args()
    chosen = [case for case in (tokens_10_gb, tar_10_000, csv_300_000) if o.only in case.__name__]
    return cases.run(chosen, lambda case, work: case(o.divisi, work))


if __name__ == "__main__":
    sys.exit(main())
