"""A Slurm cluster of this machine alone, in a folder: munged, slurmctld and slurmd, as root, without systemd."""

import os
import pathlib
import secrets
import shutil
import signal
import socket
import subprocess
import time

NEEDED = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel")
CONFIG = """
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmdPort={port2}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
MailProg=/bin/true
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
"""


def is_there():
    """Whether the programs are installed, and this user may start them."""
    return os.geteuid() == 0 and all(shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin") for name in NEEDED)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Cluster:
    """Runs while the `with` block does; `environment` is that of srun and its like."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.environment = dict(os.environ, SLURM_CONF=str(self.folder / "slurm.conf"))
        self.environment["PATH"] += ":/usr/sbin"
        self.daemons = []

    def start(self, *command):
        log = open(self.folder / f"{command[0]}.out", "w")
        self.daemons.append(subprocess.Popen(command, env=self.environment, stdout=log, stderr=log))

    def __enter__(self):
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        self.folder.chmod(0o755)  # munged wants its folder so
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o600)
        values = {"folder": self.folder, "host": socket.gethostname(), "cpus": os.cpu_count(), "port": free_port(), "port2": free_port()}
        (self.folder / "slurm.conf").write_text(CONFIG.format(**values))
        files = {name: f"--{name}-file={self.folder / ('munge.' + name)}" for name in ("key", "pid", "log", "seed")}
        self.start("munged", "--foreground", "--force", f"--socket={self.folder / 'munge.socket'}", *files.values())
        self.wait(lambda: (self.folder / "munge.socket").exists())
        self.start("slurmctld", "-D", "-f", self.environment["SLURM_CONF"])
        self.start("slurmd", "-D", "-f", self.environment["SLURM_CONF"])
        self.wait(lambda: "idle" in subprocess.run(["sinfo"], env=self.environment, capture_output=True, text=True).stdout)
        return self

    def wait(self, isReady, seconds=60):
        until = time.monotonic() + seconds
        while not isReady():
            if time.monotonic() > until:
                raise RuntimeError(f"the cluster does not start; its logs are in {self.folder}")
            time.sleep(0.2)

    def __exit__(self, *_):
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
        for daemon in reversed(self.daemons):
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
