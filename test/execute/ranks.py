#!/usr/bin/env python3
"""Training on several ranks with faults, and on other numbers of ranks than before.

    ranks.py --divisi PATH

- saved on 4, resumed on 2 and on 1, and exported by `divisi checkpoint export`: the saved weights are the same file
- ZeRO: the memory of each of 4 ranks decreases by what is sharded (AdamW's two moments and, with stage 3, the parameters, of which
  every dimension that counts divides): 2 P (1 - 1/4), and P (1 - 1/4)
- a rank killed (SIGKILL): the job ends within 5 s, with an error and a non-zero exit code
- the same with --restarts 2: it is resumed from the last checkpoint, with the losses of an undisturbed run; a rank that is told to stop by SIGTERM
  ends the job, with a checkpoint
- and with replicas that are kept in step in other ways (--sync), of which a server of a pipeline's stage is killed
- `divisi run` gives all ranks one secret, a new one each time, unless one is given
- scripts as ranks: the job ends when the last one does, and a signal ends their processes, too
- faults over MPI, too: whatever is lost above, by --launcher mpirun
- mpirun's files are in a folder of that run only, which is removed after it
- an mpirun that hangs when its ranks are gone is ended, as a lost rank

Needs only Python. Ends with `N passed, N failed`.
"""

import argparse
import json
import math
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import cases

TRANSFORMER = pathlib.Path(__file__).resolve().parent.parent / "models" / "llama_tiny"
MODEL = pathlib.Path(__file__).resolve().parent.parent / "models" / "mlp"
ENDS_WITHIN = 5  # seconds


def losses(path):
    """Text of the loss of each step; the steps after a restart are there twice and must agree."""
    found = {}
    for line in path.read_text().splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue  # the line that was being written
        if "loss" in row and not row.get("eval"):
            old = found.setdefault(row["step"], repr(row["loss"]))
            assert old == repr(row["loss"]), f"step {row['step']}: {old} and then {row['loss']!r}"
    return found


def compile(divisi, program, *flags):
    flags = [*flags, "--optimizer", "adamw", "--lr", "1e-3"]
    subprocess.run([divisi, "compile", str(MODEL / "model.onnx"), "-o", str(program), *flags], check=True)


def words(divisi, devices, program, *flags, before=()):
    """A command; `before`: flags of divisi run."""
    data = [w for n in ("x", "label") for w in ("--data", f"{n}={MODEL / 'data' / n}.npy")]
    launcher = [divisi, "run", "--devices", str(devices), *before] if devices > 1 else []
    return [*launcher, str(program), *data, "--seed", "3", "--quiet", *flags]


def ranks_of(program):
    """Process ids of the ranks."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.readlink(entry / "exe") == str(program):
                found.append(int(entry.name))
        except OSError:
            continue
    return sorted(found)


def other_plans(divisi, work):
    kinds = {4: ["--mesh", "data=2,model=2", "--zero", "1"], 2: ["--devices", "2", "--strategy", "operator"], 1: []}
    for devices, flags in kinds.items():
        compile(divisi, work / f"p{devices}", *flags)
    subprocess.run(words(divisi, 4, work / "p4", "--steps", "20", "--checkpoint", str(work / "ck"), "--save-weights",
                         str(work / "w4")), check=True)
    subprocess.run([divisi, "checkpoint", "export", str(work / "ck"), "-o", str(work / "exported")], check=True)
    assert (work / "exported").read_bytes() == (work / "w4").read_bytes(), "the exported weights are not those saved by 4 ranks"
    for devices in (2, 1):
        subprocess.run(words(divisi, devices, work / f"p{devices}", "--steps", "20", "--checkpoint", str(work / "ck"),
                             "--resume", "--save-weights", str(work / f"w{devices}")), check=True)
        same = (work / "w4").read_bytes() == (work / f"w{devices}").read_bytes()
        assert same, f"the weights saved by 4 ranks differ from those that {devices} loaded"
    subprocess.run(words(divisi, 2, work / "p2", "--steps", "30", "--checkpoint", str(work / "ck"), "--resume"), check=True)
    return "saved on 4, loaded on 2 and 1, trained on by 2"


def zero_memory(divisi, work):
    state, arena = {}, {}
    for stage in (0, 1, 3):
        subprocess.run([divisi, "compile", str(TRANSFORMER / "model.onnx"), "-o", str(work / "p"), "--devices", "4", "--strategy", "data", "--zero",
                        str(stage), "--optimizer", "adamw"], check=True)
        said = subprocess.run([str(work / "p"), "--describe", "json"], check=True, capture_output=True, text=True).stdout
        state[stage], arena[stage] = json.loads(said)["state_bytes"], json.loads(said)["arena_bytes"]
    whole = state[0]["parameter"]
    assert state[0]["moment"] == 2 * whole, state
    assert state[1] == {**state[0], "moment": 2 * whole // 4}, state
    assert state[3] == {**state[1], "parameter": whole // 4}, state
    saved, more = arena[0] - arena[1], arena[1] - arena[3]
    assert saved >= 2 * whole * 3 / 4, f"all memory fell by {saved}, of {2 * whole * 3 / 4}"
    # Beside the parameter that is used lies the rest of its layer, and the next one is gathered: each a sixteenth of what a
    # step gathers, every parameter twice, and the next one a parameter more.
    largest = max(4 * math.prod(each["shape"]) for each in json.loads(said)["parameters"])
    ahead = 2 * (2 * whole / 16) + largest
    assert more >= 0.9 * whole * 3 / 4 - ahead, f"all memory fell by {more}, of {whole * 3 / 4}, and {ahead} may be gathered ahead"
    return f"all memory {arena[0]}, {arena[1]}, {arena[3]} bytes with stages 0, 1, 3 of {whole} bytes of parameters"


def kill_one(process, program, log, after, devices=2, with_signal=signal.SIGKILL):
    """Sends the last rank a signal when step `after` is in the log; seconds until the job has ended."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (not log.is_file() or len(losses(log)) < after):
        time.sleep(0.02)
    ranks = ranks_of(program)
    assert len(ranks) == devices, f"{len(ranks)} ranks run"
    os.kill(ranks[-1], with_signal)
    return time.monotonic()


