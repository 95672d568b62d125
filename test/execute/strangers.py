#!/usr/bin/env python3
"""Strangers on the ports of ranks that meet over TCP.

    strangers.py --divisi PATH [--count 300] [--seed 1]

- a job of three ranks, of which the last comes while strangers have N random conversations with the other two: no rank's
  greeting, half of one, replays of what a rank of an earlier job said, proofs sent back, other ranks' numbers, floods,
  silence, one byte at a time. It ends with the losses of an undisturbed run, has printed a handful of lines about them,
  and a rank's memory has grown by less than 64 MB
- an impostor who waits where rank 0 should: the job begins when rank 0 has come
- a rank listens only at the intended address
- a rank that trains has no open port

Needs only Python. Ends with `N passed, N failed`.
"""

import argparse
import concurrent.futures
import hashlib
import hmac
import json
import os
import pathlib
import random
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import cases

TEST = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TEST / "gpu"))
from launch import free_port, variables  # noqa: E402

MODEL = TEST / "models" / "mlp"
RANKS = 3
MAGIC = struct.pack("<I", 0x44695632)
HELLO, CHALLENGE, PROOF = 112, 72, 32  # bytes
SECRET = "0123456789abcdef0123456789abcdef"
LARGEST_GROWTH = 64 << 20


def hello(rng, rank=None, size=RANKS):
    """A greeting as a rank would send it."""
    rank = rng.choice([-1, 0, 1, 2, 3, 2**31 - 1]) if rank is None else rank
    host = bytes(rng.choice(b"\x1b[2J\n\x00abc") for _ in range(64))
    return MAGIC + struct.pack("<iii", rank, size, rng.randrange(2**31)) + host + rng.randbytes(32)


def hear(s, count):
    """Exactly `count` bytes; fewer if the other side ends first."""
    data = b""
    while len(data) < count and (more := s.recv(count - len(data))):
        data += more
    return data


def conversation(kind, port, rng, overheard, until):
    """One stranger; it must not receive any bytes but those of a challenge."""
    with socket.socket() as s:
        s.settimeout(2)
        s.connect(("127.0.0.1", port))
        answered = b""
        if kind == "silence":
            pass
        elif kind == "waits":
            s.settimeout(max(0.1, min(12.0, until - time.monotonic())))
            hear(s, 1)
        elif kind == "noise":
            s.sendall(rng.randbytes(rng.choice([1, 3, 4, 50, 5000, 1 << 20])))
        elif kind == "http":
            s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * rng.randrange(1, 50))
        elif kind == "older":
            s.sendall(struct.pack("<Iiii", 0x44695631, 1, RANKS, 0) + bytes(64))  # the greeting before there were secrets
        elif kind == "half":
            s.sendall(hello(rng)[: rng.randrange(1, HELLO)])
        elif kind == "drips":
            for byte in (hello(rng) + rng.randbytes(PROOF))[: rng.randrange(1, 60)]:
                s.sendall(bytes([byte]))
                time.sleep(rng.uniform(0, 0.2))
        elif kind == "replays":
            s.sendall(overheard)
            answered = hear(s, CHALLENGE)
        elif kind == "huge":  # the header of a program's message, which announces 64 TiB
            s.sendall(overheard + struct.pack("<Qq", 1 << 46, 0) + rng.randbytes(1 << 20))
        elif kind == "resets":
            s.sendall(hello(rng)[: rng.randrange(HELLO + 1)])
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            said = hello(rng)
            s.sendall(said)
            answered = hear(s, CHALLENGE)
            proof = {
                "guesses": lambda: rng.randbytes(PROOF),
                "reflects": lambda: answered[-PROOF:],
                "other-secret": lambda: hmac.new(b"another secret of a job", b"coming" + said + answered[:40], hashlib.sha256).digest(),
                "no-secret": lambda: hmac.new(b"", b"coming" + said + answered[:40], hashlib.sha256).digest(),
                "overheard-proof": lambda: overheard[-PROOF:],
            }[kind]()
            s.sendall(proof + rng.randbytes(rng.choice([0, 100, 100000])))
        if answered and len(answered) == CHALLENGE:
            s.shutdown(socket.SHUT_WR)
            more = hear(s, 1)
            assert not more, f"{kind}: a stranger got more than a challenge"


