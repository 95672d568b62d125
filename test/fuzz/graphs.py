#!/usr/bin/env python3
"""Differential fuzzer: random ONNX graphs against a reference in float64, then the same under random plans.

    graphs.py --divisi PATH [--count 30] [--seed 0] [--plans 2] [--jobs 2] [--work FOLDER]
    graphs.py --divisi PATH --case FOLDER          one case again: a reproducer that a run has left

With --work a run can be resumed: the folder keeps which seeds are done, how often each operator was drawn, and a folder for
each finding. Ends with `N passed, N failed`.
"""

import argparse
import collections
import concurrent.futures
import json
import pathlib
import random
import re
import shutil
import sys
import tempfile
import traceback
import warnings

import compare
import plans
import program
import rules
from case import Case, load
from graph import Graph, NoReference, Reject
from shrink import shrink

OPSETS = (13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 28)
OLD = (9, 10)  # for operators that have ended


def draw_case(seed, plan_count):
    """(the case of a seed, its operators, what the reference lacked)."""
    lacking = collections.Counter()
    for attempt in range(100):
        draw = random.Random(f"{seed}-{attempt}")
        opset = draw.choice(OLD if draw.random() < 0.03 else OPSETS)
        graph = Graph(f"{seed}-{attempt}-graph", opset, draw.choice([2, 4, 4, 6, 8]))
        try:
            fill(graph, draw, lacking)
            graph.finish()
        except NoReference as error:
            lacking[str(error)] += 1
            continue
        except Reject:
            continue
        double = draw.random() < 0.4
        whole = "training" in graph.flags  # batch norm: its numbers depend on the microbatches
        ways = [plans.random_plan(draw, 1 if whole else graph.batch) for _ in range(plan_count)]
        inputs = {n: a if a.dtype.kind != "f" or double else a.astype("float32") for n, a in graph.inputs.items()}
        symbolic = draw.random() < 0.3
        flags = [*graph.flags, "--dim", f"batch={graph.batch}"] if symbolic and inputs else graph.flags
        model = graph.model(double, "batch" if symbolic else None)
        case = Case(model, inputs, list(graph.parameters), flags, ways, evaluates=not whole and draw.random() < 0.3)
        return case, graph.operators, lacking
    raise RuntimeError(f"seed {seed}: no graph in 100 attempts")


def fill(graph, draw, lacking):
    """Adds random nodes; a draw that is rejected leaves nothing."""
    known = {name: [r for r in rules.RULES[name] if r.since <= graph.opset <= r.until or graph.opset in OLD and name in OLD_TOO]
             for name in rules.RULES}
    known = {name: found for name, found in known.items() if found}
    names = sorted(known)
    for _ in range(draw.choice([1, 2, 3, 4, 6, 8, 12])):
        name = draw.choice(names)
        mark = graph.mark()
        try:
            draw.choice(known[name]).draw(graph, name)
            graph.operators.append(name)
        except Reject as error:
            graph.undo(mark)
            if isinstance(error, NoReference):
                lacking[str(error)] += 1


# Operators that have not changed since opset 9.
OLD_TOO = {"Abs", "Tanh", "Sigmoid", "Add", "Mul", "Sub", "MatMul", "Transpose", "Reshape", "Sin", "Neg", "Erf"}


def examine(divisi, case, folder, seed):
    """{"status", "what", "refusals", ...}: runs a saved case on one device, then under its plans."""
    result = {"failure": "", "said": "", "refusals": [], "examples": {}, "compared": 0, "kinks": 0, "plans": 0}
    one = program.run(divisi, case, folder)
    if one.failure:
        return result | {"failure": one.failure, "said": one.said}
    if one.refusal:
        return result | {"refusals": [one.refusal], "examples": {one.refusal: one.said}}
    wrong, result["compared"], result["kinks"] = compare.with_reference(case, one, seed)
    if wrong:
        return result | {"failure": "wrong " + wrong.split(":")[0].split(" of ")[0], "said": wrong}
    for plan in case.plans:
        many = program.run(divisi, case, folder, plan)
        if many.refusal:
            result["refusals"].append("plan: " + many.refusal)
            result["examples"]["plan: " + many.refusal] = f"{' '.join(plan)}: {many.said}"
            continue
        wrong = many.failure or compare.with_one_device(one, many, case.is_double())
        if wrong:
            what = many.failure or "wrong " + wrong.split(":")[0].split(" of ")[0]
            return result | {"failure": "plan: " + what, "said": f"{' '.join(plan)}: {many.said or wrong}", "plan": plan}
        result["plans"] += 1
    return result


def expected():
    """[(pattern of a failure's class, reason)] of expected.txt, which should be empty."""
    lines = (pathlib.Path(__file__).parent / "expected.txt").read_text().splitlines()
    return [tuple(line.split("  ", 1)) for line in lines if line and not line.startswith("#")]


