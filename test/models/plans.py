#!/usr/bin/env python3
"""Answers of the planner: cases whose best plan is known beforehand.

    plans.py --divisi PATH [--only WORD] [--quick]

Drives `divisi plan`, `divisi explain` and `divisi compile --emit`: well-known parallelisms (ZeRO, column and row, data,
operator and expert parallelism) where they are best; never worse than strategies and hand-written plans; the same bytes
for the same input; a plan given back; models without their weights; nothing that fits. Trains nothing. Needs the
packages in ../requirements.txt. --only runs the cases whose name has the word. Ends with `N passed, N failed`.
"""

import argparse
import itertools
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "benchmark"))
import accumulation_plans  # noqa: E402
import pipeline_plans  # noqa: E402
import plan_files  # noqa: E402
import same_calls  # noqa: E402
import traffic  # noqa: E402
import update_plans  # noqa: E402
from plan_files import loss_flags  # noqa: E402
from planner import GB, HAND_PLANS, HERE, NVLINK, Planner, axes_of, place_of, told  # noqa: E402

PCIE = ("pcie", 8, "20GB/s", "5us")
ETHERNET = ("ethernet", 8, "25Gb/s", "20us")
BETWEEN = ("ethernet", 2, "100Gb/s", "10us")  # two machines of eight
# Shardings of weights along the axis of a mesh, one after another: outputs (the first dimension of ONNX's Gemm) or
# inputs.
PATTERNS = {
    "outputs": lambda i, axis: [axis, "_"],
    "inputs": lambda i, axis: ["_", axis],
    "outputs, inputs in turn": lambda i, axis: [axis, "_"] if i % 2 == 0 else ["_", axis],
    "inputs, outputs in turn": lambda i, axis: ["_", axis] if i % 2 == 0 else [axis, "_"],
    "the first by outputs": lambda i, axis: [axis, "_"] if i == 0 else None,
    "the first by inputs": lambda i, axis: ["_", axis] if i == 0 else None,
    "all whole": lambda i, axis: ["_", "_"],
}
COLLECTIVES = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all"}
# Plans believe that shards of convolutions' gradients live longer than they do, by 15 to 30 %.
UNFORESEEN = {("inception_tiny", "--mesh model=2"), ("unet_tiny", "--mesh model=2"), ("lenet", "--mesh data=2")}
HAND_MESHES = [("data=4", ["data"]), ("model=4", ["model"]), ("data=2,model=2", ["data", "model"])]


def manifest_of(program):
    """What a program says of itself: it lies in its data as JSON."""
    data = program.read_bytes()
    start = data.find(b'{"abi"')
    return json.loads(data[start : data.find(b"\0", start)])


def row(plans, name):
    return next((plan for plan in plans if plan["name"] == name), None)


def shardings(report):
    return {p["name"]: axes_of(p["sharding"]) for p in report["parameters"]}


def splits(report, name):
    """The dimensions along which a parameter is sharded."""
    return [i for i, axes in enumerate(shardings(report)[name]) if axes]


def crossing(mesh, inside):
    """The axes of a mesh whose groups extend beyond a machine of `inside` devices: the last axis is the innermost."""
    result, stride = set(), 1
    for axis, size in reversed([part.split("=") for part in mesh.split(",")]):
        stride *= int(size)
        if int(size) > 1 and stride > inside:
            result.add(axis)
    return result


def zero_when_memory_is_short(p):
    """An optimizer state that does not fit replicated beside a large batch is sharded, and the parameters, too, if that is the only way or they are gathered during computation."""
    model = p.graph("mlp --layers 8 --hidden 4096 --inputs 4096 --classes 1000")
    words = [model, "--dim", "batch=65536", "--optimizer", "adamw", "--cluster"]
    roomy = p.plans(*words, p.cluster(PCIE))
    data = row(roomy, "data=8")
    yield "with enough memory data parallelism is the best", roomy[0]["parallelism"] == ["data"], told(roomy[0])
    for memory, forms in ("3GB", {"ZeRO-1", "ZeRO-3"}), ("2.4GB", {"ZeRO-1", "ZeRO-3"}), ("1.8GB", {"ZeRO-3"}):
        plans = p.plans(*words, p.cluster(PCIE, memory=memory))
        best, whole = plans[0], row(plans, "data=8")
        yield f"{memory}: the replicated state does not fit", not whole["fits"], told(whole)
        yield f"{memory}: {' or '.join(sorted(forms))} is chosen and fits", best["fits"] and forms & set(best["parallelism"]), told(best)
        states = best["memory"]["optimizer_state"], data["memory"]["optimizer_state"]
        yield f"{memory}: less optimizer state on each device", states[0] < 0.7 * states[1], f"{states[0]:.3g} of {states[1]:.3g} B"


def zero_for_gpt2(p):
    """The same for GPT-2 small; tokens are sharded, too, so that other parallelisms are used beside it."""
    model = p.graph("gpt --layers 12 --hidden 768 --heads 12 --vocab 50304 --seq 1024")
    words = [model, "--dim", "batch=16", "--optimizer", "adamw", "--cluster", p.cluster(PCIE, memory="4.5GB")]
    plans = p.plans(*words)
    yield "the replicated state does not fit", not row(plans, "data=8")["fits"], told(row(plans, "data=8"))
    good = plans[0]["fits"] and any(form.startswith("ZeRO") for form in plans[0]["parallelism"])
    yield "a ZeRO form is chosen", good, told(plans[0])


