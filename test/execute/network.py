#!/usr/bin/env python3
"""Faults of the network between ranks that meet over TCP, made by a proxy between two of them.

    network.py --divisi PATH [--count 12] [--seed 1]

- delays, and little bandwidth: the losses are those of an undisturbed run, and no rank is reported
- a connection that ends at a random byte, inside of a greeting, a header or data: the job does not begin, or it ends with an error on
  every rank, one of which names the other rank; never with other losses, and it always ends
- a connection on which nothing arrives any more (a host that has vanished, a firewall that drops it): the rank is reported within
  10 s, and the job ends after --timeout

Needs only Python. Ends with `N passed, N failed`.
"""

import argparse
import concurrent.futures
import pathlib
import random
import re
import socket
import sys
import tempfile
import threading
import time

import cases
from strangers import RANKS, Job, compiled, listening, wait_for

TIMEOUT = 12  # seconds


class Proxy:
    """A proxy between one rank and rank 0. `delay`: seconds for each piece of data; `rate`: bytes a second; `cut`: bytes from either
    side after which both connections end; `drops`: bytes after which no more data is forwarded."""

    def __init__(self, port, delay=0.0, rate=0.0, cut=None, drops=None):
        self.delay, self.rate, self.cut, self.drops, self.bytes, self.dropped = delay, rate, cut, drops, 0, None
        self.to, self.open = port, []
        self.lock = threading.Lock()
        self.door = socket.socket()
        self.door.bind(("127.0.0.1", 0))
        self.door.listen(8)
        self.port = self.door.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                coming, _ = self.door.accept()
                going = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                return
            self.open += [coming, going]
            for a, b in ((coming, going), (going, coming)):
                threading.Thread(target=self.pump, args=(a, b), daemon=True).start()

    def pump(self, a, b):
        try:
            while data := a.recv(16384):
                with self.lock:
                    allowed = len(data) if self.cut is None else self.cut - self.bytes
                    self.bytes += len(data)
                    silent = self.drops is not None and self.bytes > self.drops
                    if silent and self.dropped is None:
                        self.dropped = time.monotonic()
                if silent:
                    continue
                time.sleep(self.delay + (len(data) / self.rate if self.rate else 0))
                b.sendall(data[: max(0, allowed)])
                if allowed <= len(data) and self.cut is not None:
                    return self.close()
        except OSError:
            pass
        for s in (a, b):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.door.close()
        for s in self.open:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def start(program, work, name, steps=300, timeout=TIMEOUT, **faults):
    """A job whose rank 1 reaches rank 0 through a proxy."""
    job = Job(program, work, name, steps=steps, timeout=timeout)
    job.env["DIVISI_SHARED_MEMORY"] = "0"  # all bytes go through the proxy
    job.start(0)
    wait_for("listening rank 0", lambda: listening(job.ranks[0].pid))
    job.proxy = Proxy(job.port, **faults)
    job.start(1, job.proxy.port)
    job.start(2)
    return job


def reference(program, work):
    with start(program, work, "whole") as job:
        return job.losses(), job.proxy.bytes


def slow(program, work, _):
    expected, through = reference(program, work)
    for name, faults in (("delays", {"delay": 0.005}), ("bandwidth", {"rate": through / 8})):
        with start(program, work, name, **faults) as job:
            assert job.losses() == expected, f"{name}: the losses differ"
            for rank in range(RANKS):
                assert b"heard of" not in job.said(rank), job.said(rank)
        yield f"{name}: 300 losses the same"


def cut_once(program, work, expected, at, index):
    with start(program, work, f"cut{index}", timeout=5, cut=at) as job:
        codes = [job.ranks[rank].wait(40) for rank in range(RANKS)]
        said = [job.said(rank).decode() for rank in range(RANKS)]
        losses = job.logged()
    assert losses == expected[: len(losses)], f"cut at byte {at}: the losses differ"
    assert all(code == 1 for code in codes), f"cut at byte {at}: exit codes {codes}: {said}"
    for rank in range(RANKS):
        assert re.search(r"^error: .*rank \d", said[rank], re.M), f"cut at byte {at}: rank {rank} said {said[rank]!r}"


def cuts(program, work, o):
    expected, through = reference(program, work)
    rng = random.Random(o.seed)
    # The first ones are inside of the greeting, the addresses that rank 0 sends to all, and the first messages.
    places = [rng.randrange(1, 800) if i % 3 == 0 else rng.randrange(800, through - 2000) for i in range(o.count)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(cut_once, program, work, expected, at, i) for i, at in enumerate(places)]:
            done.result()
    yield f"{o.count} cuts, all of which ended the job with a line on every rank"


def vanished(program, work, _):
    _, through = reference(program, work)
    with start(program, work, "job", drops=through // 2) as job:
        what = re.compile(rb"^warning: rank (0: nothing has been heard of rank 1|1: nothing has been heard of rank 0) \(", re.M)
        wait_for("silence", lambda: job.proxy.dropped)
        wait_for("warning", lambda: any(what.search(job.said(rank)) for rank in (0, 1)), 12)
        named = time.monotonic() - job.proxy.dropped
        codes = [job.ranks[rank].wait(TIMEOUT + 10) for rank in range(RANKS)]
        ended = time.monotonic() - job.proxy.dropped
        assert named <= 10 and ended < TIMEOUT + 5 and all(code == 1 for code in codes), f"{named:.1f} s, {ended:.1f} s, {codes}"
        for rank in range(RANKS):
            assert re.search(rb"^error: .*nothing has been heard of rank [01]", job.said(rank), re.M), job.said(rank)
    yield f"named after {named:.1f} s, ended after {ended:.1f} s"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    p.add_argument("--count", type=int, default=12, help="cuts (default 12)")
    p.add_argument("--seed", default="1")
    o = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(o.divisi, pathlib.Path(folder).resolve())
        return cases.run((slow, cuts, vanished), lambda case, work: case(program, work, o))


if __name__ == "__main__":
    sys.exit(main())
