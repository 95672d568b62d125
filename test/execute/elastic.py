#!/usr/bin/env python3
"""Jobs whose number of ranks changes: `divisi run --min-devices`, of a program for 1, 2, 3 and 4 devices.

    elastic.py --divisi PATH [--draws N] [--seed S] [--all]

- ranks are killed (SIGKILL) at random steps: the job goes on within 10 s with as many as are left, and its losses are, bit by bit, those of
  the same checkpoint resumed afresh with that number
- one that is killed before the first step is lost like others
- with --grow-after it goes on with all again, with the losses of a fresh resume with all
- below the minimum, after as many losses as --restarts says, and after an error of the program (a loss that is no number, wrong data) it ends
- a rank that fails by itself (no memory) is lost like one that is killed, and with --all one that is stopped (SIGSTOP), too
- SIGTERM stops it with a checkpoint; kill -9 of the launcher leaves no rank behind
- started alone, over TCP and by mpirun, each number of processes gets the program for it

Needs only Python. Ends with `N passed, N failed`.
"""

import argparse
import io
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import cases
from ranks import ranks_of

TEST = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TEST / "gpu"))
from launch import variables  # noqa: E402

MODEL = TEST / "models" / "mlp"
GOES_ON_WITHIN = 10  # seconds
COMPARED = 100  # steps
FOREVER = 100000000


def data(label="label"):
    return [w for n, file in (("x", "x"), ("label", label)) for w in ("--data", f"{n}={file if '/' in file else MODEL / 'data' / file}.npy")]


def words(program, folder, *flags, steps=FOREVER, every=20, label="label"):
    return [str(program), *data(label), "--steps", str(steps), "--every", str(every), "--keep-checkpoints", "1000000", "--seed", "3", "--threads", "1",
            "--quiet", "--checkpoint", str(folder), *flags]


def rows(log):
    """The lines of a log that are complete, without those of evaluations."""
    lines = log.read_bytes().split(b"\n")[:-1] if log.is_file() else []
    return [row for row in map(json.loads, lines) if "loss" in row and not row.get("eval")]


def after(log, step):
    """The losses by step after this one; a program that goes on from it has removed those before."""
    return {row["step"]: repr(row["loss"]) for row in rows(log) if row["step"] > step}


class Job:
    def __init__(self, o, work, *flags, before=(), **options):
        self.program = work / "p"  # of its own: ranks are found by it
        if not self.program.exists():
            os.link(o.program, self.program)
            os.link(f"{o.program}.safetensors", work / f"{o.program.name}.safetensors")
        self.folder, self.log, self.out = work / "ck", work / "log", work / "out"
        command = [o.divisi, "run", *before, *words(self.program, self.folder, "--log", str(self.log), *flags, **options)]
        with open(self.out, "w") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)

    def said(self):
        return self.out.read_text()

    def last(self):
        """The number of the last step in the log."""
        size = self.log.stat().st_size if self.log.is_file() else 0
        with open(self.log, "rb") if size else io.BytesIO() as file:
            file.seek(max(0, size - 4096))
            return max((int(step) for step in re.findall(rb'"step": ?(\d+)', file.read().rpartition(b"\n")[0])), default=0)

    def wait_for(self, what, condition, seconds=60):
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            assert self.process.poll() is None or condition(), f"it has ended before {what}: {self.said()!r}"
            assert time.monotonic() < deadline, f"no {what} within {seconds} s: {self.said()!r}"
            time.sleep(0.01)
        return found

    def trains(self, step):
        """Waits for a step, and a checkpoint."""
        self.wait_for(f"step {step}", lambda: self.last() >= step)
        self.wait_for("checkpoint", lambda: (self.folder / "latest").is_file())

    def begins_again(self, steps):
        """Waits for steps of a job that goes on, perhaps from its beginning."""
        old = self.log.read_bytes() if self.log.is_file() else b""
        self.wait_for(f"{steps} steps", lambda: self.log.is_file() and self.log.read_bytes() != old and self.last() >= steps)

    def goes_on(self, number, seconds=GOES_ON_WITHIN):
        """The step from which it goes on for the `number`th time (from 0), and with how many ranks, once it trains again."""
        found = self.wait_for(f"message {number}", lambda: re.findall(r"goes on from step (\d+) with (\d+)", self.said())[number:], seconds)
        step, ranks = map(int, found[0])
        old = self.log.read_bytes()  # with steps that are repeated
        self.wait_for(f"{COMPARED} steps from {step}", lambda: self.log.read_bytes() != old and len(after(self.log, step)) >= COMPARED)
        return step, ranks

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.ends()
        assert code == 128 + signal.SIGTERM, f"exit code {code}: {self.said()!r}"

    def ends(self, seconds=20):
        code = self.process.wait(seconds)
        assert not ranks_of(self.program), "ranks are left"
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for pid in ranks_of(self.program):
            os.kill(pid, signal.SIGKILL)


