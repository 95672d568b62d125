#!/usr/bin/env python3
"""What was planned is what runs: order of tasks, messages, bytes and memory of pipelines on 4 and 8 ranks.

    traces.py --divisi PATH [--only SUBSTRING] [--jobs N]

Compiles reference models to the level exec, whose schedule, messages and collectives are read here, and to programs, whose `--trace` has
what every rank did in the last step. Also the messages and bytes that the planner's simulator foresees (`divisi plan --plan`), for models
that are chains: it takes every gradient to be as large as its value. Ends with `N passed, N failed`.
"""

import collections
import functools
import json
import math
import pathlib
import re
import sys

sys.dont_write_bytecode = True
import lines  # noqa: E402
from tensors import bytes_of  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
SCHEDULES = ("1f1b", "gpipe", "naive", "zb-h1", "interleaved --chunks 2")
WAYS = [("mlp", f"stage=4 --schedule {schedule}", 4) for schedule in SCHEDULES if "interleaved" not in schedule] + [
    ("lenet", "stage=4 --schedule 1f1b", 4),
    ("gpt_tiny", "stage=4 --schedule 1f1b", 4),
    ("gpt_tiny", "stage=4 --schedule interleaved --chunks 2", 4),
    ("llama_tiny", "stage=4,data=2 --schedule zb-h1", 2),
    ("inception_tiny", "stage=8 --schedule 1f1b", 8),
    ("unet_tiny", "stage=2,data=2 --schedule gpipe", 4),
    ("moe_tiny", "stage=2,data=2,model=2 --schedule 1f1b", 2),
    ("mlp", "stage=2 --schedule 1f1b --round-robin 3,1", 4),
    ("lenet", "stage=3 --schedule 1f1b --round-robin 1,2,1", 4),
    ("gpt_tiny", "stage=2 --schedule gpipe --round-robin 1,3", 4),
    ("llama_tiny", "stage=2,data=2 --schedule 1f1b --round-robin 2,1", 2),
    ("mlp", "stage=2,data=2 --schedule 1f1b --stage-axes data,none", 2),
    ("lenet", "stage=3,data=2 --schedule gpipe --stage-axes none,data,none", 2),
]
ONCE = ("start", "finish")  # kinds of tasks that every replica of a stage runs
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
CHAINS = ("mlp", "lenet")
COMPUTE = 1  # the thread of a rank with its calls
NANOSECOND = 1e-3  # of a timeline's unit: what its text loses


