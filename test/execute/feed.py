#!/usr/bin/env python3
"""Training from batches in another process's memory (docs/data.md): the losses of files, on 1, 2 and 4 ranks; a feeder that ends, stops or lies.

    feed.py --divisi PATH

The feeder here follows the documentation, and is not that of the Python package. Needs NumPy. Ends with `N passed, N failed`.
"""

import argparse
import fcntl
import mmap
import os
import pathlib
import signal
import struct
import subprocess
import sys
import time

import numpy as np

import cases
from hangs import outcome
from ranks import losses, ranks_of

MODEL = pathlib.Path(__file__).resolve().parent.parent / "models/mlp"
LAYOUTS = {1: [], 2: ["--devices", "2", "--strategy", "data"], 4: ["--mesh", "data=2,model=2"]}
BATCH, STEPS, PASS = 12, 20, 8
SLOTS, TEXT = 3, 1 << 20


class Memory:
    """A ring for rows of x [12, 37] F32 and label [12] I64."""

    def __init__(self, x, label, ranks, slots=SLOTS, **words):
        self.x, self.label, self.ranks, self.slots = x, label, ranks, slots
        padded = [-(-array[:BATCH].nbytes // 64) * 64 for array in (x, label)]
        self.places = [64 + TEXT, 64 + TEXT + padded[0]]
        self.slot = 64 + TEXT + sum(padded)
        self.head = -(-(4096 + TEXT + 64 * ranks) // 4096) * 4096
        self.fd = os.memfd_create("test")
        os.ftruncate(self.fd, words.pop("size", self.head + slots * self.slot))
        fcntl.lockf(self.fd, fcntl.LOCK_EX)
        self.path = f"/proc/{os.getpid()}/fd/{self.fd}"
        if os.fstat(self.fd).st_size < 4096:
            return
        self.map = mmap.mmap(self.fd, 0)
        self.map[:8] = b"DIVRING1"
        for at, value in {8: slots, 16: self.slot, 24: ranks, **{int(k[1:]): v for k, v in words.items()}}.items():
            self.put(at, value)

    def put(self, at, value):
        struct.pack_into("<Q", self.map, at, value)

    def get(self, at):
        return struct.unpack_from("<Q", self.map, at)[0]

    def has_room(self, number):
        """Whether batch `number`, from 0, may be written."""
        return number < self.slots + min(self.get(4096 + TEXT + 64 * rank) for rank in range(self.ranks))

    def write(self, number, batch=0, flags=0, position=b"", length=None):
        """Batch `number` of this ring, which is batch `batch` of the data."""
        at = self.head + number % self.slots * self.slot
        for place, array in zip(self.places, (self.x, self.label)):
            rows = array[np.arange(batch * BATCH, (batch + 1) * BATCH) % len(array)].tobytes()
            self.map[at + place : at + place + len(rows)] = rows
        self.put(at, flags)
        self.put(at + 8, len(position) if length is None else length)
        self.map[at + 64 : at + 64 + len(position)] = position
        self.put(64, number + 1)

    def feed(self, process, batches, flags=lambda i: 0):
        """Writes these batches of the data while the program takes them."""
        for number, i in enumerate(batches):
            while not self.has_room(number):
                assert process.poll() is None, process.communicate()
                time.sleep(0.001)
            self.write(number, i, flags(i), f"after {i}".encode())


def data():
    x, label = (np.load(MODEL / "data" / f"{name}.npy") for name in ("x", "label"))
    x, label = np.tile(x, (4, 1))[: BATCH * PASS], np.tile(label, 4)[: BATCH * PASS]
    return x + np.arange(len(x), dtype="f4")[:, None] / 100, label.astype("i8")


def command(divisi, work, ranks, *flags):
    program = work / f"program{ranks}"
    if not program.exists():
        subprocess.run([divisi, "compile", MODEL / "model.onnx", "-o", program, "--optimizer", "adamw", "--lr", "1e-3", *LAYOUTS[ranks]],
                       check=True, stderr=subprocess.DEVNULL)
    start = [divisi, "run", "--devices", str(ranks)] if ranks > 1 else []
    return [str(word) for word in (*start, program, "--threads", 1, "--quiet", "--log", work / "log", *flags)]


def start(*args):
    return subprocess.Popen(command(*args), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def from_files(divisi, work, ranks, *flags):
    (work / "log").unlink(missing_ok=True)
    for name, array in zip(("x", "label"), data()):
        np.save(work / f"{name}.npy", array)
    files = [w for name in ("x", "label") for w in ("--data", f"{name}={work}/{name}.npy")]
    subprocess.run(command(divisi, work, ranks, *files, "--no-shuffle", *flags), check=True)
    return losses(work / "log"), (work / "log").read_text().count('"epoch_loss"')


def same_losses(divisi, work):
    for ranks in LAYOUTS:
        want = from_files(divisi, work, ranks, "--steps", STEPS)
        (work / "log").unlink()
        memory = Memory(*data(), ranks)
        process = start(divisi, work, ranks, "--feed", memory.path)
        # The last one says so: the program needs no --steps.
        memory.feed(process, range(STEPS), flags=lambda i: (i % PASS == PASS - 1) + 2 * (i == STEPS - 1))
        said = outcome(process, 60, "the program")
        assert process.returncode == 0, said
        got = losses(work / "log"), (work / "log").read_text().count('"epoch_loss"')
        assert got == want and len(got[0]) == STEPS, f"{got} and of files {want}"
        yield f"{ranks} ranks: {STEPS} losses, {got[1]} epochs as of files"


def resumed(divisi, work):
    """Killed, and resumed: the feeder is told from where, and the losses are those of a run that was not killed."""
    for ranks in (1, 4):
        want, _ = from_files(divisi, work, ranks, "--steps", STEPS)
        keep = ["--checkpoint", work / f"kept{ranks}", "--every", 3]
        (work / "log").unlink()
        memory = Memory(*data(), ranks)
        process = start(divisi, work, ranks, "--feed", memory.path, *keep)
        memory.feed(process, range(16), flags=lambda i: i % PASS == PASS - 1)
        deadline = time.monotonic() + 60
        latest = work / f"kept{ranks}/latest"
        while not (latest.exists() and "step-12" in latest.read_text()) and time.monotonic() < deadline:
            time.sleep(0.01)
        for pid in [process.pid] if ranks == 1 else ranks_of(work / f"program{ranks}"):
            os.kill(pid, signal.SIGKILL)
        outcome(process, 60, "the job, of which ranks were killed,")
        before = losses(work / "log")
        memory = Memory(*data(), ranks)
        process = start(divisi, work, ranks, "--feed", memory.path, *keep, "--resume")
        while not memory.get(192):
            assert process.poll() is None, process.communicate()
            time.sleep(0.001)
        step, epoch, batch, length = (memory.get(at) for at in (200, 208, 216, 224))
        assert step in (12, 15) and (epoch, batch) == divmod(step, PASS), f"it begins at {step}, {epoch}, {batch}"
        assert memory.map[4096 : 4096 + length] == f"after {step - 1}".encode(), memory.map[4096 : 4096 + length]
        memory.feed(process, range(step, STEPS), flags=lambda i: (i % PASS == PASS - 1) + 2 * (i == STEPS - 1))
        said = outcome(process, 60, "the program")
        assert process.returncode == 0, said
        after = losses(work / "log")
        assert {**before, **after} == want, f"{before}, {after}, undisturbed {want}"
        yield f"{ranks} ranks: killed after step {max(before)}, resumed after step {step} with the same losses"


def ended(divisi, work):
    """A feeder that closes the ring, that dies, and a stop while the program waits for a batch."""
    for ranks in (1, 2):
        memory = Memory(*data(), ranks)
        process = start(divisi, work, ranks, "--feed", memory.path)
        memory.feed(process, range(5))
        memory.put(128, 1)
        said = outcome(process, 60, "the program")
        assert process.returncode == 0 and len(losses(work / "log")) == 5, said
        yield f"{ranks} ranks: closed after 5 batches, 5 steps"

        # Another process feeds, and is killed.
        script = "import sys; sys.path.insert(0, %r)\nimport feed, time\nm = feed.Memory(*feed.data(), %d)\nm.write(0)\nprint(m.path, flush=True)\ntime.sleep(600)" % (str(pathlib.Path(__file__).parent), ranks)
        feeder = subprocess.Popen([sys.executable, "-B", "-c", script], stdout=subprocess.PIPE, text=True)
        process = start(divisi, work, ranks, "--feed", feeder.stdout.readline().strip())
        deadline = time.monotonic() + 60
        while len(losses(work / "log") if (work / "log").exists() else {}) != 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        feeder.kill()
        feeder.wait()
        said = outcome(process, 60, "a program whose feeder was killed")
        assert process.returncode == 1 and "the process that feeds the program has ended" in said, f"{process.returncode} {said}"
        yield f"{ranks} ranks: the feeder was killed, {said.strip().splitlines()[-1]}"

        memory = Memory(*data(), ranks)
        process = start(divisi, work, ranks, "--feed", memory.path, "--checkpoint", work / f"stopped{ranks}")
        memory.feed(process, range(2))
        deadline = time.monotonic() + 60
        while len(losses(work / "log")) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        process.terminate()
        said = outcome(process, 60, "a program that waits for a batch")
        assert process.returncode == 128 + signal.SIGTERM and "after step 2" in said and (work / f"stopped{ranks}/step-2").exists(), f"{process.returncode} {said}"
        yield f"{ranks} ranks: stopped while it waits, with a checkpoint"


def refused(divisi, work):
    """Nothing of the memory is trusted."""
    x, label = data()
    wrong = label.copy()
    wrong[3] = 1000
    big = 1 << 63
    bad = {
        "no ring": (dict(w0=7), "is no ring of batches"),
        "an empty file": (dict(size=0), "is no ring of batches"),
        "other ranks": (dict(w24=2), "is for 2 ranks, and this program has 1"),
        "other batches": (dict(w16=64), "has batches of 64 bytes"),
        "too many slots": (dict(w8=big), "is damaged"),
        "no slots": (dict(w8=0), "is damaged"),
        "too short": (dict(size=1 << 20), "is no ring of batches"),
    }
    for name, (words, message) in bad.items():
        memory = Memory(x, label, 1, **words)
        done = subprocess.run(command(divisi, work, 1, "--feed", memory.path), capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and message in done.stderr and done.stderr.count("\n") == 1, f"{name}: {done.returncode} {done.stderr}"
        yield f"{name}: {done.stderr.strip()}"
    late = {
        "a label": (wrong, dict(), "batch 1 of those fed has the value 1000 in row 3, but input 'label' takes"),
        "a position's length": (label, dict(length=big), "its position has"),
        "a position": (label, dict(position=b"a\n\xff"), "its position is no text"),
    }
    for name, (labels, words, message) in late.items():
        for ranks in (1, 2):
            memory = Memory(x, labels, ranks)
            memory.write(0, **words)
            done = subprocess.run(command(divisi, work, ranks, "--feed", memory.path), capture_output=True, text=True, timeout=60)
            errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
            assert done.returncode == 1 and len(errors) == 1 and message in errors[0], f"{name}, {ranks} ranks: {done.returncode} {done.stderr}"
        yield f"{name}: {errors[0]}"
    memory = Memory(x, label, 1)
    memory.put(4096 + TEXT, 1)
    schedule = Memory(x, label, 1)  # the end of its map would end the lock
    usage = {
        "a second reader": (["--feed", memory.path], 1, "was read before"),
        "no file": (["--feed", work / "none"], 1, "--feed: cannot open"),
        "a folder": (["--feed", work], 1, "--feed: cannot open"),
        "a file": (["--feed", MODEL / "model.onnx"], 1, "--feed: "),
        "a schedule": (["--feed", schedule.path, "--lr-schedule", "cosine"], 2, "give --steps"),
        "files, too": (["--feed", memory.path, "--data", "x=x.npy"], 2, "--feed"),
        "epochs": (["--feed", memory.path, "--epochs", "2"], 2, "--epochs"),
    }
    for name, (flags, code, message) in usage.items():
        done = subprocess.run(command(divisi, work, 1, *flags), capture_output=True, text=True, timeout=60)
        assert done.returncode == code and message in done.stderr, f"{name}: {done.returncode} {done.stderr}"
        yield f"{name}: {done.stderr.strip()}"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    p.add_argument("--only", default="")
    o = p.parse_args()
    chosen = [case for case in (same_losses, resumed, ended, refused) if o.only in case.__name__]
    return cases.run(chosen, lambda case, work: case(o.divisi, work))


if __name__ == "__main__":
    sys.exit(main())