def same_as_fresh(o, job, step, ranks, work):
    """Compares the steps after a checkpoint with those of a fresh resume."""
    folder, log = work / f"fresh{step}-{ranks}", work / f"fresh{step}-{ranks}.log"
    folder.mkdir()
    shutil.copytree(job.folder / f"step-{step}", folder / f"step-{step}")
    (folder / "latest").write_text(f"step-{step}\n")
    launcher = [o.divisi, "run", "--devices", str(ranks)] if ranks > 1 else []
    subprocess.run([*launcher, *words(job.program, folder, "--resume", "--log", str(log), steps=step + COMPARED)], check=True, capture_output=True)
    expected, found = after(log, step), after(job.log, step)
    assert len(expected) == COMPARED, f"{len(expected)} losses of the fresh resume"
    wrong = [s for s, loss in expected.items() if found.get(s) != loss]
    assert not wrong, f"{len(wrong)} of {COMPARED} losses from step {step} on {ranks} ranks differ: step {wrong[0]} has {found.get(wrong[0])}, not {expected[wrong[0]]}"


def kill(job, count, draw):
    job.wait_for("ranks to kill", lambda: len(ranks_of(job.program)) >= count)  # they may only just be starting
    for pid in draw.sample(ranks_of(job.program), count):
        os.kill(pid, signal.SIGKILL)


def shrinks(o, work):
    for number in range(o.draws):
        folder = work / str(number)
        folder.mkdir()
        draw, left, told = random.Random(f"{o.seed} {number}"), 4, []
        with Job(o, folder, before=("--min-devices", "1")) as job:
            for loss in range(2):
                job.trains(job.last() + draw.randrange(30, 500))
                count = draw.randint(1, left - 1)
                begin = time.monotonic()
                kill(job, count, draw)
                left -= count
                step, ranks = job.goes_on(loss)
                seconds = time.monotonic() - begin
                assert ranks == left, f"{count} were lost and {left} left, but it goes on with {ranks}"
                assert f"{left} of 4 ranks left: goes on from step {step} with {left}" in job.said(), job.said()
                assert seconds < GOES_ON_WITHIN, f"it went on after {seconds:.1f} s"
                same_as_fresh(o, job, step, ranks, folder)
                told.append(f"{count} lost, from step {step} with {ranks} after {seconds:.1f} s")
                if left == 1:
                    break
            job.stop()
        yield "; ".join(told)


def while_starting(o, work):
    """A rank is killed before the first step: while ranks start, meet, or read."""
    told = []
    for number in range(o.draws):
        folder = work / str(number)
        folder.mkdir()
        draw = random.Random(f"starting {o.seed} {number}")
        with Job(o, folder, before=("--min-devices", "2")) as job:
            wanted, pause = draw.randint(1, 4), draw.uniform(0, 0.2)
            job.wait_for(f"{wanted} ranks", lambda: len(ranks_of(job.program)) >= wanted)
            time.sleep(pause)
            kill(job, 1, draw)
            job.wait_for("3 ranks", lambda: "3 of 4 ranks left: " in job.said(), GOES_ON_WITHIN)
            job.begins_again(50)
            assert len(ranks_of(job.program)) == 3, job.said()
            job.stop()
            told.append(f"{pause:.2f} s after {wanted} ranks ran")
    return "killed " + ", ".join(told)


