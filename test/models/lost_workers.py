#!/usr/bin/env python3
"""Workers that are killed while the others go on: --sync async-server, local and gossip.

    lost_workers.py --divisi PATH [--draws N] [--seed S] [--only 'async'] [--jobs N]

A worker, but for the first, is killed (SIGKILL) at a random time of the training, and in some jobs another one joins in its place. The others end
well, in time, and leave neither a process nor shared memory behind. Asynchronous servers: NumPy replays in float64 the updates that the log lists, each share of a batch once. Local steps: NumPy makes them in
float64, with an average over those that the log names. Gossip: the loss falls as it does undisturbed. Workers that are silent for longer than --timeout are lost, too. Evaluations are those of all the data.
Needs numpy and onnx; ends with `N passed, N failed`.
"""

import itertools
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import numpy as np

import lines
from optimizer_rules import RULES
from optimizers import BATCH, CASE, TANH, differentiate, flags_of, read_weights, write_smooth
from replicas import SGD, data_flags
from servers import replay
from shared_models import Mlp

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "execute"))
from ranks import ranks_of  # noqa: E402

WORKERS, WITHIN, TOLERANCE = 4, 10, 2e-5
MODEL = Mlp(smooth=True)
PLAIN, SLOW = ("sgd", {"lr": 0.01}, [], {}), ("sgd", {"lr": 0.01, "momentum": 0.9}, [], {})  # so that rounding does not grow with the steps


def process_of(program, rank):
    """The process of a rank, or None."""
    for pid in ranks_of(program):
        try:
            if f"RANK={rank}".encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                return pid
        except OSError:
            continue
    return None


class Lost:
    """A job that loses ranks (`victims`, at random times), with its log after it has ended."""

    def __init__(self, divisi, work, draw, steps, victims, *more, joins=False, every=40):
        self.program, self.log = work / "p", work / "log"
        part, delay, before = (0.2, 40, ("--grow-after", "1")) if joins else (0.8, 10, ())  # one that joins needs time for it
        self.shared = 0
        command = [divisi, "run", "--min-devices", "2", *before, self.program, "--steps", steps, "--no-shuffle", "--quiet", "--log", self.log,
                   "--save-weights", work / "after.safetensors", "--checkpoint", work / "c", "--every", every, *data_flags("mlp", ("x", "label")), *more]
        delays = ",".join(f"{rank}={delay}" for rank in range(WORKERS))
        with open(work / "out", "w") as out:
            job = subprocess.Popen([str(word) for word in command], stdout=out, stderr=subprocess.STDOUT,
                                   env={**os.environ, "DIVISI_DELAYS": delays, "OMP_NUM_THREADS": "1"})
        self.killed = []
        try:
            self.wait(job, lambda: self.log.exists(), 60)
            for victim in victims:
                time.sleep(draw.uniform(0, part * steps * delay / 1000 / len(victims)))
                if (pid := process_of(self.program, victim)) and job.poll() is None:
                    self.shared += "/dev/shm" in pathlib.Path(f"/proc/{pid}/maps").read_text()
                    os.kill(pid, signal.SIGKILL)
                    self.killed.append(victim)
            size = -1
            while job.poll() is None and size != (size := self.log.stat().st_size):
                self.end(job, 3 * WITHIN)
        finally:
            job.kill()
            job.wait()
            left = ranks_of(self.program)
            for pid in left:
                os.kill(pid, signal.SIGKILL)
        self.said, self.code = (work / "out").read_text(), job.returncode  # that of SIGKILL if it hung
        self.rows = [json.loads(line) for line in self.log.read_text().splitlines()]
        self.steps = [row for row in self.rows if "loss" in row and "step_ms" in row]
        times = [row["wall_time"] for row in self.rows]
        self.pause = max((b - a for a, b in zip(times, times[1:])), default=0)
        self.changes = [row for row in self.rows if row.get("event") in ("lost", "joined")]
        self.results = [(self.code == 0 and not left and len(self.steps) == steps, f"exit {self.code}, {len(left)} left, {len(self.steps)} of {steps} steps"
                         + ("" if self.code == 0 else f": {self.said[-300:]!r}")),
                        (self.pause < WITHIN, f"{self.pause:.1f} s without a line"),
                        (not self.shared, "has no shared memory that could be left")]

    def end(self, job, seconds):
        try:
            job.wait(seconds)
        except subprocess.TimeoutExpired:
            pass  # a busy machine is slow: it hangs if there is no new line

    def wait(self, job, done, seconds):
        until = time.monotonic() + seconds
        while not done():
            if time.monotonic() > until or (job.poll() is not None and not done()):
                raise RuntimeError(f"waited in vain: exit {job.poll()}: {self.said if hasattr(self, 'said') else ''}")
            time.sleep(0.005)


