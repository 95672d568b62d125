#!/usr/bin/env python3
"""Trains the digits on ranks that meet over a slow network, and compares ways to keep replicas in step.

    compare.py --divisi PATH [--devices 2] [--rate 20mbit] [--epochs 3] [--json FILE]

The ranks are processes of this machine that meet over TCP in a network namespace of their own, whose loopback device `tc` limits to the
rate: all messages of all ranks together. Needs unshare (util-linux), ip and tc (iproute2), and either root or user namespaces.
"""

import argparse
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile

DIGITS = pathlib.Path(__file__).resolve().parents[1] / "digits"
WAYS = ["all-reduce", "server", "local --average-every 16", "local --average-every 64 --outer-optimizer nesterov"]
INSIDE = "DIVISI_SLOW_NETWORK"  # set in the namespace


def enter(rate):
    """Runs this program again in a network namespace whose loopback device has this rate."""
    missing = [tool for tool in ("unshare", "ip", "tc") if not shutil.which(tool)]
    if missing:
        sys.exit(f"error: {', '.join(missing)} not found: install util-linux and iproute2")
    limit = f"ip link set lo mtu 1500 up && tc qdisc add dev lo root tbf rate {rate} burst 128kb latency 2s && exec \"$@\""
    done = subprocess.run(["unshare", "--map-root-user", "--net", "sh", "-c", limit, "sh", sys.executable, *sys.argv],
                          env={**os.environ, INSIDE: rate})
    sys.exit(done.returncode)


def train(program, devices, log, epochs):
    """Starts all ranks and waits for them."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    files = [f"--{flag}={name}={DIGITS / file}.npy" for flag, name, file in
             [("data", "image", "x"), ("data", "label", "y"), ("eval", "image", "xt"), ("eval", "label", "yt")]]
    ranks = []
    for rank in range(devices):
        where = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": devices, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                 "OMP_NUM_THREADS": 1, "DIVISI_SECRET": "of-this-example-alone", "DIVISI_SHARED_MEMORY": 0}
        ranks.append(subprocess.Popen([program, *files, "--epochs", str(epochs), "--seed", "1", "--quiet", "--log", log],
                                      env={**os.environ, **{k: str(v) for k, v in where.items()}}))
    codes = [rank.wait() for rank in ranks]
    if any(codes):
        sys.exit(f"error: the ranks have ended with {codes}")
    return [json.loads(line) for line in log.read_text().splitlines()]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", default="divisi")
    p.add_argument("--devices", type=int, default=2)
    p.add_argument("--rate", default="20mbit", help="of the network, as tc takes it (20mbit)")
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--json", type=pathlib.Path, help="write the figures here, too")
    o = p.parse_args()
    if INSIDE not in os.environ:
        enter(o.rate)
    figures = []
    print(f"{o.devices} replicas, {o.rate}\n{'--sync':52} {'ms a step':>9} {'kB a step':>9} {'accuracy':>8}")
    for way in WAYS:
        with tempfile.TemporaryDirectory() as work:
            program, log = pathlib.Path(work) / "digits", pathlib.Path(work) / "log.jsonl"
            subprocess.run([o.divisi, "compile", DIGITS / "model.onnx", "-o", program, "--loss", "cross_entropy", "--label", "label",
                            "--optimizer", "sgd", "--lr", "0.05", "--momentum", "0.9", "--mesh", f"data={o.devices}",
                            "--sync", *way.split()], check=True)
            rows = train(program, o.devices, log, o.epochs)
        steps = [row for row in rows if "loss" in row and "step" in row and not row.get("eval")]
        accuracy = [row["accuracy"] for row in rows if row.get("eval")][-1]
        figures.append({"sync": way, "ms": sum(row["step_ms"] for row in steps) / len(steps),
                        "bytes": sum(row["comm_bytes"] for row in steps) / len(steps), "accuracy": accuracy})
        last = figures[-1]
        print(f"{way:52} {last['ms']:9.2f} {last['bytes'] / 1e3:9.1f} {accuracy:8.4f}", flush=True)
    if o.json:
        o.json.write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
