#!/usr/bin/env python3
"""Times training steps while other programs use the same cores, beside steps of a quiet machine.

    busy.py --divisi PATH --exports FOLDER [--models mlp,lenet,gpt2] [--loads one,three,openmp] [--peers eager] [--rounds 3] [--threads 2]

FOLDER has what export.py wrote. Loads: `one` and `three` busy loops, and `openmp`: another OpenMP program of as many threads (an endless
MLP of Divisi whose threads spin for milliseconds, which is OpenMP's default). Each round times a program alone and under each load in turn;
peers (PyTorch in eager mode, with its default waiting and with OMP_WAIT_POLICY=passive) are timed in the same rounds. Prints medians of
the rounds' medians, and their ratios to the quiet ones. Run it alone: whatever else runs is a load, too.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "peers"))
import common  # noqa: E402

STEPS = dict(mlp=(120, 40), lenet=(40, 16), gpt2=(14, 8))  # quiet, loaded
WARM = 2
LOOP = "while True: pass"


def words(exports, name, steps):
    """Flags of a program that trains for `steps` steps on one batch."""
    data = [word for kind in ("x", "label") for word in ("--data", f"{kind}={exports / name / kind}.npy")]
    return [*data, "--no-shuffle", "--steps", str(steps)]


def compile_model(divisi, exports, name, out):
    """The program of a model."""
    loss = [] if name in common.LOSS_INSIDE else ["--loss", "cross_entropy", "--label", "label"]
    optimizer = ["--optimizer", "sgd", "--lr", "0.001", "--momentum", "0.9"]
    subprocess.run([divisi, "compile", exports / f"{name}.onnx", "-o", out, *optimizer, *loss], check=True, capture_output=True)
    return out


def divisi_ms(program, exports, name, steps):
    """The median step of a program in milliseconds."""
    with tempfile.NamedTemporaryFile() as log:
        run = [program, *words(exports, name, steps + WARM), "--log", log.name, "--quiet"]
        subprocess.run(run, check=True, capture_output=True)
        rows = [json.loads(line) for line in open(log.name)]
    return statistics.median([row["step_ms"] for row in rows if "step_ms" in row][WARM:])


def torch_ms(peer, name, threads, policy):
    """The median step of PyTorch."""
    environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", **({"OMP_WAIT_POLICY": policy} if policy else {}))
    command = [sys.executable, HERE / "peers/torch_step.py", peer, name, "sgdm", str(threads), "fp32"]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])["median_ms"]


@contextlib.contextmanager
def load(name, mlp, exports):
    """Other programs while a step is measured."""
    spinning = dict(os.environ, GOMP_SPINCOUNT="300000")
    commands = dict(none=[], one=[[sys.executable, "-c", LOOP]], three=[[sys.executable, "-c", LOOP]] * 3)
    commands["openmp"] = [[mlp, *words(exports, "mlp", 10**8), "--quiet"]]
    started = [subprocess.Popen(command, env=spinning, stdout=subprocess.DEVNULL) for command in commands[name]]
    try:
        time.sleep(0.5 if started else 0)
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--divisi", required=True)
    p.add_argument("--exports", type=pathlib.Path, required=True)
    p.add_argument("--models", default=",".join(STEPS))
    p.add_argument("--loads", default="one,three,openmp")
    p.add_argument("--peers", default="", help="eager, channels_last, compile; empty: none")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", type=int, default=2)
    o = p.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(o.threads)
    loads, peers = ["none", *o.loads.split(",")], [peer for peer in o.peers.split(",") if peer]
    times = {}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        programs = {name: compile_model(o.divisi, o.exports, name, folder / name) for name in {*o.models.split(","), "mlp"}}
        for _ in range(o.rounds):
            for name in o.models.split(","):
                for loaded in loads:
                    with load(loaded, programs["mlp"], o.exports):
                        key = (name, loaded)
                        steps = STEPS[name][loaded != "none"]
                        times.setdefault((*key, "Divisi"), []).append(divisi_ms(programs[name], o.exports, name, steps))
                        for peer in peers:
                            for policy in ("", "passive"):
                                row = f"{peer} {policy}".strip()
                                times.setdefault((*key, row), []).append(torch_ms(peer, name, o.threads, policy))
    print("| model | load | program | ms per step [least - most] | times the quiet one |\n|---|---|---|---|---|")
    for (name, loaded, program), rounds in times.items():
        middle, quiet = statistics.median(rounds), statistics.median(times[name, "none", program])
        print(f"| {name} | {loaded} | {program} | {middle:.1f} [{min(rounds):.1f} - {max(rounds):.1f}] | {middle / quiet:.2f} |")


if __name__ == "__main__":
    main()