def apart(losses, weights, got_losses, got):
    error = max(abs(a - b) / max(abs(b), 0.1) for a, b in zip(got_losses, losses))  # logits are rounded, not a small loss
    worst = max(np.linalg.norm(got[n] - w) / np.linalg.norm(w) for n, w in weights.items())
    return error <= TOLERANCE and worst <= TOLERANCE, f"loss error {error:.1e}, weight error {worst:.1e}"


def devices_of(several):
    """The workers, or programs for several numbers of devices, of which the largest has as many, and a server."""
    return ["--devices", ",".join(str(n) for n in range(WORKERS - 1, WORKERS + 2)), "--strategy", "data"] if several else ["--mesh", f"data={WORKERS}"]


def check_asynchronous(divisi, data, number, seed, run, servers, staleness, joins, several=False):
    def test(work):
        draw, steps = random.Random(f"async {seed} {number}"), 150
        lines.call(divisi, "compile", write_smooth(work / "tanh.onnx"), "-o", work / "p", *flags_of(run), *devices_of(several), "--sync", "async-server",
                   "--servers", servers, "--max-staleness", staleness)
        victims = draw.sample(range(1, WORKERS), 1 if joins else draw.randint(1, 2))
        job = Lost(divisi, work, draw, steps, victims, joins=joins)
        log = [row for row in job.rows if "update" in row]
        losses, weights = replay(log, read_weights(work / "p.safetensors"), MODEL.gradients(divisi, work), BATCH, run, WORKERS)
        once = len(log) == steps * WORKERS and len({(u["step"], u["share"]) for u in log}) == len(log)
        job.results += [(once, f"each share once; killed {job.killed}; staleness up to {max(u['staleness'] for u in log)}"),
                        apart(losses, weights, [row["loss"] for row in job.steps], read_weights(work / "after.safetensors"))]
        for victim in job.killed:
            last = max((u["update"] for u in log if u["worker"] == victim), default=0)
            if joins:
                job.results.append((any(c["event"] == "joined" and c["worker"] == victim for c in job.changes) and last > len(log) - 40,
                                    f"worker {victim} joins again, and makes update {last} of {len(log)}"))
            else:
                job.results.append((last < len(log) and any(c["worker"] == victim for c in job.changes) or victim not in [c["worker"] for c in job.changes],
                                    f"worker {victim} makes update {last} of {len(log)} last"))
        return job.results

    return test


def replay_local(job, weights, data, run, every, steps):
    """(losses of each step by worker, weights after, workers of averages by step) of local steps, with averages over the workers that the log names."""
    start = {n: w.astype(np.float64) for n, w in weights.items()}
    live, state = {r: dict(start) for r in range(WORKERS)}, {r: {n: {} for n in start} for r in range(WORKERS)}
    averages = {row["step"]: row["workers"] for row in job.rows if row.get("event") == "average"}
    joins = {(row["step"], row["worker"]) for row in job.changes if row["event"] == "joined"}
    optimizer, constants, _, _ = run
    constants = dict(constants)
    lr, losses, each = constants.pop("lr"), [], BATCH // WORKERS
    for step in range(steps):
        for worker in range(WORKERS):
            if (step, worker) in joins:  # with what the first one has
                live[worker], state[worker] = dict(live[0]), {n: {k: np.copy(v) for k, v in s.items()} for n, s in state[0].items()}
        own = {}
        for worker in live:
            rows = np.arange(each) + step % 6 * BATCH + worker * each
            own[worker], gradients = differentiate(live[worker], data["x"][rows].astype(np.float64), data["label"][rows], TANH)
            live[worker] = {n: RULES[optimizer](w.copy(), gradients[n], state[worker][n], lr, step + 1, weight_decay=0.0, adapts=True, **constants) for n, w in live[worker].items()}
        losses.append(own)
        if step + 1 in averages:
            members = averages[step + 1]
            middle = {n: np.mean([live[worker][n] for worker in members], 0) for n in start}
            live = {worker: dict(middle) for worker in live}
    return losses, live[0], averages


