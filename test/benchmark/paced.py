#!/usr/bin/env python3
"""What steps take on links of given speed with each way to keep replicas in step, beside what `divisi plan --sync all` predicts.

    paced.py --divisi build/bin/divisi [--replicas 4 8] [--steps 32]

The ranks of a program are threads, whose messages take the time of the links and whose GEMMs sleep for the time of a device, so that
two cores stand for a cluster (paced/main.cpp, test/runtime/comm/PacedRanks.h). Then two groups of four replicas with a slow link
between them, whose all_reduces go around a ring because they know of no groups, or by hosts. Needs onnx, numpy and g++.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WIDTH, LAYERS, ROWS = 256, 4, 64  # rows of a replica
FLOPS = 2 * ROWS * WIDTH * WIDTH / 20e-3  # a GEMM takes 20 ms
INSIDE, ACROSS = (2e-3, 10e6), (5e-3, 2e6)  # latency, bytes/s
WAYS = {"all-reduce": 0, "driver": 0, "server --servers colocated": 0, "server --servers 1": 1, "server --servers 2": 2, "server --servers 4": 4,
        "local --average-every 8": 0, "local --average-every 8 --overlap-average": 0}


def write_model(path):
    random = np.random.default_rng(1)
    weights = [numpy_helper.from_array(random.normal(0, WIDTH**-0.5, (WIDTH, WIDTH)).astype(np.float32), f"w{i}") for i in range(LAYERS)]
    nodes, value = [], "x"
    for i in range(LAYERS):
        nodes += [helper.make_node("MatMul", [value, f"w{i}"], [f"m{i}"]), helper.make_node("Tanh", [f"m{i}"], [f"t{i}"])]
        value = f"t{i}"
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", WIDTH])]
    outputs = [helper.make_tensor_value_info(value, TensorProto.FLOAT, ["batch", WIDTH])]
    graph = helper.make_graph(nodes, "paced", inputs, outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def write_cluster(path, levels):
    text = f'[cluster]\nname = "paced"\n[device]\nkind = "cpu"\nname = "sleeping"\nmemory = "8GB"\nbandwidth = "10TB/s"\nlaunch = "1ns"\n'
    text += f"compute-efficiency = 1\nflops = {{ fp32 = {FLOPS} }}\n"
    for i, (size, (latency, bandwidth)) in enumerate(levels):
        text += f'[[level]]\nname = "level {i}"\nsize = {size}\nbandwidth = {bandwidth}\nlatency = {latency}\n'
    path.write_text(text)


def write_linker(folder):
    """A `c++` that links programs with a main function of their own."""
    objects = []
    for source in (HERE / "paced/main.cpp", ROOT / "test/runtime/comm/PacedRanks.cpp"):
        objects.append(str(folder / f"{source.stem}.o"))
        subprocess.run(["c++", "-std=c++20", "-O1", "-I", ROOT, "-I", ROOT / "runtime/include", "-c", source, "-o", objects[-1]], check=True)
    (folder / "bin").mkdir()
    linker = folder / "bin/c++"
    linker.write_text(f'#!/bin/sh\nPATH={os.environ["PATH"]} exec c++ {" ".join(objects)} "$@" -Wl,--wrap=divisi_gemm -Wl,--wrap=divisi_gemm_epilogue\n')
    linker.chmod(0o755)
    return {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}


class Bench:
    def __init__(self, divisi, steps, work):
        self.divisi, self.steps, self.work = divisi, steps, work
        self.model, self.cluster = work / "model.onnx", work / "cluster.toml"
        write_model(self.model)
        self.linking = write_linker(work)

    def flags(self, replicas):
        return ["--loss", "cross_entropy", "--label", "label", "--dim", f"batch={ROWS * replicas}", "--mesh", f"data={replicas}"]

    def predicted(self, replicas):
        """Milliseconds of a step, by way."""
        command = [self.divisi, "plan", self.model, "--cluster", self.cluster, *self.flags(replicas), "--sync", "all", "--json"]
        facts = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        return {entry["sync"]: entry["step_ms"] for entry in facts["sync"]}

    def measured(self, replicas, way, servers, hosts=None, known=None):
        program, log = self.work / "program", self.work / "log.jsonl"
        subprocess.run([self.divisi, "compile", self.model, "-o", program, *self.flags(replicas), "--sync", *way.split()],
                       env=self.linking, check=True, capture_output=True)
        random, rows = np.random.default_rng(2), ROWS * replicas * self.steps  # ranks meet at the end of an epoch
        np.save(self.work / "x.npy", random.normal(size=(rows, WIDTH)).astype(np.float32))
        np.save(self.work / "y.npy", random.integers(0, WIDTH, rows))
        hosts = hosts or [0] * (replicas + servers)
        paced = {"PACED_HOSTS": hosts, "PACED_KNOWN": known or hosts, "PACED_LINKS": [*INSIDE, *ACROSS], "PACED_FLOPS": [FLOPS], "OMP_NUM_THREADS": [1]}
        log.unlink(missing_ok=True)
        subprocess.run([program, "--data", f"x={self.work / 'x.npy'}", "--data", f"label={self.work / 'y.npy'}", "--steps", str(self.steps),
                        "--epochs", "1000", "--quiet", "--log", log], env={**os.environ, **{k: ",".join(map(str, v)) for k, v in paced.items()}}, check=True)
        times = [row["step_ms"] for row in map(json.loads, log.read_text().splitlines()) if "step_ms" in row]
        if "local" in way:  # only some steps average: all but those of the first and the last average
            return statistics.mean(times[8:-8])
        return statistics.median(times[2:])


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True, type=lambda path: str(pathlib.Path(path).resolve()))
    p.add_argument("--replicas", type=int, nargs="*", default=[4, 8])
    p.add_argument("--steps", type=int, default=32)
    o = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(o.divisi, o.steps, pathlib.Path(folder))
        print("| replicas | `--sync` | predicted ms | measured ms | measured / predicted |\n|---|---|---|---|---|")
        for replicas in o.replicas:
            write_cluster(bench.cluster, [(replicas + max(WAYS.values()), INSIDE)])
            predicted = bench.predicted(replicas)
            for way in sorted(WAYS, key=predicted.get):
                took = bench.measured(replicas, way, WAYS[way])
                print(f"| {replicas} | `{way}` | {predicted[way]:.0f} | {took:.0f} | {took / predicted[way]:.2f} |", flush=True)
        write_cluster(bench.cluster, [(4, INSIDE), (2, ACROSS)])
        groups, predicted = [0] * 4 + [1] * 4, bench.predicted(8)["all-reduce"]
        for what, known in (("by hosts", groups), ("ring", [0] * 8)):
            took = bench.measured(8, "all-reduce", 0, groups, known)
            beside = f"{predicted:.0f} | {took:.0f} | {took / predicted:.2f}" if known == groups else f" | {took:.0f} | "
            print(f"| 2 x 4, slow between | `all-reduce`, {what} | {beside} |", flush=True)


if __name__ == "__main__":
    main()
