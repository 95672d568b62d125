#!/usr/bin/env python3
"""MLIR's own clean-up passes change no program: `--canonicalize --cse` of dumps at every level, compiled onward and trained.

    cleaned.py --divisi PATH [--all] [--only SUBSTRING] [--jobs N]

For each reference model, on one device, sharded and in pipelines: messages and collectives at the level exec are as many,
of the same bytes and in the same order, as without the clean-up, and the losses of three steps are the same bit by bit. With
--all every model in every way; otherwise each way with some of the models. Ends with `N passed, N failed`.
"""

import json
import pathlib
import re
import sys

sys.dont_write_bytecode = True
import lines  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
LEVELS = ("train", "planned", "dist", "exec")
WAYS = {  # flags: (devices, models that are always tried)
    "": (1, ("gpt_tiny", "lenet", "llama_tiny", "unet_tiny")),
    "--mesh data=2,model=2 --zero 3": (4, ("moe_tiny", "resnet_tiny")),
    "--mesh stage=2 --schedule 1f1b --microbatches 4": (2, ("lenet", "gpt_tiny")),
    "--mesh stage=2,data=2 --schedule zb-h1 --microbatches 2 --remat all": (4, ("mlp", "llama_tiny")),
}
SENT = re.compile(r"exec\.call (dist\.\w+) ({.*?}) \(.*? : (.*)")


def communication(dump):
    """The collectives and messages of each task: what, with which attributes, of which types."""
    return [found.groups() for line in dump.splitlines() if (found := SENT.search(line))]


def losses(divisi, case, program, devices, folder):
    data = [f"--data={f.stem}={f}" for f in sorted((case / "data").glob("*.npy"))]
    launcher = [divisi, "run", "--devices", devices] if devices > 1 else []
    lines.call(*launcher, program, *data, "--no-shuffle", "--quiet", "--init", 7, "--threads", 1, "--steps", 3, "--log", folder / "log")
    rows = map(json.loads, (folder / "log").read_text().splitlines())
    return [repr(row["loss"]) for row in rows if "loss" in row]


def check(divisi, case, way, folder):
    devices = WAYS[way][0]
    reference = json.loads((case / "reference.json").read_text()).get("loss")
    flags = way.split() + ["--optimizer", "adamw"] + (["--loss", reference["kind"], "--label", reference["label"]] if reference else [])
    levels = LEVELS[LEVELS.index("dist"):] if "stage" in way else LEVELS  # earlier dumps do not contain stages
    dumps = {}
    for level in levels:
        dumps[level] = folder / f"{level}.mlir"
        lines.call(divisi, "compile", case / "model.onnx", *flags, "--emit", level, "-o", dumps[level])

    def compiled(dump):
        """Losses and communication of the program that a dump becomes."""
        flags_of_level = way.split() if dump.stem == "train" else []
        lines.call(divisi, "compile", dump, *flags_of_level, "-o", folder / "program")
        sent = dump.read_text() if dump.stem == "exec" else lines.call(divisi, "compile", dump, *flags_of_level, "--emit", "exec")
        return losses(divisi, case, folder / "program", devices, folder), communication(sent)

    expected = {level: compiled(dumps[level]) for level in levels}
    assert devices == 1 or expected["exec"][1], "no communication"
    for level in levels:
        dumps[level].write_text(lines.call(pathlib.Path(divisi).parent / "divisi-opt", dumps[level], "--canonicalize", "--cse"))
        got = compiled(dumps[level])
        yield got[1] == expected[level][1], f"{level}: {len(got[1])} messages and collectives, {len(expected[level][1])} before"
        yield got[0] == expected[level][0], f"{level}: losses {', '.join(got[0])}, {', '.join(expected[level][0])} before"


def main():
    p = lines.parser(__doc__.splitlines()[0])
    p.add_argument("--all", action="store_true", help="every model in every way")
    o = p.parse_args()
    models = sorted(f.parent.name for f in HERE.glob("*/reference.json"))
    return lines.run([(f"{name} {way}".strip(), lambda folder, case=HERE / name, way=way: list(check(o.divisi, case, way, folder)))
                      for way, (_, some) in WAYS.items() for name in models if o.all or name in some], o)


if __name__ == "__main__":
    sys.exit(main())
