#!/usr/bin/env python3
"""examples/pipedream/run.sh: from a model to a pipeline of the stages that PipeDream's partitioner finds.

    pipedream.py --divisi PATH [--only SUBSTRING] [--jobs N]

Models of test/models go through the script, synchronous and asynchronous: whatever stages the measured times lead to, losses are those of one
device (asynchronous: with a learning rate of 0; asynchronous.py learns on 9, 5, 1 and 1 replicas in turn). Then stages that alternate in the order of the model, and stages of 9, 5, 1 and 1 devices, PipeDream's own for VGG-16 on 16 machines. Prints
`N passed, N failed`. Needs the package onnx.
"""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/models"))
sys.dont_write_bytecode = True
import asynchronous  # noqa: E402
import lines  # noqa: E402

TOLERANCE, STEPS = 2e-5, 6
# Model, schedule, flags of the compiler: batch norm of whole batches is for synchronous schedules.
FLOWS = [
    ("mlp", "pipedream", "--lr 0"),
    ("mlp", "1f1b", "--lr 0.1 --microbatches 2"),
    ("lenet", "pipedream", "--lr 0 --momentum 0.9"),
    ("gpt_tiny", "1f1b", "--lr 0.1 --microbatches 2"),
    ("gpt_tiny", "pipedream", "--lr 0"),
    ("resnet_tiny", "naive", "--lr 0.01 --microbatches 1"),  # with a larger rate batch norm of few samples amplifies rounding
]

BRANCHES = [
    ("inception_tiny", "naive", "--lr 0.01 --microbatches 1", 1),
    ("inception_tiny", "pipedream", "--lr 0", 2),
    ("unet_tiny", "1f1b", "--lr 0.1 --microbatches 2", 3),
    ("moe_tiny", "1f1b", "--lr 0.1 --microbatches 2", 4),
    ("lstm_tiny", "pipedream-2bw", "--lr 0 --microbatches 4", 5),
]


def call(*command, **environment):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env={**os.environ, **environment})
    if done.returncode:
        raise RuntimeError((done.stderr or done.stdout).strip().splitlines()[-1])
    return done.stdout


def losses(divisi, program, devices, data, log):
    start = [divisi, "run", "--devices", devices] if devices > 1 else []
    call(*start, program, *data, "--no-shuffle", "--quiet", "--threads", 1, "--steps", STEPS, "--log", log)
    return np.array([row["loss"] for row in map(json.loads, log.read_text().splitlines()) if "step" in row and not row.get("eval")])


def same(divisi, folder, model, data, flags, program, devices):
    """(passed, text): a program compared with one for one device."""
    words = flags.split()
    for flag in ("--microbatches", "--round-robin"):
        if flag in words:
            at = words.index(flag)
            del words[at : at + 2]
    call(divisi, "compile", model, "-o", folder / "alone", *words)
    wanted = losses(divisi, folder / "alone", 1, data, folder / "alone.log")
    got = losses(divisi, program, devices, data, folder / "log")
    error = np.max(np.abs(got - wanted) / np.abs(wanted))
    return bool(len(got) == len(wanted) == STEPS and error < TOLERANCE), f"losses differ by {error:.1e}"


def flow(divisi, folder, name, schedule, flags):
    case = ROOT / "test/models" / name
    call("bash", ROOT / "examples/pipedream/run.sh", case / "model.onnx", 2, folder / "p", *flags.split(), DIVISI=str(divisi),
         SCHEDULE=schedule, BANDWIDTH="100GB/s", DIVISI_PROFILE=str(folder / "profile.json"))
    stages = json.loads((folder / "p.stages.json").read_text())["stages"]
    data = [f"--data={file.stem}={file}" for file in sorted((case / "data").glob("*.npy"))]
    return same(divisi, folder, case / "model.onnx", data, flags, folder / "p", sum(stage["replicas"] for stage in stages))


