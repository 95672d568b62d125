#!/usr/bin/env python3
"""Training from files of tokens: the windows that are fed, on 1, 2 and 4 ranks; killed and resumed; damaged files; 10 GB.

    tokens.py --divisi PATH [--only windows]

The windows are those of token_order.py (NumPy): the same windows in a .npy file give the same losses, bit by bit. Needs NumPy.
Ends with `N passed, N failed`.
"""

import argparse
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np

import cases
import token_order
from hangs import outcome
from ranks import losses, ranks_of

MODEL = pathlib.Path(__file__).resolve().parent.parent / "models/gpt_tiny/model.onnx"
BATCH, LENGTH, VOCABULARY, SEED = 4, 32, 96, 11
LAYOUTS = {1: [], 2: ["--devices", "2", "--strategy", "data"], 4: ["--mesh", "data=2,model=2"]}
EPOCH = 13  # steps: 53 windows, of which one is left over
STEPS = 2 * EPOCH


def compile(divisi, work, ranks):
    program = work / f"program{ranks}"
    if not program.exists():
        subprocess.run([divisi, "compile", str(MODEL), "-o", str(program), "--optimizer", "adamw", "--lr", "1e-3", *LAYOUTS[ranks]],
                       check=True, stderr=subprocess.DEVNULL)
    return program


def words(divisi, work, ranks, *flags):
    launcher = [divisi, "run", "--devices", str(ranks)] if ranks > 1 else []
    return [*launcher, str(compile(divisi, work, ranks)), "--threads", "1", "--seed", str(SEED), "--quiet", *map(str, flags)]


