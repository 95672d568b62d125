"""Cases of plans.py about pipelines: when they are chosen, what they need, and that no hand-written one is better."""

import itertools
import json
import pathlib
import sys

sys.dont_write_bytecode = True
from pipelines import computed_nodes  # noqa: E402
from planner import GB, HAND_PLANS, HERE, NVLINK, told  # noqa: E402


def pipelines_never_worse(p):
    """Compares, by the simulator, with hand-written pipelines: plan files with the compiler's cuts and with cuts at equal numbers of nodes."""
    shapes = ["stage=2", "stage=4", "stage=2,data=2", "stage=2,model=2"]
    schedules = ["1f1b", "gpipe", "zb-h1", "interleaved --chunks 2", "naive"]
    file = p.folder / "hand.mlir"
    for name, cluster in ("gpt_tiny", "cpu:4"), ("llama_tiny", p.quick()), ("mlp", "cpu:4"), ("unet_tiny", p.quick()):
        model = HERE / name / "model.onnx"
        found = json.loads(p.run("plan", model, "--cluster", cluster, "--pipelines", "--json", codes=(0, 3)).stdout)["pipelines"]
        nodes = computed_nodes(model)
        counts, worse = 0, []
        for shape, schedule, count, by_hand in itertools.product(shapes, schedules, (2, 4), (False, True)):
            stages = int(shape.split(",")[0].split("=")[1])
            cuts = stages * (2 if "interleaved" in schedule else 1) - 1
            if shape == "stage=2" or cuts >= len(nodes) or (count == 4 and by_hand):
                continue
            where = [f"--cut={nodes[(i + 1) * len(nodes) // (cuts + 1)]}" for i in range(cuts)] if by_hand else []
            target = "cpu" if str(cluster).startswith("cpu:") else "cuda"
            flags = f"--mesh {shape} --microbatches {count} --schedule {schedule} --target {target}".split()
            if p.run("compile", model, *flags, *where, "--emit", "plan", "-o", file, codes=(0, 1)).returncode:
                continue  # sizes that do not divide
            done = p.run("plan", model, "--cluster", cluster, "--plan", file, "--json", codes=(0, 1, 3))
            if done.returncode == 1:
                continue  # cuts that are no nodes any more
            hand = json.loads(done.stdout)["pipelines"][0]
            counts += 1
            if hand["fits"] and hand["step_ms"] < found[0]["step_ms"] * (1 - 1e-9):
                worse.append((hand["step_ms"] / found[0]["step_ms"], hand["name"], *where))
        yield f"{name}: {HAND_PLANS} pipelines by hand and more", counts >= HAND_PLANS, f"{counts}"
        yield f"{name}: none of them is better than {found[0]['name']}", not worse, f"{len(worse)}: {min(worse, default='')}"


def pipelines_when_memory_is_short(p):
    """If no plan of the whole batch fits, gradients are accumulated or segments recomputed, whatever is faster; either alone fits, too."""
    words = [p.graph("gpt --layers 4 --hidden 256 --heads 4 --vocab 4096 --seq 128"), "--dim", "batch=256", "--cluster"]
    roomy = json.loads(p.run("plan", *words, p.cluster(NVLINK), "--pipelines", "--json").stdout)
    least = min(plan["memory"]["total"] for plan in roomy["plans"])
    piped = min(pipeline["memory_bytes"] for pipeline in roomy["pipelines"])
    yield "pipelines need less", piped < 0.8 * least, f"{piped / GB:.3g} and {least / GB:.3g} GB"
    tight = p.cluster(NVLINK, memory=f"{int((piped + least) / 2e3)}kB")
    parts = p.plans(*words, tight, "--remat", "none")[0]
    yield "plan --remat none: accumulates gradients", parts["fits"] and parts["microbatches"] > 1, told(parts)
    again = p.plans(*words, tight, "--microbatches", "1")[0]
    yield "plan --microbatches 1: recomputes segments of the whole batch", again["fits"] and "remat=" in again["name"], told(again)
    best = p.plans(*words, tight)[0]
    yield "plan: is as fast as the better one", best["fits"] and best["step_ms"] <= 1.001 * min(parts["step_ms"], again["step_ms"]), told(best)
    p.run("plan", *words, tight, "--remat", "none", "--microbatches", "1", codes=(3,))
    plan = p.run("compile", *words, tight, "--emit", "plan")
    yield "compile: as planned", best["name"].split(" (")[0] in plan.stderr, plan.stderr.strip()[-150:]
    plan = p.run("compile", *words, tight, "--remat", "none", "--emit", "plan")
    yield "compile --remat none: in microbatches", "pipeline = {" in plan.stdout and "microbatches=" in plan.stderr, plan.stderr.strip()[-150:]
    plan = p.run("compile", *words, p.cluster(NVLINK), "--emit", "plan")
    yield "compile: with enough memory it chooses none", "pipeline = {" not in plan.stdout, plan.stderr.strip()[-150:]


