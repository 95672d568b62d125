#!/usr/bin/env python3
"""Real launchers: each starts a program on two ranks, which trains as under `divisi run`; each failure is seen.

    launchers.py --divisi PATH

- Slurm: a cluster of this machine alone; srun by PMIx, a killed rank, scancel, srun without PMIx
- mpirun over two network namespaces that have addresses of their own (two hosts, as far as the network is concerned)
- ranks that meet over TCP there, by the variables that torchrun sets, and by those of a Kubernetes job (a host's name for rank 0, a
  file with the secret); without a secret; with another one; when the link goes down

What is not installed, or may not be done by this user, is left out with a line. Ends with `N passed, N failed`.
"""

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import yaml

import ranks
import slurm

STEPS = 12
EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples/clusters"


def data():
    return [w for n in ("x", "label") for w in ("--data", f"{n}={ranks.MODEL / 'data' / n}.npy")]


def words(program, log, steps=STEPS):
    return [str(program), *data(), "--seed", "3", "--quiet", "--steps", str(steps), "--log", str(log)]


def run(command, environment=None, code=0, within=90):
    """The output of a command, which must end with this code (None: any but 0) in time."""
    done = subprocess.run([str(w) for w in command], env=environment, capture_output=True, text=True, timeout=within)
    good = done.returncode == code if code is not None else done.returncode != 0
    assert good, f"exit {done.returncode}: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


class Fixture:
    def __init__(self, divisi, work):
        self.divisi, self.work, self.program = divisi, work, work / "p2"
        ranks.compile(divisi, self.program, "--mesh", "data=2")
        run([divisi, "run", "--devices", "2", *words(self.program, work / "expected")])
        self.expected = ranks.losses(work / "expected")
        assert len(self.expected) == STEPS

    def same(self, log):
        found = ranks.losses(log)
        assert found == self.expected, f"{found}\nexpected {self.expected}"


def wait_for_steps(log, process, count=3):
    until = time.monotonic() + 60
    while not log.exists() or len(ranks.losses(log)) < count:
        assert process.poll() is None and time.monotonic() < until, "training does not begin"
        time.sleep(0.05)


# ---------------------------------------------------------------------------------------------------------------- Slurm


