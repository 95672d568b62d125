#!/usr/bin/env python3
"""Kills training runs at random moments, resumes them, and compares every loss with an undisturbed run: bit by bit.

    resume.py --divisi PATH [--kills N] [--seed S] [--case mlp]

On one rank and on two, of which one is killed or both: while a checkpoint is written, while ranks start, or anywhere. Each resumed run
starts at the last checkpoint that was complete when its predecessor was killed, or at a later one, and passes none over.
N kills of each case. Needs only Python. Ends with `N passed, N failed`.
"""

import argparse
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import cases
from hangs import outcome
from ranks import losses, ranks_of

MODELS = pathlib.Path(__file__).resolve().parent.parent / "models"
STEPS = 400
PATIENCE = 1200  # seconds for a job, which may have been killed at no time: ranks on a busy machine wait for each other
CASES = {  # model, inputs, ranks, flags
    "mlp": ("mlp", ("x", "label"), 1, ["--optimizer", "adamw", "--lr", "1e-3"]),
    "lenet": ("lenet", ("image", "label"), 1, ["--optimizer", "sgd", "--lr", "1e-3", "--momentum", "0.9"]),
    "mlp on two ranks": ("mlp", ("x", "label"), 2, ["--optimizer", "adamw", "--devices", "2", "--strategy", "data", "--zero", "1"]),
    "mlp on two ranks over MPI": ("mlp", ("x", "label"), 2, ["--optimizer", "adamw", "--devices", "2", "--strategy", "data", "--zero", "1"]),
}


def command(divisi, program, case, folder, log):
    model, inputs, ranks, _ = CASES[case]
    data = [w for n in inputs for w in ("--data", f"{n}={MODELS / model / 'data' / n}.npy")]
    launcher = [divisi, "run", "--launcher", "mpirun" if "MPI" in case else "local", "--devices", str(ranks)] if ranks > 1 else []
    return [*launcher, str(program), *data, "--steps", str(STEPS), "--seed", "3", "--log", str(log), "--threads", "1",
            "--checkpoint", str(folder), "--every", "7", "--resume"]


def newest(folder):
    """The step of the checkpoint that `latest` names; 0 without one."""
    try:
        return int((folder / "latest").read_text().removeprefix("step-"))
    except FileNotFoundError:
        return 0


def hidden(folder):
    try:
        return {name for name in os.listdir(folder) if name.startswith(".step-")}
    except FileNotFoundError:
        return set()


def kill(process, program, ranks, folder, duration, draw):
    """Kills one rank, or all, at a random moment; returns the state that was visible before."""
    when = draw.random()
    if when < 0.4:  # while one is written
        before, deadline = hidden(folder), time.monotonic() + duration
        skipped = draw.randrange(20)
        while time.monotonic() < deadline and process.poll() is None:
            now = hidden(folder)
            if now - before:
                before, skipped = now, skipped - 1
                if skipped < 0:
                    break
        time.sleep(draw.uniform(0, 0.002))
    elif when < 0.6 and ranks > 1:  # while ranks meet
        wanted = draw.randrange(1, ranks + 1)
        while process.poll() is None and len(ranks_of(program)) < wanted:
            pass
        time.sleep(draw.uniform(0, 0.15))
    else:
        time.sleep(duration * draw.uniform(0.05, 0.6))
    step = newest(folder)
    if ranks == 1:
        process.send_signal(signal.SIGKILL)
    else:
        alive = ranks_of(program)
        for pid in alive if draw.random() < 0.5 else [draw.choice(alive)] if alive else []:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    said = outcome(process, PATIENCE + 10 * duration, "the job, of which ranks were killed,")  # (there may have been none to kill)
    return step, process.returncode != 0, said


def check(divisi, case, kills, work, draw):
    model, _, ranks, flags = CASES[case]
    program = (work / "program").resolve()
    subprocess.run([divisi, "compile", str(MODELS / model / "model.onnx"), "-o", str(program), *flags], check=True,
                   stderr=subprocess.DEVNULL)
    whole = work / "whole.jsonl"
    start = time.monotonic()
    subprocess.run(command(divisi, program, case, work / "whole", whole), check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    duration = time.monotonic() - start
    expected = losses(whole)
    assert len(expected) == STEPS, f"{len(expected)} losses in the undisturbed run"
    killed, trainings, hung = 0, 0, 0
    while killed < kills:
        folder, found, atLeast, ended = work / f"parts{trainings}", {}, 0, False
        while not ended:
            log = work / "part.jsonl"
            log.unlink(missing_ok=True)
            process = subprocess.Popen(command(divisi, program, case, folder, log), stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, text=True)
            if killed < kills:
                step, was, said = kill(process, program, ranks, folder, duration, draw)
                killed += was
                hung += "launcher hangs" in said
                ended = not was
            else:
                said, step = outcome(process, PATIENCE + 10 * duration, "the job"), 0
                ended = True
                assert process.returncode == 0, said
            assert "passing over" not in said, said
            part = losses(log) if log.is_file() else {}
            began = min(part, default=None)  # mpirun may lose the message about it
            assert began is None or began > atLeast, f"training began at step {began} though {atLeast} was complete: {said}"
            atLeast = max(atLeast, step)
            for step, loss in part.items():
                assert expected[step] == loss, f"step {step}: {loss} after a resume, {expected[step]} without"
                found[step] = loss
        assert len(found) == STEPS, f"{STEPS - len(found)} steps are in no log"
        trainings += 1
    return f"{killed} kills of {trainings} trainings, {STEPS} losses of each the same" + f"; {hung} times mpirun hung" * (hung > 0)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    p.add_argument("--kills", type=int, default=20)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--case", default="", choices=CASES, help="one case alone")
    o = p.parse_args()
    draw = random.Random(o.seed)
    chosen = [case for case in CASES if o.case in (case, "")]
    return cases.run(chosen, lambda case, work: check(o.divisi, case, o.kills, work, draw))


if __name__ == "__main__":
    sys.exit(main())