def pipelines_where_faster(p):
    """Across a slow network compile chooses a pipeline by itself; inside a machine, where sharding is cheap, it does not."""
    model = p.graph("gpt --layers 8 --hidden 2048 --heads 16 --vocab 1024 --seq 1024")
    for cluster, piped in (p.cluster(("nvlink", 4, "370GB/s", "2us"), ("ethernet", 2, "10Gb/s", "30us"), device="h100"), True), ("8xh100", False):
        words = [model, "--cluster", cluster, "--dim", "batch=64"]
        report = json.loads(p.run("plan", *words, "--pipelines", "--json").stdout)
        plan, pipeline = report["plans"][0], report["pipelines"][0]
        yield f"{pathlib.Path(cluster).name}: a pipeline is {'faster' if piped else 'not faster'}", \
            piped == (pipeline["step_ms"] < 0.95 * plan["step_ms"]), f"{told(plan)}; {pipeline['name']} {pipeline['step_ms']:.1f} ms"
        text = p.run("compile", *words, "--emit", "plan").stdout
        yield f"  compile chooses {'it' if piped else 'none'}", \
            (f"stages = {pipeline['stages']}" in text and f'schedule = "{pipeline["schedule"]}"' in text) if piped else "stages" not in text, \
            text[:200].replace("\n", " ")


def pipelines_given_back(p):
    """A pipeline that compile has chosen by itself is the same by its plan file: repeated scalars of experts are one operation in both."""
    words = [p.graph("moe --layers 2 --hidden 64 --heads 2 --vocab 128 --seq 32 --experts 4"), "--dim", "batch=8"]
    chosen = [*words, "--cluster", p.cluster(("nvlink", 4, "370GB/s", "2us"), ("ethernet", 2, "8GB/s", "10us"), device="h100"),
              "--strategy", "pipeline"]
    text = p.run("compile", *chosen, "--emit", "plan").stdout
    yield "a mixture of experts becomes a pipeline", "stages = " in text, text[:150].replace("\n", " ")
    plan = p.folder / "moe-pipeline.mlir"
    plan.write_text(text)
    direct = p.run("compile", *chosen, "--emit", "dist").stdout
    given = p.run("compile", *words, "--plan", plan, "--emit", "dist").stdout
    yield "  its plan makes the same program", direct == given, f"{len(direct)} and {len(given)} bytes"


def parts_of_pipelines(p):
    """If a pipeline must recompute some segments, it does not recompute all of them."""
    words = ["plan", p.graph("gpt --layers 8 --hidden 512 --heads 8 --vocab 4096 --seq 512"), "--dim", "batch=64", "--pipelines", "--json"]

    def best(memory, *flags):
        cluster = p.cluster(("ethernet", 4, "10Gb/s", "30us"), device="v100", memory=memory)
        return json.loads(p.run(*words, "--cluster", cluster, *flags, codes=(0, 3)).stdout)["pipelines"][0]

    kept, again = best("32GB", "--remat", "none"), best("32GB", "--remat", "all")
    yield "all kept: faster and larger", kept["step_ms"] < again["step_ms"] and kept["memory_bytes"] > again["memory_bytes"], \
        f"{kept['name']} {kept['step_ms']:.0f} ms; {again['name']} {again['step_ms']:.0f} ms"
    some = best(f"{int((2 * kept['memory_bytes'] + again['memory_bytes']) / 3e3)}kB")
    yield "  with less memory: in between", some["fits"] and kept["step_ms"] < some["step_ms"] < 0.97 * again["step_ms"], \
        f"{some['name']} {some['step_ms']:.0f} ms"
    tight = best("300MB")
    yield "  with 300 MB: some parts", tight["fits"] and "remat=" in tight["name"] and tight["step_ms"] < again["step_ms"], \
        f"{tight['name']} {tight['step_ms']:.0f} ms, {tight['memory_bytes'] / GB:.3g} GB"


