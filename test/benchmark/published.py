#!/usr/bin/env python3
"""What plans say of training steps that others have published, beside the published times.

    published.py --divisi build/bin/divisi [--only TEXT] [--held-out]

One row for each run: the plan's time over the published one, and its memory. Behind it, where a known part of what ran is not in a
plan of Divisi's program, the time with that part. The graphs are those of examples/large-graphs/make_graph.py; nothing is measured here.
No constant of the price list rests on a row; the rows of --held-out were not looked at while constants changed.
"""

import argparse
import json
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import typing

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class Run(typing.NamedTuple):
    name: str
    graph: str  # words of make_graph.py
    flags: str  # of `divisi plan`
    row: str  # the plan's name
    seconds: float  # of a step, published
    source: str
    exposed: bool = False  # whether no communication overlapped with computation
    moved: float = 0  # bytes that a device's kernels moved beside those of a plan


MPT = {"125m": (12, 768, 12), "350m": (24, 1024, 16), "760m": (24, 1536, 12), "1b": (24, 2048, 16), "3b": (32, 2560, 20),
       "7b": (32, 4096, 32), "13b": (40, 5120, 40), "30b": (48, 7168, 56)}  # layers, width, heads


def llm_c(name, layers, hidden, heads, gpu, sequences, microbatches, seconds, script):
    """A run of llm.c on eight GPUs; `sequences` are those of a GPU in a microbatch."""
    return Run(f"GPT-2 {name}, 8 {gpu.upper()}",
               f"gpt --layers {layers} --hidden {hidden} --heads {heads} --vocab 50304 --seq 1024 --gelu tanh",
               f"--cluster 8x{gpu} --dim batch={8 * sequences * microbatches} --precision bf16 --optimizer adamw --mesh data=8 "
               f"--clip-norm 1 --remat none --microbatches {microbatches}", "data=8 zero=1", seconds, f"llm.c, scripts/{script}")


def mpt(name, seq, gpus, gpu, sequences, microbatches, recomputed, tokens):
    """A run of LLM Foundry; `tokens` a second and GPU."""
    layers, hidden, heads = MPT[name]
    cluster = f"8x{gpu}" if gpus == 8 else f"{gpus // 8}x8x{gpu}"
    return Run(f"MPT {name}, {gpus} {gpu.upper()}, {seq} tokens",
               f"gpt --layers {layers} --hidden {hidden} --heads {heads} --vocab 50368 --seq {seq}",
               f"--cluster {cluster} --dim batch={gpus * sequences * microbatches} --precision bf16 --optimizer adamw "
               f"--mesh data={gpus} --clip-norm 1 --remat {'all' if recomputed else 'none'} --microbatches {microbatches}",
               f"data={gpus} zero=3", sequences * microbatches * seq / tokens, "LLM Foundry, scripts/train/benchmarking")


def llama(name, layers, hidden, heads, inner, vocab, seq, gpus, sequences, recomputed, tokens, source):
    """A run of FSDP in PyTorch on A100. The graph is a GPT whose layers have as many parameters: `inner` makes up for three
    matrices instead of two, and for fewer keys."""
    return Run(f"{name}, {gpus} A100", f"gpt --layers {layers} --hidden {hidden} --heads {heads} --inner {inner} --vocab {vocab} "
               f"--seq {seq} --untied", f"--cluster {gpus // 8}x8xa100 --dim batch={gpus * sequences} --precision bf16 "
               f"--optimizer adamw --mesh data={gpus} --clip-norm 1 --remat {recomputed} --microbatches 1", f"data={gpus} zero=3",
               sequences * seq / tokens, source)


