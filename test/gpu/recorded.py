#!/usr/bin/env python3
"""What programs for GPUs ask of the driver and of NCCL, for every model on 1 to 8 ranks and every way to split, on a device that
records and does not compute (fake/).

    recorded.py --build DIR [--only WORD]

Ranks are processes that find each other by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Checked of each run: it ends well; nothing
is allocated after the second step; what was recorded is replayed; all members of each communicator of NCCL ask for the same collectives
in the same order, and sends match receives. One line per run, then `N passed, N failed`.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import launch

HERE = pathlib.Path(__file__).resolve().parent
MODELS = HERE.parent / "models"
STEPS = 6
# Flags of the compiler by ranks.
WAYS = {
    1: ["", "--precision bf16"],
    2: ["--strategy data", "--strategy operator", "--mesh data=2 --zero 1", "--mesh data=2 --zero 2", "--mesh data=2 --zero 3",
        "--mesh stage=2 --microbatches 2 --schedule 1f1b", "--mesh stage=2 --microbatches 4 --schedule interleaved", "--mesh data=2 --sync driver",
        "--mesh data=2 --sync gossip --asynchronous"],
    3: ["--mesh data=2 --sync async-server", "--mesh stage=2 --round-robin 2,1 --microbatches 4", "--mesh stage=2 --round-robin 2,1 --schedule pipedream"],
    4: ["--mesh stage=2 --round-robin 1,3 --microbatches 4 --schedule gpipe", "--mesh data=2,model=2", "--mesh data=2,model=2 --zero 3", "--mesh data=2,model=2 --zero 3 --precision bf16",
        "--mesh stage=2,data=2 --microbatches 2 --schedule gpipe", "--mesh data=2,model=2 --sync gossip --asynchronous"],
    6: ["--mesh data=2,model=2 --sync server --servers 1", "--mesh stage=3 --round-robin 3,2,1 --microbatches 4 --schedule naive", "--mesh stage=3 --round-robin 3,2,1 --schedule pipedream",
        "--mesh stage=2,data=2 --round-robin 2,1 --microbatches 2"],
    8: ["--mesh data=2,model=4", "--mesh data=8 --zero 1", "--mesh stage=2,data=2,model=2 --microbatches 2 --schedule 1f1b"],
}
TIED = ("lstm_tiny",)  # its stages share parameters, so that a step ends with messages, and none can be asynchronous
RARE = ["--mesh data=2 --zero 2", "--mesh data=2,model=2 --zero 3 --precision bf16", "--mesh data=8 --zero 1",
        "--mesh stage=3 --round-robin 3,2,1 --schedule pipedream", "--mesh stage=2,data=2 --round-robin 2,1 --microbatches 2"]

LONG = 1000  # steps of a run that fails before its end
LOSS = r"error: .*the loss of step \d+ is NaN[^\n]*"
# Ranks, what is injected, and the error of rank 0.
FAILURES = {f"a NaN on {ranks}": (ranks, {"DIVISI_FAKE_NCCL_BREAK": "60:nan"}, LOSS) for ranks in (2, 4, 8)}


def start(command, ranks, environment, log, expected="", code=1, by_rank=None):
    """What is wrong with a program on several GPUs, which must succeed, or fail with this code and the expected error of rank 0; "" if
    nothing is. `by_rank`: variables of each rank."""
    port, processes = launch.free_port(), []
    for rank in range(ranks):
        own = {"DIVISI_FAKE_GPU_LOG": str(log), "DIVISI_FAKE_GPU_COUNT": "8", "DIVISI_FAKE_GPU_WAITS": "1", "OMP_NUM_THREADS": "1"}
        if ranks > 1:
            own |= launch.variables(rank, ranks, port) | (by_rank[rank] if by_rank else {})
        processes.append(subprocess.Popen(command, env=environment | own, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
    try:
        said = [process.communicate(timeout=120)[1].strip() for process in processes]
    finally:
        for process in processes:
            process.kill()
    if expected:
        good = all(p.returncode == code for p in processes) and re.fullmatch(expected, said[0]) and not any(said[1:])
        return "" if good else f"exit {[p.returncode for p in processes]}: {said}"
    failed = [f"rank {i}: exit {p.returncode}: {s[-300:]}" for i, (s, p) in enumerate(zip(said, processes)) if p.returncode != 0]
    return failed[0] if failed else ""


def check_memory(calls):
    """Nothing is allocated once graphs replay, and all is freed."""
    replays = [i for i, call in enumerate(calls) if call.startswith("replay")]
    if replays and any(call.startswith("allocate") for call in calls[replays[0] : replays[-1]]):
        return "memory is allocated after the first steps"
    count = collections.Counter(call.split()[0] for call in calls)
    return "" if count["allocate"] == count["free"] else f"{count['allocate']} allocations, {count['free']} freed"


def check_first_uses(calls):
    """Kernels, shapes and memory are used for the first time before the first step: such a use may wait for all work of the GPU, and so
    for another rank. What comes before the first step ends when the arena is cleared."""
    clears = [int(call.split()[1]) for call in calls if call.startswith("clear ")]
    begin = len(calls) - calls[::-1].index(f"clear {max(clears)}")
    late = [call for call in calls[begin:] if call.startswith(("first ", "allocate"))]
    return f"after the first step began: {late[0]}, {len(late)} in all" if late else ""


def check_workspaces(calls):
    """Every product is offered the workspace that cuBLASLt's fastest algorithms need."""
    small = [call for call in calls if call.startswith("algorithm with a small workspace")]
    return f"{small[0]}, {len(small)} in all" if small else ""


