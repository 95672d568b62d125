"""Cases of plans.py: what a plan prices is, call by call, what the program compiled by it runs.

The one list is of the plan alone (`divisi plan --plan FILE --calls`): the planner forms kernels of a device's operations without
IR (passes/Planning/FuseProblem.cpp) and prices them. The other is of the compiled module alone (`divisi plan DUMP.mlir --calls`, a
dump of level exec). Kinds, streams, counts, bytes and FLOPs are equal, and times to six digits, in one order.
same_calls.json has what is left, by way, target, precision and model: the number of calls that differ, which may only fall, and why:

launches     a kernel waits for a collective or message in another place than the plan expects, so that another one shares its launch
"""

import difflib
import itertools
import json

from plan_files import loss_flags
from planner import HERE

WAYS = {"one device": "", "data": "--mesh data=2", "operator": "--devices 2 --strategy operator", "auto": "--devices 2", "ZeRO-1": "--mesh data=2 --zero 1",
        "ZeRO-3": "--mesh data=2 --zero 3", "pipeline": "--mesh stage=2 --schedule 1f1b --microbatches 2"}
LIMITS = json.loads((HERE / "same_calls.json").read_text())


def figures(call):
    """What must be equal."""
    return call["kind"], call["stream"], call["times"], round(call["bytes"]), round(call["flops"]), float(f"{call['ms']:.6g}")


def both(p, name, target, precision, way):
    """The calls of the plan and of the program."""
    file, dump = p.folder / "calls.plan.mlir", p.folder / "calls.exec.mlir"
    words = [HERE / name / "model.onnx", *loss_flags(HERE / name), "--optimizer", "adamw", "--precision", precision]
    cluster = ["--cluster", "cpu:2" if target == "cpu" else "8xh100", "--no-calibration"]
    given = []
    if way:
        searched = cluster if way == WAYS["auto"] else []
        done = p.run("compile", *words, *way.split(), *searched, "--target", target, "--emit", "plan", "-o", file, codes=(0, 1))
        given = ["--plan", file] if done.returncode == 0 else []  # a search stays on one device
        assert given or (searched and "there is no plan for one device" in done.stderr), done.stderr[-300:]
    p.run("compile", *words, *given, "--target", target, "--emit", "exec", "-o", dump)
    alone = [] if given else ["--devices", "1"]
    return (json.loads(p.run("plan", *flags, *cluster, "--calls", "--json", codes=(0, 3)).stdout)["calls"]
            for flags in ([*words, *given, *alone], [dump]))


def differing(planned, built):
    """How many calls have no equal one in the same order in the other list, and these."""
    a, b = ([figures(call) for call in calls] for calls in (planned, built))
    parts = [part for part in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes() if part[0] != "equal"]
    shown = [f"{sign}{' '.join(map(str, figures(call)))} [{call['name']}]" for _, i, j, k, l in parts
             for sign, calls in (("- ", planned[i:j]), ("+ ", built[k:l])) for call in calls]
    return sum(max(j - i, l - k) for _, i, j, k, l in parts), shown


def compare(p, names, targets, precisions, ways):
    most = 6  # that are shown
    for way, target, precision, name in itertools.product(ways, targets, precisions, names):
        planned, built = both(p, name, target, precision, WAYS[way])
        count, shown = differing(planned, built)
        limit, *reasons = LIMITS.get(f"{way}, {target}, {precision}", {}).get(name, [0])
        where = f"{name}, {target}, {precision}, {way}"
        yield f"{where}: at most {limit} calls differ" if limit else f"{where}: the same calls", built and count <= limit, \
            f"{count} of {len(planned)} and {len(built)}" + (f" ({', '.join(reasons)})" if count and reasons else "") + \
            ("\n     " + "\n     ".join(shown[:most]) if count > limit else "")


def same_calls(p):
    """A plan prices the calls of the program that is compiled by it: kinds, order, bytes, FLOPs and times, one by one."""
    yield from compare(p, ["mlp", "gpt_tiny", "resnet_tiny"], ["cpu"], ["fp32"], ["one device", "data", "operator", "ZeRO-3"])
    yield from compare(p, ["mlp", "moe_tiny", "unet_tiny"], ["cpu", "cuda"], ["fp32", "bf16"], ["one device", "data"])


def same_calls_of_all(p):
    """The same for all reference models, ways, targets and precisions."""
    names = sorted(f.parent.name for f in HERE.glob("*/reference.json"))
    yield from compare(p, names, ["cpu", "cuda"], ["fp32", "bf16"], WAYS)


def computation_of_searched_plans(p):
    """Searched plans shard each parameter in its own way, and many collectives stand between kernels: the computation that a plan
    expects is the sum of its calls but for launches of small kernels between collectives, which the search does not form (a third
    of these steps are launches of 3.4 us), and norms for the log take no gathers."""
    graphs = {"wide-resnet --depth 50 --width 1 --channels 64 --image 224": (16, 0.25),
              "gpt --layers 4 --hidden 512 --heads 8 --vocab 8192 --seq 128": (8, 0.15)}
    for (graph, (batch, share)), cluster in itertools.product(graphs.items(), ["8xa100", "2x8xh100"]):
        words = [p.graph(graph), "--dim", f"batch={batch}", "--optimizer", "adamw"]
        searched = ["--cluster", cluster, "--mesh", "data=2,model=4"]
        found = json.loads(p.run("plan", *words, *searched, "--calls", "--json").stdout)
        expected = found["plans"][0]["compute_ms"]
        calls = sum(call["ms"] * call["times"] for call in found["calls"] if call["stream"] == "computation")
        yield f"{graph.split()[0]} on {cluster}: computation within {share:.0%}", abs(expected - calls) < share * calls, f"{expected:.2f} of {calls:.2f} ms"
        dump = p.run("compile", *words, *searched, "--target", "cuda", "--emit", "exec").stdout
        seldom = [line for line in dump.splitlines() if "exec.call dist." in line and "when = " in line and ":norm." in line]
        gathers = sum("dist.all_reduce" not in line for line in seldom)
        yield "  norms for the log take no gathers", bool(seldom) and gathers == 0, f"{gathers} of {len(seldom)}"


CASES = [same_calls, same_calls_of_all, computation_of_searched_plans]