def megatron(name, layers, hidden, heads, gpus, model, seconds):
    """A run of Megatron-LM as of 2021: everything recomputed, dropout of 0.1, attention not fused. It waited for each all_reduce,
    and each softmax, each dropout and their gradients were kernels of their own in fp16, with a byte of mask for each score: 9
    bytes a score forward (softmax reads and writes, dropout reads, writes and keeps its mask), twice, and 11 backward. The kernels
    of a plan move 6, twice, and 6 (docs/gpu.md: dropout is drawn again)."""
    data, seq, batch = gpus // model, 2048, 512
    scores = batch / data * heads / model * seq**2 * layers
    mesh = f"data={data},model={model}" if model > 1 else f"data={data}"
    return Run(f"GPT {name}, {gpus} A100",
               f"gpt --layers {layers} --hidden {hidden} --heads {heads} --vocab 51200 --seq {seq} --gelu tanh --dropout 0.1",
               f"--cluster {gpus // 8}x8xa100 --dim batch={batch} --precision fp16 --optimizer adam --clip-norm 1 --remat all "
               f"--no-fused-attention --mesh {mesh}", mesh, seconds, "Narayanan et al., arXiv 2104.04473, table 1",
               exposed=True, moved=(29 - 18) * scores)


def resnet(what, gpu, images, flags, rate, framework="PyTorch"):
    return Run(f"ResNet-50, {images} images, {what}, 1 {gpu.upper()}", "wide-resnet --depth 50 --width 1 --channels 64",
               f"--cluster {gpu} --dim batch={images} --momentum 0.9 {flags}", "one device", images / rate,
               f"NVIDIA DeepLearningExamples, ResNet-50 v1.5 for {framework}")