def grows(o, work):
    draw = random.Random(o.seed)
    with Job(o, work, before=("--min-devices", "2", "--grow-after", "1")) as job:
        job.trains(draw.randrange(30, 300))
        kill(job, 2, draw)
        step, ranks = job.goes_on(0)
        assert ranks == 2, ranks
        grown, all_ = job.goes_on(1, 20)
        assert all_ == 4 and grown > step, (grown, all_)
        assert f"4 ranks again: goes on from step {grown} with 4" in job.said(), job.said()
        same_as_fresh(o, job, grown, 4, work)
        time.sleep(1.5)
        assert len(ranks_of(job.program)) == 4 and job.said().count("ranks again") == 1, f"with all ranks it does not grow: {job.said()}"
        job.stop()
    return f"with 2 from step {step}, with 4 from step {grown}"


def bounds(o, work):
    """Sizes between the bounds; below the minimum the job ends, and after --restarts losses."""
    draw = random.Random(o.seed)
    with Job(o, work, before=("--min-devices", "3", "--max-devices", "3")) as job:
        job.trains(20)
        assert len(ranks_of(job.program)) == 3
        kill(job, 1, draw)
        code = job.ends(GOES_ON_WITHIN)
        assert code == 128 + signal.SIGKILL, f"exit code {code}"
        assert "2 of 3 ranks left, too few for --min-devices 3 of a program for 1, 2, 3 or 4 devices" in job.said(), job.said()
    with Job(o, work, "--resume", before=("--max-devices", "4", "--restarts", "1")) as job:
        job.trains(50)
        kill(job, 1, draw)
        job.goes_on(0)
        kill(job, 1, draw)
        code = job.ends(GOES_ON_WITHIN)
        assert code != 0 and "2 of 4 ranks left, but no restarts" in job.said(), job.said()
    return "below the minimum, and without restarts, it ends"


def program_errors(o, work):
    wrong = work / "wrong"
    header = (MODEL / "data/label.npy").read_bytes()
    wrong.with_suffix(".npy").write_bytes(header[:-8] + (10**6).to_bytes(8, "little"))
    for name, flags, label, code, text in (
        ("nan", ["--lr", "1e30"], "label", 1, "nan"),
        ("data", [], str(wrong), 1, "1000000"),
        ("flag", ["--no-such-flag"], "label", 2, "--no-such-flag"),
    ):
        (work / name).mkdir()
        with Job(o, work / name, *flags, before=("--min-devices", "1"), label=label) as job:
            found = job.ends()
            assert found == code, f"{name}: exit code {found}: {job.said()!r}"
            assert text in job.said().lower() and "goes on" not in job.said() and "begins again" not in job.said(), f"{name}: {job.said()!r}"
            assert job.said().count("error:") == 1, f"{name}: {job.said()!r}"
    return "a loss that is no number, wrong data and a wrong flag end it"


def own_failure(o, work):
    """A rank cannot start the thread that writes its first checkpoint."""
    with Job(o, work, before=("--min-devices", "2"), every=1000) as job:
        job.wait_for("step 50", lambda: job.last() >= 50)
        resource.prlimit(ranks_of(job.program)[-1], resource.RLIMIT_AS, (1 << 20, 1 << 20))
        job.wait_for("its first checkpoint", lambda: job.last() >= 990 or "lost" in job.said())
        job.wait_for("3 ranks", lambda: "rank 3 lost; 3 of 4 ranks left: begins again, without a checkpoint, with 3" in job.said(), 20)
        job.begins_again(50)
        job.stop()
    return "a rank without memory: it begins again with 3"


def silent(o, work):
    with Job(o, work, "--timeout", "12", before=("--min-devices", "2")) as job:
        job.trains(50)
        begin = time.monotonic()
        os.kill(ranks_of(job.program)[-1], signal.SIGSTOP)
        step, ranks = job.goes_on(0, 25)
        assert ranks == 3, ranks
        job.stop()
    return f"after {time.monotonic() - begin:.0f} s from step {step} with 3"