def check_local(divisi, data, number, seed, every, joins):
    """Losses are means over the workers that are left when the results of steps meet, which is not when parameters do."""

    def test(work):
        draw, steps = random.Random(f"local {seed} {number}"), 150
        lines.call(divisi, "compile", write_smooth(work / "tanh.onnx"), "-o", work / "p", *flags_of(SLOW), "--mesh", f"data={WORKERS}", "--sync", "local", "--average-every", every)
        victims = draw.sample(range(1, WORKERS), 1 if joins else draw.randint(1, 2))
        job = Lost(divisi, work, draw, steps, victims, joins=joins)
        own, weights, averages = replay_local(job, read_weights(work / "p.safetensors"), data, SLOW, every, steps)
        sets = [averages[s] for s in sorted(averages)]
        left = sorted(set(range(WORKERS)) - set(job.killed))
        counted = [left + list(more) for k in range(len(job.killed) + 1) for more in itertools.combinations(job.killed, k)]
        possible = [[np.mean([losses[worker] for worker in members]) for members in counted] for losses in own]
        losses = [min(means, key=lambda mean: abs(mean - row["loss"])) for means, row in zip(possible, job.steps)]
        job.results += [(sets[0] == list(range(WORKERS)) or bool(job.killed), f"averages over {sets[0]} to {sets[-1]}; killed {job.killed}"),
                        apart(losses, weights, [row["loss"] for row in job.steps], read_weights(work / "after.safetensors")),
                        (joins or all(victim not in sets[-1] for victim in job.killed) or not job.changes, "who is lost is in no average after that")]
        if joins:
            job.results.append((all(any(c["event"] == "joined" and c["worker"] == v for c in job.changes) and v in sets[-1] for v in job.killed), f"joined again: {job.changes}"))
        return job.results

    return test


def check_gossip(divisi, number, seed, sync, joins):
    """The loss falls, and all that are left have learnt from the shares of each step."""

    def test(work):
        draw, steps = random.Random(f"gossip {sync} {seed} {number}"), 150
        lines.call(divisi, "compile", CASE / "model.onnx", "-o", work / "p", *flags_of(SGD), "--mesh", f"data={WORKERS}", "--sync", *sync.split())
        victims = draw.sample(range(1, WORKERS), 1 if joins else draw.randint(1, 2))
        job = Lost(divisi, work, draw, steps, victims, joins=joins)
        first, last = (np.mean([row["loss"] for row in part]) for part in (job.steps[:6], job.steps[-6:]))
        weights = read_weights(work / "after.safetensors")
        job.results += [(last < 0.8 * first and all(np.isfinite(w).all() for w in weights.values()), f"loss {first:.2f} to {last:.2f}; killed {job.killed}")]
        if joins:
            job.results.append((all(any(c["event"] == "joined" and c["worker"] == v for c in job.changes) for v in job.killed), f"joined again: {job.changes}"))
        return job.results

    return test


def check_evaluation(divisi, data, sync):
    """Evaluations are of all the data when workers are lost. Without learning, their loss is known."""

    def test(work):
        draw = random.Random(f"evaluation {sync}")
        lines.call(divisi, "compile", CASE / "model.onnx", "-o", work / "p", "--lr", 0, "--mesh", f"data={WORKERS}", "--sync", *sync.split())
        weights = {n: w.astype(np.float64) for n, w in read_weights(work / "p.safetensors").items()}
        rows = 5 * BATCH + 5  # the last batch is not whole
        np.save(work / "x.npy", data["x"][:rows])
        np.save(work / "label.npy", data["label"][:rows])
        job = Lost(divisi, work, draw, 150, [2, 3], *[f"--eval={n}={work / n}.npy" for n in ("x", "label")], "--eval-every", 10, every=15)
        wanted = differentiate(weights, data["x"][:rows].astype(np.float64), data["label"][:rows])[0]
        found = [row["loss"] for row in job.rows if row.get("eval")]
        error = max(abs(loss - wanted) / wanted for loss in found)
        exported = lines.call(divisi, "checkpoint", "export", work / "c", "-o", work / "exported.safetensors")
        whole = all(np.allclose(read_weights(work / "exported.safetensors")[n], w, rtol=1e-6) for n, w in read_weights(work / "p.safetensors").items())
        return job.results + [(len(found) == 15 and error < 1e-5, f"{len(found)} evaluations, error {error:.1e}"), (whole, f"the last checkpoint is whole {exported.strip()[-60:]}")]

    return test


def check_vital(divisi, sync, ranks, victim, several=False):
    """A server, or the first worker, is lost: the job goes on from the last checkpoint."""

    def test(work):
        lines.call(divisi, "compile", CASE / "model.onnx", "-o", work / "p", *devices_of(several), "--sync", *sync.split())
        job = Lost(divisi, work, random.Random(f"vital {sync}"), 150, [victim])
        steps = sorted({row["step"] for row in job.steps})
        went = "goes on from step" in job.said or "begins again" in job.said
        return [(job.code == 0 and steps == list(range(1, 151)) and went and f"rank {victim} lost" in job.said and f"with {ranks}" in job.said, job.said.strip().splitlines()[-1][-150:])]

    return test