def columns_and_rows(p):
    """A transformer layer inside a machine with NVLink: outputs first, inputs second, so that no activation is gathered."""
    model = p.graph("gpt --layers 2 --hidden 4096 --heads 32 --vocab 512 --seq 1024")
    report, other = (p.explain(model, "--cluster", "8xh100", "--dim", "batch=1", "--mesh", mesh) for mesh in ("model=8", "data=8"))
    yield "model=8: tensor parallelism", report["plans"][0]["parallelism"] == ["tensor"], told(report["plans"][0])
    for layer in 0, 1:
        for name, dim in ("attn.qkv", 1), ("attn.proj", 1), ("mlp.fc", 0), ("mlp.proj", 1):
            weight = f"blocks.{layer}.{name}.weight"
            side = "inputs" if name.endswith("proj") else "outputs"
            yield f"model=8: {weight} by its {side}", splits(report, weight) == [dim], shardings(report)[weight]
    best, named = other["plans"][0], report["plans"][0]
    good = best["parallelism"] == ["tensor"] and best["step_ms"] <= named["step_ms"] * (1 + 1e-9)
    yield "data=8: tensor parallelism, not slower for the axis's name", good, told(best)
    plans = p.plans(model, "--cluster", "8xh100", "--dim", "batch=1")
    yield "without a mesh of the user's, too", "tensor" in plans[0]["parallelism"], told(plans[0])
    tiny = p.explain(HERE / "gpt_tiny/model.onnx", "--cluster", "4xh100", "--mesh", "model=4", "--pin", "idx=_,_",
                     "--pin", "targets=_,_")
    for name in "h.0.c_fc.weight", "h.1.c_fc.weight":
        yield f"gpt_tiny: {name} by its outputs, if at all", splits(tiny, name) in ([], [0]), shardings(tiny)[name]


def wide_layers(p):
    """Weights of a GB each and a few rows: plans that gather the weights are slower."""
    model = p.graph("mlp --layers 4 --hidden 16384")
    cluster = p.cluster(ETHERNET)
    for batch in 1, 2, 4, 8:
        plans = p.plans(model, "--cluster", cluster, "--dim", f"batch={batch}")
        yield f"batch {batch}: operators are split", plans[0]["parallelism"] == ["tensor"], told(plans[0])
        whole = row(plans, "one device")["memory"]["parameters"]
        share = plans[0]["memory"]["parameters"] / whole
        yield f"batch {batch}: an eighth of the parameters on each device", share < 0.13, f"{share:.3f}"
    plans = p.plans(model, "--cluster", cluster, "--dim", "batch=262144")
    yield "batch 262144: the batch is split", not {"tensor", "sequence"} & set(plans[0]["parallelism"]), told(plans[0])


def convolutions(p):
    """Small weights and large images: data parallelism; sharding the last layers' weights inside of it, or all by ZeRO-3, may gain a little."""
    model = p.graph("wide-resnet --depth 26 --width 1 --channels 64")
    for cluster in "8xv100", p.cluster(PCIE):
        plans = p.plans(model, "--cluster", cluster, "--dim", "batch=256")
        pure = row(plans, "data=8")
        forms = {"data", "ZeRO-1", "ZeRO-3"}.intersection(plans[0]["parallelism"])
        good = bool(forms) and pure["step_ms"] <= 1.06 * plans[0]["step_ms"]
        yield f"ResNet on {pathlib.Path(cluster).name}: data parallelism, alone within 6 % of the best", good, f"{told(plans[0])}; {told(pure)}"
        beside = row(plans, "model=8")
        yield "  and splitting the weights is slower", beside["step_ms"] > 1.5 * plans[0]["step_ms"], told(beside)
    case = HERE / "lenet"
    plans = p.plans(case / "model.onnx", *loss_flags(case), "--cluster", "2xh100")
    yield "lenet on two devices: not worse than data parallelism", plans[0]["step_ms"] <= row(plans, "data=2")["step_ms"], \
        told(plans[0])