RUNS = [
    Run("GPT-2 124M, 8 A100", "gpt --layers 12 --hidden 768 --heads 12 --vocab 50304 --seq 1024 --gelu tanh",
        "--cluster 8xa100 --dim batch=512 --precision bf16 --optimizer adamw --clip-norm 1", "data=8 zero=1", 0.283,
        "llm.c, discussion 481: 10 billion tokens in about 90 minutes (its script says 0.3 s)"),
    llm_c("350M", 24, 1024, 16, "a100", 64, 1, 0.82, "run_gpt2_350M.sh"),
    llm_c("774M", 36, 1280, 20, "a100", 32, 2, 1.7, "run_gpt2_774M.sh"),
    llm_c("1558M", 48, 1600, 25, "h100", 16, 8, 2.8, "run_gpt2_1558M.sh"),
    megatron("1.7B", 24, 2304, 24, 32, 1, 3.53),
    megatron("7.5B", 36, 4096, 32, 128, 4, 3.70),
    resnet("16 bits", "a100", 256, "--precision bf16", 2470),
    resnet("fp16", "v100", 256, "--precision fp16", 1200),
    resnet("tf32", "a100", 256, "--precision tf32", 938),
    resnet("fp32", "v100", 128, "", 367),
    mpt("125m", 2048, 8, "a100", 40, 2, False, 142830),
    mpt("1b", 2048, 8, "a100", 14, 4, False, 20513),
    mpt("125m", 8192, 8, "a100", 8, 2, False, 90392),
    mpt("1b", 8192, 8, "a100", 3, 4, False, 13814),
    mpt("7b", 2048, 8, "a100", 6, 2, False, 4641),
    mpt("13b", 2048, 64, "a100-40gb", 16, 1, True, 1976),
    mpt("30b", 2048, 8, "a100", 3, 21, True, 916),
    mpt("760m", 2048, 16, "h100", 24, 1, False, 68551),
    mpt("1b", 2048, 8, "h100", 14, 1, False, 45455),
    mpt("3b", 2048, 16, "h100", 10, 3, False, 24142),
    mpt("7b", 2048, 8, "h100", 6, 1, False, 10643),
    mpt("13b", 2048, 8, "h100", 2, 1, False, 4792),
    mpt("30b", 2048, 32, "h100", 14, 3, True, 2308),
]
# Other rows of the same tables, and the same network by others.
HELD_OUT = [
    mpt("125m", 512, 8, "a100", 128, 2, False, 165681),
    mpt("350m", 1024, 8, "a100", 64, 2, False, 64813),
    mpt("760m", 4096, 8, "a100", 12, 2, False, 27351),
    mpt("3b", 1024, 8, "a100", 20, 6, False, 11580),
    mpt("13b", 1024, 8, "a100", 40, 3, True, 2330),
    mpt("350m", 2048, 64, "a100-40gb", 18, 1, False, 52689),
    mpt("1b", 2048, 128, "a100-40gb", 10, 1, False, 18647),
    mpt("7b", 2048, 128, "a100-40gb", 18, 1, True, 3623),
    mpt("30b", 2048, 128, "a100-40gb", 6, 1, True, 865),
    mpt("760m", 1024, 8, "h100", 48, 2, False, 78581),
    mpt("1b", 512, 8, "h100", 56, 4, False, 52275),
    mpt("3b", 1024, 8, "h100", 20, 6, False, 27046),
    mpt("13b", 1024, 8, "h100", 40, 3, True, 5502),
    llama("Llama 2 7B", 32, 4096, 32, 16512, 32000, 4096, 128, 2, "none", 3760, "fms-fsdp, README"),
    llama("Llama 2 13B", 40, 5120, 40, 20736, 32000, 4096, 64, 2, "none", 2162, "torchtitan, docs/performance.md (2024)"),
    llama("Llama 3 8B", 32, 4096, 32, 18432, 128256, 8192, 64, 1, 16, 2904, "torchtitan, docs/performance.md (2024)"),
    resnet("16 bits", "a100-40gb", 256, "--precision bf16", 2375, "TensorFlow"),
    resnet("fp16", "v100", 256, "--precision fp16", 1270, "TensorFlow"),
    resnet("fp32", "v100", 128, "", 412, "TensorFlow"),
    resnet("16 bits", "a100", 512, "--precision bf16", 3410.5, "MXNet"),
    resnet("tf32", "a100", 512, "--precision tf32", 1055.8, "MXNet"),
    resnet("fp16", "v100", 192, "--precision fp16", 1376, "MXNet"),
    resnet("fp32", "v100", 96, "", 384, "MXNet"),
]
RATE = 0.85 * 2039e9  # of an A100's kernels (passes/Planning/Cost/Presets.cpp)


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--divisi", required=True)
    a.add_argument("--only", default="", help="a part of the names of the runs")
    a.add_argument("--held-out", action="store_true", help="the runs that no constant was compared with")
    o = a.parse_args()
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for run in HELD_OUT if o.held_out else RUNS:
            if o.only not in run.name:
                continue
            model = pathlib.Path(folder) / "model.onnx"
            subprocess.run([sys.executable, ROOT / "examples/large-graphs/make_graph.py", *run.graph.split(), "-o", model],
                           check=True, stdout=subprocess.DEVNULL)
            done = subprocess.run([o.divisi, "plan", model, *shlex.split(run.flags), "--json", "--top", "30"],
                                  capture_output=True, text=True)
            if done.returncode not in (0, 3):
                sys.exit(f"{run.name}: {done.stderr}")
            plans = json.loads(done.stdout)["plans"]
            # (behind the name may stand how many segments are recomputed, and microbatches)
            found = next(p for p in plans if re.fullmatch(run.row + r"( remat=\d+)?( microbatches=\d+)?", p["name"]))
            seconds = found["step_ms"] / 1e3
            text = f"{run.name}: {seconds:.3f} s of {run.seconds:.3f} s published ({seconds / run.seconds:.2f}), "
            if run.exposed or run.moved:
                seconds += run.exposed * found["overlapped_ms"] / 1e3 + run.moved / RATE
                text += f"{seconds:.3f} s as it ran ({seconds / run.seconds:.2f}), "
            ratios.append(seconds / run.seconds)
            best = plans[0]
            print(f"{text}{found['memory']['total'] / 1e9:.1f} GB; the best plan, {best['name']}: {best['step_ms'] / 1e3:.3f} s; "
                  f"{run.source}", flush=True)
    if ratios:
        errors = sorted(abs(r - 1) for r in ratios)
        print(f"errors: median {statistics.median(errors):.0%}, worst {errors[-1]:.0%}")


if __name__ == "__main__":
    main()