def check_silent(divisi, sync, wakes):
    """A worker is stopped (SIGSTOP) for longer than --timeout, to the end of the job or until it is lost: the others end well, and one that wakes up is replaced."""

    def test(work):
        lines.call(divisi, "compile", CASE / "model.onnx", "-o", work / "p", "--mesh", f"data={WORKERS}", "--sync", *sync.split())
        command = [divisi, "run", "--min-devices", 2, "--grow-after", 1, work / "p", "--steps", 320 if wakes else 80, "--quiet", "--log", work / "log", "--timeout", 4,
                   "--checkpoint", work / "c", *data_flags("mlp", ("x", "label"))]
        delays = ",".join(f"{rank}=60" for rank in range(WORKERS))
        job = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env={**os.environ, "DIVISI_DELAYS": delays, "OMP_NUM_THREADS": "1"})
        until = time.monotonic() + 60
        while not (pid := process_of(work / "p", 1)) or not (work / "log").exists():
            if time.monotonic() > until:
                raise RuntimeError("waited in vain for the second rank")
            time.sleep(0.02)
        time.sleep(1)
        os.kill(pid, signal.SIGSTOP)
        try:
            if wakes:
                time.sleep(8)
                os.kill(pid, signal.SIGCONT)
            said = job.communicate(timeout=90)[0]
        except subprocess.TimeoutExpired:
            said = ""
        finally:
            job.kill()
            for left in ranks_of(work / "p"):
                os.kill(left, signal.SIGKILL)
        said = said or f"it does not end: {job.communicate()[0]}"
        events = [row.get("event") for row in map(json.loads, (work / "log").read_text().splitlines()) if row.get("worker") == 1 and row.get("event") in ("lost", "joined")]
        return [(job.returncode == 0 and events == ["lost", "joined"][:1 + wakes] and "rank 1" in said, f"exit {job.returncode}, {events}: {said.strip()[-100:]!r}")]

    return test


def main():
    p = lines.parser(__doc__.splitlines()[0])
    p.add_argument("--draws", type=int, default=1, help="jobs of each kind")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--quick", action="store_true", help="a job for each way, and one in which a worker joins")
    options = p.parse_args()
    divisi = options.divisi
    data = {n: np.load(CASE / "data" / f"{n}.npy") for n in ("x", "label")}
    tests = []
    for number in range(options.draws):
        servers, staleness = [(1, "none"), (2, 1), (3, "none"), (1, 2)][number % 4]
        tests.append((f"async-server {number}", check_asynchronous(divisi, data, number, options.seed, PLAIN, servers, staleness, joins=False)))
        if number % 4 == 0:
            tests.append((f"async-server joins {number}", check_asynchronous(divisi, data, number, options.seed, PLAIN, 1 + number // 4 % 2, "none", joins=True)))
        every = [8, 3, 32][number % 3]
        tests.append((f"local {number}", check_local(divisi, data, number, options.seed, every, joins=number % 4 == 3)))
        for sync in ("gossip --topology ring", "gossip --topology exponential", "gossip --topology pairs", "gossip --asynchronous"):
            tests.append((f"{sync} {number}", check_gossip(divisi, number, options.seed, sync, joins=number % 4 == 3)))
    for sync in ("async-server", "local --average-every 8", "gossip --asynchronous"):
        tests.append((f"evaluation {sync}", check_evaluation(divisi, data, sync)))
    tests += [(f"vital {sync} {victim}", check_vital(divisi, sync, ranks, victim)) for sync, ranks, victim in
              [("async-server", 5, 4), ("async-server", 5, 0), ("local --average-every 8", 4, 0)]]
    tests.append(("several numbers", check_asynchronous(divisi, data, 0, options.seed, PLAIN, 1, "none", joins=False, several=True)))
    tests.append(("several numbers, vital", check_vital(divisi, "async-server", 4, 4, several=True)))
    tests += [(f"silent {'for a time' if wakes else 'to the end'} {sync}", check_silent(divisi, sync, wakes))
              for sync in ("async-server", "local --average-every 8", "gossip --asynchronous") for wakes in (True, False)]
    if options.quick:
        tests = [line for line in tests if line[0] in ("async-server 0", "async-server joins 0", "local 0", "gossip --topology ring 0", "gossip --asynchronous 0", "evaluation async-server", "vital async-server 4", "several numbers")]
    return lines.run(tests, options)


if __name__ == "__main__":
    sys.exit(main())