def slow_network_between(p):
    """Two machines of eight: parameters are sharded inside of them, the batch across."""
    for words, batch in [("gpt --layers 2 --hidden 4096 --heads 32 --vocab 512 --seq 1024", 64),
                         ("gpt --layers 2 --hidden 8192 --heads 64 --vocab 512 --seq 512", 128)]:
        model, cluster = p.graph(words), p.cluster(NVLINK, BETWEEN, device="h100")
        flags = [model, "--cluster", cluster, "--dim", f"batch={batch}"]
        best, places = p.best_places(*flags)
        outside = crossing(best["mesh"], 8)
        yield f"{words}: all machines work", bool(outside), told(best)
        torn = [name for name, dims in places.items() if name not in ("idx", "targets") and outside & set(itertools.chain(*dims))]
        pins = [f"{name.replace('*', layer)}={','.join('+'.join(axis for axis in dim if axis not in outside) or '_' for dim in places[name])}"
                for name in torn for layer in "01"]
        inside = p.plans(*flags, "--mesh", best["mesh"], *itertools.chain(*(["--pin", pin] for pin in pins)))[0] if torn else best
        yield "  no parameter is split across machines, unless that is faster", best["step_ms"] <= inside["step_ms"] * (1 + 1e-9), \
            f"{', '.join(torn)}: {inside['step_ms']:.4g} ms without" if torn else ""
        # Whole tokens are looked up no slower than sharded ones: those or the targets show it.
        split = {name: place_of(places, name) for name in ("idx", "targets")}
        yield "  the batch is split across them", any(place and outside <= set(place[0]) for place in split.values()), f"{split}"
    _, places = p.best_places(p.graph("gpt --layers 2 --hidden 8192 --heads 64 --vocab 512 --seq 512"), "--dim", "batch=64",
                              "--cluster", p.cluster(NVLINK, BETWEEN, device="h100"))
    # Of the two of a layer one is enough: that plan is 5 % faster by the model than one that splits both.
    for layer in 0, 1:
        split = {weight: dims for side in ("fc", "proj") if any(dims := place_of(places, weight := f"blocks.{layer}.mlp.{side}.weight"))}
        yield f"layer {layer} of the wide one: feed-forward weights are split inside", bool(split), f"{split}"
    case = p.graph("gpt --layers 2 --hidden 4096 --heads 32 --vocab 512 --seq 1024")
    slower = p.cluster(NVLINK, ("ethernet", 2, "10Gb/s", "30us"), device="h100")
    few = p.plans(case, "--cluster", slower, "--dim", "batch=16")[0]
    one = p.plans(case, "--cluster", slower, "--dim", "batch=16", "--mesh", "model=8")[0]
    yield "a useless network: not slower than one machine of the two", few["step_ms"] <= one["step_ms"] * 1.005, \
        f"{told(few)}; {told(one)}"


def same_kernels(p):
    """The kernels and calls that a plan prices move the bytes of those that compile builds."""
    gpt = p.graph("gpt --layers 3 --hidden 256 --heads 4 --vocab 512 --seq 256"), ["--dim", "batch=8"]
    resnet = p.graph("wide-resnet --depth 26 --width 1 --channels 64"), ["--dim", "batch=8"]
    tanh = p.graph("gpt --layers 3 --hidden 256 --heads 4 --vocab 512 --seq 256 --gelu tanh"), ["--dim", "batch=8"]
    models = [(*gpt, 0.05), (*tanh, 0.05), (*resnet, 0.05)]
    models += [(case / "model.onnx", loss_flags(case), 0.1) for case in sorted(f.parent for f in HERE.glob("*/reference.json"))]
    for model, words, tolerance in models:
        for target, cluster, precision in ("cpu", "cpu:1", "fp32"), ("cuda", "h100", "fp32"), ("cuda", "h100", "bf16"):
            flags = [model, *words, "--optimizer", "adamw", "--precision", precision]
            planned = p.plans(*flags, "--cluster", cluster)[0]["bytes_moved"]
            file = p.folder / "kernels.mlir"
            p.run("compile", *flags, "--target", target, "--emit", "exec", "-o", file)
            built = sum(moved for _, moved, _ in traffic.calls(file))
            good = abs(planned - built) <= max(tolerance * built, 64 * 1024)
            yield f"{model.parent.name}, {target}, {precision}: within {tolerance:.0%}", good, f"{planned / 1e6:.2f} and {built / 1e6:.2f} MB"


SAME_WAYS = ["", "--mesh data=2", "--mesh model=2", "--mesh data=2 --zero 3", "--mesh stage=2 --microbatches 2"]


def compare_steps(p, names, ways, precisions=("fp32", "bf16"), miscounted=0):
    """The program's own expectation, which is the sum of its compiled calls on their streams, against the plan's step."""
    file, program = p.folder / "same.mlir", p.folder / "same"
    for name, precision, way in itertools.product(names, precisions, ways):
        words = [HERE / name / "model.onnx", *loss_flags(HERE / name), "--optimizer", "adamw", "--precision", precision]
        given = []
        if way:
            p.run("compile", *words, *way.split(), "--emit", "plan", "-o", file)
            given = ["--plan", file]
        p.run("compile", *words, *given, "--no-calibration", "-o", program)
        built = manifest_of(program)
        ranks = math.prod(int(size) for size in re.findall(r"\w=(\d)", way))
        found = json.loads(p.run("plan", *words, "--cluster", f"cpu:{ranks}", "--no-calibration", *given, "--json").stdout)
        priced = (found.get("pipelines") or found["plans"])[0]
        planned, expected = priced["step_ms"] * 1e3, built["expected_us"]
        counts = [priced.get("collectives"), sum(call["kind"] in COLLECTIVES for call in built["calls"])]
        latency = 15 * abs(counts[0] - counts[1]) if miscounted else 0  # at least, and some bytes
        good = abs(planned - expected) <= 0.1 * expected + latency and ("stage" in way or abs(counts[0] - counts[1]) <= miscounted)
        yield f"{name}, {precision}, {way[2:] or 'one device'}: within 10 %, as many collectives", good, \
            f"{planned:.1f} of {expected:.1f} us; {counts[0]} and {counts[1]}"


