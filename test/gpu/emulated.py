#!/usr/bin/env python3
"""Trains the test models with programs for GPUs without a GPU: kernels run on this processor, thread by thread, under a driver,
a cuBLASLt, a cuDNN and an NCCL that log calls and compute plainly (fake/). Losses are compared with PyTorch's.

    emulated.py --build DIR [--all] [--only WORD]

Without --all: some models of each kind, most of them by AdamW alone.

One line per check, then `N passed, N failed`.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import launch
import run

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "fuzz"))
from program import read_safetensors  # noqa: E402

MODELS = HERE.parent / "models"
# Words for check.py.
WAYS = {
    "one GPU": ["--cases", "mlp,lenet,gpt_tiny"],
    "one GPU, more": ["--cases", "mlp_no_loss,llama_tiny,moe_tiny,resnet_tiny,inception_tiny,unet_tiny"],
    "bf16": ["--compile-args=--precision bf16", "--tolerance", "0.02", "--norm-tolerance", "0.3", "--cases", "mlp,gpt_tiny"],
    "bf16, more": ["--compile-args=--precision bf16", "--tolerance", "0.02", "--norm-tolerance", "0.3", "--cases",
                   "mlp_no_loss,llama_tiny,moe_tiny,inception_tiny,unet_tiny"],
    "bf16 on data=2,model=2": ["--devices", "4", "--compile-args=--mesh data=2,model=2 --precision bf16", "--tolerance", "0.02",
                               "--norm-tolerance", "0.3", "--cases", "gpt_tiny"],
    "fp16": ["--compile-args=--precision fp16", "--tolerance", "0.02", "--norm-tolerance", "0.3", "--cases", "gpt_tiny,inception_tiny"],
    "tf32": ["--compile-args=--precision tf32", "--cases", "gpt_tiny"],
    "tf32, convolutions": ["--compile-args=--precision tf32", "--tolerance", "0.005", "--norm-tolerance", "0.1", "--cases", "inception_tiny,unet_tiny"],
    "data=2": ["--devices", "2", "--strategy", "data", "--cases", "gpt_tiny"],
    "data=2, more": ["--devices", "2", "--strategy", "data", "--cases", "lenet,moe_tiny"],
    "data=2 on one GPU": ["--devices", "2", "--strategy", "data", "--cases", "mlp"],
    "model=2": ["--devices", "2", "--strategy", "operator", "--cases", "gpt_tiny"],
    "data=2,model=2": ["--devices", "4", "--compile-args=--mesh data=2,model=2", "--cases", "gpt_tiny"],
    "zero 3": ["--devices", "2", "--compile-args=--mesh data=2 --zero 3", "--cases", "gpt_tiny"],
    "stage=2": ["--devices", "2", "--compile-args=--mesh stage=2 --microbatches 2", "--cases", "lenet"],
    "stage=2 interleaved": ["--devices", "2", "--compile-args=--mesh stage=2 --microbatches 4 --schedule interleaved", "--cases", "unet_tiny"],
    "stage=2 gpipe": ["--devices", "2", "--compile-args=--mesh stage=2 --microbatches 4 --schedule gpipe", "--cases", "llama_tiny"],
    "stage=2,data=2": ["--devices", "4", "--compile-args=--mesh stage=2,data=2 --microbatches 2", "--cases", "gpt_tiny"],
    "stage axes data,none": ["--devices", "3", "--compile-args=--mesh stage=2,data=2 --stage-axes data,none --microbatches 2", "--cases", "lenet"],
    "in turn 2-1": ["--devices", "3", "--compile-args=--mesh stage=2 --round-robin 2,1 --microbatches 4", "--cases", "mlp,lenet,gpt_tiny"],
    "in turn 1-3 gpipe": ["--devices", "4", "--compile-args=--mesh stage=2 --round-robin 1,3 --schedule gpipe --microbatches 4", "--cases", "mlp,lenet,gpt_tiny"],
    "in turn 3-2-1 naive": ["--devices", "6", "--compile-args=--mesh stage=3 --round-robin 3,2,1 --schedule naive --microbatches 4",
                            "--cases", "mlp,lenet,gpt_tiny"],
    "in turn 7-1": ["--devices", "8", "--compile-args=--mesh stage=2 --round-robin 7,1 --microbatches 8", "--cases", "lenet"],  # more routes than queues
    "in turn 2-1, data=2": ["--devices", "6", "--compile-args=--mesh stage=2,data=2 --round-robin 2,1 --zero 1 --microbatches 2", "--cases", "gpt_tiny"],
    "in turn 2-1 on one GPU": ["--devices", "3", "--compile-args=--mesh stage=2 --round-robin 2,1 --microbatches 4", "--cases", "mlp"],
}


# Of asynchronous.py: a sequential reference in float64.
ASYNCHRONOUS = ("round-robin (2, 1)", "2bw stage=2 ")
# Of servers.py and replicas.py: every way to keep replicas in step.
SYNC = {"servers.py": ("async data=4 servers 3", "async data=2,model=2 servers 2", "sync mlp stage=2,data=2 servers 2", "gossip data=2,model=2", "gossip stage=2,data=2",
                       "resume async-server data", "sync dropout"),
        "replicas.py": ("mlp --mesh data=4 --sync", "mlp --mesh data=2,model=2 adamw every 4", "mlp --mesh stage=2,data=2 --microbatches 2 sgd gossip ring")}
ALL_SYNC = {"servers.py": ("async data", "async stage", "async still", "sync ", "gossip", "resume"), "replicas.py": ("--mesh",)}
ALL_ASYNCHRONOUS = ("round-robin", "evaluated with replicas", "2bw stage=2 ")
LONG = ("in turn 7-1", "in turn 2-1, data=2", "stage=2 interleaved", "model=2", "tf32", "in turn 1-3 gpipe", "in turn 3-2-1 naive", "in turn 2-1 on one GPU", "stage=2 gpipe", "fp16", "bf16, more", "bf16 on data=2,model=2", "one GPU, more", "data=2, more", "data=2,model=2", "stage=2,data=2")


class Tests:
    def __init__(self, build):
        self.build, self.passed, self.failed = build, 0, 0
        self.environment = dict(os.environ, DIVISI_BUILD=str(build), LD_LIBRARY_PATH=str(build / "test/gpu/fake"))

    def check(self, name, wrong):
        print(f"{'FAIL' if wrong else 'ok  '} {name}{': ' + wrong if wrong else ''}", flush=True)
        self.passed, self.failed = self.passed + (not wrong), self.failed + bool(wrong)

    def losses(self, words, gpus):
        """Every case of check.py in one way, on a host with `gpus` GPUs: ranks that share one exchange data through the host's
        memory, others by NCCL."""
        python = self.build / "test/venv/bin/python"
        run_args = "--device cuda" + (" --no-nccl" if gpus == 1 and "--devices" in words else "")
        command = [python, MODELS / "check.py", "--divisi", HERE / "emulated_divisi.py", f"--run-args={run_args}"]
        yield from self.lines([*command, *words], gpus)

    def asynchronous(self, only):
        """Lines of asynchronous.py on 16 GPUs."""
        python = self.build / "test/venv/bin/python"
        yield from self.lines([python, MODELS / "asynchronous.py", "--divisi", HERE / "emulated_divisi.py", "--only", only], 16)

    def sync(self, script, only):
        """Lines of a script on 16 GPUs, without those that count bytes: NCCL's are not counted."""
        command = [self.build / "test/venv/bin/python", MODELS / script, "--divisi", HERE / "emulated_divisi.py", "--only", only]
        for name, wrong in self.lines(command, 16):
            if "byte" not in wrong or "Error" in wrong:
                yield name, wrong

    def lines(self, command, gpus):
        """(what was tested, what is wrong) of a script's lines."""
        done = self.run(list(map(str, command)), DIVISI_FAKE_GPU_COUNT=str(gpus))
        for line in done.stdout.splitlines():
            if match := re.match(r"(ok  |FAIL) (.*)", line):
                yield match[2].split(":")[0], "" if match[1] == "ok  " else match[2]

    def program(self, folder, model="mlp", flags=()):
        """A program and the words that train it."""
        path = pathlib.Path(folder) / model
        command = [sys.executable, HERE / "emulated_divisi.py", "compile", MODELS / model / "model.onnx", "-o", path, *flags]
        subprocess.run(list(map(str, command)), env=self.environment, check=True, capture_output=True)
        data = [w for f in sorted((MODELS / model / "data").glob("*.npy")) for w in ("--data", f"{f.stem}={f}")]
        return [str(path), *data]

    def run(self, command, **variables):
        return subprocess.run(command, env={**self.environment, **variables}, capture_output=True, text=True)

    def recording(self, model):
        """Memory is allocated before the first step, and a step that was seen before is one graph."""
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "calls"
            command = [*self.program(folder, model), "--steps", "8", "--no-shuffle", "--device", "cuda"]
            done = self.run(command, DIVISI_FAKE_GPU_LOG=str(log))
            if done.returncode != 0:
                return done.stderr.strip()
            calls = log.read_text().splitlines()
        kinds = collections.Counter(call.split()[0] for call in calls)
        work, last = ("launch", "matmul", "copy", "conv", "operations"), 0
        for i, call in enumerate(calls):
            kind = call.split()[0]
            if kind == "capture":
                last = i
            elif kind == "graph" and int(call.split()[2]) != sum(c.startswith(work) for c in calls[last:i]):
                return f"'{call}', but {i - last - 1} calls were recorded"
        first, final = calls.index("capture"), max(i for i, c in enumerate(calls) if c.startswith("replay"))
        if any(c.startswith("allocate") for c in calls[first:final]):
            return "memory is allocated after the first step"
        # Steps that report accuracy run additional calls: 8 steps are of two kinds, and each kind runs once before it
        # is recorded.
        if kinds["capture"] > 2 or kinds["replay"] < 6:
            return f"{kinds['capture']} captures, {kinds['replay']} replays in 8 steps"
        if kinds["allocate"] != kinds["free"]:
            return f"{kinds['allocate']} allocations, {kinds['free']} freed"
        return ""

    def inputs(self, late):
        """Batches wait for each other on their way to the GPU, whatever is late there: over several shuffled epochs, with evaluations
        between steps, losses are those of the CPU, and weights those of a GPU where nothing is late, also after --resume."""
        with tempfile.TemporaryDirectory() as name:
            folder, found = pathlib.Path(name), {}
            command = self.program(folder, flags=["--target", "cpu,cuda"])
            evaluated = [word for file in command[2::2] for word in ("--eval", file)]
            runs = {
                "cpu": ("cpu", [], {}),
                "cuda": ("cuda", [], {}),
                "not pinned": ("cuda", [], {"DIVISI_FAKE_GPU_LATE": late, "DIVISI_FAKE_GPU_PINNED": str(16 << 20)}),  # enough for the ring
                "late": ("cuda", ["--checkpoint", folder / "states", "--every", "1", "--keep-checkpoints", "20"], {"DIVISI_FAKE_GPU_LATE": late}),
                "resumed": ("cuda", ["--checkpoint", folder / "states", "--every", "1", "--resume"], {"DIVISI_FAKE_GPU_LATE": late}),
            }
            for run, (device, words, variables) in runs.items():
                log, saved = folder / f"{run}.jsonl", folder / f"{run}.safetensors"
                done = self.run([*command, *evaluated, "--eval-every", "5", "--steps", "14", "--epochs", "5", "--device", device, "--quiet", "--log", log,
                                 "--save-weights", saved, *words], **variables)
                if done.returncode != 0:
                    return f"{run}: {done.stderr.strip()}"
                rows = [json.loads(line) for line in log.read_text().splitlines()]
                found[run] = [row["loss"] for row in rows if "loss" in row and "epoch_end" not in row], saved.read_bytes()
                for state in (folder / "states").glob("step-*"):
                    if state.name != "step-6":  # the end of the first epoch
                        shutil.rmtree(state)
        wanted = found["cpu"][0]
        if len(wanted) < 14 + 3 or len(set(wanted)) < 14 or len(found["resumed"][0]) != len(wanted) - 6 - 1:
            return f"too few numbers: {wanted}"
        for run, (losses, weights) in found.items():
            if run != "cpu" and weights != found["cuda"][1]:
                return f"{run}: other weights: {losses}"
            if max(abs(a - b) for a, b in zip(losses[-6:], wanted[-6:], strict=True)) > 1e-4 * wanted[0]:
                return f"{run}: {losses}, not {wanted}"
        return ""

    def trace(self):
        """Times of calls and collectives come from the streams of each GPU."""
        with tempfile.TemporaryDirectory() as folder:
            trace, profile = pathlib.Path(folder) / "trace.json", pathlib.Path(folder) / "profile.jsonl"
            command = self.program(folder, flags=["--mesh", "data=2"])
            command += ["--steps", "6", "--no-shuffle", "--device", "cuda", "--trace", str(trace), "--profile", str(profile)]
            done = self.run([str(self.build / "bin/divisi"), "run", "--devices", "2", *command], DIVISI_FAKE_GPU_COUNT="2")
            if done.returncode != 0:
                return done.stderr.strip()
            events = json.loads(trace.read_text())["traceEvents"]
            calls = [json.loads(line) for line in profile.read_text().splitlines()[1:]]
        for rank in (0, 1):
            mine = [e for e in events if e["pid"] == rank]
            computed = [e for e in mine if e["ph"] == "X" and e["tid"] == 1]  # the thread of calls
            if [e["cat"] for e in computed] != [call["kind"] for call in calls]:
                return f"rank {rank} has {len(computed)} events for {len(calls)} calls"
            if any(a["ts"] > b["ts"] for a, b in zip(computed, computed[1:])) or any(e["dur"] < 0 for e in computed):
                return f"the events of rank {rank} are out of order"
            reduced = [e for e in mine if e["ph"] == "X" and e["tid"] >= 2]
            if len(reduced) != sum(call["kind"] == "all_reduce" for call in calls) or not all(e["dur"] > 0 for e in reduced):
                return f"rank {rank} has {len(reduced)} collectives"
        return ""

    def queries(self):
        """Attention split along its queries, which then has its causal mask as a bias, trains as attention split along the batch."""
        flags = ["--precision", "bf16", "--lr", "0.05"]
        losses = []
        with tempfile.TemporaryDirectory() as folder:
            plan, log = pathlib.Path(folder) / "plan.mlir", pathlib.Path(folder) / "log.jsonl"
            self.run([self.build / "bin/divisi", "compile", MODELS / "gpt_tiny/model.onnx", *flags[:2], "--target", "cuda", "--mesh", "data=2",
                      "--emit", "plan", "-o", plan])
            for nodes in [], [f"/h.{layer}/Softmax:0.3{part}" for layer in (0, 1) for part in ("", ".grad.0")]:
                splits = "".join(f'  dist.split @train "{node}" {{s = ["data"]}}\n' for node in nodes)
                plan.write_text(plan.read_text().rstrip().removesuffix("}") + splits + "}\n")
                command = self.program(folder, "gpt_tiny", [*flags, "--plan", plan])
                done = self.run([self.build / "bin/divisi", "run", "--devices", "2", *command, "--steps", "6", "--no-shuffle", "--device", "cuda",
                                 "--log", log, "--quiet"], DIVISI_FAKE_GPU_COUNT="2")
                if done.returncode != 0:
                    return done.stderr.strip()[-300:]
                losses.append([line["loss"] for line in map(json.loads, log.read_text().splitlines()) if "loss" in line])
        apart = max(abs(a / b - 1) for a, b in zip(*losses))
        return "" if len(losses[0]) == len(losses[1]) >= 6 and losses[0] != losses[1] and apart < 1e-3 else f"{losses}"

    def epilogues(self, precision, tolerance):
        """Epilogue fusion: the program uses each epilogue that the compiler knows, and no other; losses and norms on the GPU and on the
        CPU are those of a program in 32 bits, and with fusion disabled no epilogue is used."""
        with tempfile.TemporaryDirectory() as folder:
            words = []
            for name, columns, seed in (("x", 40, 1), ("y", 8, 2)):
                run.write_numbers(pathlib.Path(folder) / f"{name}.npy", (24 * 4, columns), seed=seed)
                words += ["--data", f"{name}={folder}/{name}.npy"]
            words += ["--init", "3", "--steps", "32", "--no-shuffle", "--log-grad-norms", "--quiet"]

            def train(name, flags, device, log="", said="", **variables):
                path = pathlib.Path(folder) / name
                command = [sys.executable, HERE / "emulated_divisi.py", "compile", HERE / "wide.mlir", "--optimizer", "adam", "--lr", "0.003", "-o", path, *flags]
                subprocess.run(list(map(str, command)), env=self.environment, check=True, capture_output=True)
                lines = pathlib.Path(f"{path}.{device}.jsonl")
                done = self.run([str(path), *words, "--device", device, "--log", str(lines)], DIVISI_FAKE_GPU_LOG=log, **variables)
                if done.returncode != 0 or not re.fullmatch(said, done.stderr.strip()):
                    raise RuntimeError(f"{name} on {device}: {done.stderr.strip()}")
                rows = [json.loads(line) for line in lines.read_text().splitlines()]
                norms = next(row["grad_norms"] for row in rows if "grad_norms" in row)
                return [row["loss"] for row in rows if "loss" in row], norms

            try:
                log = pathlib.Path(folder) / "calls"
                wanted, norms = train("plain", ["--target", "cpu"], "cpu")
                flags = ["--precision", precision, "--target"]
                found = {
                    "on a GPU": train("fused", [*flags, "cuda"], "cuda", str(log)),
                    "on the CPU": train("both", [*flags, "cpu,cuda"], "cpu"),
                    "without": train("without", [*flags, "cuda", "--no-epilogues"], "cuda", f"{log}.without"),
                    "by parts": train("parts", [*flags, "cuda"], "cuda", f"{log}.parts",
                                      "warning: cuBLASLt has no algorithm for the epilogue of a matmul of .*--no-epilogues.*",
                                      DIVISI_FAKE_CUBLASLT_EPILOGUES="none"),
                }
            except RuntimeError as error:
                return str(error)
            codes, without, parts = (set(re.findall(r"matmul .* epilogue (\d+)", pathlib.Path(p).read_text()))
                                     for p in (log, f"{log}.without", f"{log}.parts"))
        # In cublasLtEpilogue_t: no epilogue; a bias; relu and gelu with a bias; gelu with the values for the gradient, too; its gradient;
        # a bias's gradient from either operand.
        if codes != {"1", "4", "6", "36", "164", "192", "256", "512"} or without != {"1"} or parts != {"1"}:
            return f"epilogues {sorted(map(int, codes))}, without {sorted(map(int, without))}"
        if wanted[28] > 0.6 * wanted[0]:  # of the same batch
            return f"nothing is learned: {wanted}"
        for how, (losses, found_norms) in found.items():
            off = max(abs(a - b) / b for a, b in zip(losses, wanted, strict=True))
            off_norm = max(abs(found_norms[name] - norm) / norm for name, norm in norms.items())
            if off > tolerance or off_norm > 5 * tolerance:
                return f"{how} losses are {off:.2g} off, norms {off_norm:.2g}"
        return ""

    def aligned(self, precision, tolerance):
        """1,001 classes of 801 numbers, which tensor cores read in 1,024 rows of 832, train as on the CPU in 32 bits, and the weights that are saved are the model's."""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            run.write_numbers(folder / "x.npy", (640 * 2, 801))
            run.write_numbers(folder / "t.npy", (640 * 2,), 1001)
            words = ["--data", f"x={folder / 'x.npy'}", "--data", f"t={folder / 't.npy'}", "--init", "3", "--steps", "4", "--no-shuffle", "--quiet"]
            losses, weights = {}, {}
            for device, flags in (("cpu", []), ("cuda", ["--precision", precision])):
                command = [sys.executable, HERE / "emulated_divisi.py", "compile", HERE / "aligned.mlir", "--lr", "10", "--target", device, "-o", folder / device, *flags]
                subprocess.run(list(map(str, command)), env=self.environment, check=True, capture_output=True)
                done = self.run([str(folder / device), *words, "--device", device, "--log", f"{folder / device}.jsonl", "--save-weights", f"{folder / device}.safetensors"])
                if done.returncode != 0:
                    return f"{device}: {done.stderr.strip()[-300:]}"
                losses[device] = [row["loss"] for row in map(json.loads, pathlib.Path(f"{folder / device}.jsonl").read_text().splitlines()) if "loss" in row]
                weights[device] = read_safetensors(f"{folder / device}.safetensors")["classes"]
        off = max(abs(a - b) / b for a, b in zip(losses["cuda"], losses["cpu"], strict=True))
        apart = abs(weights["cuda"] - weights["cpu"]).max() / abs(weights["cpu"]).max()
        good = weights["cuda"].shape == (1001, 801) and off <= tolerance and apart <= tolerance and losses["cpu"][-1] < losses["cpu"][0]
        return "" if good else f"losses {off:.2g} off, weights {weights['cuda'].shape} {apart:.2g}: {losses}"

    def lost(self, how):
        """Rank 0 waits forever in a collective, because rank 1 is killed or fails, or there is an error of NCCL. All ranks end, and rank
        0 names the step and the collective."""
        with tempfile.TemporaryDirectory() as folder:
            port = launch.free_port()
            log = pathlib.Path(folder) / "calls"
            command = [*self.program(folder, flags=["--mesh", "data=2"]), "--steps", "1000", "--no-shuffle", "--device", "cuda", "--quiet"]
            ranks = []
            for rank in (0, 1):
                own = launch.variables(rank, 2, port) | {"DIVISI_FAKE_GPU_COUNT": "2", "DIVISI_FAKE_GPU_LOG": str(log), "OMP_NUM_THREADS": "1"}
                if rank == 0:
                    own["DIVISI_FAKE_NCCL_BREAK"] = "40:error" if how == "error" else "40:hangs"
                elif how == "failing":
                    own["DIVISI_FAKE_NCCL_BREAK"] = "40:fails"
                ranks.append(subprocess.Popen(command, env={**self.environment, **own}, stdout=subprocess.PIPE,
                                              stderr=subprocess.PIPE, text=True))
            mine = pathlib.Path(f"{log}.0")
            for _ in range(600):
                if ranks[0].poll() is not None or (mine.is_file() and "nccl breaks" in mine.read_text()):
                    break
                time.sleep(0.1)
            if how == "killed":
                ranks[1].kill()
            said = []
            for rank, process in enumerate(ranks):
                if rank == 1 and how == "error":
                    process.kill()  # it is in this NCCL's next collective
                try:
                    said.append(process.communicate(timeout=20)[1].strip())
                except subprocess.TimeoutExpired:
                    for other in ranks:
                        other.kill()
                    return f"rank {rank} waits for ever"
        why = {
            "error": "NCCL: remote error",
            "killed": "the connection to rank 1 has ended",
            "failing": r"rank 1: step \d+: [^\n]*launch a graph[^\n]*",
        }[how]
        good = re.fullmatch(r"error: rank 0: step \d+: waited for 'all_reduce [^\n]*': " + why, said[0])
        return "" if good and ranks[0].returncode == 1 else f"exit {ranks[0].returncode}: {said}"

    def libraries(self):
        """A driver of CUDA 12 beside libraries of CUDA 12 and 13: the one that starts is used, and named by --info."""
        with tempfile.TemporaryDirectory() as folder:
            command = self.program(folder)
            for driver, version in (("13000", "13.1.0 (libcublasLt.so.13)"), ("12080", "12.1.0 (libcublasLt.so.12)")):
                log = pathlib.Path(folder) / f"calls{driver}"
                variables = {"DIVISI_FAKE_GPU_DRIVER": driver, "DIVISI_FAKE_GPU_LOG": str(log)}
                done = self.run([*command, "--steps", "1", "--device", "cuda", "--quiet"], **variables)
                used = [line for line in log.read_text().splitlines() if line.startswith("cuBLASLt")]
                if done.returncode != 0 or used != [f"cuBLASLt of CUDA {version[:2]}"]:
                    return f"driver {driver}: exit {done.returncode}: {done.stderr.strip()} {used}"
                said = self.run([*command, "--info"], **variables).stdout
                wanted = [f"NVIDIA driver of CUDA {driver[:2]}.{int(driver[2:4])}", f"cuBLASLt {version}", "cuDNN 9.19.0 (libcudnn.so.9)", "NCCL 2.27.5 (libnccl.so.2)"]
                if any(f"  {line}\n" not in said for line in wanted):
                    return f"--info says {said}"
            old = self.run([*command, "--steps", "1", "--device", "cuda", "--quiet"], DIVISI_FAKE_GPU_DRIVER="11080")
            return "" if old.returncode == 1 and re.search("cuBLASLt cannot be used .*so.13: .*so.12: ", old.stderr) else old.stderr

    def guarded(self):
        """run.py on a pack whose programs hang: each part ends after its time, and the next one follows."""
        with tempfile.TemporaryDirectory() as folder:
            pack, case = pathlib.Path(folder), pathlib.Path(folder) / "models/mlp"
            (case / "data").mkdir(parents=True)
            (pack / "lib").mkdir()
            (pack / "kernels").mkdir()
            shutil.copy(MODELS / "mlp/reference.json", case)
            for script in ("run.py", "launch.py"):
                shutil.copy(HERE / script, pack)
            for program, does in (("sgd", "sleep 600"), ("adamw", "sleep 600"), ("bf16", "echo error: no GPU >&2; exit 1")):
                (case / program).write_text(f"#!/bin/sh\n{does}\n")
                (case / program).chmod(0o755)
            out = pack / "gpu.json"
            begin = time.monotonic()
            done = subprocess.run([sys.executable, pack / "run.py", "--out", out, "--limit", "3"], capture_output=True, text=True, timeout=120)
            rows = json.loads(out.read_text())
            said = {row["part"]: row["said"] for row in rows}
            good = said["parity"] == said["host"] == "no end within 3.0 seconds" and said["precision"] == "error: no GPU"
            good = good and list(said) == ["parity", "precision", "host", "kernels", "speed", "ranks"] and done.returncode == 1
            left = subprocess.run(["pgrep", "-f", f"{folder}/"], capture_output=True, text=True).stdout.split()
            return "" if good and not left and time.monotonic() - begin < 60 else f"exit {done.returncode}: {said} {done.stderr} {left}"

    def refusals(self):
        """Errors for missing libraries and devices, and their exit codes."""
        with tempfile.TemporaryDirectory() as folder:
            command = [*self.program(folder), "--steps", "1", "--device", "cuda"]
            cases = {
                "no driver": ({"LD_LIBRARY_PATH": ""}, "no GPU: the NVIDIA driver is missing"),
                "no GPU": ({"DIVISI_FAKE_GPU_COUNT": "0"}, "no GPU: the NVIDIA driver knows no GPU"),
                "an old GPU": (
                    {"DIVISI_FAKE_GPU_CAPABILITY": "70"},
                    "compute capability 7.0, but this program has code for 9.0 and later",
                ),
                "little memory": ({"DIVISI_FAKE_GPU_MEMORY": "1000"}, "but 1 MiB of 1 MiB are free: "),
                "memory for the program but not for libraries": ({"DIVISI_FAKE_GPU_MEMORY": str(300 << 20)},
                                                                 "and libraries about 384 MiB, but 300 MiB of 300 MiB are free: "),
            }
            for name, (variables, words) in cases.items():
                done = self.run(command, **variables)
                said = done.stderr.strip()
                good = done.returncode == 1 and words in said and said.count("\n") == 0 and said.startswith("error: ")
                yield name, "" if good else f"exit {done.returncode}: {said}"
            both = [*self.program(folder, "lenet", ["--target", "cpu,cuda"]), "--steps", "1"]
            done = self.run(both, DIVISI_FAKE_GPU_MEMORY="1000")
            good = done.returncode == 1 and "too little memory: the program needs" in done.stderr and "(--device cpu computes" in done.stderr
            yield "little memory where the CPU could do", "" if good else f"exit {done.returncode}: {done.stderr.strip()}"
            done = self.run([*command[:-1], "cpu"])
            good = done.returncode == 2 and "compile it with --target cpu,cuda" in done.stderr
            yield "no code for the CPU", "" if good else f"exit {done.returncode}: {done.stderr.strip()}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--all", action="store_true", help="all models and ways")
    parser.add_argument("--only", default="", help="ways with this word in their name")
    options = parser.parse_args()
    tests = Tests(options.build.resolve())
    for way, words in WAYS.items():
        if options.only in way and (options.all or options.only or way not in LONG):
            few = [] if options.all or options.only or way == "one GPU" else ["--optimizers", "adamw"]  # which has more states
            lines = list(tests.losses([*words, *few], 1 if "one GPU" in way else 8))
            for name, wrong in lines or [("", "check.py said nothing")]:
                tests.check(f"{way}: {name}", wrong)
    for only in ALL_ASYNCHRONOUS if options.all or options.only else ASYNCHRONOUS:
        if options.only in f"asynchronous: {only}":
            lines = list(tests.asynchronous(only))
            for name, wrong in lines or [("", "asynchronous.py said nothing")]:
                tests.check(f"asynchronous: {name}", wrong)
    for script, words in (ALL_SYNC if options.all or options.only else SYNC).items():
        for only in words:
            if options.only in f"sync: {only}":
                lines = list(tests.sync(script, only))
                for name, wrong in lines or [("", f"{script} said nothing")]:
                    tests.check(f"sync: {name}", wrong)
    if options.only in "recording":
        for model in ("mlp", "lenet", "gpt_tiny"):
            tests.check(f"recording: {model}", tests.recording(model))
    if options.only in "epilogues":
        for precision, tolerance in (("tf32", 1e-4), ("bf16", 0.02), ("fp16", 0.02)):
            tests.check(f"epilogues: {precision}", tests.epilogues(precision, tolerance))
    if options.only in "aligned":
        for precision, tolerance in (("bf16", 0.02), ("tf32", 1e-3))[:2 if options.all or options.only else 1]:
            tests.check(f"aligned: {precision}", tests.aligned(precision, tolerance))
    if options.only in "guarded":
        tests.check("guarded: parts of run.py that hang", tests.guarded())
    if options.only in "inputs":
        for late in ("uploads", "copies"):
            tests.check(f"inputs: {late} are late", tests.inputs(late))
    if options.only in "libraries":
        tests.check("libraries: of CUDA 12 and 13", tests.libraries())
    if options.only in "queries":
        tests.check("queries: gpt_tiny in bf16 on two GPUs", tests.queries())
    if options.only in "trace":
        tests.check("trace: mlp on data=2", tests.trace())
    if options.only in "lost":
        tests.check("lost: a rank that is killed", tests.lost("killed"))
        tests.check("lost: a rank that fails", tests.lost("failing"))
        tests.check("lost: an error of NCCL", tests.lost("error"))
    if options.only in "refusals":
        for name, wrong in tests.refusals():
            tests.check(f"refusals: {name}", wrong)
    print(f"{tests.passed} passed, {tests.failed} failed")
    return 1 if tests.failed or not tests.passed else 0


if __name__ == "__main__":
    sys.exit(main())