def under_slurm(fixture):
    with tempfile.TemporaryDirectory() as folder, slurm.Cluster(folder) as cluster:
        srun = ["srun", "-n", "2", "--overcommit"]
        run([*srun, "--mpi=pmix", *words(fixture.program, fixture.work / "slurm")], cluster.environment)
        fixture.same(fixture.work / "slurm")
        yield "slurm: srun --mpi=pmix trains as divisi run does"

        job = [EXAMPLES / "job.sbatch", *words(fixture.program, fixture.work / "batch")]
        run(["sbatch", "--wait", "--ntasks=2", "--cpus-per-task=1", "--overcommit", f"--chdir={fixture.work}", f"--output={fixture.work}/batch.out", *job],
            {**cluster.environment, "SLURM_OVERCOMMIT": "1"})
        fixture.same(fixture.work / "batch")
        assert (fixture.work / "checkpoints").is_dir()
        yield "slurm: examples/clusters/job.sbatch"

        text = run([*srun, "--mpi=none", *words(fixture.program, fixture.work / "none")], cluster.environment, None)
        assert "srun --mpi=pmix" in text and "MPI_Init" not in text, text
        yield "slurm: srun without PMIx is told what to do"

        for what, kill in (("a killed rank ends the job", lambda: os.kill(ranks.ranks_of(fixture.program)[0], signal.SIGKILL)),
                           ("scancel ends the job", lambda: run(["scancel", "--signal=TERM", "--user=root"], cluster.environment))):
            log = fixture.work / what.replace(" ", "-")
            process = subprocess.Popen([*srun, "--mpi=pmix", *words(fixture.program, log, 10**6)], env=cluster.environment,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            wait_for_steps(log, process)
            kill()
            code = process.wait(45)
            assert code != 0 or "scancel" in what, f"exit {code} after {what}"
            until = time.monotonic() + 20
            while ranks.ranks_of(fixture.program):
                assert time.monotonic() < until, "ranks are left over"
                time.sleep(0.1)
            yield f"slurm: {what}"


# ------------------------------------------------------------------------------------------------- two hosts on a network


class Hosts:
    """Two network namespaces, 10.77.0.1 and 10.77.0.2, with a link between them."""

    names, addresses = ("divisi-test-1", "divisi-test-2"), ("10.77.0.1", "10.77.0.2")

    def __enter__(self):
        self.__exit__()
        for name in self.names:
            run(["ip", "netns", "add", name])
        run(["ip", "link", "add", "divisi-t1", "netns", self.names[0], "type", "veth", "peer", "name", "divisi-t2", "netns", self.names[1]])
        for i, name in enumerate(self.names):
            self.ip(i, "addr", "add", f"{self.addresses[i]}/24", "dev", f"divisi-t{i + 1}")
            self.ip(i, "link", "set", f"divisi-t{i + 1}", "up")
            self.ip(i, "link", "set", "lo", "up")
        return self

    def ip(self, host, *command):
        run(["ip", "-n", self.names[host], *command])

    def on(self, host, command):
        return ["ip", "netns", "exec", self.names[host], *command]

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def may_make_hosts():
    if os.geteuid() != 0 or not shutil.which("ip"):
        return False
    made = subprocess.run(["ip", "netns", "add", "divisi-test-1"], capture_output=True).returncode == 0
    subprocess.run(["ip", "netns", "del", "divisi-test-1"], capture_output=True)
    return made


def by_mpirun(fixture, hosts):
    """mpirun reaches the second host by an agent, as it would by ssh."""
    agent = fixture.work / "agent"
    agent.write_text(f"#!/bin/sh\nhost=$1; shift\nexec ip netns exec {hosts.names[1]} /bin/sh -c \"$*\"\n")
    agent.chmod(0o755)
    (fixture.work / "hosts").write_text("".join(f"{address} slots=1\n" for address in hosts.addresses))
    flags = ["--allow-run-as-root", "--hostfile", fixture.work / "hosts", "-n", "2", "--mca", "plm_rsh_agent", agent,
             "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "10.77.0.0/24", "--mca", "oob_tcp_if_include", "10.77.0.0/24"]
    run(hosts.on(0, ["mpirun", *flags, *words(fixture.program, fixture.work / "mpirun")]))
    fixture.same(fixture.work / "mpirun")
    yield "two hosts: mpirun"


def start(fixture, hosts, log, variables, steps=STEPS, more=()):
    """Both ranks over TCP; `variables` by rank."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMIX_", "SLURM_", "DIVISI_"))}
    return [subprocess.Popen(hosts.on(rank, [*words(fixture.program, log, steps), *more]), env={**clean, **variables(rank)},
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for rank in range(2)]


def ends(processes, within=60):
    said = [process.communicate(timeout=within)[0] for process in processes]
    return [process.returncode for process in processes], said


def in_pod(rank):
    """The variables of a container of examples/clusters/job.yaml, whose names fit together."""
    service, job = yaml.safe_load_all((EXAMPLES / "job.yaml").read_text())
    name, spec = job["metadata"]["name"], job["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert (service["kind"], job["kind"], service["spec"]["clusterIP"]) == ("Service", "Job", "None")
    assert pod["subdomain"] == service["metadata"]["name"] and service["spec"]["selector"] == {"job-name": name}
    assert spec["completionMode"] == "Indexed" and spec["completions"] == spec["parallelism"]
    assert {m["name"] for m in container["volumeMounts"]} == {v["name"] for v in pod["volumes"]}
    env = {e["name"]: e for e in container["env"]}
    assert env["RANK"]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    assert env["WORLD_SIZE"]["value"] == str(spec["completions"]) and env["MASTER_ADDR"]["value"] == f"{name}-0.{pod['subdomain']}"
    return {key: str(rank) if key == "RANK" else e["value"] for key, e in env.items()}


def over_tcp(fixture, hosts):
    port = "29512"
    torchrun = lambda rank: {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": hosts.addresses[0],
                             "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "test", "DIVISI_SECRET": "0123456789abcdef0123456789abcdef"}
    codes, said = ends(start(fixture, hosts, fixture.work / "torchrun", torchrun))
    assert codes == [0, 0], said
    fixture.same(fixture.work / "torchrun")
    yield "two hosts: torchrun's variables"

    # A Kubernetes job: the name of rank 0's pod in the job's service, a secret that is mounted as a file.
    secret = fixture.work / "secret"
    secret.write_text("fedcba9876543210fedcba9876543210\n")
    secret.chmod(0o600)
    folders = [pathlib.Path("/etc/netns") / name for name in hosts.names]  # what `ip netns exec` puts over /etc
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "hosts").write_text(f"127.0.0.1 localhost\n{hosts.addresses[0]} train-0.train\n{hosts.addresses[1]} train-1.train\n")
    try:
        pods = lambda rank: {**in_pod(rank), "DIVISI_SECRET_FILE": str(secret)}
        codes, said = ends(start(fixture, hosts, fixture.work / "pods", pods))
        assert codes == [0, 0], said
        fixture.same(fixture.work / "pods")
    finally:
        for folder in folders:
            shutil.rmtree(folder)
    yield "two hosts: a Kubernetes job's variables"

    def without(rank):
        return {k: v for k, v in torchrun(rank).items() if k != "DIVISI_SECRET"}

    codes, said = ends(start(fixture, hosts, fixture.work / "open", without))
    assert 0 not in codes and any("DIVISI_SECRET" in text for text in said), said
    yield "two hosts: without a secret the job ends and says what to set"

    log = fixture.work / "cut"
    processes = start(fixture, hosts, log, torchrun, steps=10**7, more=["--timeout", "15"])
    wait_for_steps(log, processes[0])
    hosts.ip(1, "link", "set", "divisi-t2", "down")
    codes, said = ends(processes, within=60)
    assert 0 not in codes and "rank 1" in said[0] and "rank 0" in said[1], said
    hosts.ip(1, "link", "set", "divisi-t2", "up")
    yield "two hosts: a link that is cut is named by both ranks, and ends the job"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True, type=pathlib.Path)
    o = p.parse_args()
    passed = failed = 0

    def count(tests):
        nonlocal passed, failed
        try:
            for name in tests:
                print(f"ok {name}", flush=True)
                passed += 1
        except (AssertionError, OSError, RuntimeError, subprocess.SubprocessError) as error:
            print(f"FAIL {error}", flush=True)
            failed += 1

    with tempfile.TemporaryDirectory() as folder:
        fixture = Fixture(str(o.divisi.resolve()), pathlib.Path(folder))
        if slurm.is_there():
            count(under_slurm(fixture))
        else:
            print("left out: Slurm (as root, with the packages slurmctld, slurmd, slurm-client and munge)")
        if may_make_hosts():
            with Hosts() as hosts:
                count(by_mpirun(fixture, hosts))
                count(over_tcp(fixture, hosts))
        else:
            print("left out: two hosts (as root, with the package iproute2)")
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