def same_steps(p):
    """The step that a plan expects is the one that the program compiled by it expects, collective by collective."""
    yield from compare_steps(p, ["mlp", "gpt_tiny"], SAME_WAYS[1:4], ["fp32"])
    yield from compare_steps(p, ["mlp"], SAME_WAYS[:2], ["bf16"])


def zero_in_buckets(p):
    """ZeRO's small reduce_scatters and all_gathers travel together, in programs as in plans, and ZeRO-3 gathers beside the computation."""
    for zero in 1, 2, 3:
        dump = p.run("compile", HERE / "gpt_tiny/model.onnx", "--mesh", "data=4", "--zero", zero, "--optimizer", "adamw", "--emit", "dist").stdout
        step = re.search(r"@train\(.*?\n  }", dump, re.S)[0]
        scatters, gathers = (re.findall(rf"= dist\.{kind}s? (.*)", step) for kind in ("reduce_scatter", "all_gather"))
        yield f"gpt_tiny, ZeRO-{zero}: one reduce_scatter", len(scatters) == 1, f"{len(scatters)}"
        most = 1 if zero < 3 else 20  # in sixteen layers or a few more, since none has a parameter twice
        yield f"gpt_tiny, ZeRO-{zero}: at most {most} all_gathers", 1 <= len(gathers) <= most, f"{len(gathers)}"
    yield from compare_steps(p, ["gpt_tiny"], ["--mesh data=4 --zero 1", "--mesh data=4 --zero 3"], ["fp32"])
    file, words = p.folder / "zero.mlir", [p.graph("gpt --layers 12 --hidden 768 --heads 12 --vocab 50304 --seq 1024"), "--dim", "batch=64", "--optimizer", "adamw"]
    for zero, exposed in (1, 1), (3, 0.3):
        p.run("compile", *words, "--mesh", "data=8", "--zero", zero, "--target", "cuda", "--emit", "plan", "-o", file)
        plan = json.loads(p.run("plan", *words, "--cluster", "8xv100", "--plan", file, "--json").stdout)["plans"][0]
        share = plan["exposed_ms"] / plan["communication_ms"]
        yield f"GPT-2 on 8 V100, ZeRO-{zero}: exposed is at most {exposed} of the communication", share <= exposed, f"{share:.2f}"
        dump = p.run("compile", *words, "--plan", file, "--target", "cuda", "--emit", "exec").stdout
        yield "  its memory within 5 %", *is_foreseen(plan["memory"]["total"], dump, 0.05)


def same_steps_of_all(p):
    """The same for all reference models, in 16 bits and in pipelines. Plans split the LSTM's and the mixture's steps a little otherwise."""
    names = sorted(f.parent.name for f in HERE.glob("*/reference.json"))
    yield from compare_steps(p, [name for name in names if name not in ("lstm_tiny", "moe_tiny")], SAME_WAYS[:4])
    yield from compare_steps(p, ["lstm_tiny", "moe_tiny"], SAME_WAYS[:4], miscounted=2)
    # Tasks of some microseconds wait for each other in pipelines of smaller models, which plans do not see.
    yield from compare_steps(p, ["gpt_tiny", "lenet", "llama_tiny", "lstm_tiny", "moe_tiny", "resnet_tiny", "unet_tiny"], SAME_WAYS[4:])


def by_operator(p, heads, vocabulary, devices, layers=3):
    """A decoder under --strategy operator: milliseconds of a step on H100, and the number of all_reduces of the compiled one."""
    model = p.graph(f"gpt --layers {layers} --hidden {64 * heads} --heads {heads} --vocab {vocabulary} --seq 1024")
    words, file = [model, "--dim", "batch=64"], p.folder / "operator.mlir"
    split = [*words, "--devices", str(devices), "--strategy", "operator", "--target", "cuda"]
    p.run("compile", *split, "--emit", "plan", "-o", file)
    found = json.loads(p.run("plan", *words, "--cluster", f"{devices}xh100", "--plan", file, "--json").stdout)
    step = re.search(r"@train\(.*?\n  }", p.run("compile", *split, "--emit", "dist").stdout, re.S)[0]
    operands = re.findall(r"= dist\.all_reduce .* : \((.*)\) -> ", step)
    # without scalars: norms for the log
    return found["plans"][0]["step_ms"], sum(types.replace("tensor<f32>", "").strip(", ") != "" for types in operands)


