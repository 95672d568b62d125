"""Compiles a case with divisi, runs one step, and reads its results."""

import dataclasses
import json
import math
import os
import pathlib
import re
import signal
import subprocess

import numpy as np

TIMEOUT = 300  # seconds for a command: the machine may be busy with much else
LR = 1024  # a power of two so large that (w0 - w1) / lr has the gradient's own rounding, not that of w0
KINDS = {"F32": "<f4", "F64": "<f8"}


@dataclasses.dataclass
class Outcome:
    """The outcome of one program. `failure` and `refusal` are empty if it trained."""

    failure: str = ""  # class of a fault: crash, hang, no message
    refusal: str = ""  # the diagnostic, without names and numbers
    said: str = ""
    loss: float = 0.0
    evaluated: float | None = None  # the loss that an evaluation says, where there is one
    gradients: dict = dataclasses.field(default_factory=dict)


def call(command, folder):
    """(exit code, or None for a hang, the output)."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "DIVISI_PROFILE": str(folder / "no-profile.json")}
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               stdin=subprocess.DEVNULL, env=environment, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # the group started above
        process.communicate()
        return None, f"no end after {TIMEOUT} s"
    return process.returncode, output.decode(errors="replace")


def general(line):
    """A message without the parts that differ between models."""
    line = re.sub(r"^error: (?:\S+\.onnx:(?:\d+:\d+:)? )?", "", line)
    line = re.sub(r"(?:tensor)?<[^<>]*(?:<[^<>]*>[^<>]*)*>", "TYPE", line)
    line = re.sub(r"'[^']*'|\"[^\"]*\"", "NAME", line)
    return re.sub(r"-?\d+(\.\d+)?(e-?\d+)?", "N", line)[:160]


def judge(code, text, what, refusable):
    """An Outcome of a command that did not succeed, else None."""
    errors = [l for l in text.splitlines() if l.startswith("error: ")]
    if code == 0:
        return None
    if code is None:
        return Outcome(failure=f"{what}: hang", said=text)
    if code < 0 or code >= 128 or "Assertion" in text or "UNREACHABLE" in text:
        where = re.search(r"(\w+\.(?:cpp|h)):\d+.*?Assertion `(.*?)'", text) or re.search(r"UNREACHABLE.* at (\S+):\d+", text)
        return Outcome(failure=f"{what}: crash {': '.join(where.groups()) if where else code}"[:160], said=text[-2000:])
    if not errors:
        return Outcome(failure=f"{what}: exit {code} without a message", said=text[-2000:])
    if internal := re.search(r"'((?:graph|dist|exec|func|llvm|builtin)\.\w+)' op (.*)", errors[0]):
        return Outcome(failure=f"{what}: verifier: {internal[1]} {general(internal[2])}", said=errors[0])
    if "no CPU lowering" in errors[0] or ": cut: " in errors[0]:  # of a pass on the compiler's own IR, and of a flag that no plan here has
        return Outcome(failure=f"{what}: {general(errors[0])}", said=errors[0])
    if refusable:
        return Outcome(refusal=general(errors[0]), said=errors[0])
    return Outcome(failure=f"{what}: {general(errors[0])}", said=text[-2000:])


def run(divisi, case, folder, plan=()):
    """Compiles the saved case under a plan and takes one step."""
    program = folder / "program"
    for old in ("log.jsonl", "weights.safetensors"):
        (folder / old).unlink(missing_ok=True)
    read_model = [folder / "model.onnx", "--optimizer", "sgd", *case.flags]
    source, weights = [*read_model, *plan], []
    if plan and plan[0].startswith("--emit="):
        dump = folder / "dump.mlir"
        code, text = call([divisi, "compile", *source, "-o", dump], folder)
        if outcome := judge(code, text, "compile", True):
            return outcome
        if plan[0] == "--emit=plan":
            source = [*read_model, "--plan", dump]
        else:  # a dump contains no weights: they are beside the program for one device
            source, weights = [dump], ["--weights", folder / "program.safetensors"]
    code, text = call([divisi, "compile", *source, "-o", program, "--lr", LR], folder)
    if outcome := judge(code, text, "compile", True):
        return outcome
    devices = ranks_of(program, folder) if plan else 1
    data = [f"--data={name}={folder / name}.npy" for name in case.inputs]
    step = [program, *data, "--steps", 1, "--no-shuffle", "--quiet", "--log", folder / "log.jsonl", "--save-weights",
            folder / "weights.safetensors", *weights]
    launched = lambda count: [divisi, "run", "--devices", count, *step] if count > 1 else step
    code, text = call(launched(devices), folder)
    if other := re.search(r"this program is for (\d+) device", text):  # stages have different numbers of them
        devices = int(other[1])
        code, text = call(launched(devices), folder)
    if outcome := judge(code, text, "run", False):
        return outcome
    outcome = read(case, folder)
    if case.evaluates:  # of the same data, after a step that leaves the parameters as they are
        (folder / "log.jsonl").unlink()
        evaluation = [f"--eval={name}={folder / name}.npy" for name in case.inputs]
        code, text = call([*launched(devices), *evaluation, "--lr", 0], folder)
        if wrong := judge(code, text, "evaluate", False):
            return wrong
        outcome.evaluated = next((float(row["loss"]) for row in rows_of(folder) if row.get("eval") and row.get("loss") is not None), math.nan)
    return outcome


def ranks_of(program, folder):
    """The number of devices of a program: a search may choose one."""
    code, text = call([program, "--describe", "json"], folder)
    try:
        return math.prod(json.loads(text).get("mesh", {}).values()) if code == 0 else 1
    except ValueError:
        return 1


def rows_of(folder):
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def read(case, folder):
    """Loss and gradients of the step."""
    loss = next((float(row["loss"]) for row in rows_of(folder) if row.get("step") == 1 and row.get("loss") is not None), float("nan"))
    new = read_safetensors(folder / "weights.safetensors")
    gradients = {}
    for name, old in case.weights().items():
        if name in new:
            gradients[name] = (old.astype(np.float64) - new[name].reshape(old.shape)) / LR
        else:  # nothing depends on the parameter
            gradients[name] = np.zeros(old.shape)
    return Outcome(loss=loss, gradients=gradients)


def read_safetensors(path):
    raw = pathlib.Path(path).read_bytes()
    size = int.from_bytes(raw[:8], "little")
    result = {}
    for name, about in json.loads(raw[8 : 8 + size]).items():
        if name != "__metadata__" and about["dtype"] in KINDS:
            first, last = about["data_offsets"]
            body = raw[8 + size + first : 8 + size + last]
            result[name] = np.frombuffer(body, KINDS[about["dtype"]]).astype(np.float64).reshape(about["shape"])
    return result