def check_graphs(calls, way):
    """A step that exchanges nothing with the host is recorded, and replayed from then on."""
    count = collections.Counter(call.split()[0] for call in calls)
    # Two kinds of steps: with and without accuracy. Asynchronous replicas finish a round of at most three minibatches with a task.
    runs = steps_of(way) // (3 if "pipedream" in way else 1)
    if count["capture"] == 0 or count["replay"] < runs - 2 * 2:
        return f"{count['capture']} captures, {count['replay']} replays"
    return ""


def check_collectives(ranks):
    """Equal sequences on all members of a communicator; sends match receives by pair."""
    groups = collections.defaultdict(list)
    for calls in ranks:
        mine = collections.defaultdict(list)
        for call in calls:
            if match := re.match(r"nccl ([^/ ]+)/(\d+) (.*)", call):
                mine[match[1], int(match[2])].append(match[3])
        for group, sequence in mine.items():
            groups[group].append(sequence)
    for (name, size), members in groups.items():
        if len(members) != size:
            return f"communicator {name} has {len(members)} of {size} members"
        whole = [[call for call in sequence if "peer" not in call] for sequence in members]
        if any(sequence != whole[0] for sequence in whole):
            return f"the members of {name} ask for different collectives"
        sends = collections.Counter(re.sub(r" peer.*", "", c) for m in members for c in m if "peer" in c and "receive" not in c)
        takes = collections.Counter(re.sub(r"receive as | peer.*", "", c) for m in members for c in m if "receive" in c)
        if sends != takes:
            return f"sends of {name} do not match its receives"
    return ""


def environment_of(build):
    """The environment in which programs find the libraries of fake/."""
    environment = dict(os.environ, LD_LIBRARY_PATH=str(build / "test/gpu/fake"))
    return {name: value for name, value in environment.items() if not name.startswith(("OMPI_", "PMI"))}


def compile_model(build, model, ranks, way, program):
    """The errors of a compilation; "" if there are none."""
    reference = json.loads((MODELS / model / "reference.json").read_text())
    loss = reference.get("loss")
    flags = ["--loss", loss["kind"], "--label", loss["label"]] if loss else []
    command = [build / "bin/divisi", "compile", MODELS / model / "model.onnx", *flags, *way.split(), "-o", program]
    command += [] if "--target" in way else ["--target", "cuda", "--cuda-arch", "90"]
    command += ["--optimizer", "adamw"]
    command += ["--devices", ranks] if ranks > 1 and "--mesh" not in way else []
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    return f"compile: {done.stderr.strip()[-300:]}" if done.returncode != 0 else ""


def steps_of(way):
    """An asynchronous pipeline must be full for several rounds of replicas."""
    return 4 * STEPS if "pipedream" in way else STEPS


