"""The page docs/zoo.md from the rows of zoo.py."""

import pathlib
import statistics

PAGE = pathlib.Path(__file__).resolve().parent.parent.parent / "docs/zoo.md"
WAYS = ("one device", "other exporter", "data=2", "data=4", "zero=3", "model=2", "auto", "microbatches=2", "stage=2", "stage=2, microbatches=2",
        "stage=2, data=2")
MEASURED = ("speed", "plan")

HEAD = """# Model zoo
This page compares the training of well-known models by Divisi and by PyTorch, on the same data. The models have reduced sizes (few layers or narrow ones, small images, short sequences) and random initial weights.
They come from torchvision, transformers and timm, or are written from their papers ([test/zoo](../test/zoo/README.md)). This command writes the page:

    python test/zoo/zoo.py --divisi build/bin/divisi --ways all --write-page

{summary}

| model | parameters | exporters | loss error | weights' norm error | change error | ways | step time | memory | compile, s | plan, s |
|---|---|---|---|---|---|---|---|---|---|---|
"""

TAIL = """
## What the columns mean
- *exporters*: PyTorch's exporters whose file trains as the module does: `dynamo` (torch.onnx.export with torch.export) and TorchScript.
- *loss error*: the largest relative difference from PyTorch's losses of three steps in fp32, over all ways; *weights' norm error*: the relative difference of the norm of all weights together after these
  steps. *Change error*: the norm of the difference between Divisi's and PyTorch's weights after these steps, divided by the norm of the change that the steps make to PyTorch's weights. The first two are at most 1e-4 and the change error is at most 5e-3,
  unless rounding explains larger errors ([below](#rounding)). For example, the exact gradient of the bias of attention's keys is zero. What is computed for it is rounding error, and AdamW makes a step of full size from any gradient, however small.
- *ways*: 1, 2 and 4 are one device, `--mesh data=2` and `data=4`; `z3` is `--mesh data=2 --zero 3`, `op2` is `--mesh model=2` (operators are split, not the batch); `auto` is `--devices 2` (at these sizes the search mostly finds that one device is fastest); `m2` is `--microbatches 2` on one device; `s2` is `--mesh stage=2 --microbatches 1`, `s2m2`
  the same with two microbatches, `s2d2` is `--mesh stage=2,data=2 --microbatches 2`, on four ranks. In the ways with microbatches batch norm uses the statistics of each microbatch, and the PyTorch run with which they are compared does the same.
- *step time*, *memory*: Divisi's figure divided by that of PyTorch eager. Both ran with one thread, three times in turn, on a machine with two cores that did other work, too. The step time is the median of all
  steps. Memory is the highest resident size of the process, less that of the same process without a model. The models are so small that PyTorch spends much of its time on dispatching operations; [numbers.md](numbers.md) has larger models.
- *compile*: processor seconds of `divisi compile` for one device, including the linker; *plan*: processor seconds of `divisi plan --cluster 2x8xh100`.

## How these figures came about
- **Six networks do not have the usual initial weights.** ResNet-50, Inception-v3, GoogLeNet, MNASNet, FCN and DeepLab-v3 got other initial values in their batch norms (`conditioned` in `test/zoo/models/case.py`)
  *after* rows with the usual values had missed the limits. With the usual values these deep networks amplify rounding errors, so much that three steps of PyTorch in float32 and in float64 differ by some per cent. `test/zoo/rounding.py` shows this: it also starts PyTorch from weights that are changed by half a unit in the last place.
  For Inception-v3 in two microbatches, the losses of six such runs differ from those in float64 by 5e-3 to 5e-2. PyTorch's losses from the unchanged weights differ by 3.3e-2, and Divisi's by 1.9e-2. So these six rows are weaker evidence than the others.
- The limit of the change error (5e-3) and the allowance for rounding (twice the error of PyTorch in float32 against float64) were set when the first results were already known. A wrong constant of an optimizer can still stay unnoticed: ViT passes with a `beta2` of AdamW of 0.99 instead of 0.999.
- The rows come from one run, those at published size from an earlier one. Other work ran on both cores, which makes processor times up to 1.5 times as long. Therefore the nine largest figures of *plan*
  (VGG-16, MNASNet, Mixtral, ResNet-50, UNet, Diffusion UNet block, GoogLeNet, GNMT-16, Inception-v3) and the four largest of *compile* (GoogLeNet, Inception-v3, MobileNet-v3, GNMT-16) were measured once more, with a later version of the compiler and with nothing else running. The results of the way `s2d2` come from this later version, too.
"""

SHORT = {"one device": "1", "data=2": "2", "data=4": "4", "zero=3": "z3", "model=2": "op2", "auto": "auto", "microbatches=2": "m2", "stage=2": "s2", "stage=2, microbatches=2": "s2m2", "stage=2, data=2": "s2d2"}


def small(error):
    return "no number" if error is None else "0" if error == 0 else f"{error:.0e}"