def train(divisi, work, ranks, *flags):
    """Losses by step, and of evaluations."""
    log = work / "log.jsonl"
    log.unlink(missing_ok=True)
    done = subprocess.run(words(divisi, work, ranks, *flags, "--log", log), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    evaluations = [line for line in log.read_text().splitlines() if '"eval":true' in line]
    return losses(log), [line.partition('"loss":')[2].partition(",")[0] for line in evaluations]


def write_files(work):
    """One file as nanoGPT writes it, one as llm.c does; the arrays of their tokens."""
    draw = np.random.default_rng(1)
    plain, headed = draw.integers(0, VOCABULARY, 1000, dtype="<u2"), draw.integers(0, VOCABULARY, 722, dtype="<u2")
    plain.tofile(work / "train_0.bin")
    header = np.zeros(256, "<i4")
    header[:3] = 20240520, 1, len(headed)
    (work / "train_1.bin").write_bytes(header.tobytes() + headed.tobytes())
    return [plain, headed]


def flags_of(work, flag="--data"):
    return [flag, f"idx={work}/train_*.bin"]


def windows(divisi, work):
    """The order of two epochs, and an evaluation with an incomplete batch, as .npy files give them."""
    everything = token_order.windows(write_files(work), LENGTH)
    assert len(everything) == EPOCH * BATCH + 1
    order = [i for epoch in range(2) for i in token_order.order(SEED, epoch, len(everything))[: EPOCH * BATCH]]
    for name, part in ("idx", 0), ("targets", 1):
        np.save(work / f"{name}.npy", np.array([everything[i][part] for i in order], "int64"))
        np.save(work / f"{name}_eval.npy", np.array([window[part] for window in everything], "int64"))
    arrays = [w for name in ("idx", "targets") for w in ("--data", f"{name}={work}/{name}.npy", "--eval", f"{name}={work}/{name}_eval.npy")]
    alone = None
    for ranks in LAYOUTS:
        got, evaluated = train(divisi, work, ranks, *flags_of(work), *flags_of(work, "--eval"), "--eval-every", STEPS, "--steps", STEPS)
        want, wanted = train(divisi, work, ranks, *arrays, "--no-shuffle", "--steps", STEPS)
        assert len(want) == STEPS and got == want, f"{ranks} ranks: losses {got} and of arrays {want}"
        assert len(wanted) == 1 and evaluated == wanted, f"{ranks} ranks: evaluation {evaluated} and of arrays {wanted}"
        alone = alone or got
        worst = max(abs(float(got[step]) / float(alone[step]) - 1) for step in got)
        assert worst < 1e-5, f"{ranks} ranks differ from one by {worst}"
        yield f"{ranks} ranks: {STEPS} losses and an evaluation as of arrays; from one rank {worst:.1e}"


def newest(folder):
    """The step of the newest complete checkpoint; 0 without one."""
    return max((int(path.name.removeprefix("step-")) for path in folder.glob("step-*")), default=0)


def resumed(divisi, work):
    """Killed after a checkpoint in the second epoch: the rest is as undisturbed."""
    write_files(work)
    for ranks in (1, 2):
        whole, _ = train(divisi, work, ranks, *flags_of(work), "--steps", STEPS)
        folder, log = work / f"checkpoints{ranks}", work / "part.jsonl"
        keep = ["--checkpoint", folder, "--every", "3"]
        log.unlink(missing_ok=True)
        # Far too many steps, so that it is killed in its midst.
        process = subprocess.Popen(words(divisi, work, ranks, *flags_of(work), "--epochs", "100000", *keep, "--log", log),
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        deadline = time.monotonic() + 60
        while newest(folder) <= EPOCH and time.monotonic() < deadline:
            time.sleep(0.001)
        for pid in [process.pid] if ranks == 1 else ranks_of(compile(divisi, work, ranks)):
            os.kill(pid, signal.SIGKILL)
        outcome(process, 60, "the job, of which ranks were killed,")
        before, last = losses(log), newest(folder)
        steps = last + EPOCH + 4
        longer, _ = train(divisi, work, ranks, *flags_of(work), "--steps", steps)
        after, _ = train(divisi, work, ranks, *flags_of(work), "--steps", steps, *keep, "--resume")
        assert last > EPOCH and list(after) == list(range(last + 1, steps + 1)), f"checkpoint {last}, resumed at {min(after, default=None)}"
        same = {**{step: loss for step, loss in before.items() if step <= last}, **after}
        assert same == longer and all(longer[step] == whole[step] for step in whole if step in longer), f"{same} and undisturbed {longer}"
        yield f"{ranks} ranks: killed after step {max(before)}, {len(after)} steps from step {last + 1} the same"
        if ranks == 1:  # the same position on other ranks
            elsewhere, _ = train(divisi, work, 4, *flags_of(work), "--steps", steps + 5, *keep, "--resume")
            longest, _ = train(divisi, work, 1, *flags_of(work), "--steps", steps + 5)
            worst = max(abs(float(elsewhere[s]) / float(longest[s]) - 1) for s in range(steps + 1, steps + 6))
            assert worst < 1e-5, f"continued on four ranks: {worst}"
            yield f"continued on 4 ranks: {worst:.1e}"


def refused(divisi, work):
    """One line names what is wrong, on one rank and on two."""
    plain, _ = write_files(work)
    plain[700] = VOCABULARY
    plain.tofile(work / "large.bin")
    (work / "odd.bin").write_bytes(plain.tobytes()[:-1])
    (work / "cut.bin").write_bytes((work / "train_1.bin").read_bytes()[:-2])
    messages = {
        "large": f"large.bin' has the token 96 at position 700, but input 'idx' takes -96 to 95",
        "odd": "odd.bin' is truncated, or no file of tokens: its 1999 bytes are no whole number of U16 tokens",
        "cut": "cut.bin' is truncated: its header promises 722 tokens of U16, which are 2468 bytes, and it has 2466",
    }
    for name, message in messages.items():
        for ranks in (1, 2):
            command = words(divisi, work, ranks, "--data", f"idx={work}/{name}.bin", "--epochs", "1")
            done = subprocess.run(command, capture_output=True, text=True)
            lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
            assert done.returncode == 1 and len(lines) == 1 and message in lines[0], f"{name} on {ranks} ranks: {done.returncode} {done.stderr}"
        yield message


def large(divisi, work):
    """10 GB of tokens, of which a run reads 16000 pages (62 MiB): they do not stay in the process."""
    def peak(path, steps):
        return cases.peak_memory(words(divisi, work, 1, "--data", f"idx={path}", "--steps", steps))
    with open(work / "sparse.bin", "wb") as file:
        file.truncate(10_000_000_000)
    np.zeros(10_000, "<u2").tofile(work / "small.bin")
    small, big = peak(work / "small.bin", 20), peak(work / "sparse.bin", 4000)
    assert big - small < 40, f"peak memory {big:.0f} MiB, with a small file {small:.0f} MiB"
    return f"peak memory {big:.0f} MiB, with a small file {small:.0f} MiB"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    p.add_argument("--only", default="")
    o = p.parse_args()
    chosen = [case for case in (windows, resumed, refused, large) if o.only in case.__name__]
    return cases.run(chosen, lambda case, work: case(o.divisi, work))


if __name__ == "__main__":
    sys.exit(main())