def words_of(program, model, way=""):
    """The arguments with which a program trains for some steps."""
    data = [w for f in sorted((MODELS / model / "data").glob("*.npy")) for w in ("--data", f"{f.stem}={f}")]
    return [str(program), *data, "--steps", str(steps_of(way)), "--no-shuffle", "--device", "cuda"]


def calls_of(log, ranks):
    """The logged calls of each rank."""
    logs = [pathlib.Path(f"{log}.{rank}") for rank in range(ranks)] if ranks > 1 else [log]
    return [path.read_text().splitlines() for path in logs]


def run(build, model, ranks, way):
    with tempfile.TemporaryDirectory() as folder:
        program, log = pathlib.Path(folder) / model, pathlib.Path(folder) / "calls"
        if wrong := compile_model(build, model, ranks, way, program):
            return wrong
        if wrong := start(words_of(program, model, way), ranks, environment_of(build), log):
            return wrong
        calls = calls_of(log, ranks)
    for mine in calls:
        if wrong := check_memory(mine) or check_workspaces(mine) or check_first_uses(mine):
            return wrong
        # Tasks that send or receive, also through the hosts, are not recorded; those that replicas finish a step with are.
        if ("stage" not in way and "sync" not in way or "round-robin" in way and model not in TIED) and (wrong := check_graphs(mine, way)):
            return wrong
    if wrong := check_collectives(calls):
        return wrong
    collectives = sum(call.startswith("nccl") for mine in calls for call in mine)
    byHost = "--sync" in way and "model" not in way  # replicas meet in the hosts' memory
    return "" if collectives or ranks == 1 or byHost else "no collective reached NCCL"


def fails(build, name):
    """A failure on all ranks after tasks were recorded: its message, and the end of all ranks, although NCCL does not release a
    communicator as long as a graph holds its operations."""
    ranks, variables, expected = FAILURES[name]
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "mlp"
        if wrong := compile_model(build, "mlp", ranks, f"--mesh data={ranks}", program):
            return wrong
        command = [str(LONG if word == str(STEPS) else word) for word in words_of(program, "mlp")]
        log = pathlib.Path(folder) / "calls"
        wrong = start([*command, "--quiet"], ranks, environment_of(build) | variables, log, expected)
        kinds = [line.split()[0] for line in calls_of(log, ranks)[0]]
        return wrong or ("" if kinds.count("replay") >= 3 else "too few steps are replayed before the failure")


def queues(build):
    """A user's number of queues is left as it is; without one there are enough for all streams, those of NCCL among them."""
    with tempfile.TemporaryDirectory() as folder:
        program, log = pathlib.Path(folder) / "gpt_tiny", pathlib.Path(folder) / "calls"
        if wrong := compile_model(build, "gpt_tiny", 2, "--mesh stage=2 --microbatches 2 --schedule 1f1b", program):
            return wrong
        environment = environment_of(build) | {"CUDA_DEVICE_MAX_CONNECTIONS": "4"}
        said = start([*words_of(program, "gpt_tiny"), "--quiet"], 2, environment, log)
        return "" if "connect the GPUs" in said or "create a stream" in said else f"four queues for more streams: {said or 'no error'}"


def connecting(build):
    """An NCCL that never connects ends the program after --timeout."""
    with tempfile.TemporaryDirectory() as folder:
        program, log = pathlib.Path(folder) / "mlp", pathlib.Path(folder) / "calls"
        if wrong := compile_model(build, "mlp", 2, "--mesh data=2", program):
            return wrong
        environment = environment_of(build) | {"DIVISI_FAKE_NCCL_BREAK": "connect"}
        error = r"error: [^\n]*NCCL cannot connect the GPUs of ranks 0 to 1: not done after 3 seconds [^\n]*--timeout[^\n]*"
        return start([*words_of(program, "mlp"), "--timeout", "3", "--quiet"], 2, environment, log, error)