def wrong_timeline(events, ranks):
    """What a viewer of timelines would object to (Trace Event Format): rows without a name, negative times, slices that overlap on a row."""
    names = collections.defaultdict(dict)
    rows = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "M" and event["name"] in ("process_name", "thread_name"):
            names[event["name"]][event["pid"], event.get("tid") if event["name"] == "thread_name" else None] = event["args"]["name"]
        elif event["ph"] == "X":
            rows[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"], event["name"]))
    for rank in range(ranks):
        if not names["process_name"].get((rank, None), "").startswith(f"rank {rank}"):
            yield f"rank {rank} is called {names['process_name'].get((rank, None))}"
        if not any(pid == rank for pid, _ in rows):
            yield f"rank {rank} has no slices"
    for row, slices in rows.items():
        if not names["thread_name"].get(row):
            yield f"row {row} has no name"
        slices.sort()
        yield from (f"row {row}: {b[2]} begins before {a[2]} ends" for a, b in zip(slices, slices[1:]) if b[0] < a[1] - NANOSECOND)
        yield from (f"row {row}: {name} has no name, or ends before it begins" for begin, end, name in slices if end < begin or not name)


class Dump:
    """A module at the level exec: (peer, bytes) of the messages of each task as one device has them, the number of collectives, and the
    rows of @train."""

    def __init__(self, text):
        self.sends, self.receives = collections.defaultdict(list), collections.defaultdict(list)
        self.collectives, self.summed = collections.Counter(), collections.defaultdict(list)
        task = None
        for line in text.splitlines():
            if found := re.match(r"\s*func\.func @(\S+?)\(", line):
                task = found[1]
            elif found := re.search(r"exec\.call dist\.send {.*stage = (\d+) .* : \(tensor<([^>]*)>\)", line):
                self.sends[task].append((int(found[1]), bytes_of(found[2])))
            elif found := re.search(r"exec\.call dist\.receive {.*stage = (\d+) .* : \(\) -> tensor<([^>]*)>", line):
                self.receives[task].append((int(found[1]), bytes_of(found[2])))
            elif re.search(r"exec\.call dist\.(?!send|receive)", line) and "when = " not in line:  # others only for reports
                self.collectives[task] += 1
                if "dist.all_reduce" in line:
                    self.summed[task].append(sum(map(bytes_of, re.findall(r"tensor<([^>]*)>", line[line.rindex(" : (") : line.rindex("->")]))))
        rows = re.search(r'dist\.schedule "train" "\S+" microbatches \d+ \[(.*)\] \{', text)[1]
        self.rows = [[("train." + task, int(number)) for task, number in re.findall(r'"(\S+) (-?\d+)"', row)]
                     for row in re.findall(r"\[([^\]]*)\]", rows)]
        self.arenas = [int(size) for size in re.search(r"exec\.arenas = array<i64: ([^>]+)>", text)[1].split(", ")]

    def row_of(self, stage, replica, replicas):
        """The tasks that a replica runs, if replicas take microbatches in turn."""
        return [(task, number) for task, number in self.rows[stage] if task.split(".")[-1] in ONCE or number % replicas == replica]


class Tester:
    def __init__(self, divisi):
        self.divisi = divisi

    def compile(self, name, flags, *more):
        case = HERE / name
        return lines.call(self.divisi, "compile", case / "model.onnx", *flags, *more)

    def run(self, name, way, microbatches, folder):
        flags = ["--mesh", *way.split(), "--microbatches", microbatches, "--momentum", "0.9"]
        sizes = [int(size) for size in re.findall(r"=(\d+)", way.split()[0])]
        turns, narrow = re.search(r"--round-robin (\S+)", way), re.search(r"--stage-axes (\S+)", way)
        replicas = [int(count) for count in turns[1].split(",")] if turns else [1] * sizes[0]
        devices = [1 if axes == "none" else sizes[1] for axes in narrow[1].split(",")] if narrow else [math.prod(sizes[1:])] * sizes[0]
        places = [(stage, replica) for stage, count in enumerate(replicas) for replica in range(count) for _ in range(devices[stage])]
        ranks = len(places)
        dump = Dump(self.compile(name, flags, "--emit", "exec"))
        program, trace, log = folder / "prog", folder / "trace.json", folder / "log.jsonl"
        self.compile(name, flags, "-o", program)
        data = [f"--data={file.stem}={file}" for file in sorted((HERE / name / "data").glob("*.npy"))]
        lines.call(self.divisi, "run", "--devices", ranks, program, *data, "--no-shuffle", "--quiet", "--steps", 5, "--trace", trace, "--log", log)
        events = json.loads(trace.read_text())["traceEvents"]
        wrong = list(wrong_timeline(events, ranks))
        yield not wrong, f"the timeline names {ranks} ranks and their rows, nothing overlaps on a row {'; '.join(wrong[:3])}"
        for rank, (stage, replica) in enumerate(places):
            row = dump.row_of(stage, replica, replicas[stage])
            mine = [event for event in events if event["pid"] == rank and event["ph"] == "X" and event["tid"] == COMPUTE]
            done = []
            for event in mine:
                entry = event["args"]["task"], event["args"].get("microbatch", 0)
                if not done or done[-1] != entry:
                    done.append(entry)
            silent = [entry for entry in row if entry not in done]  # tasks without calls
            good = done == [entry for entry in row if entry not in silent] and not any(dump.sends[task] for task, _ in silent)
            yield good, f"rank {rank}: order of tasks: {len(done)} runs"
            sends, planned = sum(event["cat"] == "send" for event in mine), sum(len(dump.sends[task]) for task, _ in row)
            collectives = sum(event["cat"] in COLLECTIVES for event in mine)
            both = sum(dump.collectives[task] for task, _ in row)
            yield (sends, collectives) == (planned, both), f"rank {rank}: messages and collectives: {sends} and {collectives}"
        if narrow or devices[0] == 1:
            yield from self.bytes(name, flags, dump, replicas, devices, log, folder)
        described = json.loads(lines.call(program, "--describe", "json"))["arena_bytes"]
        yield described == max(dump.arenas), f"memory: {described} bytes of the largest stage"

    def bytes(self, name, flags, dump, replicas, devices, log, folder):
        """A device of a receiving stage gets what its task receives, each byte once; as many pairs as the larger of two stages has
        devices share that evenly."""
        between = collections.defaultdict(lambda: [0, 0])
        for stage, row in enumerate(dump.rows):
            for task, _ in row:
                for peer, size in dump.receives[task]:
                    if peer != stage:
                        between[peer, stage][0] += 1
                        between[peer, stage][1] += size * devices[stage] / max(devices[peer], devices[stage])
        sent = {row["comm_bytes"] for row in map(json.loads, log.read_text().splitlines()) if "step" in row}
        row = dump.row_of(0, 0, replicas[0])
        copies = {peer: math.ceil(count / replicas[0]) for peer, count in enumerate(replicas)}  # of what all replicas need
        planned = sum(size * (copies[peer] if task.split(".")[-1] in ONCE else 1) for task, _ in row for peer, size in dump.sends[task])
        if len(set(devices)) > 1:  # every sender has the same share
            planned = sum(size * devices[stage] / devices[0] for stage, tasks in enumerate(dump.rows) if stage
                          for task, _ in tasks for peer, size in dump.receives[task] if peer == 0)  # fmt: skip
        members = devices[0] * replicas[0]
        sums = sorted(size for task, _ in row for size in dump.summed[task])
        tree, ring = lines.tree_messages(members), 2 * (1 - 1 / members)  # small sums go by a tree, large ones around a ring
        wanted = [planned + tree * sum(sums[:small]) + ring * sum(sums[small:]) for small in range(len(sums) + 1)]
        near = 8 * members * (members > 1)  # shares of a ring are whole elements
        yield all(min(abs(size - one) for one in wanted) <= near for size in sent), f"bytes that rank 0 sends in a step: {wanted[0]:.0f} to {wanted[-1]:.0f}; run {sent}"
        if name not in CHAINS:
            return
        plan = folder / "plan.mlir"
        self.compile(name, flags, "--emit", "plan", "-o", plan)
        simulated = json.loads(lines.call(self.divisi, "plan", HERE / name / "model.onnx", "--momentum", "0.9", "--cluster", f"cpu:{sum(map(math.prod, zip(replicas, devices)))}",
                                    "--plan", plan, "--json", codes=(0, 3)))["pipelines"][0]  # fmt: skip
        links = {(link["from"], link["to"]): [link["messages"], link["bytes"]] for link in simulated["links"]}
        yield links == dict(between), f"messages and bytes of the simulator: {sum(n for n, _ in links.values())}, " \
            f"{sum(size for _, size in links.values()):.0f} bytes; run {sum(n for n, _ in between.values())}, {sum(b for _, b in between.values())}"


def main():
    o = lines.parser(__doc__.splitlines()[0]).parse_args()
    tester = Tester(o.divisi)
    tests = ((f"{name} {way} --microbatches {count}", functools.partial(tester.run, name, way, count)) for name, way, count in WAYS)
    return lines.run(tests, o)


if __name__ == "__main__":
    sys.exit(main())