def decoders_by_operator(p):
    """Megatron-LM's split of a decoder by --strategy operator: four all_reduces a layer, also where vocabulary or heads do not divide."""
    # Beside the layers': the embedding, the gradient before the head, the loss's maximum and sum with the label's logit, and the accuracy.
    layers, others, steps = 3, 5, {}
    for heads, vocabulary, devices in (12, 50304, 4), (12, 50257, 4), (12, 50304, 8), (12, 50257, 8), (6, 50304, 2), (6, 50304, 4), (10, 50304, 4), (10, 50304, 8):
        steps[heads, vocabulary, devices], count = by_operator(p, heads, vocabulary, devices, layers)
        yield f"{heads} heads, {vocabulary} words, {devices} devices: at most four all_reduces a layer", count <= 4 * layers + others, \
            f"{count} in {layers} layers"
    for heads, devices in (12, 8), (6, 4), (10, 8):
        more, fewer = steps[heads, 50304, devices], steps[heads, 50304, devices // 2]
        yield f"{heads} heads: {devices} devices are not slower than {devices // 2}", more <= fewer, f"{more:.1f} and {fewer:.1f} ms"
    for devices in 4, 8:
        odd, even = steps[12, 50257, devices], steps[12, 50304, devices]
        yield f"{devices} devices: 50,257 words take as long as 50,304", odd < 1.01 * even, f"{odd:.1f} and {even:.1f} ms"


def fewer_devices(p):
    """Pairs on a slow network: one pair is best, which the searches for each number of devices confirm."""
    words = [p.graph("mlp --layers 4 --hidden 2048"), "--dim", "batch=4096"]
    for between, best in ("1Gb/s", 2), ("3000Gb/s", 8):
        cluster = p.cluster(("nvlink", 2, "370GB/s", "2us"), ("ethernet", 4, between, "10us"))
        alone = {n: p.plans(*words, "--cluster", cluster, "--devices", n)[0] for n in (1, 2, 4)}
        found = p.plans(*words, "--cluster", cluster)[0]
        yield f"{between}: {best} of 8 devices", found["devices"] == best, told(found)
        least = min(plan["step_ms"] for plan in alone.values())
        yield "  not slower than any number of devices that is asked for", found["step_ms"] <= least * 1.005, \
            ", ".join(f"{n}: {told(plan)}" for n, plan in alone.items())


def tiny_models(p):
    """Messages cost more time than they save."""
    for name in "mlp", "mlp_no_loss":
        for cluster in "cpu:2", "cpu:4", p.cluster(ETHERNET), p.cluster(NVLINK, BETWEEN):
            words = [HERE / name / "model.onnx", *loss_flags(HERE / name), "--cluster", cluster]
            plans = p.plans(*words)
            yield f"{name} on {pathlib.Path(cluster).name}: one device", plans[0]["devices"] == 1, told(plans[0])


def experts(p):
    """If messages are cheap, tokens are sent to the experts."""
    model = p.graph("moe --layers 4 --hidden 1024 --heads 16 --vocab 32000 --seq 1024 --experts 8")
    for batch in 16, 64:
        report = p.explain(model, "--cluster", "8xh100", "--dim", f"batch={batch}")
        best = report["plans"][0]
        for layer in 0, 2:
            for name in "w_in", "w_out":
                weight = f"blocks.{layer}.moe.{name}"
                first = shardings(report)[weight]
                yield f"batch {batch}: {weight} by experts", bool(first[0]) and not any(first[1:]), f"{first}, {told(best)}"
            found = [c for entry in report["layers"] if entry["name"].startswith(f"/blocks.{layer}/moe") for c in entry["collectives"]]
            exposed = sum(c["exposed_ms"] for c in found)
            yield f"batch {batch}: block {layer} sends tokens, in less than 1 % of the step", \
                found and exposed < 0.01 * best["step_ms"], f"{exposed:.3f} ms, {[c['kind'] for c in found]}"


def other_batches(p):
    """The figures of explain for other batches are those of plan."""
    words = [p.graph("gpt --layers 2 --hidden 1024 --heads 16 --vocab 32000 --seq 512"), "--cluster", "8xh100"]
    report = p.explain(*words, "--dim", "batch=16")
    chosen = lambda plan: (plan["mesh"], plan["parallelism"])
    now = chosen(report["plans"][0])
    found = {flip["then"]: flip["plan"] for flip in report["flips"] if flip["figure"] == "batch"}
    for direction in (4, 8), (64, 32):
        far, near = (chosen(p.plans(*words, "--dim", f"batch={batch}")[0]) for batch in direction)
        first = near if near != now else far if far != now else None
        told = next((found[batch] for batch in direction if batch in found), None)
        good = told == (f"auto {first[0]} ({' '.join(first[1])})" if first else None)
        yield f"{direction[1]} and {direction[0]} samples instead of 16", good, f"{told}; {now}, {near}, {far}"
    yield "one of them changes the plan", bool(found), f"{found}"


def hand_plans(matrices, inputs):
    """(name, mesh, pins) by patterns, on each mesh over each of its axes: weights, inputs, nothing."""
    for (mesh, axes), (name, rank) in itertools.product(HAND_MESHES, inputs):
        yield "no pins", mesh, []
        for axis in ["_", *axes]:
            yield f"{name} over {axis}", mesh, ["--pin", f"{name}={','.join([axis] + ['_'] * (rank - 1))}"]
    for (mesh, axes), (name, pattern) in itertools.product(HAND_MESHES, PATTERNS.items()):
        for axis in axes[:1] if name == "all whole" else axes:
            pins = []
            for i, (weight, rank) in enumerate(matrices):
                dims = pattern(i, axis)
                if dims:  # stacked or convolutional weights: the outputs of a stack are its second dimension
                    lead = ["_"] if rank == 3 else []
                    pins += ["--pin", f"{weight}={','.join(lead + dims + ['_'] * (rank - 2 - len(lead)))}"]
            yield f"{name} over {axis}", mesh, pins


def never_worse(p):
    """By its own cost, compared with the strategies and with hand-written plans: pins that a strategy, or a search, completes."""
    for case in sorted(f.parent for f in HERE.glob("*/reference.json")):
        inputs = json.loads((case / "reference.json").read_text())["inputs"]
        for cluster in "cpu:4", p.quick():
            words = [case / "model.onnx", *loss_flags(case), "--cluster", cluster, "--optimizer", "adamw"]
            report = p.explain(*words)
            plans = report["plans"]
            best = plans[0]
            where = f"{case.name} on {'four quick ones' if cluster != 'cpu:4' else cluster}"
            fixed = [plan for plan in plans if not plan["name"].startswith("auto")]
            # Of plans that take the same time, one for the fewest devices is the first. The others are in the order of their times.
            ranked = all(a["step_ms"] <= b["step_ms"] for a, b in itertools.pairwise(plans[1:]))
            yield f"{where}: ranked by time", ranked and all(best["step_ms"] <= 1.005 * plan["step_ms"] for plan in plans), ""
            wanted = {"one device", "data=4", "data=4 zero=1", "data=4 zero=3", "model=4"}
            missing = wanted - {plan["name"].removesuffix(" padded") for plan in fixed}
            if best["name"] == "one device":  # strategies for which tensors would be padded are left out if none can be as fast
                missing = {name for name in missing if "zero" not in name or p.data_parallel_ms(name, words) <= best["step_ms"]}
            yield f"{where}: compared with every strategy", not missing, ", ".join(sorted(missing))
            matrices = [(q["name"], len(q["shape"])) for q in report["parameters"] if len(q["shape"]) >= 2]
            counts, worse, searched = 0, [], []
            for name, mesh, pins in hand_plans(matrices, [(name, len(entry["shape"])) for name, entry in inputs.items()]):
                done = p.run("plan", *words, "--mesh", mesh, *pins, "--json", codes=(0, 1, 3))
                if done.returncode == 1:
                    continue  # sizes that the mesh does not divide
                for plan in json.loads(done.stdout)["plans"]:
                    auto = plan["name"].startswith("auto")
                    counts += not auto
                    if plan["fits"] and plan["step_ms"] < best["step_ms"] * (1 - 1e-9):
                        (searched if auto else worse).append((plan["step_ms"] / best["step_ms"], f"{mesh}, {name}"))
            yield f"{where}: {HAND_PLANS} plans by hand and more", counts >= HAND_PLANS, f"{counts}"
            yield f"{where}: none of them is better", not worse, f"{len(worse)}: {min(worse, default='')}"
            yield f"{where}: no search with pins finds a better one", not searched, \
                f"{len(searched)}: {min(searched, default='')}"
            others = [(a["step_ms"] / best["step_ms"], q["name"], a["sharding"]) for q in report["parameters"]
                      for a in q["alternatives"] if a["fits"] and a["step_ms"] < best["step_ms"] * (1 - 1e-9)]
            yield f"{where}: explain knows no better one", not others, f"{len(others)}: {min(others, default='')}"


def bounds(p):
    """The proven bound is below the cost, and near to it (small models are the hard ones; see benchmark/planning.py)."""
    for case in sorted(f.parent for f in HERE.glob("*/reference.json")):
        for cluster in "cpu:4", "8xh100":
            plans = p.plans(case / "model.onnx", *loss_flags(case), "--cluster", cluster)
            for plan in plans:
                if search := plan.get("search"):
                    good = search["bound_ms"] <= search["cost_ms"] * (1 + 1e-9)
                    yield f"{case.name} on {cluster}: the bound holds", good, f"{search}"
                    yield f"{case.name} on {cluster}: gap within 3 %", search["gap"] <= 0.03, f"{search['gap']:.2%}"


def same_bytes(p):
    """The same input twice gives the same bytes."""
    gpt, html = HERE / "gpt_tiny/model.onnx", p.folder / "why.html"
    for words in (["plan", gpt, "--cluster", "8xh100"], ["plan", gpt, "--cluster", "cpu:4", "--json"],
                  ["explain", gpt, "--cluster", "2x8xh100"], ["explain", gpt, "--cluster", "cpu:4", "--json"],
                  ["compile", gpt, "--cluster", "cpu:4", "--mesh", "data=2,model=2", "--emit", "plan"],
                  ["compile", gpt, "--cluster", "cpu:4", "--mesh", "data=2,model=2", "--emit", "planned"]):
        first, second = (p.run(*words).stdout for _ in range(2))
        yield f"{words[0]} {' '.join(words[2:])}: the same text", first == second and len(first) > 200, ""
    pages = []
    for _ in range(2):
        p.run("explain", gpt, "--cluster", "8xh100", "--html", html)
        pages.append(html.read_bytes())
    yield "explain --html: the same page", pages[0] == pages[1] and len(pages[0]) > 10000, f"{len(pages[0])} bytes"
    one_core = subprocess.run([p.divisi, "plan", gpt, "--cluster", "8xh100", "--json"], capture_output=True, text=True,
                              preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}))
    all_cores = p.run("plan", gpt, "--cluster", "8xh100", "--json")
    yield "plan: the same on one core", one_core.stdout == all_cores.stdout, ""


