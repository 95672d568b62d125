"""Waits for processes, and reports their stacks if they do not end."""

import os
import pathlib
import shutil
import signal
import subprocess


def parents():
    """From process id to that of the parent."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
    return found


def tree(pid, of=None):
    """The process and all below it."""
    of = of or parents()
    return [pid, *(below for child, parent in of.items() if parent == pid for below in tree(child, of))]


def read(pid, name):
    try:
        return pathlib.Path(f"/proc/{pid}/{name}").read_text().replace("\0", " ").strip()
    except OSError as error:
        return f"({error.strerror})"


def describe(pid):
    """Command, state and stacks of a process."""
    state = [line for line in read(pid, "status").splitlines() if line.startswith(("State", "PPid", "Threads", "SigBlk", "SigIgn", "SigCgt"))]
    text = f"-- {pid}: {read(pid, 'cmdline')[:200]}\n   {', '.join(' '.join(line.split()) for line in state)}\n"
    for thread in sorted(os.listdir(f"/proc/{pid}/task")) if os.path.isdir(f"/proc/{pid}/task") else []:
        kernel = " < ".join(line.split()[-1] for line in read(pid, f"task/{thread}/stack").splitlines()[:4])
        text += f"   {thread} {read(pid, f'task/{thread}/comm')}: waits in {read(pid, f'task/{thread}/wchan')}, {kernel}\n"
    if shutil.which("gdb"):
        try:
            done = subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt 16"], stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, errors="replace", timeout=30)
            text += "".join(f"   {line}\n" for line in done.stdout.splitlines() if line.startswith(("#", "Thread ")))
        except subprocess.TimeoutExpired:
            text += "   (gdb does not end)\n"
    return text


def outcome(process, seconds, what):
    """The output of a process until it ends, as `communicate` returns it. If that takes longer, the process and all its descendants
    are described and ended."""
    try:
        return process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired as late:
        pids = tree(process.pid)
        text = "".join(describe(pid) for pid in pids)
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        process.communicate()
        said = (late.output or b"").decode(errors="replace")
        raise AssertionError(f"{what} has not ended after {seconds} s. It said:\n{said}\n{text}") from None
