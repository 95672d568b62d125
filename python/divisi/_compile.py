"""Compiles a model to a program that trains it."""

from __future__ import annotations

import os

from collections.abc import Mapping

from ._command import Flag, Path, call, find_program, words_of
from ._program import Program


def compile(model: Path, out: Path, *, divisi: Path | None = None, **flags: Flag) -> Program:
    """Compiles an ONNX file, a dump, or what `divisi.export` returned, to the program `out`; its weights are written to `out` + ".safetensors".

    `flags` are those of `divisi compile --help`, with underscores:

        compile("m.onnx", "m", loss="cross_entropy", label="y", optimizer="adamw", lr=1e-3, weight_decay=0.1)
        compile("m.onnx", "m", dim={"batch": 32}, freeze=["encoder.*"], mesh={"data": 2, "model": 2})

    `divisi` is the program that compiles (`find_program`). The compiler's warnings are Python's, of the class
    `divisi.Warning`. Raises Error with the compiler's message.
    """
    tool = find_program(divisi)
    path = os.path.abspath(out)
    call([tool, "compile", model, "-o", path, *words_of(with_exported(model, flags))])
    return Program(path, divisi=tool)


def with_exported(model: Path, flags: Mapping[str, Flag]) -> dict[str, Flag]:
    """The flags together with those that an exported model needs; of lists, both."""
    merged = dict(getattr(model, "flags", {}))
    for name, value in flags.items():
        if isinstance(merged.get(name), list) and value:
            value = [*merged[name], *(value if isinstance(value, (list, tuple)) else [value])]
        merged[name] = value
    return merged