def weights_missing(p):
    """Neither command needs external data; with it the answer is the same."""
    words = "gpt --layers 2 --hidden 256 --heads 4 --vocab 512 --seq 64"
    answers = [p.run(command, p.graph(words, weights), "--cluster", cluster, "--dim", "batch=8", "--json").stdout
               for command, cluster in (("plan", "8xh100"), ("explain", "2xh100")) for weights in ("none", "random")]
    yield "plan without the file of weights", answers[0] == answers[1], ""
    yield "explain without the file of weights", answers[2] == answers[3], ""
    done = p.run("compile", p.graph(words), "--devices", "2", "--dim", "batch=8", "-o", p.folder / "program", codes=(1,))
    yield "a program needs it", "weights.bin' is missing" in done.stderr, done.stderr[-200:]


def nothing_fits(p):
    """Exit code 3, and all figures."""
    model = p.graph("gpt --layers 2 --hidden 4096 --heads 32 --vocab 51200 --seq 1024")
    words = [model, "--cluster", p.cluster(NVLINK, memory="500MB"), "--dim", "batch=8"]
    for command, *mesh in ("plan",), ("explain", "--mesh", "data=4,model=2"):
        done = p.run(command, *words, *mesh, "--json", codes=(3,))
        plans = json.loads(done.stdout)["plans"]
        yield f"{command}: exit code 3, no plan fits", not any(plan["fits"] for plan in plans), told(plans[0])
        needs = [plan["memory"]["total"] for plan in plans]
        yield f"{command}: what needs least comes first", needs[0] == min(needs), f"{needs[0] / GB:.3g} GB"
        done = p.run(command, *words, *mesh, codes=(3,))
        yield f"{command}: the text says so", "(does not fit)" in done.stdout, ""
    # With a memory between the needs of fp32 and bf16, the precision is suggested, and helps.
    words = [p.graph("gpt --layers 2 --hidden 1024 --heads 16 --vocab 512 --seq 1024"), "--dim", "batch=16", "--mesh", "data=2",
             "--remat", "none", "--microbatches", "1", "--cluster"]
    wide, narrow = (min(plan["memory"]["total"] for plan in p.plans(*words, p.cluster(NVLINK), *more))
                    for more in ([], ["--precision", "bf16"]))
    between = p.cluster(NVLINK, memory=f"{int((wide + narrow) / 2e3)}kB")
    done = p.run("plan", *words, between, codes=(3,))
    yield "a precision is suggested that fits", "--precision bf16: " in done.stdout, f"{narrow / GB:.3g} and {wide / GB:.3g} GB"
    helped = p.plans(*words, between, "--precision", "bf16")[0]
    yield "which is true", helped["fits"], told(helped)


