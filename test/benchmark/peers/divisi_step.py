"""divisi_step.py DIVISI EXPORTS MODEL OPTIMIZER THREADS [COMPILE_ARGUMENT ...]: the row of Divisi.

Compiles EXPORTS/MODEL.onnx, runs one step (both processes together are the time from `divisi compile` to a first step
finished), then measures like the peers. Step times come from the program's own log: `step_ms` of each line, or the
differences of `time`. The base of the memory figure is the same program when it only prints its help: its libraries are
loaded, no model is built.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import common

OPTIMIZERS = {
    "sgdm": ["--optimizer", "sgd", "--lr", "0.001", "--momentum", "0.9"],
    "adam": ["--optimizer", "adam", "--lr", "0.0001"],
}
STEPS = dict(mlp=100, lenet=30, resnet18=8, gpt2=16, lstm=10, gpt2_small=5, bert_base=6, vit_b_16=6, resnet50=6)


def call(command, log):
    """Runs a command; (seconds, its peak memory in MB). Ends this process with its output when it fails."""
    with open(log, "w") as out:
        t = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        peak = 0.0
        while process.poll() is None:
            peak = max(peak, common.memory("VmHWM", process.pid))
            time.sleep(0.0002 if time.perf_counter() - t < 0.1 else 0.01)
    if process.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit {process.returncode}\n{pathlib.Path(log).read_text()[-2000:]}")
    return time.perf_counter() - t, peak


def read_log(path):
    """(loss of step 1, seconds of the steps after the warm-up)."""
    rows = [row for row in map(json.loads, path.read_text().splitlines()) if "step" in row and "loss" in row]
    if all("step_ms" in row for row in rows):
        seconds = [row["step_ms"] / 1e3 for row in rows]
    elif all("time" in row for row in rows):
        seconds = [0.0] + [b["time"] - a["time"] for a, b in zip(rows, rows[1:])]
    else:
        sys.exit("the log has neither step_ms nor time")
    return rows[0]["loss"], seconds[common.WARM :]


def main():
    divisi, exports, name, optimizer, threads, *extra = sys.argv[1:]
    exports, divisi = pathlib.Path(exports).resolve(), str(pathlib.Path(divisi).resolve())
    os.environ["OMP_NUM_THREADS"] = threads
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        program, log, output = work / "program", work / "run.jsonl", work / "output"
        command = [divisi, "compile", exports / f"{name}.onnx", "-o", program, *OPTIMIZERS[optimizer], *extra]
        if name not in common.LOSS_INSIDE:
            command += ["--loss", "cross_entropy", "--label", "label"]
        compile_s, compile_mb = call(command, output)
        run = [program, "--data", f"x={exports / name / 'x.npy'}", "--data", f"label={exports / name / 'label.npy'}"]
        run += ["--no-shuffle", "--log", log, "--steps"]
        first_s, _ = call([*run, "1"], output)
        log.unlink()
        _, base = call([program, "--help"], output)
        load = common.OtherLoad()
        _, peak = call([*run, str(STEPS[name] + common.WARM)], output)
        load = load.value()
        loss, seconds = read_log(log)
        common.emit(
            model=name,
            loss=round(loss, 5),
            compile_s=round(compile_s, 2),
            compile_mb=round(compile_mb),
            first_s=round(compile_s + first_s, 2),
            base_mb=round(base),
            peak_mb=round(peak),
            other_cpu=load,
            program_mb=round(program.stat().st_size / 1e6, 2),
            **common.summary(seconds),
        )


main()
