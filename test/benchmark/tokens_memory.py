#!/usr/bin/env python3
"""Memory of training a model of the size of GPT-2 small from a file of tokens: the peak of the process beside the arena that was planned, and whether it grows with the data.

    tokens_memory.py --divisi PATH --model gpt2_small.onnx [--steps 3] [--threads 1]

`export.py OUT gpt2_small` writes the model. It is trained by AdamW from 10 GB of tokens (a sparse file of zeros) and from 2 MB. Exit code 1 if the peak is more than 5 % above the arena, or 32 MiB higher with more data.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "execute"))
import cases  # noqa: E402

MOST_ABOVE, MOST_GROWTH = 0.05, 32


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    p.add_argument("--model", required=True)
    p.add_argument("--steps", type=int, default=3)
    p.add_argument("--threads", type=int, default=1)
    o = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        subprocess.run([o.divisi, "compile", o.model, "-o", work / "gpt2", "--optimizer", "adamw", "--lr", "1e-5"], check=True)
        facts = json.loads(subprocess.run([work / "gpt2", "--describe", "json"], check=True, capture_output=True).stdout)
        tokens = next(each["name"] for each in facts["inputs"] if not each["label"])
        with open(work / "large.bin", "wb") as file:
            file.truncate(10_000_000_000)
        np.zeros(1_000_000, "<u2").tofile(work / "small.bin")
        arena, peaks = facts["arena_bytes"] / 2**20, {}
        for name in ("small", "large"):
            peaks[name] = cases.peak_memory([work / "gpt2", "--data", f"{tokens}={work}/{name}.bin", "--steps", o.steps, "--threads", o.threads, "--quiet"])
    above, growth = peaks["large"] / arena - 1, peaks["large"] - peaks["small"]
    print(f"arena {arena:.0f} MiB, peak memory {peaks['large']:.0f} MiB from 10 GB of tokens ({100 * above:+.1f} %), {peaks['small']:.0f} MiB from 2 MB")
    return 1 if above > MOST_ABOVE or growth > MOST_GROWTH else 0


if __name__ == "__main__":
    sys.exit(main())
