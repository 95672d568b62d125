#!/usr/bin/env python3
"""Ranks that fall silent: a process that is stopped (SIGSTOP), as one is that is swapped out or on a host that has vanished.

    stopped.py --divisi PATH [--only TEXT] [--load SECONDS]

Over MPI and over TCP, with data parallelism and in a pipeline, the last rank and rank 0:
- the others report it within 10 s, with its host
- the job ends after --timeout, and every other rank reports the reason
- a rank that continues in time is reported to be back, and the losses are those of an undisturbed run
- a program that is told to stop (SIGTERM) while a rank is silent ends as soon as that is known; before training, at once
- a second signal ends it at once

--load SECONDS instead: a job beside three busy processes for each core reports no silent rank.

Needs only Python. Ends with `N passed, N failed`.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

TEST = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TEST / "gpu"))
from launch import free_port, variables  # noqa: E402

MODEL = TEST / "models" / "mlp"
KINDS = {"data": (3, ["--devices", "3", "--strategy", "data"]), "pipeline": (2, ["--mesh", "stage=2", "--microbatches", "4"])}
NAMED_WITHIN, TIMEOUT = 10, 12  # seconds
STEPS = 20000
FOREVER = ["--steps", "1000000000", "--lr", "0"]


class Job:
    """Ranks over TCP or MPI, one output file for each over TCP and one for all over MPI."""

    def __init__(self, o, over, kind, work, *flags):
        self.over, self.work, self.size = over, work, KINDS[kind][0]
        program = self.program = work / "p"  # of its own: ranks are found by it
        os.link(o.programs / kind, program)
        data = [w for n in ("x", "label") for w in ("--data", f"{n}={MODEL / 'data' / n}.npy")]
        weights = ["--weights", str(o.programs / f"{kind}.safetensors")]
        command = [str(program), *data, *weights, "--seed", "3", "--quiet", "--log", str(work / "log"), *flags]
        env = os.environ | {"OMP_NUM_THREADS": "1"}
        if over == "mpi":
            starts = [([o.divisi, "run", "--launcher", "mpirun", "--devices", str(self.size), *command], env)]
        else:
            port = free_port()
            starts = [(command, env | variables(rank, self.size, port)) for rank in range(self.size)]
        self.processes = []
        for i, (words, env) in enumerate(starts):
            with open(work / f"out{i}", "w") as out:
                self.processes.append(subprocess.Popen(words, env=env, stdout=out, stderr=subprocess.STDOUT, start_new_session=True))

    def rank(self, number):
        """The process id of a rank, once it runs."""
        if self.over == "tcp":
            return self.processes[number].pid
        name = f"OMPI_COMM_WORLD_RANK={number}".encode()

        def find():
            for entry in pathlib.Path("/proc").iterdir():
                try:
                    if entry.name.isdigit() and os.readlink(entry / "exe") == str(self.program) and name in (entry / "environ").read_bytes().split(b"\0"):
                        return int(entry.name)
                except OSError:
                    continue
            return None

        return wait_for(f"rank {number}", find)

    def trains(self, steps=50):
        wait_for("steps", lambda: len(self.losses()) >= steps)

    def losses(self):
        found = {}
        for line in (self.work / "log").read_text().splitlines() if (self.work / "log").is_file() else []:
            try:
                row = json.loads(line)
            except ValueError:
                continue  # the line that is being written
            if not row.get("eval"):
                found[row["step"]] = repr(row["loss"])
        return found

    def said(self, rank):
        return (self.work / f"out{rank if self.over == 'tcp' else 0}").read_text()

    def saying(self):
        """The ranks with output of their own: over MPI all are in one file."""
        return "\n".join(self.said(rank) for rank in range(self.size if self.over == "tcp" else 1))

    def wait(self, rank, seconds):
        """The exit code of a rank, or of all ranks over MPI."""
        return self.processes[rank if self.over == "tcp" else 0].wait(seconds)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:  # mpirun and its ranks are a session
            if self.over == "mpi" and process.poll() is None:
                for rank in range(self.size):
                    try:
                        os.kill(self.rank(rank), signal.SIGKILL)
                    except (OSError, AssertionError):
                        pass
            if process.poll() is None:
                process.kill()
            process.wait()


def wait_for(what, condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"no {what} within {seconds:.0f} s"
        time.sleep(0.02)
    return found


def named(job, silent, start):
    """Waits until a rank is reported; returns the seconds since it fell silent."""
    what = re.compile(rf"^warning: rank \d+: nothing has been heard of rank {silent} \({re.escape(socket.gethostname())}\) for \d+ s", re.M)
    wait_for(f"warning of rank {silent} in {job.saying()!r}", lambda: what.search(job.saying()), NAMED_WITHIN + 2)
    return time.monotonic() - start


def lasts(o, over, kind, silent, work):
    with Job(o, over, kind, work, *FOREVER, "--timeout", str(TIMEOUT)) as job:
        silent %= job.size
        job.trains()
        victim, start = job.rank(silent), time.monotonic()
        os.kill(victim, signal.SIGSTOP)
        seconds = named(job, silent, start)
        assert seconds <= NAMED_WITHIN, f"named after {seconds:.1f} s: {job.saying()!r}"
        others = [rank for rank in range(job.size) if rank != silent]
        codes = [job.wait(rank, TIMEOUT + 10) for rank in (others if over == "tcp" else [0])]
        ended = time.monotonic() - start
        assert all(code == 1 for code in codes), f"exit codes {codes}"
        assert TIMEOUT - 1 < ended < TIMEOUT + 5, f"ended after {ended:.1f} s"
        for rank in others:
            text = rf"^error: rank {rank}: .*nothing has been heard of rank {silent} \(.*\) for {TIMEOUT} s"
            assert re.search(text, job.said(rank), re.M), f"rank {rank} said {job.said(rank)!r}"
        return f"named after {seconds:.1f} s, ended after {ended:.1f} s, {len(others)} ranks said why"


def goes_on(o, over, kind, silent, work):
    losses = []
    for disturbed in (False, True):
        folder = work / f"{disturbed}"
        folder.mkdir()
        with Job(o, over, kind, folder, "--steps", str(STEPS), "--lr", "1e-4") as job:
            if disturbed:
                silent %= job.size
                victim, log = job.rank(silent), folder / "log"
                wait_for("first step", lambda: log.is_file() and log.stat().st_size)
                os.kill(victim, signal.SIGSTOP)
                assert len(job.losses()) < STEPS, "it had ended already"
                named(job, silent, time.monotonic())
                os.kill(victim, signal.SIGCONT)
            for rank in range(len(job.processes)):
                assert (code := job.wait(rank, 60)) == 0, f"exit code {code}: {job.said(rank)!r}"
            if disturbed:
                assert "is heard of again" in job.saying(), job.saying()
            else:
                assert job.saying().strip() == "" or over == "mpi", job.saying()
            losses.append(job.losses())
    assert len(losses[0]) == STEPS and losses[0] == losses[1], "the losses differ"
    return f"{STEPS} losses the same"


def told_to_stop(o, over, kind, silent, work):
    """SIGTERM while a rank is silent, with a checkpoint that cannot be agreed on: the job ends when the rank is reported."""
    with Job(o, over, kind, work, *FOREVER) as job:
        job.trains()
        os.kill(job.rank(silent % job.size), signal.SIGSTOP)
        other = job.rank(0 if silent else 1)
        start = time.monotonic()
        os.kill(other, signal.SIGTERM)
        code = job.wait(0 if silent else 1, 20)
        seconds = time.monotonic() - start
        assert code != 0 and seconds < NAMED_WITHIN, f"exit code {code} after {seconds:.1f} s"
    return f"ended after {seconds:.1f} s"


def before_training(o, over, kind, silent, work):
    """A rank falls silent before it has agreed to the flags: SIGTERM and SIGINT end the others immediately."""
    seconds = []
    for number in (signal.SIGTERM, signal.SIGINT):
        folder = work / f"{number}"
        folder.mkdir()
        with Job(o, over, kind, folder, *FOREVER) as job:
            # It is stopped as soon as it has met the others.
            victim = job.rank(silent % job.size)
            wait_for("met ranks", lambda: not (folder / "log").is_file() and connected(victim, job.size) or (folder / "log").is_file())
            os.kill(victim, signal.SIGSTOP)
            time.sleep(0.3)
            start = time.monotonic()
            os.kill(job.rank(0 if silent else 1), number)
            code = job.wait(0 if silent else 1, 20)
            seconds.append(time.monotonic() - start)
            assert code != 0 and seconds[-1] < 3, f"exit code {code} after {seconds[-1]:.1f} s"
    return f"ended after {max(seconds):.2f} s"


def connected(pid, size):
    """Whether a process has connections to all others, by the number of its sockets."""
    try:
        links = [os.readlink(entry) for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return False
    return sum(link.startswith("socket:") for link in links) >= size - 1


def second_signal(o, over, kind, _, work):
    """SIGINT, and SIGTERM after it, while all others are stopped: the second one ends it."""
    with Job(o, over, kind, work, *FOREVER, "--checkpoint", str(work / "ck")) as job:
        job.trains()
        for rank in range(1, job.size):
            os.kill(job.rank(rank), signal.SIGSTOP)
        os.kill(job.rank(0), signal.SIGINT)
        time.sleep(0.02)
        start = time.monotonic()
        os.kill(job.rank(0), signal.SIGTERM)
        code = job.wait(0, 20)
        seconds = time.monotonic() - start
        assert code in (-signal.SIGTERM, 128 + signal.SIGTERM) and seconds < 1, f"exit code {code} after {seconds:.1f} s"
    return f"ended after {seconds:.2f} s"


def loaded(o, over, kind, _, work):
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3 * (os.cpu_count() or 1))]
    try:
        with Job(o, over, kind, work, *FOREVER) as job:
            job.trains()
            time.sleep(o.load)
            assert all(process.poll() is None for process in job.processes), f"it ended: {job.saying()!r}"
            assert "heard of" not in job.saying(), job.saying()
            return f"{len(job.losses())} steps in {o.load:.0f} s beside {len(busy)} busy processes, nobody named"
    finally:
        for process in busy:
            process.kill()
            process.wait()


def run(o, case, over, kind, silent):
    name = f"{case.__name__} {over} {kind} rank {silent % KINDS[kind][0]}"
    with tempfile.TemporaryDirectory(dir=o.programs) as work:
        try:
            return True, f"{name}: {case(o, over, kind, silent, pathlib.Path(work).resolve())}"
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            return False, f"{name}: {error}"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    p.add_argument("--only", default="", help="a part of the names of the cases to run")
    p.add_argument("--load", type=float, default=0, metavar="SECONDS", help="instead: so long under threefold load")
    o = p.parse_args()
    if o.load:
        cases = [(loaded, over, kind, -1) for over in ("mpi", "tcp") for kind in KINDS]
    else:
        cases = [(lasts, over, kind, silent) for over in ("mpi", "tcp") for kind in KINDS for silent in (-1, 0)]
        cases += [(goes_on, "tcp", "data", 0), (goes_on, "mpi", "pipeline", -1), (goes_on, "mpi", "data", -1)]
        cases += [(told_to_stop, "tcp", "data", -1), (told_to_stop, "tcp", "pipeline", 0), (before_training, "tcp", "data", -1),
                  (before_training, "tcp", "data", 0), (second_signal, "tcp", "data", -1)]
    passed, failed = 0, 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(1 if o.load else 4) as pool:
        o.programs = pathlib.Path(folder).resolve()
        for kind, (_, flags) in KINDS.items():
            subprocess.run([o.divisi, "compile", str(MODEL / "model.onnx"), "-o", str(o.programs / kind), *flags, "--optimizer", "adamw",
                            "--lr", "1e-3"], check=True)
        for ok, text in pool.map(lambda c: run(o, *c), [c for c in cases if o.only in f"{c[0].__name__} {c[1]} {c[2]}"]):
            print(f"{'ok  ' if ok else 'FAIL'} {text}", flush=True)
            passed, failed = passed + ok, failed + (not ok)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