def placement(build):
    """The launcher says which GPU is a rank's; ranks that share one without being asked to are an error with the remedy."""
    with tempfile.TemporaryDirectory() as folder:
        program, log = pathlib.Path(folder) / "mlp", pathlib.Path(folder) / "calls"
        if wrong := compile_model(build, "mlp", 2, "--mesh data=2", program):
            return wrong
        environment = {k: v for k, v in environment_of(build).items() if k not in ("LOCAL_RANK", "SLURM_LOCALID", "SLURM_STEP_ID", "MPI_LOCALRANKID")}
        command = [*words_of(program, "mlp"), "--quiet"]

        def opened(by_rank):
            for old in pathlib.Path(folder).glob("calls*"):
                old.unlink()
            if wrong := start(command, 2, environment, log, by_rank=by_rank):
                return wrong
            return [next(call for call in calls if call.startswith("open GPU")) for calls in calls_of(log, 2)]

        steps = [{"SLURM_LOCALID": "3", "SLURM_STEP_ID": "0"}, {"SLURM_LOCALID": "2", "SLURM_STEP_ID": "0"}]
        ways = {
            "no launcher": ([{}, {}], "01"),
            "LOCAL_RANK": ([{"LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_RANK": "0"}, {"LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}], "10"),
            "Open MPI": ([{"OMPI_COMM_WORLD_LOCAL_RANK": "5", "SLURM_LOCALID": "0"}, {"OMPI_COMM_WORLD_LOCAL_RANK": "4", "SLURM_LOCALID": "0"}], "54"),
            "srun": (steps, "32"),
            "a batch script": ([{"SLURM_LOCALID": "0"}, {"SLURM_LOCALID": "0"}], "01"),
            "Hydra": ([{"MPI_LOCALRANKID": "7"}, {"MPI_LOCALRANKID": "6"}], "76"),
        }
        for name, (by_rank, gpus) in ways.items():
            if (found := opened(by_rank)) != [f"open GPU {gpu}" for gpu in gpus]:
                return f"{name}: {found}"
        same = [{"LOCAL_RANK": "1"}] * 2
        error = r"error: GPUs cannot exchange data by NCCL: several ranks share a GPU: [^\n]*LOCAL_RANK[^\n]*--no-nccl[^\n]*"
        if wrong := start(command, 2, environment, log, error, by_rank=same):
            return f"both on one: {wrong}"
        if wrong := start([*command, "--no-nccl"], 2, environment, log, by_rank=same):
            return f"--no-nccl: {wrong}"
        error = "error: LOCAL_RANK is 'one', not this rank's number on its host"
        return start(command, 2, environment, log, error, code=2, by_rank=[{"LOCAL_RANK": "one"}] * 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="", help="runs whose line has this text")
    parser.add_argument("--all", action="store_true", help="every model by every way, and ways that differ little from others; else each way has every third model")
    options = parser.parse_args()
    models = sorted(f.parent.name for f in MODELS.glob("*/reference.json"))
    whole = options.all or options.only
    ways = [(ranks, way) for ranks, ways in WAYS.items() for way in ways if whole or way not in RARE]
    jobs = [(model, ranks, way) for i, (ranks, way) in enumerate(ways) for k, model in enumerate(models)
            if whole or (i + k) % 3 == 0]
    jobs = [job for job in jobs if not (job[0] in TIED and "pipedream" in job[2])]
    jobs = [job for job in jobs if options.only in f"{job[0]} on {job[1]}: {job[2]}"]
    passed = failed = 0
    for name in FAILURES:
        if options.only in name:
            wrong = fails(options.build.resolve(), name)
            print(f"{'FAIL' if wrong else 'ok  '} {name}{': ' + wrong if wrong else ''}", flush=True)
            passed, failed = passed + (not wrong), failed + bool(wrong)
    for check in (queues, connecting, placement):
        if options.only in check.__name__:
            wrong = check(options.build.resolve())
            print(f"{'FAIL' if wrong else 'ok  '} {check.__name__}{': ' + wrong if wrong else ''}", flush=True)
            passed, failed = passed + (not wrong), failed + bool(wrong)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for job, wrong in zip(jobs, pool.map(lambda job: run(options.build.resolve(), *job), jobs)):
            print(f"{'FAIL' if wrong else 'ok  '} {job[0]} on {job[1]}: {job[2]}{': ' + wrong if wrong else ''}", flush=True)
            passed, failed = passed + (not wrong), failed + bool(wrong)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
