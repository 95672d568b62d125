#!/usr/bin/env python3
"""What plans say of training steps that others have published, beside the published times.

    published.py --divisi build/bin/divisi [--only TEXT]

One row for each run: the plan's time over the published one, and its memory. The graphs are those of
examples/large-graphs/make_graph.py; nothing is measured here.
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

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# name, graph, flags of `divisi plan`, row of the plan, published seconds, source
MEGATRON = "Narayanan et al., arXiv 2104.04473, table 1"
MPT = {"125m": (12, 768, 12), "760m": (24, 1536, 12), "1b": (24, 2048, 16), "3b": (32, 2560, 20), "7b": (32, 4096, 32),
       "13b": (40, 5120, 40), "30b": (48, 7168, 56)}  # layers, width, heads


def llm_c(name, layers, hidden, heads, gpu, sequences, microbatches, seconds, script):
    """A run of llm.c on eight GPUs; `sequences` are those of a GPU in a microbatch."""
    return (f"GPT-2 {name}, 8 {gpu.upper()}",
            f"gpt --layers {layers} --hidden {hidden} --heads {heads} --vocab 50304 --seq 1024 --gelu tanh",
            f"--cluster 8x{gpu} --dim batch={8 * sequences * microbatches} --precision bf16 --optimizer adamw --mesh data=8 "
            f"--clip-norm 1 --remat none --microbatches {microbatches}", "data=8 zero=1", seconds, f"llm.c, scripts/{script}")


def mpt(name, seq, gpus, gpu, sequences, microbatches, recomputed, tokens):
    """A run of LLM Foundry; `tokens` a second and GPU."""
    layers, hidden, heads = MPT[name]
    cluster = f"8x{gpu}" if gpus == 8 else f"{gpus // 8}x8x{gpu}"
    return (f"MPT {name}, {gpus} {gpu.upper()}, {seq} tokens",
            f"gpt --layers {layers} --hidden {hidden} --heads {heads} --vocab 50368 --seq {seq}",
            f"--cluster {cluster} --dim batch={gpus * sequences * microbatches} --precision bf16 --optimizer adamw "
            f"--mesh data={gpus} --clip-norm 1 --remat {'all' if recomputed else 'none'} --microbatches {microbatches}",
            f"data={gpus} zero=3", sequences * microbatches * seq / tokens, "LLM Foundry, scripts/train/benchmarking")


RUNS = [
    ("GPT-2 124M, 8 A100", "gpt --layers 12 --hidden 768 --heads 12 --vocab 50304 --seq 1024",
     "--cluster 8xa100 --dim batch=512 --precision bf16 --optimizer adamw", "data=8 zero=1", 0.283, "llm.c, discussion 481"),
    llm_c("350M", 24, 1024, 16, "a100", 64, 1, 0.82, "run_gpt2_350M.sh"),
    llm_c("774M", 36, 1280, 20, "a100", 32, 2, 1.7, "run_gpt2_774M.sh"),
    llm_c("1558M", 48, 1600, 25, "h100", 16, 8, 2.8, "run_gpt2_1558M.sh"),
    mpt("125m", 2048, 8, "a100", 40, 2, False, 142830),
    mpt("1b", 2048, 8, "a100", 14, 4, False, 20513),
    mpt("1b", 8192, 8, "a100", 3, 4, False, 13814),
    mpt("7b", 2048, 8, "a100", 6, 2, False, 4641),
    mpt("13b", 2048, 64, "a100-40gb", 16, 1, True, 1976),
    mpt("30b", 2048, 8, "a100", 3, 21, True, 916),
    mpt("760m", 2048, 16, "h100", 24, 1, False, 68551),
    mpt("1b", 2048, 8, "h100", 14, 1, False, 45455),
    mpt("3b", 2048, 16, "h100", 10, 3, False, 24142),
    mpt("7b", 2048, 8, "h100", 6, 1, False, 10643),
    mpt("30b", 2048, 32, "h100", 14, 3, True, 2308),
    ("GPT 1.7B, 32 A100", "gpt --layers 24 --hidden 2304 --heads 24 --vocab 51200 --seq 2048 --gelu tanh --dropout 0.1",
     "--cluster 4x8xa100 --dim batch=512 --precision fp16 --optimizer adam --remat all --no-fused-attention --mesh data=32",
     "data=32", 3.53, MEGATRON),
    ("GPT 7.5B, 128 A100", "gpt --layers 36 --hidden 4096 --heads 32 --vocab 51200 --seq 2048 --gelu tanh --dropout 0.1",
     "--cluster 16x8xa100 --dim batch=512 --precision fp16 --optimizer adam --remat all --no-fused-attention --mesh data=32,model=4",
     "data=32,model=4", 3.70, MEGATRON),
    ("ResNet-50, 256 images, 1 A100", "wide-resnet --depth 50 --width 1 --channels 64",
     "--cluster a100 --dim batch=256 --precision bf16 --momentum 0.9", "one device", 0.104, "NVIDIA DeepLearningExamples"),
    ("ResNet-50, 256 images, fp16, 1 V100", "wide-resnet --depth 50 --width 1 --channels 64",
     "--cluster v100 --dim batch=256 --precision fp16 --momentum 0.9", "one device", 256 / 1200, "NVIDIA DeepLearningExamples"),
    ("ResNet-50, 256 images, tf32, 1 A100", "wide-resnet --depth 50 --width 1 --channels 64",
     "--cluster a100 --dim batch=256 --precision tf32 --momentum 0.9", "one device", 256 / 938, "NVIDIA DeepLearningExamples"),
    ("ResNet-50, 128 images, fp32, 1 V100", "wide-resnet --depth 50 --width 1 --channels 64",
     "--cluster v100 --dim batch=128 --momentum 0.9", "one device", 0.349, "NVIDIA DeepLearningExamples"),
]


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--divisi", required=True)
    a.add_argument("--only", default="", help="a part of the names of the runs")
    o = a.parse_args()
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for name, graph, flags, row, published, source in RUNS:
            if o.only not in name:
                continue
            model = pathlib.Path(folder) / "model.onnx"
            subprocess.run([sys.executable, ROOT / "examples/large-graphs/make_graph.py", *graph.split(), "-o", model], check=True,
                           stdout=subprocess.DEVNULL)
            done = subprocess.run([o.divisi, "plan", model, *shlex.split(flags), "--json", "--top", "30"], capture_output=True, text=True)
            if done.returncode not in (0, 3):
                sys.exit(f"{name}: {done.stderr}")
            plans = json.loads(done.stdout)["plans"]
            # (behind the name may stand how many segments are recomputed, and microbatches)
            found = next(p for p in plans if re.fullmatch(row + r"( remat=\d+)?( microbatches=\d+)?", p["name"]))
            ratios.append(found["step_ms"] / 1e3 / published)
            best = plans[0]
            print(f"{name}: {found['step_ms'] / 1e3:.3f} s of {published} s published ({ratios[-1]:.2f}), "
                  f"{found['memory']['total'] / 1e9:.1f} GB; the best plan, {best['name']}: {best['step_ms'] / 1e3:.3f} s; {source}")
    if ratios:
        errors = sorted(abs(r - 1) for r in ratios)
        print(f"errors: median {statistics.median(errors):.0%}, worst {errors[-1]:.0%}")


if __name__ == "__main__":
    main()
