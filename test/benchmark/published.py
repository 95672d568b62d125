#!/usr/bin/env python3
"""What plans say of training steps that others have published, beside the published times.

    published.py --divisi build/bin/divisi [--only TEXT]

One row for each run: the plan's time over the published one, and its memory. The graphs are those of
examples/large-graphs/make_graph.py; nothing is measured here.
"""

import argparse
import json
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# name, graph, flags of `divisi plan`, row of the plan, published seconds, source
MEGATRON = "Narayanan et al., arXiv 2104.04473, table 1"
RUNS = [
    ("GPT-2 124M, 8 A100", "gpt --layers 12 --hidden 768 --heads 12 --vocab 50304 --seq 1024",
     "--cluster 8xa100 --dim batch=512 --precision bf16 --optimizer adamw", "data=8 zero=1", 0.283, "llm.c, discussion 481"),
    ("GPT 1.7B, 32 A100", "gpt --layers 24 --hidden 2304 --heads 24 --vocab 51200 --seq 2048",
     "--cluster 4x8xa100 --dim batch=512 --precision fp16 --optimizer adam --remat all --no-fused-attention --mesh data=32",
     "data=32", 3.53, MEGATRON),
    ("GPT 7.5B, 128 A100", "gpt --layers 36 --hidden 4096 --heads 32 --vocab 51200 --seq 2048",
     "--cluster 16x8xa100 --dim batch=512 --precision fp16 --optimizer adam --remat all --no-fused-attention --mesh data=32,model=4",
     "data=32,model=4", 3.70, MEGATRON),
    ("ResNet-50, 256 images, 1 A100", "wide-resnet --depth 50 --width 1 --channels 64",
     "--cluster a100 --dim batch=256 --precision bf16 --momentum 0.9", "one device", 0.104, "NVIDIA DeepLearningExamples"),
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
            done = subprocess.run([o.divisi, "plan", model, *shlex.split(flags), "--json"], capture_output=True, text=True)
            if done.returncode not in (0, 3):
                sys.exit(f"{name}: {done.stderr}")
            plans = json.loads(done.stdout)["plans"]
            # (behind the name may stand how many segments are recomputed)
            found = next(p for p in plans if p["name"] == row or p["name"].startswith(row + " remat"))
            ratios.append(found["step_ms"] / 1e3 / published)
            best = plans[0]
            print(f"{name}: {found['step_ms'] / 1e3:.3f} s of {published} s published ({ratios[-1]:.2f}), "
                  f"{found['memory']['total'] / 1e9:.1f} GB; the best plan, {best['name']}: {best['step_ms'] / 1e3:.3f} s; {source}")
    if ratios:
        errors = sorted(abs(r - 1) for r in ratios)
        print(f"errors: median {statistics.median(errors):.0%}, worst {errors[-1]:.0%}")


if __name__ == "__main__":
    main()
