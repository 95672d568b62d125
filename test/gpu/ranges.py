#!/usr/bin/env python3
"""The ranges that programs show to a profiler: a tool in fake/ logs them among the calls of the driver, which does not compute.

    ranges.py --build DIR [--only WORD]

The names of calls are held to those of --trace. One line per check, then `N passed, N failed`.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import recorded

TOOL = "libfake_nvtx.so.1"
# Logged when requested, unlike NCCL's work, which is logged when done.
WORK = ("launch", "matmul", "conv", "operations", "copy", "capture", "graph", "replay")
# Models, ranks and flags of the compiler.
WAYS = [
    ("mlp", 1, ""),
    ("lenet", 1, "--microbatches 2"),
    ("gpt_tiny", 1, ""),
    ("gpt_tiny", 2, "--strategy data"),
    ("lenet", 2, "--mesh stage=2 --microbatches 2 --schedule 1f1b"),
    ("lenet", 2, "--mesh stage=2 --schedule pipedream"),
]


class Ranges:
    """Of one rank's record: runs of tasks with their calls, and what is wrong."""

    def __init__(self, lines):
        self.tasks, self.wrong, open_ranges = [], "", []
        for line in lines:
            kind, _, name = line.partition(" ")
            if kind == "push":
                open_ranges.append(name)
                if len(open_ranges) == 1:
                    self.tasks.append({"name": name, "calls": [], "work": []})
                elif len(open_ranges) == 2:
                    self.tasks[-1]["calls"].append(name)
                else:
                    self.wrong = f"a range within a call: {open_ranges}"
            elif kind == "pop":
                if not open_ranges:
                    self.wrong = "more ends than ranges"
                    return
                open_ranges.pop()
            elif kind == "copy" and not open_ranges:
                continue  # of an input, before a step
            elif kind.startswith(WORK) and self.tasks:
                if len(open_ranges) != (1 if kind in ("capture", "graph", "replay") else 2):
                    self.wrong = f"'{line}' within {open_ranges}"
                elif len(open_ranges) == 2:
                    self.tasks[-1]["work"].append((line, open_ranges[1]))
        if open_ranges:
            self.wrong = f"{open_ranges} have no end"

    def calls(self):
        return [call for task in self.tasks for call in task["calls"]]


def check_layers(model, ranges):
    """Each GEMM is in a range with the name of one of the model's nodes."""
    nodes = (recorded.MODELS / model / "model.onnx").read_bytes()
    products = [name for task in ranges.tasks for line, name in task["work"] if line.startswith(("matmul", "conv"))]
    strange = [name for name in products if name.split()[0].encode() not in nodes]
    if not products or strange:
        return f"{len(products)} products, not named after nodes: {strange}"
    return ""


def listed(calls):
    """Without the calls for metrics, which have the names of kernels and services; and copies, of which some are only for metrics."""
    return [call for call in calls if not re.fullmatch(r"kernel\d+|divisi_\w+|copy", call)]


def check_names(plain, traced, events, microbatches):
    """If calls are made one by one, they have the names of --trace: in the first step, and in all steps of a trace."""
    computed = [event for event in events if event["ph"] == "X" and event["tid"] == 1]  # the thread of calls
    names = [event["name"] for event in computed]
    if not names or plain.calls()[: len(names)] != names:
        return f"the first step has {plain.calls()[:len(names)]}, not {names}"
    if listed(traced.calls()) != listed(names) * recorded.STEPS:
        return "the steps of a trace have other names"
    of_event = [e["args"]["task"] + (f" of microbatch {e['args']['microbatch']}" if microbatches else "") for e in computed]
    of_range = [task["name"] for task in traced.tasks for _ in task["calls"]]
    if of_range[: len(of_event)] != of_event:
        return f"the calls of the first step are in {of_range[:len(of_event)]}, not {of_event}"
    return ""