KINDS = ["silence", "waits", "noise", "http", "older", "half", "drips", "replays", "huge", "resets", "guesses", "reflects",
         "other-secret", "no-secret", "overheard-proof"]


def one(index, ports, seed, overheard, until):
    """Runs a conversation; returns an error text, or ""."""
    rng = random.Random(f"{seed} {index}")
    kind = rng.choice(KINDS[2:] if index % 10 else KINDS)
    try:
        conversation(kind, ports[rng.random() < 0.2], rng, overheard, until)  # rank 1 listens only later
    except OSError:
        pass  # the rank closed the connection
    except AssertionError as error:
        return str(error)
    return None


class Job:
    """Ranks that meet at a port; each one's output goes to a file."""

    def __init__(self, program, work, name, *flags, steps=30, timeout=3600, secret=None):
        data = [w for n in ("x", "label") for w in ("--data", f"{n}={MODEL / 'data' / n}.npy")]
        self.command = [str(program), *data, "--seed", "3", "--steps", str(steps), "--quiet", "--timeout", str(timeout), "--log", str(work / f"{name}.jsonl"), *flags]
        self.work, self.name, self.port, self.ranks = work, name, free_port(), {}
        self.env = {k: v for k, v in os.environ.items() if k not in ("DIVISI_SECRET", "DIVISI_SECRET_FILE")}
        self.env |= {"OMP_NUM_THREADS": "1"} | (secret or {})

    def start(self, rank, port=None):
        with open(self.path(rank), "w") as out:
            self.ranks[rank] = subprocess.Popen(self.command, stdout=out, stderr=subprocess.STDOUT,
                                                env=self.env | variables(rank, RANKS, port or self.port))
        return self.ranks[rank]

    def path(self, rank):
        return self.work / f"{self.name}.{rank}"

    def said(self, rank):
        return self.path(rank).read_bytes()

    def losses(self):
        for rank, process in self.ranks.items():
            code = process.wait(60)
            assert code == 0, f"rank {rank}: exit code {code}: {self.said(rank)!r}"
        return self.logged()

    def logged(self):
        """The losses so far."""
        path = self.work / f"{self.name}.jsonl"
        rows = [json.loads(line) for line in (path.read_text().splitlines() if path.is_file() else [])]
        return [(row["step"], repr(row["loss"])) for row in rows if not row.get("eval")]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.ranks.values():
            if process.poll() is None:
                process.kill()
            process.wait()


def compiled(divisi, work):
    program = work / "p"
    subprocess.run([divisi, "compile", str(MODEL / "model.onnx"), "-o", str(program), "--devices", str(RANKS), "--strategy", "data",
                    "--optimizer", "adamw", "--lr", "1e-3"], check=True)
    return program


def listening(pid):
    """(address, port) of each socket at which a process listens, as the kernel writes the address."""
    inodes = set()
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes.add(os.readlink(entry))
        except OSError:
            continue
    found = []
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                address, port = fields[1].split(":")
                found.append((address, int(port, 16)))
    return found


