#!/usr/bin/env python3
"""`--precision fp16`: losses beside PyTorch's fp32, and what dynamic loss scaling must do by its definition (torch.amp.GradScaler).

    loss_scaling.py --divisi PATH

LeNet's first gradients overflow at the first factor of 65,536: such steps change nothing but the factor, which they halve, on one
device and on several. 2,000 consecutive finite steps double it. Ends with `N passed, N failed`.
"""

import argparse
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
FIRST, GROWS = 65536, 2000
# All models with finite gradients, so that no step is skipped that PyTorch's fp32 runs.
CLOSE = "gpt_tiny,inception_tiny,llama_tiny,mlp,mlp_no_loss,moe_tiny,unet_tiny"
# Small batches and batch norm amplify rounding: PyTorch's own fp16 ends as far from its fp32 (5.18 %, half_drift.py --fp16 resnet_tiny).
DRIFTING, DRIFT = "resnet_tiny", 0.0518
WAYS = [(1, ""), (2, "--mesh data=2 --zero 1"), (4, "--mesh data=2,model=2"), (2, "--mesh stage=2 --microbatches 2")]
TYPES = {"F32": np.float32, "I64": np.int64}


def tensors(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    begin = 8 + length
    return {
        name: np.frombuffer(data[begin + entry["data_offsets"][0] : begin + entry["data_offsets"][1]], TYPES[entry["dtype"]])
        for name, entry in header.items()
        if name != "__metadata__"
    }


class Tests:
    def __init__(self, divisi, folder):
        self.divisi, self.folder, self.passed, self.failed, self.runs = divisi, pathlib.Path(folder), 0, 0, 0

    def check(self, name, wrong):
        print(f"{'FAIL' if wrong else 'ok  '} {name}{': ' + wrong if wrong else ''}", flush=True)
        self.passed, self.failed = self.passed + (not wrong), self.failed + bool(wrong)

    def losses(self, devices, flags, cases, tolerance=0.02):
        optimizers = "sgd,adamw" if devices == 1 else "adamw"
        command = [sys.executable, HERE / "check.py", "--divisi", self.divisi, "--devices", devices, "--cases", cases, "--optimizers", optimizers]
        command += [f"--compile-args=--precision fp16 {flags}", "--tolerance", tolerance, "--norm-tolerance", "0.2"]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        lines = re.findall(r"^(ok  |FAIL) (.*)$", done.stdout, re.MULTILINE)
        for state, line in lines or [("FAIL", done.stderr[-200:])]:
            self.check(f"{devices} devices {flags}: {line}", "" if state == "ok  " else "too far")

    def states(self, model, devices, flags, steps, every):
        """Checkpoints by step."""
        self.runs += 1
        program, checkpoints = self.folder / "program", self.folder / f"checkpoints{self.runs}"
        command = [self.divisi, "compile", HERE / model / "model.onnx", "--precision", "fp16", "--optimizer", "adamw", "-o", program]
        subprocess.run(list(map(str, [*command, *flags.split()])), check=True, capture_output=True)
        data = [w for f in sorted((HERE / model / "data").glob("*.npy")) for w in ("--data", f"{f.stem}={f}")]
        run = [self.divisi, "run", "--devices", devices, program] if devices > 1 else [program]
        run += [*data, "--steps", steps, "--no-shuffle", "--quiet", "--checkpoint", checkpoints, "--every", every]
        done = subprocess.run(list(map(str, run)), capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{model}, {steps} steps: {done.stderr[-300:]}")
        found = {}
        for folder in checkpoints.glob("step-*"):
            export = [self.divisi, "checkpoint", "export", str(folder), "--all", "-o", str(self.folder / "state")]
            subprocess.run(export, check=True, capture_output=True)
            found[int(folder.name[5:])] = tensors(self.folder / "state")
        return found

    def skips(self, devices, flags):
        """Until a step is finite, nothing changes and the factor halves."""
        before, skipped = None, 0
        for steps in range(1, 5):
            state = self.states("lenet", devices, flags, steps, steps)[steps]
            factor, count = FIRST + state["divisi.loss_scale_offset"][0], int(state["divisi.skipped_steps"][0])
            if count == steps:  # this one was skipped, too
                skipped = count
                if factor != FIRST / 2**count or state["divisi.finite_steps"][0] != 0:
                    return f"{count} skipped steps, factor {factor}"
                moments = [n for n in state if n.endswith(("exp_avg", "exp_avg_sq"))]
                if not moments or any(state[n].any() for n in moments):
                    return "a skipped step changes moments"
                weights = {n: state[n] for n in state if not n.startswith("divisi.")}
                if before and any(not np.array_equal(before[n], weights[n]) for n in before):
                    return "a skipped step changes weights"
                before = weights
            elif count != skipped or factor != FIRST / 2**skipped or state["divisi.finite_steps"][0] != steps - skipped:
                return f"step {steps}: {count} skipped steps, factor {factor}"
            else:
                changed = not np.array_equal(before["conv1.weight"], state["conv1.weight"]) if before else False
                return "" if skipped and changed else f"{skipped} steps were skipped"
        return "no step was finite"

    def growth(self):
        states = self.states("mlp", 1, "", GROWS + 1, 1)
        for step, offset, finite in ((GROWS, FIRST, 0), (GROWS + 1, FIRST, 1)):
            state = states[step]
            if (state["divisi.loss_scale_offset"][0], state["divisi.finite_steps"][0]) != (offset, finite):
                return f"after {step} steps: {state['divisi.loss_scale_offset'][0]}, {state['divisi.finite_steps'][0]}"
        return ""


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    o = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tests = Tests(o.divisi, folder)
        for devices, flags in WAYS:
            tests.losses(devices, flags, CLOSE if devices == 1 else "gpt_tiny,mlp")
            tests.check(f"{devices} devices {flags}: steps that overflow are skipped", tests.skips(devices, flags))
        tests.losses(1, "", DRIFTING, DRIFT)
        tests.check(f"{GROWS} finite steps double the factor", tests.growth())
    print(f"{tests.passed} passed, {tests.failed} failed")
    return 1 if tests.failed or not tests.passed else 0


if __name__ == "__main__":
    sys.exit(main())
