#!/usr/bin/env python3
"""Exports a model of the size of GPT-2 small (124 M parameters, 1,024 tokens) for the compile-time benchmark.

    gpt2_small.py OUT

Writes OUT/gpt2_small.onnx (500 MB, random weights, the loss inside) and OUT/gpt2_small/{x,label}.npy. Compile it under
`/usr/bin/time -v divisi compile OUT/gpt2_small.onnx -o OUT/gpt2_small.bin --optimizer adamw`.
"""

import pathlib
import sys

import torch

import export

VOCABULARY, LENGTH = 50257, 1024


def main():
    torch.manual_seed(0)
    model = export.models.GPT(layers=12, width=768, heads=12, vocabulary=VOCABULARY, length=LENGTH)
    x, label = torch.randint(0, VOCABULARY, (2, 1, LENGTH)).unbind()
    export.export("gpt2_small", model.train(), x, label, pathlib.Path(sys.argv[1]))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main()