def plans_given_back(p):
    """A plan file gives the module that the search gave."""
    quick = p.quick()
    for name, flags in [("gpt_tiny", ["--cluster", quick, "--mesh", "data=2,model=2"]), ("gpt_tiny", ["--cluster", quick, "--mesh", "data=2"]),
                        ("gpt_tiny", ["--cluster", quick, "--mesh", "model=3"]),
                        ("llama_tiny", ["--cluster", quick, "--optimizer", "adamw"]),
                        ("moe_tiny", ["--cluster", quick, "--mesh", "model=4"]), ("lenet", ["--cluster", quick, "--mesh", "data=2"]),
                        ("resnet_tiny", ["--cluster", quick]), ("gpt_tiny", ["--cluster", quick, "--mesh", "data=4"]),
                        ("gpt_tiny", ["--cluster", "cpu:8", "--devices", "4", "--pin", "wte.weight=model,_"])]:
        words = ["compile", HERE / name / "model.onnx", *loss_flags(HERE / name)]
        train = flags[flags.index("--optimizer"):] if "--optimizer" in flags else []
        where = f"{name} {' '.join('CLUSTER' if flag == quick else str(flag) for flag in flags)}"
        done = p.run(*words, *flags, "--emit", "plan", codes=(0, 1))
        if done.returncode:
            yield f"{where}: a plan for several devices", False, done.stderr.strip()[-200:]
            continue
        file = p.folder / "plan.mlir"
        file.write_text(done.stdout)
        searched = p.run(*words, *flags, "--emit", "planned").stdout
        followed, again = (p.run(*words, *train, "--plan", file, "--emit", level, codes=(0, 1)) for level in ("planned", "plan"))
        yield f"{where}: --plan gives the same module", followed.stdout == searched, followed.stderr.strip()
        yield f"{where}: and the same plan", again.stdout == done.stdout, again.stderr.strip()


def is_foreseen(expected, dump, tolerance):
    """Whether a plan's memory is what is laid out; GPU kernels recompute values, which saves up to 15 %."""
    arena = int(re.search(r"exec\.arena_bytes = (\d+)", dump)[1])
    return arena * (1 - tolerance) <= expected <= arena * (1 + max(tolerance, 0.15)), f"{expected / 1e6:.1f} of {arena / 1e6:.1f} MB"


