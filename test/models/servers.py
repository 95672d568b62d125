#!/usr/bin/env python3
"""Dedicated parameter servers, synchronous and asynchronous.

    servers.py --divisi PATH [--only 'async'] [--jobs N]

Synchronous servers: the losses and weights of --sync all-reduce, for six models, 1 to 3 servers, alone, with model=2 and with stage=2 inside; what a worker sends is the gradients, once,
and in a pipeline what its stages send each other.
Asynchronous servers: the log has the order of the updates and what each worker had pulled before; NumPy makes the same updates in float64, in that order (of mlp; the gradients of
other models are those of a program for one device), each by the gradient of a share of a batch at the weights of that time. Losses and weights must agree, and with a bound no
share may begin while one of a batch that is more than the bound older is not finished. Asynchronous gossip likewise, from the events of each replica. Tolerances: 1e-5 of a loss, 1e-5 of the norm of a tensor. Without learning, losses (with dropout, too) are those of one device.
Killed jobs resume, servers included. Needs numpy and onnx; ends with `N passed, N failed`.
"""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import numpy as np

import lines
from optimizer_rules import RULES
from optimizers import BATCH, CASE, STEPS, compare, flags_of, read_weights
from replicas import (ADAMW, MOMENTUM, OTHERS, SGD, check_refusal, compare_runs, data_flags, goes_on, mean_of, model_of, run_and_resume, run_program, same_bytes,
                      shares, write_dropout)
from shared_models import Mlp, smooth_models

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "execute"))
from ranks import ranks_of  # noqa: E402

GENTLE = ("sgd", {"lr": 0.01, "momentum": 0.9}, [], {})  # what is rounded does not grow
MODELS = ["mlp", *OTHERS, "resnet_tiny", "lstm_tiny"]


def inner(mesh):
    """(workers, ranks of a replica)"""
    sizes = dict(axis.split("=") for axis in mesh.split(","))
    return int(sizes["data"]), int(np.prod([int(n) for a, n in sizes.items() if a != "data"]))


def parts(mesh, model="mlp"):
    """Microbatches: of a pipeline two or three, if they divide among the replicas."""
    batch = model_of(model).batch
    return next(count for count in (2, 3, 1) if batch % (count * inner(mesh)[0]) == 0) if "stage" in mesh else 1


def mesh_flags(mesh, model="mlp"):
    return ["--mesh", mesh] + (["--microbatches", str(parts(mesh, model))] if "stage" in mesh else [])


def check_synchronous(divisi, model, mesh, servers, flags="--optimizer adamw"):
    workers, places = inner(mesh)

    def test(work):
        way = f"{flags} {' '.join(mesh_flags(mesh, model))}"
        runs = [(workers * places, f"{way} --sync all-reduce"), ((workers + servers) * places, f"{way} --sync server --servers {servers}")]
        results, sent, after = compare_runs(divisi, work, model_of(model), runs)
        if places == 1 and not (servers > 1 and "clip" in flags) and model not in ("gpt_tiny", "lstm_tiny"):  # weights of several uses are pushed once for each
            rest = sent[1] - 4 * sum(w.size for w in after.values())
            results.append((0 < rest <= 4096, f"a worker sends its gradients and {rest} bytes in a step"))
        elif places == workers == 2 and not (servers > 1 and "clip" in flags) and model not in ("gpt_tiny", "lstm_tiny", "resnet_tiny"):  # running statistics
            results += same_bytes(sent)
        return results

    return test