def one_seed(divisi, seed, plan_count, findings):
    """Draws and examines; a failure is shrunk and saved."""
    case, operators, lacking = draw_case(seed, plan_count)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as work:
        work = pathlib.Path(work)
        case.save(work)
        result = examine(divisi, case, work, seed)
        result |= {"seed": seed, "operators": operators, "lacking": lacking}
        if not result["failure"] or not findings:
            return result
        if "plan" in result:
            case.plans = [result["plan"]]
        else:
            case.plans = []
        found = findings / f"{seed}"
        case.save(found / "whole")

        def fails(candidate):
            candidate.save(work)
            try:
                return examine(divisi, candidate, work, seed)["failure"] == result["failure"]
            except Exception:  # the cut graph may be invalid
                return False

        small = shrink(case, fails)
        small.save(found)
        result["nodes"] = len(small.model.graph.node)
        (found / "finding.json").write_text(json.dumps({k: result[k] for k in ("seed", "failure", "said")}, indent=1) + "\n")
    return result


class State:
    """The state of a run, which is kept when it is resumed."""

    def __init__(self, folder):
        self.file = folder / "state.json" if folder else None
        known = json.loads(self.file.read_text()) if self.file and self.file.exists() else {}
        self.done = set(known.get("done", []))
        self.totals = collections.Counter(known.get("totals", {}))
        self.operators = collections.Counter(known.get("operators", {}))
        self.refusals = collections.Counter(known.get("refusals", {}))
        self.lacking = collections.Counter(known.get("lacking", {}))
        self.examples = known.get("examples", {})  # of each refusal, one
        self.findings = known.get("findings", {})

    def add(self, result):
        self.done.add(result["seed"])
        self.operators.update(result["operators"])
        self.refusals.update(result["refusals"])
        self.lacking.update(result["lacking"])
        for text, said in result["examples"].items():
            self.examples.setdefault(text, f"seed {result['seed']}: {said}")
        self.totals.update({k: result[k] for k in ("compared", "kinks", "plans")})
        if result["failure"]:
            self.findings[str(result["seed"])] = result["failure"]

    def save(self):
        if self.file:
            about = {**vars(self), "done": sorted(self.done)}
            del about["file"]
            self.file.write_text(json.dumps(about, indent=1))


def run_many(o):
    state = State(o.work)
    seeds = [s for s in range(o.seed, o.seed + o.count) if s not in state.done]
    findings = o.work / "findings" if o.work else None
    failed = 0
    with concurrent.futures.ProcessPoolExecutor(o.jobs) as pool:
        jobs = {pool.submit(one_seed, o.divisi, s, o.plans, findings): s for s in seeds}
        for k, job in enumerate(concurrent.futures.as_completed(jobs)):
            try:
                result = job.result()
            except Exception as error:  # a fault of the fuzzer counts, too
                failed += 1
                print(f"FAIL seed {jobs[job]}: " + "".join(traceback.format_exception(error)), flush=True)
                continue
            state.add(result)
            known = [why for pattern, why in expected() if re.search(pattern, result["failure"])]
            if known:
                print(f"known seed {result['seed']}: {result['failure']}: {known[0]}", flush=True)
            elif result["failure"]:
                failed += 1
                print(f"FAIL seed {result['seed']}: {result['failure']}: {result['said'][-300:].strip()}", flush=True)
            if k % 50 == 49:
                state.save()
                print(f"{k + 1} of {len(seeds)}", flush=True)
    state.save()
    report(state)
    print(f"{len(seeds) - failed} passed, {failed} failed")
    return 1 if failed or not seeds else 0


def report(state):
    rare = sorted(state.operators.items(), key=lambda item: item[1])
    print(f"{len(state.done)} graphs, {sum(state.operators.values())} nodes of {len(state.operators)} operators, "
          f"least: {', '.join(f'{n} {c}' for n, c in rare[:5])}")
    print(f"{state.totals['compared']} slopes compared, {state.totals['kinks']} near kinks left out; "
          f"{state.totals['plans']} runs under plans")
    for text, count in state.refusals.most_common():
        print(f"refused {count}: {text}")


def run_case(o):
    case = load(o.case)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as work:
        work = pathlib.Path(work)
        case.save(work)
        about = o.case / "finding.json"
        seed = json.loads(about.read_text())["seed"] if about.exists() else o.seed
        result = examine(o.divisi, case, work, seed)
    for text in result["refusals"]:
        print(f"refused: {text}")
    if result["failure"]:
        print(f"FAIL {result['failure']}: {result['said']}")
    print("0 passed, 1 failed" if result["failure"] else "1 passed, 0 failed")
    return 1 if result["failure"] else 0


def main():
    warnings.filterwarnings("ignore")
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    p.add_argument("--count", type=int, default=30)
    p.add_argument("--seed", type=int, default=0, help="of the first graph; the others follow")
    p.add_argument("--plans", type=int, default=2, help="for each graph")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--work", type=pathlib.Path, help="keeps the state of the run and its findings")
    p.add_argument("--case", type=pathlib.Path, help="runs this case only")
    o = p.parse_args()
    o.divisi = shutil.which(o.divisi) or sys.exit(f"no program {o.divisi}")
    if o.work:
        o.work.mkdir(parents=True, exist_ok=True)
    return run_case(o) if o.case else run_many(o)


if __name__ == "__main__":
    sys.exit(main())