PUBLISHED = """
## At published size
`--size published` trains ten of the models in their published sizes, for three steps, with two samples in a batch (20 for the recurrent language model), on a machine with 24 GB of memory. The table has those of the ten that were run; empty cells were not measured.
This command writes the table:

    python test/zoo/zoo.py --divisi build/bin/divisi --size published --ways 'one device;speed;plan' --results rows.jsonl --write-page

| model | parameters | loss error | weights' norm error | change error | step, ms | PyTorch's | memory, MB | PyTorch's | compile, s | plan, s |
|---|---|---|---|---|---|---|---|---|---|---|
"""


def published(names, rows):
    lines = []
    for name in names:
        one, speed, plan = (rows.get(("published", name, way), {}) for way in ("one device", "speed", "plan"))
        if not one:
            continue
        errors = [small(one[key]) for key in ("loss_error", "norm_error", "change_error")] if one.get("ok") else ["**fails**", "", ""]
        times = [f"{speed[key]:.0f}" for key in ("ms", "torch_ms", "memory_mb", "torch_memory_mb")] if "ms" in speed else [""] * 4
        seconds = [f"{row[key]:.1f}" if key in row else "" for row, key in ((one, "compile_s"), (plan, "plan_s"))]
        cells = [name, f"{one.get('parameters', 0):,}", *errors, *times, *seconds]
        lines.append(f"| {' | '.join(cells)} |\n")
    return PUBLISHED + "".join(lines) if lines else ""


def text(names, published_names, every):
    """The page; rows are by size, model and way."""
    rows = {(model, way): row for (size, model, way), row in every.items() if size == "reduced"}
    lines, refused, rounded, ratios, trained = [], [], [], [], 0
    for name in names:
        of = {way: row for (model, way), row in rows.items() if model == name}
        good = [row for row in of.values() if row.get("ok")]
        worst = lambda key: small(max((row[key] for row in good if row[key] is not None), default=None))
        trained += bool(good)
        one, speed = of.get("one device", {}), of.get("speed", {})
        files = [row["exporter"] for way in ("one device", "other exporter") if (row := of.get(way, {})).get("ok")]
        cells = [name, f"{one.get('parameters', 0):,}", ", ".join(files), worst("loss_error"), worst("norm_error"), worst("change_error")]
        cells.append(" ".join(SHORT[way] for way in SHORT if of.get(way, {}).get("ok")))
        if "ms" in speed:
            ratios.append(speed["ms"] / speed["torch_ms"])
            cells += [f"{ratios[-1]:.2f}", f"{speed['memory_mb'] / max(speed['torch_memory_mb'], 0.1):.2f}"]
        else:
            cells += ["", ""]
        cells.append(f"{one['compile_s']:.1f}" if "compile_s" in one else "")
        cells.append(f"{plan['plan_s']:.1f}" if (plan := of.get("plan", {})).get("plan_s") else "")
        lines.append(f"| {' | '.join(cells)} |\n")
        for way in WAYS:
            row = of.get(way, {})
            if "refused" in row:
                refused.append(f"| {name} | {way} | {row['refused'].replace('|', '/')} |\n")
            if "failed" in row or row.get("ok") is False:
                refused.append(f"| {name} | {way} | **fails**: {row.get('failed', row.get('rounding', '')).replace('|', '/')} |\n")
            if row.get("ok") and "rounding" in row:
                rounded.append(f"| {name} | {way} | {small(row['change_error'])} | {row['rounding']} |\n")
    ran = sum((name, way) in rows for name in names for way in WAYS)
    all_of, refusals = len(names) * len(WAYS), sum("refused" in row for row in rows.values())
    summary = f"{trained} of {len(names)} models train as in PyTorch. Of the {all_of} combinations of a model and a way to train it (the ten of the column *ways*, and one device with the file of the other exporter), {ran} were tried; the compiler refuses {refusals} of them (below)." + (
        f" The median ratio of the step times to PyTorch eager's is {statistics.median(ratios):.2f}." if ratios else "")
    page = HEAD.format(summary=summary) + "".join(lines) + published(published_names, every) + TAIL
    if rounded:
        page += ("\n## Rounding\nThis table has the runs in which Divisi and PyTorch differ by more than the limits above (1e-4 for the losses and the norm, 5e-3 for the change). In these runs each error of Divisi, measured against PyTorch in float64, is within its limit or at most twice the error of PyTorch in float32.\nWhere the table says \"from disturbed weights\", the comparison is with PyTorch in float32 from initial weights that were changed slightly.\n\n"
                 "| model | way | change error | distances |\n|---|---|---|---|\n" + "".join(rounded))
    if refused:
        page += "\n## Refused\nThe compiler refuses these combinations of a model and a way. The last column has its error message, which begins with the name of the ONNX node.\n\n| model | way | why |\n|---|---|---|\n" + "".join(refused)
    return page