def lost_rank(divisi, work, before=()):
    compile(divisi, work / "p", "--devices", "2", "--strategy", "data")
    log = work / "log.jsonl"
    process = subprocess.Popen(words(divisi, 2, work / "p", "--steps", "1000000", "--log", str(log), before=before),
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    start = kill_one(process, work / "p", log, 100)
    said, _ = process.communicate(timeout=60)
    seconds = time.monotonic() - start
    assert seconds < ENDS_WITHIN, f"the job ended {seconds:.1f} s after a rank was killed"
    assert process.returncode != 0, "exit code 0"
    lines = [line for line in said.splitlines() if line.startswith("error:")]
    assert any("rank" in line for line in lines), f"no line says so: {said!r}"
    return f"ended after {seconds:.1f} s: {lines[0]}"


def restarts(divisi, work, steps=4000, plan=("--mesh", "data=2"), devices=2, before=()):
    compile(divisi, work / "p", *plan)
    whole, log = work / "whole.jsonl", work / "log.jsonl"
    checkpoint = ["--steps", str(steps), "--every", "50", "--checkpoint"]
    subprocess.run(words(divisi, devices, work / "p", *checkpoint, str(work / "a"), "--log", str(whole)), check=True)
    process = subprocess.Popen(words(divisi, devices, work / "p", *checkpoint, str(work / "b"), "--log", str(log),
                                     before=("--restarts", "2", *before)), stderr=subprocess.PIPE, text=True)
    kill_one(process, work / "p", log, 200, devices)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, f"exit code {process.returncode}: {said}"
    expected, found = losses(whole), losses(log)
    assert len(expected) == steps, f"{len(expected)} losses in the undisturbed run"
    assert found == expected, f"{sum(found.get(s) != l for s, l in expected.items())} losses differ"
    assert "restart" in said, f"nothing says that it was started again: {said!r}"
    return f"{steps} losses the same"


def told_to_stop(divisi, work, before=()):
    compile(divisi, work / "p", "--mesh", "data=2")
    log = work / "log.jsonl"
    process = subprocess.Popen(words(divisi, 2, work / "p", "--steps", "1000", "--checkpoint", str(work / "c"), "--log", str(log), before=("--restarts", "2", *before)),
                               stderr=subprocess.PIPE, text=True, env={**os.environ, "DIVISI_DELAYS": "0=1200"})  # longer than a rank waits that a launcher ends
    kill_one(process, work / "p", log, 2, with_signal=signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, f"exit code {process.returncode}: {said}"
    step = max(losses(log))
    assert f"stopped by a signal after step {step}" in said and (work / "c" / f"step-{step}").is_dir(), f"step {step}: {said}"
    assert "restart" not in said and "lost" not in said, said
    return f"a checkpoint after step {step}, and no restart"


def restarts_of_replicas(divisi, work):
    ways = ["local --average-every 7 --outer-optimizer nesterov", "gossip", "driver", "server"]
    for way in ways:
        (work / way).mkdir()
        restarts(divisi, work / way, 1000, ["--mesh", "data=2", "--sync", *way.split()])
    (work / "served").mkdir()
    restarts(divisi, work / "served", 300, "--mesh stage=2,data=2 --microbatches 2 --sync server --servers 1".split(), 6)
    return f"losses are the same with --sync {', '.join(ways)} and servers of a pipeline"


def over_mpi(divisi, work):
    texts = []
    for case in (lost_rank, restarts, told_to_stop):
        folder = work / case.__name__
        folder.mkdir()
        fewer = {"steps": 1000} if case is restarts else {}
        texts.append(case(divisi, folder, before=("--launcher", "mpirun"), **fewer))
    return "; ".join(texts)


def scripts(divisi, work):
    def start(script):
        return subprocess.Popen([divisi, "run", "--devices", "2", "bash", "-c", script], stderr=subprocess.PIPE, text=True, cwd=work)

    late = start("test $RANK = 0 || { sleep 6; touch late; exit 7; }")
    assert late.wait(30) == 7 and (work / "late").exists(), "the job ends before a rank that goes on after the first one"
    name = work / "asleep"
    name.symlink_to(shutil.which("sleep"))
    process = start(f"{name} 60; touch over")
    while sum(1 for p in pathlib.Path("/proc").glob("[0-9]*/cmdline") if str(name).encode() in p.read_bytes().split(b"\0")[0]) < 2:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    code = process.wait(30)
    left = [p for p in pathlib.Path("/proc").glob("[0-9]*/cmdline") if str(name).encode() in p.read_bytes().split(b"\0")[0]]
    assert code == 128 + signal.SIGTERM and not left, f"exit code {code}, {len(left)} processes are left"
    return "a script's exit code, and its processes end with it"


def fails_alone(divisi, work):
    compile(divisi, work / "p", "--mesh", "data=2")
    done = subprocess.run(words(divisi, 2, work / "p", "--steps", "3", "--checkpoint", str(work / "c"), "--log", "/dev/full", before=("--restarts", "3")),
                          capture_output=True, text=True)
    assert done.returncode == 1 and "No space left" in done.stderr and "restart" not in done.stderr, done
    return "an error of one rank, which would come again, ends the job"


def apart(divisi, work):
    listed = subprocess.run([divisi, "run", "--launcher", "mpirun", "--devices", "2", shutil.which("ls"), str(work)], check=True, text=True,
                            capture_output=True, env={**os.environ, "TMPDIR": str(work)}).stdout.split()
    assert len(set(listed)) == 1 and listed[0].startswith("divisi-run-"), f"while it ran there were {listed}"
    assert not list(work.iterdir()), f"left behind: {list(work.iterdir())}"
    return f"{listed[0]} while it ran"


def secret(divisi, work):
    def given(env, launcher="local"):
        script = "import json, os; json.dump([os.environ.get(n) for n in ('DIVISI_SECRET', 'DIVISI_SECRET_FILE')], open(str(os.getpid()), 'w'))"
        with tempfile.TemporaryDirectory(dir=work) as folder:  # mpirun may lose output of processes without MPI
            subprocess.run([divisi, "run", "--launcher", launcher, "--devices", "2", sys.executable, "-c", script], check=True,
                           capture_output=True, env=env, cwd=folder)
            found = [json.loads(path.read_text()) for path in pathlib.Path(folder).iterdir()]
        assert len(found) == 2 and found[0] == found[1], f"the ranks have {found}"
        return found[0]

    env = {k: v for k, v in os.environ.items() if k not in ("DIVISI_SECRET", "DIVISI_SECRET_FILE")}
    (first, none), (second, _) = given(env), given(env)
    assert len(first) == 64 and none is None and first != second, f"{first} and {second}"
    for launcher in "local", "mpirun":
        assert given(env | {"DIVISI_SECRET": "a" * 20}, launcher) == ["a" * 20, None]
        assert given(env | {"DIVISI_SECRET_FILE": "/x"}, launcher) == [None, "/x"]
    assert len(given(env, "mpirun")[0]) == 64
    return "64 digits, others each time"


def hanging_launcher(divisi, work):
    launcher = work / "mpirun"
    launcher.write_text("#!/bin/sh\nsleep 1 &\nwait\nexec sleep 1000\n")
    launcher.chmod(0o755)
    start = time.monotonic()
    done = subprocess.run([divisi, "run", "--launcher", "mpirun", "--devices", "2", "/bin/true"], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "PATH": f"{work}:{os.environ['PATH']}"})
    seconds = time.monotonic() - start
    assert done.returncode == 137 and "launcher hangs" in done.stderr and "a rank was lost" in done.stderr, done
    return f"ended after {seconds:.0f} s"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True)
    o = p.parse_args()
    every = (other_plans, zero_memory, lost_rank, restarts, told_to_stop, restarts_of_replicas, over_mpi, scripts, fails_alone, secret, apart, hanging_launcher)
    return cases.run(every, lambda case, work: case(o.divisi, work))


if __name__ == "__main__":
    sys.exit(main())
