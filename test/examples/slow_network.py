#!/usr/bin/env python3
"""Runs examples/slow-network: bytes are those of docs/synchronisation.md, averages now and then take less time, and learn as much.

    slow_network.py --divisi PATH

Where network namespaces are not permitted, it says so and tests nothing. Prints `N passed, N failed`.
"""

import argparse
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "execute"))
sys.dont_write_bytecode = True
import cases  # noqa: E402

COMPARE = pathlib.Path(__file__).resolve().parents[2] / "examples/slow-network/compare.py"
PARAMETERS = 4 * 38282  # bytes


def compare(divisi, work):
    probe = subprocess.run(["unshare", "--map-root-user", "--net", "sh", "-c", "ip link set lo up && tc qdisc add dev lo root tbf rate 1mbit burst 64kb latency 1s"],
                           capture_output=True, text=True)
    if probe.returncode:
        return f"not permitted here: {probe.stderr.strip()}"
    subprocess.run([sys.executable, COMPARE, "--divisi", divisi, "--rate", "40mbit", "--epochs", "2", "--json", work / "figures"],
                   check=True, capture_output=True, timeout=300)
    figures = {f["sync"]: f for f in json.loads((work / "figures").read_text())}
    whole, server, local = (figures[way] for way in ("all-reduce", "server", "local --average-every 16"))
    for one in (whole, server):  # the rest is the loss
        assert 0 <= one["bytes"] - PARAMETERS <= 64, f"{one['sync']}: {one['bytes']} bytes a step"
    steps = 2 * (1437 // 32)  # the last one averages, too
    averages = steps // 16 + (steps % 16 > 0)
    assert 0 <= local["bytes"] - PARAMETERS * averages / steps <= 128, f"local: {local['bytes']} bytes a step"
    assert whole["ms"] > 3 * local["ms"], f"{whole['ms']} and {local['ms']} ms a step"
    assert whole["accuracy"] > 0.85 and local["accuracy"] > 0.85, f"accuracy {whole['accuracy']} and {local['accuracy']}"
    return f"{whole['ms']:.1f} ms a step with all-reduce, {local['ms']:.1f} with averages in every 16th step; bytes as the formulas"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    o = p.parse_args()
    return cases.run([compare], lambda case, work: case(o.divisi, work))


if __name__ == "__main__":
    sys.exit(main())
