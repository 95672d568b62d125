"""Cases of plans.py: updates run beside the gradients that they need, so that these need not live until the end of the step."""

import math
import re

import onnx

# Inputs are so small that the end of the step, and not the loss, needs the most memory as long as all gradients live until then.
# Then, of the bytes of all gradients but the largest, the share that is free at the peak on CPUs and GPUs, where those of a group of
# updates, which is one launch, live on, and a convolution's workspace is what else the peak needs.
MODELS = [("gpt --layers 12 --hidden 256 --heads 4 --vocab 512 --seq 8", 1, 0.9, 0.85),
          ("mlp --layers 16 --hidden 512", 64, 0.9, 0.85),
          ("wide-resnet --depth 50 --width 1 --channels 64 --image 32", 1, 0.9, 0.6)]


def arena(p, *words):
    return int(re.search(r"exec\.arena_bytes = (\d+)", p.run("compile", *words, "--emit", "exec").stdout)[1])


def parameter_sizes(model):
    """In bytes, of floating-point initializers."""
    weights = onnx.load(model, load_external_data=False).graph.initializer
    return [4 * math.prod(weight.dims) for weight in weights if weight.data_type == onnx.TensorProto.FLOAT]


def updates_beside_gradients(p):
    """The norm of all gradients keeps all of them to the end of the step; without it, the peak falls by most of their bytes, and plans foresee it."""
    for graph, batch, on_cpu, on_gpu in MODELS:
        words = [p.graph(graph), "--dim", f"batch={batch}", "--optimizer", "adamw"]
        sizes = parameter_sizes(words[0])
        most = sum(sizes) - max(sizes)
        for target, device, share in ("cpu", "cpu:1", on_cpu), ("cuda", "h100", on_gpu):
            kept, freed = (arena(p, *words, *more, "--target", target) for more in (["--clip-norm", "1"], []))
            said, clipped = (p.plans(*words, *more, "--cluster", device, "--no-calibration")[0]["memory"]
                             for more in ([], ["--clip-norm", "1"]))
            where = f"{graph.split()[0]}, {target}"
            yield f"{where}: the arena is smaller by {share:.0%} of all gradients but the largest", kept - freed >= share * most, \
                f"{kept / 1e6:.1f} and {freed / 1e6:.1f} MB; {most / 1e6:.1f} MB"
            for what, expected, found in ("updates beside gradients", said, freed), ("updates at the end", clipped, kept):
                yield f"{where}, {what}: the plan is within 5 %", abs(expected["total"] - found) <= 0.05 * found, \
                    f"{expected['total'] / 1e6:.1f} of {found / 1e6:.1f} MB"


def memory_between(p):
    """A device with memory for the step, but not for all gradients at once: it fits on one device, unless gradients are clipped."""
    words = [p.graph(MODELS[1][0]), "--dim", f"batch={MODELS[1][1]}", "--optimizer", "adamw", "--microbatches", "1", "--remat", "none"]
    sizes = [p.plans(*words, *more, "--cluster", "a100")[0]["memory"]["total"] for more in ([], ["--clip-norm", "1"])]
    cluster = p.cluster(("nvlink", 1, "370GB/s", "2us"), memory=f"{sum(sizes) / 2e6}MB")
    for more, fits in ([], True), (["--clip-norm", "1"], False):
        best = p.plans(*words, *more, "--cluster", cluster)[0]
        yield " ".join(["fits" if fits else "does not fit", *more]), best["fits"] == fits, f"{best['memory']['total'] / 1e6:.1f} of {sum(sizes) / 2e6:.1f} MB"


CASES = [updates_beside_gradients, memory_between]