def branches(divisi, folder, name, schedule, flags, seed):
    """Layers in a random order that their inputs allow, cut into three: stages that alternate in the order of the model."""
    case, rng = ROOT / "test/models" / name, np.random.default_rng(seed)
    call(divisi, "profile", case / "model.onnx", "--layers", folder / "layers.json", "--steps", 5, DIVISI_PROFILE=str(folder / "profile.json"))
    layers = json.loads((folder / "layers.json").read_text())["layers"]
    names, order = [layer["name"] for layer in layers], []
    while len(order) < len(layers):
        ready = [i for i, layer in enumerate(layers) if i not in order and all(names.index(x) in order for x in layer["inputs"])]
        order.append(int(rng.choice(ready)))
    cuts, stages = [0, len(order) // 3, 2 * len(order) // 3, len(order)], []
    for first, last in zip(cuts, cuts[1:]):
        later = {names[i] for i in order[first:]}
        begins = [names[i] for i in order[first:] if later.isdisjoint(layers[i]["inputs"])]
        begins += [names[order[-1]]] * (len(begins) == 1)
        stages.append({"layers": [names[i] for i in order[first:last]], "positions": order[first:last], "begins_at": begins, "replicas": 1})
    (folder / "stages.json").write_text(json.dumps({"stages": stages}))
    call(divisi, "compile", case / "model.onnx", "-o", folder / "p", *flags.split(), "--schedule", schedule, "--stages", folder / "stages.json")
    data = [f"--data={file.stem}={file}" for file in sorted((case / "data").glob("*.npy"))]
    return same(divisi, folder, case / "model.onnx", data, flags, folder / "p", 3)


def nine(divisi, folder, schedule, flags):
    """9-5-1-1 devices: the batch of 90 divides by 9 and by 5, which replicas in turn do not need."""
    asynchronous.BATCH, asynchronous.BATCHES = 90, 6
    asynchronous.write_model(folder / "m.onnx")
    for name in "xy":
        rows = np.load(ROOT / f"examples/digits/{name}.npy")[: 90 * 6]
        np.save(folder / f"{name}.npy", rows.reshape(-1, 64).astype(np.float32) if name == "x" else rows)
    layers = [node for i in range(5) for node in (f"fc{i}", f"act{i}")][:-1]
    cuts, stages = (0, 2, 4, 6, len(layers)), []
    for first, last, replicas in zip(cuts, cuts[1:], (9, 5, 1, 1)):
        stages.append({"layers": layers[first:last], "positions": list(range(first, last)), "replicas": replicas})
    (folder / "stages.json").write_text(json.dumps({"stages": stages}))
    loss = "--loss cross_entropy --label label"
    call(divisi, "compile", folder / "m.onnx", "-o", folder / "p", *loss.split(), *flags.split(), "--schedule", schedule, "--stages", folder / "stages.json")
    data = [f"--data=image={folder / 'x.npy'}", f"--data=label={folder / 'y.npy'}"]
    return same(divisi, folder, folder / "m.onnx", data, f"{loss} {flags}", folder / "p", 16)


def main():
    p = lines.parser(__doc__.splitlines()[0])
    p.set_defaults(jobs=1)  # up to 16 ranks each
    o = p.parse_args()
    tests = [(f"{name} {schedule}", flow, (name, schedule, flags)) for name, schedule, flags in FLOWS]
    tests += [("9-5-1-1 1f1b", nine, ("1f1b", "--lr 0.1 --microbatches 2")), ("9-5-1-1 pipedream", nine, ("pipedream", "--lr 0")),
              ("9-5-1-1 1f1b in turn", nine, ("1f1b", "--lr 0.1 --microbatches 10 --round-robin stages"))]
    tests += [(f"branches of {name} {schedule}", branches, (name, schedule, flags, seed)) for name, schedule, flags, seed in BRANCHES]
    return lines.run([(name, lambda folder, test=test, more=more: [test(o.divisi, folder, *more)]) for name, test, more in tests], o)


if __name__ == "__main__":
    sys.exit(main())
