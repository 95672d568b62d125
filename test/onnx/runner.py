"""Runs many graphs through `divisi run-graph --batch`, which may crash on any of them."""

import concurrent.futures
import json
import pathlib
import queue
import subprocess
import tempfile
import threading

TIMEOUT = 60  # seconds that one case may take


def how_it_ended(process, errors):
    """One line about a process that ended early."""
    code = process.returncode
    said = next((line for line in reversed(errors.read().splitlines()) if line.strip()), "")
    end = f"signal {-code}" if code < 0 else f"exit {code}"
    return f"crash: {end}" + (f": {said[:200]}" if said else "")


def lines_of(process):
    """A queue that gets every line of the output, and None at its end."""
    lines = queue.Queue()

    def read():
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    return lines


def run_once(divisi, entries, work, timeout):
    """Answers of one process for the first entries: {index: error or ""}, at least one of them."""
    answers, hung = {}, False
    listing = pathlib.Path(work) / "list.json"
    listing.write_text(json.dumps(entries))
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        process = subprocess.Popen(
            [divisi, "run-graph", "--batch", str(listing)],
            text=True,
            errors="replace",
            stdout=subprocess.PIPE,
            stderr=errors,
            stdin=subprocess.DEVNULL,
        )
        lines = lines_of(process)
        while True:
            try:
                line = lines.get(timeout=timeout)
            except queue.Empty:
                hung = True
                process.kill()
                break
            if line is None:
                break
            try:
                answer = json.loads(line)
                answers[int(answer["case"])] = "" if answer["ok"] else str(answer.get("error") or "no reason given")
            except (ValueError, KeyError, TypeError):
                continue  # not an answer
        process.wait()
        errors.seek(0)
        missing = next((k for k in range(len(entries)) if k not in answers), None)
        if missing is not None:
            answers[missing] = f"crash: no answer after {timeout} s" if hung else how_it_ended(process, errors)
    return answers


def run_all(divisi, entries, timeout=TIMEOUT):
    """Error text for every entry ("" if it ran); restarts the program after a case that crashes it."""
    results = [None] * len(entries)
    with tempfile.TemporaryDirectory() as work:
        while left := [k for k, r in enumerate(results) if r is None]:
            for k, text in run_once(divisi, [entries[i] for i in left], work, timeout).items():
                if 0 <= k < len(left):
                    results[left[k]] = text
    return results


def run_parallel(divisi, entries, jobs):
    """run_all over `jobs` processes at a time."""
    results = [None] * len(entries)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        parts = [pool.submit(run_all, divisi, entries[j::jobs]) for j in range(jobs)]
        for j, part in enumerate(parts):
            results[j::jobs] = part.result()
    return results