def ends_with_the_launcher(o, work):
    with Job(o, work, before=("--min-devices", "2")) as job:
        job.trains(50)
        job.stop()
        step = int((job.folder / "latest").read_text().removeprefix("step-"))
        assert step == job.last(), f"SIGTERM after step {job.last()} left step {step}"
    with Job(o, work, "--resume", before=("--min-devices", "2")) as job:
        job.trains(step + 50)
        job.process.kill()
        begin = time.monotonic()
        while ranks_of(job.program):
            assert time.monotonic() < begin + GOES_ON_WITHIN, "ranks are left 10 s after the launcher was killed"
            time.sleep(0.05)
        seconds = time.monotonic() - begin
        latest = int((job.folder / "latest").read_text().removeprefix("step-"))
        assert latest == job.last() >= step + 50, f"the checkpoint is of step {latest}, the last step was {job.last()}"
    return f"kill -9 of the launcher: the ranks ended after {seconds:.1f} s"


def one_program_for_each_number(o, work):
    losses = {}
    for ranks, launcher in (1, "local"), (2, "local"), (3, "local"), (4, "local"), (2, "mpirun"), (4, "mpirun"):
        log = work / f"log-{launcher}{ranks}"
        command = words(o.program, work / f"ck-{launcher}{ranks}", "--log", str(log), steps=12)
        subprocess.run([o.divisi, "run", "--launcher", launcher, "--devices", str(ranks), *command], check=True, capture_output=True)
        found = losses.setdefault(ranks, [row["loss"] for row in rows(log)])
        assert len(found) == 12 and found == [row["loss"] for row in rows(log)], f"{ranks} ranks: other losses by {launcher}"
        off = max(abs(a - b) for a, b in zip(found, losses[1]))
        assert off < 1e-5, f"{ranks} ranks: losses are up to {off} away from those of one"
    done = subprocess.run([o.divisi, "run", "--devices", "5", str(o.program), *data()], capture_output=True, text=True)
    assert done.returncode == 2 and "is for 1, 2, 3 or 4 devices, not for 5" in done.stderr, done
    two = work / "two"
    subprocess.run([o.divisi, "compile", str(MODEL / "model.onnx"), "-o", str(two), "--devices", "3,2", "--strategy", "data"], check=True)
    done = subprocess.run([str(two), *data()], capture_output=True, text=True)
    assert done.returncode == 2 and "this program is for 2 or 3 devices, but was started as 1 process" in done.stderr, done
    done = subprocess.run([str(two), *data()], capture_output=True, text=True, env=os.environ | variables(0, 4, 1))
    assert done.returncode == 2 and "this program is for 2 or 3 devices, but was started as 4 processes" in done.stderr, done
    where = variables(0, 2, 1) | {"DIVISI_LISTENER": "9"}
    done = subprocess.run([str(two), *data()], capture_output=True, text=True, env=os.environ | where)
    assert done.returncode == 2 and "DIVISI_LISTENER is not the descriptor of a socket" in done.stderr, done
    done = subprocess.run([o.divisi, "run", "--min-devices", "4", *words(two, work / "ck")], capture_output=True, text=True)
    assert done.returncode == 2 and "is for 2 or 3 devices, of which --min-devices and --max-devices leave none" in done.stderr, done
    return "alone, over TCP and by mpirun, with the losses of one device; other numbers are refused"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    p.add_argument("--draws", type=int, default=2, help="jobs of which ranks are killed")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--all", action="store_true", help="twenty draws, and a rank that falls silent")
    p.add_argument("--only", default="", help="a part of the names of the cases to run")
    o = p.parse_args()
    o.draws = 20 if o.all else o.draws
    every = [one_program_for_each_number, shrinks, while_starting, grows, bounds, program_errors, own_failure, ends_with_the_launcher] + [silent] * o.all

    with tempfile.TemporaryDirectory() as folder:
        o.program = pathlib.Path(folder).resolve() / "program"
        flags = ["--devices", "1,2,3,4", "--strategy", "data", "--optimizer", "adamw", "--lr", "1e-3"]
        subprocess.run([o.divisi, "compile", str(MODEL / "model.onnx"), "-o", str(o.program), *flags], check=True)
        return cases.run([case for case in every if o.only in case.__name__], lambda case, work: case(o, work))


if __name__ == "__main__":
    sys.exit(main())