def run(build, model, ranks, way):
    environment = recorded.environment_of(build) | {"NVTX_INJECTION64_PATH": TOOL}
    with tempfile.TemporaryDirectory() as folder:
        program, trace = pathlib.Path(folder) / model, pathlib.Path(folder) / "trace"
        if wrong := recorded.compile_model(build, model, ranks, way, program):
            return wrong
        command, found = recorded.words_of(program, model), []
        asynchronous = "pipedream" in way
        for more in [[]] if asynchronous else [[], ["--trace", str(trace)]]:
            log = pathlib.Path(folder) / f"calls{len(found)}"
            if wrong := recorded.start([*command, *more], ranks, environment, log):
                return wrong
            found.append([Ranges(lines) for lines in recorded.calls_of(log, ranks)])
        events = [] if asynchronous else json.loads(trace.read_text())["traceEvents"]
    for rank in range(ranks):
        mine = [runs[rank] for runs in found]
        for ranges in mine:
            if wrong := ranges.wrong or ("" if ranges.tasks else "no ranges"):
                return f"rank {rank}: {wrong}"
        if wrong := check_layers(model, mine[0]):
            return f"rank {rank}: {wrong}"
        if ranks == 1 and not any(call.startswith("kernel") for call in mine[0].calls()):
            return "the last step has no metrics"
        own = [event for event in events if event["pid"] == rank]
        if not asynchronous and (wrong := check_names(*mine, own, "microbatches" in way)):
            return f"rank {rank}: {wrong}"
    return ""


def without(build):
    """A missing or invalid tool is a warning; without the variable nothing is loaded."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "mlp"
        if wrong := recorded.compile_model(build, "mlp", 1, "", program):
            return wrong
        tools = {None: "", "": "", "/no/such/tool.so": "cannot open", "libcuda.so.1": "InitializeInjectionNvtx2"}
        for i, (tool, word) in enumerate(tools.items()):
            log = pathlib.Path(folder) / f"calls{i}"
            environment = recorded.environment_of(build) | {"DIVISI_FAKE_GPU_LOG": str(log)}
            environment.pop("NVTX_INJECTION64_PATH", None)
            environment |= {} if tool is None else {"NVTX_INJECTION64_PATH": tool}
            done = subprocess.run(recorded.words_of(program, "mlp"), env=environment, capture_output=True, text=True)
            pattern = f"warning: NVTX_INJECTION64_PATH: .*{word}.*"
            good = re.fullmatch(pattern, done.stderr.strip()) if word else not done.stderr
            if done.returncode != 0 or not good or re.search(r"^(push|pop)", log.read_text(), re.MULTILINE):
                return f"NVTX_INJECTION64_PATH={tool}: exit {done.returncode}: {done.stderr.strip()}"
    return ""


def processor(build):
    """A program that computes on the processor shows the same ranges."""
    with tempfile.TemporaryDirectory() as folder:
        program, log = pathlib.Path(folder) / "mlp", pathlib.Path(folder) / "calls"
        if wrong := recorded.compile_model(build, "mlp", 1, "--target cpu", program):
            return wrong
        environment = recorded.environment_of(build) | {"NVTX_INJECTION64_PATH": TOOL}
        if wrong := recorded.start(recorded.words_of(program, "mlp")[:-2], 1, environment, log):
            return wrong
        ranges = Ranges(recorded.calls_of(log, 1)[0])
    gemms = [call for call in ranges.calls() if call.startswith("/fc.0/Gemm")]
    good = [task["name"] for task in ranges.tasks] == ["train"] * recorded.STEPS and len(gemms) >= 2 * recorded.STEPS
    return ranges.wrong or ("" if good else f"{len(ranges.tasks)} tasks, {len(gemms)} products of the first layer")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="", help="checks whose line has this text")
    options = parser.parse_args()
    build = options.build.resolve()
    checks = {f"{job[0]} on {job[1]}: {job[2]}": (lambda job=job: run(build, *job)) for job in WAYS}
    checks |= {"without a tool": lambda: without(build), "on this processor": lambda: processor(build)}
    passed = failed = 0
    for name, check in checks.items():
        if options.only in name:
            wrong = check()
            print(f"{'FAIL' if wrong else 'ok  '} {name}{': ' + wrong if wrong else ''}", flush=True)
            passed, failed = passed + (not wrong), failed + bool(wrong)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
