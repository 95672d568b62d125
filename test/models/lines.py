"""Tests as lines: (what is tested, the test of an empty folder), each independent of the others."""

import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import tempfile


def call(*command, codes=(0,)):
    """What a command prints."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300)
    if done.returncode not in codes:
        raise RuntimeError(f"{' '.join(map(str, command[:3]))}: exit {done.returncode}: {(done.stderr or done.stdout).strip()[-400:]}")
    return done.stdout


def refusal(*command):
    """(exit code, standard error) of a command."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300)
    return done.returncode, done.stderr.strip()


def losses(divisi, program, data, folder, *flags):
    """([the loss of each training step], number of devices) of a program with these --data and flags."""
    devices = json.loads(call(program, "--describe", "json"))["devices"]
    log = folder / "log.jsonl"
    log.unlink(missing_ok=True)
    launch = [divisi, "run", "--devices", devices] if devices > 1 else []
    call(*launch, program, *data, "--no-shuffle", "--quiet", "--log", log, *flags)
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    return [float(row["loss"]) for row in rows if row.get("loss") is not None and not row.get("eval")], devices


def tree_messages(members):
    """How often the first rank sends all of a small all_reduce on one host: once in each round of recursive doubling, and to one
    beyond a power of two."""
    rounds = members.bit_length() - 1
    return rounds + (members > 1 << rounds)


def parser(description):
    """The flags that all such scripts have."""
    p = argparse.ArgumentParser(description=description)
    p.add_argument("--divisi", required=True, type=lambda path: str(pathlib.Path(path).resolve()))
    p.add_argument("--only", default="", help="a part of the lines to run")
    p.add_argument("--jobs", type=int, default=2, help="lines at a time (default 2)")
    return p


def outcome(line):
    """[(passed, text)]: a test gives such pairs, without its name in the text."""
    what, test = line
    with tempfile.TemporaryDirectory() as folder:
        try:
            return [(ok, f"{what}: {text}") for ok, text in test(pathlib.Path(folder))]
        except Exception as error:  # a broken program is a failure of this line only, of which the end says most
            return [(False, f"{what}: {type(error).__name__}: " + " | ".join(str(error).splitlines()))]


def run(lines, options):
    """Prints each result, then `N passed, N failed`; the exit code."""
    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for results in pool.map(outcome, [line for line in lines if options.only in line[0]]):
            for ok, text in results:
                print(f"{'ok  ' if ok else 'FAIL'} {text}", flush=True)
                passed, failed = passed + ok, failed + (not ok)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0