def memory_foreseen(p):
    """The memory that is predicted for plans for GPUs is what the compiler then lays out."""
    small = p.graph("gpt --layers 12 --hidden 256 --heads 4 --vocab 512 --seq 256")
    large = p.graph("gpt --layers 12 --hidden 768 --heads 12 --vocab 50304 --seq 1024")
    wide = p.graph("wide-resnet --depth 50 --width 2 --channels 64")
    models = [(small, ["--dim", "batch=8"], 0.05), (large, ["--dim", "batch=8"], 0.05), (wide, ["--dim", "batch=8"], 0.05)]
    models += [(case / "model.onnx", loss_flags(case), 0.25) for case in sorted(f.parent for f in HERE.glob("*/reference.json"))]
    for model, words, tolerance in models:
        for remat in "none", "all":
            flags = [model, *words, "--optimizer", "adamw", "--remat", remat]
            expected = p.plans(*flags, "--cluster", "h100")[0]["memory"]["total"]
            dump = p.run("compile", *flags, "--target", "cuda", "--emit", "exec").stdout
            yield f"{model.parent.name}, remat {remat}: within {tolerance:.0%}", *is_foreseen(expected, dump, tolerance)


def memory_on_cpus_foreseen(p):
    """On CPUs, of programs of one and two devices: within 2 %, or 64 KB."""
    file = p.folder / "memory.mlir"
    for case in sorted(f.parent for f in HERE.glob("*/reference.json")):
        for way in SAME_WAYS[:4]:
            if (case.name, way) in UNFORESEEN:
                continue
            words, given = [case / "model.onnx", *loss_flags(case), "--optimizer", "adamw"], []
            if way:
                p.run("compile", *words, *way.split(), "--emit", "plan", "-o", file)
                given = ["--plan", file]
            expected = p.plans(*words, "--cluster", "cpu:2" if way else "cpu:1", "--no-calibration", *given)[0]["memory"]["total"]
            arena = int(re.search(r"exec\.arena_bytes = (\d+)", p.run("compile", *words, *given, "--emit", "exec").stdout)[1])
            good = abs(expected - arena) <= max(0.02 * arena, 64 * 1024)
            yield f"{case.name}, {way[2:] or 'one device'}", good, f"{expected / 1e3:.1f} of {arena / 1e3:.1f} KB"


def memory_of_microbatches_foreseen(p):
    """Pipelines, too: buffer slots, gradients, state, and what one task needs. And gradients that are accumulated on one stage."""
    small = p.graph("gpt --layers 12 --hidden 256 --heads 4 --vocab 512 --seq 256")
    file, words = p.folder / "memory.mlir", [small, "--dim", "batch=64"]
    for mesh, remat in itertools.product(["stage=4 --microbatches 16", "stage=4 --microbatches 8", "stage=2,data=2 --microbatches 4",
                                          "stage=2,model=2 --microbatches 4", "stage=2,data=2 --zero 3 --microbatches 16",
                                          "data=4 --microbatches 2", "data=4 --microbatches 16", "data=4 --zero 1 --microbatches 4",
                                          "data=4 --zero 3 --microbatches 2", "data=4 --zero 3 --microbatches 16",
                                          "data=2,model=2 --microbatches 4"], ["none", "all"]):
        p.run("compile", *words, "--mesh", *mesh.split(), "--remat", remat, "--target", "cuda", "--emit", "plan", "-o", file)
        priced = p.run("plan", *words, "--cluster", "4xh100", "--plan", file, "--json").stdout
        found = json.loads(priced)
        expected = found["pipelines"][0]["memory_bytes"] if found.get("pipelines") else found["plans"][0]["memory"]["total"]
        dump = p.run("compile", *words, "--plan", file, "--target", "cuda", "--emit", "exec").stdout
        tolerance = 0.15 if "stage" in mesh else 0.1
        yield f"{mesh}, remat {remat}: within {tolerance:.0%}", *is_foreseen(expected, dump, tolerance)


CASES = [zero_when_memory_is_short, zero_for_gpt2, columns_and_rows, wide_layers, convolutions, slow_network_between, same_kernels, decoders_by_operator, fewer_devices, tiny_models,
         experts, other_batches, bounds, memory_foreseen, memory_on_cpus_foreseen, memory_of_microbatches_foreseen, same_bytes, same_steps, zero_in_buckets, same_steps_of_all, weights_missing, nothing_fits, plans_given_back, *plan_files.CASES, *accumulation_plans.CASES, *same_calls.CASES,
         *update_plans.CASES,
         *pipeline_plans.CASES,
         never_worse]
LONG = ("never_worse", "memory_of_microbatches", "pipelines_when_memory", "parts_of_pipelines", "of_all")  # parts of the names of cases


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--divisi", required=True)
    a.add_argument("--only", default="", help="a part of the names of the cases to run")
    a.add_argument("--quick", action="store_true", help="not the cases that take long, and plan files of every third model, for one target instead of two")
    o = a.parse_args()
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        planner = Planner(str(pathlib.Path(o.divisi).resolve()), folder, o.quick)
        for case in CASES:
            if o.only not in case.__name__ or (o.quick and any(part in case.__name__ for part in LONG)):
                continue
            print(f"-- {case.__name__}: {case.__doc__}", flush=True)
            try:
                for what, holds, details in case(planner):
                    passed, failed = passed + bool(holds), failed + (not holds)
                    print(f"{'ok  ' if holds else 'FAIL'} {what}" + (f": {details}" if details else ""), flush=True)
            except (AssertionError, KeyError, TypeError, IndexError, ValueError, subprocess.CalledProcessError) as error:
                failed += 1
                print(f"FAIL {case.__name__}: {type(error).__name__}: {error}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