def stages_that_differ(p):
    """A wide VGG-16 on seven machines: of all pipelines the fastest has several devices for each of the first stages and one for the last ones, as
    PipeDream's has, and the plan file makes the same program. Where the batch does not divide into four microbatches a stage there are
    pipelines nevertheless."""
    model = p.graph("vgg --channels 128")
    words = [model, "--dim", "batch=240", "--cluster", p.cluster(("ethernet", 7, "10Gb/s", "30us"), device="v100")]
    pipelines = json.loads(p.run("plan", *words, "--pipelines", "--json").stdout)["pipelines"]
    best, uniform = pipelines[0], next(pipeline for pipeline in pipelines if not pipeline["stage_axes"])
    yield "seven devices: the first stages have several", best["stage_axes"].startswith("data,") and best["stage_axes"].endswith(",none") and \
        best["step_ms"] < 0.9 * uniform["step_ms"], f"{best['name']} {best['step_ms']:.0f} ms; {uniform['name']} {uniform['step_ms']:.0f} ms"
    chosen = [*words, "--strategy", "hybrid", "--target", "cuda"]
    plan = p.folder / "stages.mlir"
    plan.write_text(p.run("compile", *chosen, "--emit", "plan").stdout)
    direct = p.run("compile", *chosen, "--emit", "dist").stdout
    given = p.run("compile", model, "--dim", "batch=240", "--target", "cuda", "--plan", plan, "--emit", "dist").stdout
    yield "  its plan makes the same program", direct == given and "dist.stage_axes" in given, f"{len(direct)} and {len(given)} bytes"
    priced = json.loads(p.run("plan", *words, "--plan", plan, "--json").stdout)["pipelines"][0]
    yield "  and costs the same", priced["stage_axes"] == best["stage_axes"] and \
        abs(priced["step_ms"] / best["step_ms"] - 1) < 0.1, f"{priced['step_ms']:.0f} ms"
    odd = [p.graph("gpt --layers 7 --hidden 1024 --heads 16 --vocab 1024 --seq 512"), "--dim", "batch=24"]
    cluster = p.cluster(("ethernet", 5, "10Gb/s", "30us"), device="v100")
    found = json.loads(p.run("plan", *odd, "--cluster", cluster, "--pipelines", "--json").stdout)["pipelines"]
    five = [pipeline for pipeline in found if pipeline["stages"] == 5]
    yield "five stages, a batch of 24", bool(five), f"{sorted({pipeline['microbatches'] for pipeline in five})} microbatches"


def pipelines_of_other_microbatches(p):
    """A plan for microbatches of one size may be invalid for those of another: such plans are left out."""
    model = p.graph("gpt --layers 1 --hidden 8192 --heads 64 --vocab 512 --seq 1024")
    words = ["plan", model, "--cluster", "8x8xh100", "--dim", "batch=64", "--pipelines", "--json"]
    pipelines = json.loads(p.run(*words, codes=(0, 3)).stdout)["pipelines"]
    counts = {pipeline["microbatches"] for pipeline in pipelines}
    yield "64 devices: pipelines of several numbers of microbatches", len(counts) > 1, f"{sorted(counts)}"


CASES = [pipelines_of_other_microbatches, pipelines_where_faster, pipelines_given_back, stages_that_differ, parts_of_pipelines,
         pipelines_when_memory_is_short, pipelines_never_worse]