def bytes_of_share(mesh, weights):
    """What the first worker sends for a share, but for some numbers: the gradients, in a pipeline of fc.0 and the rest those of fc.0 with its outputs."""
    if "stage" not in mesh:
        return 4 * sum(w.size for w in weights.values())
    return 4 * (weights["fc.0.weight"].size + weights["fc.0.bias"].size + BATCH // inner(mesh)[0] * len(weights["fc.0.bias"]))


def check_bytes(divisi, mesh, servers):
    workers, places = inner(mesh)

    def test(work):
        lines.call(divisi, "compile", CASE / "model.onnx", "-o", work / "p", *mesh_flags(mesh), "--sync", "server", "--servers", servers)
        rows = run_program(divisi, work / "p", (workers + servers) * places, STEPS, work / "log")
        rest = rows[0]["comm_bytes"] - bytes_of_share(mesh, read_weights(work / "p.safetensors"))
        return [(0 < rest <= 128, f"the first worker sends its gradients, what its stage sends, and {rest} bytes in a step")]

    return test


def all_sent(rows):
    return sum(row.get("comm_bytes", 0) for row in rows)


def replay(log, weights, gradients_of, batch, run, workers, microbatches=1):
    """(losses of steps, weights after) of the updates that the log lists."""
    optimizer, constants, _, _ = run
    constants = dict(constants)
    lr, decay = constants.pop("lr"), constants.pop("weight_decay", 0.0)
    versions, state, losses = [{n: w.astype(np.float64) for n, w in weights.items()}], {n: {} for n in weights}, {}
    for number, update in enumerate(log, 1):
        assert update["update"] == number and update["staleness"] == number - 1 - update["pulled"] >= 0
        rows = shares(update["step"] - 1, workers, microbatches, batch)[update["share"]]
        loss, gradients = gradients_of(versions[update["pulled"]], rows)
        losses.setdefault(update["step"], []).append(loss)
        versions.append({n: RULES[optimizer](w.copy(), gradients[n], state[n], lr, number, weight_decay=decay, adapts=True, **constants)
                         for n, w in versions[-1].items()})
    return [np.mean(losses[step]) for step in sorted(losses)], versions[-1]


def begins_in_time(log, bound):
    """Whether no share had begun while one of a batch more than `bound` older was not finished. A share begins when its worker has pulled."""
    for i, update in enumerate(log):
        if any(other["step"] < update["step"] - bound and other["update"] > update["pulled"] for other in log):
            return False
    return True


def check_asynchronous(divisi, model, mesh, servers, run, staleness):
    workers, places = inner(mesh)

    def test(work):
        lines.call(divisi, "compile", model.write(work), "-o", work / "p", *flags_of(run), *mesh_flags(mesh, model.name), "--sync", "async-server",
                   "--servers", servers, "--max-staleness", staleness)
        slow = "" if staleness == "none" else "1=30"  # so that the others would run ahead
        run_program(divisi, work / "p", (workers + servers) * places, STEPS, work / "log", "--save-weights", work / "after.safetensors", delays=slow, model=model)
        rows = [json.loads(line) for line in (work / "log").read_text().splitlines()]
        log = [row for row in rows if "update" in row]
        losses, weights = replay(log, read_weights(work / "p.safetensors"), model.gradients(divisi, work), model.batch, run, workers, parts(mesh, model.name))
        stale = [update["staleness"] for update in log]
        results = compare(losses, weights, [row["loss"] for row in rows if "loss" in row and "step" in row], read_weights(work / "after.safetensors"))
        results.append((len(log) == STEPS * workers and {(u["step"], u["share"]) for u in log} == {(s + 1, r) for s in range(STEPS) for r in range(workers)},
                        f"{len(log)} updates, each share once; staleness up to {max(stale)}, {np.mean(stale):.2f} on average"))
        if "model" not in mesh and model.name == "mlp":
            own = sum(update["worker"] == 0 for update in log)
            rest = all_sent(rows) - own * bytes_of_share(mesh, weights)
            results.append((abs(rest) <= 256 * STEPS, f"the first worker sends the gradients of {own} shares, what its stage sends, and {rest} bytes"))
        if staleness != "none":
            results.append((begins_in_time(log, int(staleness)), f"no share is more than {staleness} batches ahead"))
        return results

    return test


def replay_gossip(events, weights, gradients_of, batch, run, replicas, microbatches=1):
    """(losses of steps, mean of the weights after) of the events that the log lists: each replica's in its order, averages of two together."""
    optimizer, constants, _, _ = run
    constants = dict(constants)
    lr, decay = constants.pop("lr"), constants.pop("weight_decay", 0.0)
    live = [{n: w.astype(np.float64) for n, w in weights.items()} for _ in range(replicas)]
    before, state, at, losses = [None] * replicas, [{n: {} for n in weights} for _ in range(replicas)], [0] * replicas, {}
    lists = [[e for e in events if e["worker"] == r] for r in range(replicas)]
    while any(at[r] < len(lists[r]) for r in range(replicas)):
        progress = False
        for r in range(replicas):
            if at[r] == len(lists[r]):
                continue
            event = lists[r][at[r]]
            if event["event"] == "average":
                if "their" not in event:
                    continue  # the replica that asked does both
                other = event["with"]
                if at[other] != event["their"]:
                    continue
                assert lists[other][at[other]]["event"] == "average" and lists[other][at[other]]["with"] == r and other % 2 == 1 and r % 2 == 0
                live[r] = {n: (w + live[other][n]) / 2 for n, w in live[r].items()}
                live[other] = dict(live[r])
                at[other] += 1
            elif event["event"] == "compute":
                before[r] = dict(live[r])
            else:
                rows = shares(event["step"] - 1, replicas, microbatches, batch)[event["share"]]
                loss, gradients = gradients_of(before[r], rows)
                losses.setdefault(event["step"], []).append(loss)
                for name, gradient in gradients.items():
                    after = RULES[optimizer](before[r][name].copy(), gradient, state[r][name], lr, event["step"], weight_decay=decay, adapts=True, **constants)
                    live[r][name] = live[r][name] + after - before[r][name]
            at[r] += 1
            progress = True
        assert progress, "the events of two replicas do not fit each other"
    return [np.mean(losses[step]) for step in sorted(losses)], mean_of(live)


def check_gossip(divisi, model, mesh, run):
    replicas, places = inner(mesh)

    def test(work):
        lines.call(divisi, "compile", model.write(work), "-o", work / "p", *flags_of(run), *mesh_flags(mesh, model.name), "--sync", "gossip", "--asynchronous")
        run_program(divisi, work / "p", replicas * places, STEPS, work / "log", "--save-weights", work / "after.safetensors", model=model)
        rows = [json.loads(line) for line in (work / "log").read_text().splitlines()]
        events = [row for row in rows if "event" in row]
        losses, weights = replay_gossip(events, read_weights(work / "p.safetensors"), model.gradients(divisi, work), model.batch, run, replicas, parts(mesh, model.name))
        results = compare(losses, weights, [row["loss"] for row in rows if "loss" in row and "step" in row], read_weights(work / "after.safetensors"))
        applied = [(e["step"], e["share"]) for e in events if e["event"] == "apply"]
        asked = sum("their" in e for e in events)
        results.append((sorted(applied) == [(s + 1, r) for s in range(STEPS) for r in range(replicas)] and asked > 0, f"each share once, {asked} averages"))
        if places > 1 or model.name != "mlp":
            return results
        own = sum(e["event"] == "apply" and e["worker"] == 0 for e in events)
        ends = 2 * (1 if replicas < 4 else 2)  # of two epochs, to each neighbour
        rest = all_sent(rows) - (own + ends) * bytes_of_share("data", weights)
        results.append((abs(rest) <= 256 * STEPS, f"the first replica sends its parameters for {own} shares and {ends} ends, and {rest} bytes"))
        return results

    return test


def check_still(divisi, model, mesh, servers, sync=None):
    """Without learning, losses are those of one device, with dropout, too: who computes a share does not matter."""
    workers, places = inner(mesh)

    def test(work):
        path = work / "dropout.onnx"
        if model == "dropout":
            write_dropout(path)
        else:
            path = model_of(model).write(work)
        losses = []
        for ranks, flags in [(1, []), ((workers + servers) * places, [*mesh_flags(mesh, model if model in MODELS else "mlp"), "--sync", *(sync.split() if sync else ["async-server", "--servers", servers])])]:
            lines.call(divisi, "compile", path, "-o", work / "p", "--lr", 0, *flags)
            rows = run_program(divisi, work / "p", ranks, STEPS, work / "log", model=model_of(model if model in MODELS else "mlp"))
            losses.append([row["loss"] for row in rows])
        error = max(abs(a - b) / abs(a) for a, b in zip(*losses))
        return [(len(losses[1]) == STEPS and error <= 1e-5, f"loss error {error:.1e}")]

    return test


def check_resume(divisi, mesh, servers, sync, *flags):
    """A job goes on from a checkpoint; a synchronous one bit by bit."""
    workers, places = inner(mesh)

    def test(work):
        lines.call(divisi, "compile", CASE / "model.onnx", "-o", work / "p", *flags_of(ADAMW), *mesh_flags(mesh), "--sync", sync, *flags)
        first, second = run_and_resume(divisi, work, (workers + servers) * places)
        if sync == "server":
            return [(goes_on(first, second), "goes on bit by bit after step 6")]
        steps = [row["step"] for row in second[0]]
        return [(steps == list(range(7, STEPS + 1)) and all(np.isfinite(row["loss"]) for row in second[0]), f"goes on with steps {steps[0]} to {steps[-1]}")]

    return test


def check_tcp(divisi, ranks, sync):
    """Ranks that meet over TCP all end well: none closes before the others need it no more."""

    def test(work):
        lines.call(divisi, "compile", CASE / "model.onnx", "-o", work / "p", "--mesh", "data=4", "--sync", *sync.split())
        codes = []
        for _ in range(5):
            with socket.socket() as s:
                s.bind(("127.0.0.1", 0))
                port = s.getsockname()[1]
            where = {"WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": 1, "DIVISI_SECRET": "of-this-test-alone"}
            jobs = [subprocess.Popen([work / "p", "--steps", "5", "--quiet", *data_flags("mlp", ("x", "label"))], stdout=subprocess.DEVNULL,
                                     env={**os.environ, **{k: str(v) for k, v in where.items()}, "RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(ranks)]
            codes += [job.wait(timeout=60) for job in jobs]
        return [(codes == [0] * 5 * ranks, f"{sum(map(bool, codes))} of {len(codes)} ranks end with an error")]

    return test


def check_edited(divisi, before, after):
    """A dump whose tasks are not those of its 'dist.sync' is refused."""

    def test(work):
        lines.call(divisi, "compile", CASE / "model.onnx", "-o", work / "d.mlir", "--emit", "dist", "--mesh", "data=2", "--sync", "server", "--servers", 2)
        text = (work / "d.mlir").read_text()
        assert before in text
        (work / "d.mlir").write_text(text.replace(before, after))
        code, said = lines.refusal(divisi, "compile", work / "d.mlir", "-o", work / "p")
        return [(code == 1 and "write the dump again" in said, said.splitlines()[-1][-120:] if said else "was compiled")]

    return test


def check_stopped(divisi, ranks, sync, mesh="data=2"):
    """A signal in the first steps, which take long, ends the job with a checkpoint, from which it goes on."""

    def test(work):
        lines.call(divisi, "compile", CASE / "model.onnx", "-o", work / "p", *mesh_flags(mesh), "--sync", *sync.split())
        command = [divisi, "run", "--devices", str(ranks), work / "p", "--steps", "40", "--checkpoint", work / "c", *data_flags("mlp", ("x", "label"))]
        job = subprocess.Popen(command, env={**os.environ, "DIVISI_DELAYS": "0=600,1=600"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        until = time.monotonic() + 60
        while len(ranks_of(work / "p")) < ranks and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(4)
        job.send_signal(signal.SIGTERM)
        said = job.communicate(timeout=60)[0]
        saved = sorted(int(path.name[5:]) for path in (work / "c").glob("step-*"))  # the end of the epoch may be among them
        again = lines.call(*command, "--resume")
        return [(job.returncode == 143 and saved and set(saved[:-1]) <= {6} and saved[-1] < 40, f"exit {job.returncode}, checkpoints after {saved}: {said.strip()[-80:]!r}"),
                (f"(step {saved[-1]}," in again and "step 40" in again, "goes on")]

    return test


REFUSALS = {  # flags: part of the one line
    "--mesh data=2 --sync async-server --max-staleness 0": "that is --sync server",
    "--mesh data=2 --sync async-server --servers colocated": "has servers of its own",
    "--mesh data=2 --sync async-server --servers 0": "a number from 1 to 1024",
    "--mesh data=2 --sync server --servers 1 --max-staleness 2": "is for --sync async-server",
    "--mesh data=2 --sync local --average-every 2 --servers 1": "is for --sync server and async-server",
    "--mesh stage=2,data=2 --schedule pipedream --sync async-server": "take another schedule",
    "--mesh stage=2,data=2 --schedule pipedream-2bw --microbatches 2 --sync server --servers 1": "take another schedule",
    "--mesh stage=2,data=2 --stage-axes data,none --microbatches 2 --sync server --servers 1": "leave it out",
    "--mesh stage=2,data=2 --round-robin 2,1 --microbatches 4 --sync server --servers 1": "take microbatches in turn",
    "--devices 5 --mesh stage=2,data=2 --microbatches 2 --sync async-server": "has 6 devices",
    "--mesh data=2 --sync async-server --zero 1": "servers make it",
    "--mesh data=2 --sync async-server --precision fp16": "take --precision bf16",
    "--devices 2 --strategy data --sync async-server": "at least 3",
    "--mesh stage=2,data=2 --schedule pipedream --sync gossip --asynchronous": "take another schedule",
    "--mesh data=2 --sync gossip --asynchronous --topology pairs": "is on a ring",
    "--mesh data=2 --sync server --asynchronous": "are --sync async-server",
    "--devices 4 --mesh data=4 --sync async-server": "has 5 devices",
}


def main():
    p = lines.parser(__doc__.splitlines()[0])
    p.add_argument("--quick", action="store_true", help="a third of the lines")
    options = p.parse_args()
    divisi = options.divisi
    smooth = Mlp(smooth=True)
    tests = []
    for mesh, servers in [("data=2", 1), ("data=4", 2), ("data=2,model=2", 1), ("data=2", 3), ("stage=2,data=2", 1), ("stage=2,data=2", 2), ("stage=2,data=4", 2),
                          ("stage=2,data=2,model=2", 2)]:
        for model in MODELS if servers == 1 or mesh == "stage=2,data=4" else ["mlp", "gpt_tiny"]:
            tests.append((f"sync {model} {mesh} servers {servers}", check_synchronous(divisi, model, mesh, servers)))
    tests += [(f"sync mlp stage=2,data=2 servers {servers} {flags}", check_synchronous(divisi, "mlp", "stage=2,data=2", servers, f"--optimizer adamw {flags}"))
              for servers, flags in [(1, "--schedule gpipe"), (2, "--schedule interleaved"), (1, "--schedule zb-h1"), (2, "--clip-norm 0.5"), (1, "--remat all --ema 0.9")]]
    tests += [(f"bytes stage=2,data=2 servers {servers}", check_bytes(divisi, "stage=2,data=2", servers)) for servers in (1, 2)]
    tests.append(("sync dropout", check_still(divisi, "dropout", "data=2", 2, "server --servers 2")))
    tests += [(f"stopped {sync}", check_stopped(divisi, ranks, sync)) for ranks, sync in [(3, "server --servers 1"), (3, "async-server"), (2, "gossip --asynchronous")]]
    tests.append(("stopped gossip stage=2,data=2", check_stopped(divisi, 4, "gossip --asynchronous", "stage=2,data=2")))
    tests.append(("stopped stage=2,data=2", check_stopped(divisi, 6, "server --servers 1", "stage=2,data=2")))
    tests += [(f"tcp {sync}", check_tcp(divisi, ranks, sync)) for ranks, sync in [(4, "gossip --asynchronous"), (6, "async-server --servers 2")]]
    way = 'mode = "server", servers = 2 : i64'
    tests += [(f"edited {after}", check_edited(divisi, way, after)) for after in
              ['mode = "server", servers = 3 : i64', 'mode = "driver"', 'mode = "async-server", servers = 2 : i64']]
    tests.append(("sync mlp data=2 clip", check_synchronous(divisi, "mlp", "data=2", 1, "--clip-norm 0.5")))
    tests.append(("sync mlp data=2 clip servers 2", check_synchronous(divisi, "mlp", "data=2", 2, "--clip-norm 0.5")))
    for mesh, servers, run, staleness in [("data=2", 1, SGD, "none"), ("data=2", 1, ADAMW, 1), ("data=4", 1, MOMENTUM, "none"), ("data=4", 2, ADAMW, "none"),
                                          ("data=4", 1, SGD, 1), ("data=4", 3, MOMENTUM, 2), ("data=2,model=2", 1, ADAMW, "none"),
                                          ("data=2,model=2", 2, SGD, 1), ("stage=2,data=2", 1, SGD, "none"), ("stage=2,data=2", 2, ADAMW, 1), ("stage=2,data=4", 1, MOMENTUM, 2),
                          ("stage=2,data=2,model=2", 1, ADAMW, "none")]:
        tests.append((f"async {mesh} servers {servers} {run[0]} staleness {staleness}",
                      check_asynchronous(divisi, smooth, mesh, servers, run, staleness)))
    tests += [(f"async still {model} {mesh}", check_still(divisi, model, mesh, 1))
              for model in [*MODELS, "dropout"] for mesh in ["data=2", "data=2,model=2", "stage=2,data=2"] if model != "resnet_tiny"]
    tests += [(f"gossip {mesh} {run[0]}", check_gossip(divisi, smooth, mesh, run))
              for mesh, run in [("data=2", SGD), ("data=3", SGD), ("data=4", MOMENTUM), ("data=4", ADAMW), ("data=2,model=2", ADAMW), ("model=2,data=4", SGD),
                                ("stage=2,data=2", MOMENTUM), ("stage=2,data=4", ADAMW), ("stage=2,data=3,model=2", SGD)] if BATCH % inner(mesh)[0] == 0]
    for mesh in ["data=2", "data=4", "data=2,model=2", "data=4,model=2", "stage=2,data=2", "stage=2,data=4"]:
        for model in smooth_models():
            tests += [(f"replay {model.name} async {mesh}", check_asynchronous(divisi, model, mesh, 2, GENTLE, "none")),
                      (f"replay {model.name} gossip {mesh}", check_gossip(divisi, model, mesh, ADAMW if model.name == "embedding" else SGD))]
            tests.append((f"sync {model.name} {mesh} servers 2", check_synchronous(divisi, model.name, mesh, 2)))
    tests += [(f"gossip still {model} {mesh}", check_still(divisi, model, mesh, 0, "gossip --asynchronous"))
              for model in [*MODELS, "dropout"] for mesh in ["data=4", "data=2,model=2", "stage=2,data=2"] if model != "resnet_tiny"]
    tests += [(f"resume {sync} {mesh} servers {servers}", check_resume(divisi, mesh, servers, sync, *flags))
              for sync, mesh, servers, flags in [("server", "data=2", 2, ["--servers", 2]), ("async-server", "data=3", 1, []), ("gossip", "data=2", 0, ["--asynchronous"]), ("gossip", "stage=2,data=2", 0, ["--asynchronous"]),
                                               ("server", "stage=2,data=2", 2, ["--servers", 2]), ("async-server", "stage=2,data=2", 1, [])]]
    tests += [(f"refused {flags}", check_refusal(divisi, flags, wanted)) for flags, wanted in REFUSALS.items()]
    if options.quick:
        kept = ("sync mlp", "sync gpt_tiny data=4", "async data=4 servers 3", "async data=2,model=2 servers 2", "async data=2 servers 1 adamw", "async still dropout",
                "gossip data", "gossip still dropout", "sync dropout", "tcp gossip", "edited", "stopped async", "resume", "refused", "async stage=2,data=2 servers 2", "bytes", "replay moe_tiny async data=2,model=2", "replay embedding gossip stage=2,data=2")
        tests = [line for line in tests if line[0].startswith(kept)]
    return lines.run(tests, options)


if __name__ == "__main__":
    sys.exit(main())