def wait_for(what, condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"no {what} within {seconds} s"
        time.sleep(0.01)
    return found


def peak(pid):
    """The most memory that a process has had, in bytes."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    return 0


def pump(a, b, record=None):
    try:
        while data := a.recv(65536):
            if record is not None:
                record.append(data)
            b.sendall(data)
        b.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def relay(port, record):
    """A relay between one rank and the port, which records what the rank sends; returns the relay's port."""
    door = socket.socket()
    door.bind(("127.0.0.1", 0))
    door.listen(8)

    def serve():
        while True:
            coming, _ = door.accept()
            try:
                going = socket.create_connection(("127.0.0.1", port))
            except OSError:
                coming.close()
                continue
            threading.Thread(target=pump, args=(coming, going, record), daemon=True).start()
            threading.Thread(target=pump, args=(going, coming), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return door.getsockname()[1]


def undisturbed(program, work, name, secret):
    """(losses, the greeting and the proof that rank 1 said to rank 0)"""
    with Job(program, work, name, secret=secret) as job:
        said = []
        job.start(0)
        wait_for("listening rank 0", lambda: listening(job.ranks[0].pid))
        job.start(1, relay(job.port, said))
        job.start(2)
        losses = job.losses()
    assert len(losses) == 30, f"{len(losses)} losses"
    return losses, b"".join(said)[: HELLO + PROOF]


def disturbed(program, work, o):
    (work / "secret").write_text(SECRET + "\n")
    for name, secret in (("user", {}), ("given", {"DIVISI_SECRET_FILE": str(work / "secret")})):
        expected, overheard = undisturbed(program, work, f"whole-{name}", secret)
        assert len(overheard) == HELLO + PROOF and overheard.startswith(MAGIC), f"rank 1 said {overheard[:8]!r}"
        with Job(program, work, name, secret=secret) as job:
            ports, before = [], {}
            for rank in (0, 1):
                process = job.start(rank)
                (address, port), = wait_for(f"listening rank {rank}", lambda: listening(process.pid))
                assert address == "0100007F", f"rank {rank} listens at {address}"
                ports.append(port)
                before[rank] = peak(process.pid)
            assert ports[0] == job.port and min(before.values()) > 1 << 20
            start = time.monotonic()
            each = o.count // 2
            with concurrent.futures.ThreadPoolExecutor(24) as pool:
                def converse(numbers):
                    return [pool.submit(one, i, ports, f"{o.seed} {name}", overheard, start + o.seconds) for i in numbers]

                wrong = [w for f in converse(range(each)) if (w := f.result())]
                seconds = time.monotonic() - start
                assert not wrong, wrong[0]
                grown = max(peak(job.ranks[rank].pid) - before[rank] for rank in (0, 1))
                for rank in (0, 1):
                    assert job.ranks[rank].poll() is None, f"rank {rank} ended: {job.said(rank)!r}"
                converse(range(each, each + 40))
                job.start(2)
                found = job.losses()
            assert found == expected, "the losses differ from those of the undisturbed run"
            for rank in (0, 1):
                said = job.said(rank)
                lines = said.splitlines()
                assert 1 <= len(lines) <= 8, f"rank {rank} printed {len(lines)} lines: {said!r}"
                assert all(byte in b"\n" or 32 <= byte < 127 for byte in said), f"rank {rank} printed {said!r}"
        assert grown < LARGEST_GROWTH, f"memory grew by {grown >> 20} MB"
        yield f"{name}: {each} conversations in {seconds:.1f} s, memory grew by {grown / 2**20:.1f} MB, 30 losses the same"


def impostor(program, work, _):
    expected, _ = undisturbed(program, work, "whole", {})
    with Job(program, work, "job") as job, socket.socket() as door:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind(("127.0.0.1", job.port))
        door.listen(8)
        got = []
        job.start(1)
        job.start(2)
        for answer in (b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", MAGIC + bytes(CHALLENGE - 4), MAGIC + os.urandom(CHALLENGE - 4)):
            with door.accept()[0] as s:
                s.settimeout(5)
                said = hear(s, HELLO)
                s.sendall(answer)
                s.shutdown(socket.SHUT_WR)
                got.append(said + hear(s, PROOF))
        door.close()
        job.start(0)
        assert job.losses() == expected, "the losses differ from those of the undisturbed run"
        assert all(len(said) == HELLO for said in got), "a rank gave a proof to somebody who had none"
    yield f"{len(got)} answers of an impostor, none of which got a proof"


def closed(program, work, _):
    with Job(program, work, "job", "--lr", "0", steps=100000000) as job:
        for rank in range(RANKS):
            job.start(rank)
        wait_for("steps", lambda: (work / "job.jsonl").is_file() and (work / "job.jsonl").stat().st_size > 2000)
        for rank, process in job.ranks.items():
            assert not listening(process.pid), f"rank {rank} still listens: {listening(process.pid)}"
    yield "no rank listens while it trains"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    p.add_argument("--count", type=int, default=300, help="conversations (default 300)")
    p.add_argument("--seed", default="1")
    p.add_argument("--seconds", type=float, default=10, help="after which nobody waits in silence any more (default 10)")
    o = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(o.divisi, pathlib.Path(folder).resolve())
        return cases.run((disturbed, impostor, closed), lambda case, work: case(program, work, o))


if __name__ == "__main__":
    sys.exit(main())
