#!/usr/bin/env python3
"""Damages texts that the compiler reads (dumps of every level, plan files, clusters, profiles) and gives them to it, which must accept
them or refuse them with a line that begins with `error:` and exit code 1, 2 or 3: never crash, hang or stay silent.

    texts.py --divisi PATH [--count 1000] [--seed 0] [--jobs 2] [--only plan] [--keep FOLDER]

Ends with `N passed, N failed`; with --keep, damaged texts that failed stay in a folder.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import re
import resource
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT / "test/models"
TIMEOUT = 120
MEMORY = 8 << 30  # address space of a command: announced sizes must not be allocated
TOKEN = re.compile(r'"[^"\n]*"|[A-Za-z_][\w.]*|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|\s+|.', re.DOTALL)
NUMBERS = ["0", "-1", "1", "2", "3", "7", "64", "4294967296", "9223372036854775807", "-9223372036854775808", "99999999999999999999",
           "1e308", "nan", "0.5"]


def mutated(text, draw):
    """A damaged copy: by tokens mostly, else by lines or bytes."""
    for _ in range(draw.choice([1, 1, 1, 2, 4])):
        kind = draw.random()
        if kind < 0.75:
            tokens = TOKEN.findall(text)
            places = [k for k, t in enumerate(tokens) if not t.isspace()]
            if not places:
                return text
            k, other = draw.choice(places), draw.choice(places)
            if re.match(r"-?\d", tokens[k]) and draw.random() < 0.6:
                tokens[k] = draw.choice(NUMBERS)
            elif kind < 0.2:
                tokens[k] = ""
            elif kind < 0.35:
                tokens[k] += tokens[k]
            elif kind < 0.55:
                tokens[k] = tokens[other]
            else:
                tokens[k], tokens[other] = tokens[other], tokens[k]
            text = "".join(tokens)
        elif kind < 0.88:
            lines = text.split("\n")
            k, other = draw.randrange(len(lines)), draw.randrange(len(lines))
            action = draw.randrange(3)
            if action == 0:
                del lines[k]
            elif action == 1:
                lines.insert(k, lines[other])
            else:
                lines[k], lines[other] = lines[other], lines[k]
            text = "\n".join(lines)
        elif kind < 0.93:
            text = text[: draw.randrange(len(text) + 1)]
        elif text:
            k = draw.randrange(len(text))
            text = text[:k] + chr(draw.choice([0, 10, 34, 39, 92, 127, 233, draw.randrange(32, 127)])) + text[k + 1 :]
    return text


class Sources:
    """Valid texts, made by the compiler itself, with the command that reads each: {kind: [(name, text, command)]}."""

    def __init__(self, divisi, work):
        self.divisi, self.work = divisi, work
        mlp, gpt = MODELS / "mlp/model.onnx", MODELS / "gpt_tiny/model.onnx"
        losses = {m: self.loss(m) for m in (mlp, gpt)}
        self.kinds = {"dump": [], "plan": [], "cluster": [], "profile": []}
        ways = [[], ["--mesh", "data=2,model=2"], ["--mesh", "stage=2", "--microbatches", "2"]]
        for model in (mlp, gpt):
            for way in ways:
                for level in ("graph", "train", "planned", "dist", "exec"):
                    text = self.make("compile", model, *losses[model], *way, "--emit", level)
                    if text:
                        self.kinds["dump"].append((f"{model.parent.name} {level}", text, "dump"))
                text = self.make("compile", model, *losses[model], *way, "--emit", "plan")
                if text:
                    self.kinds["plan"].append((f"{model.parent.name} {' '.join(way)}", text, ("plan", model, losses[model])))
        cluster = (ROOT / "examples/clusters/two-nodes.toml").read_text()
        self.kinds["cluster"].append(("two-nodes", cluster, ("cluster", mlp, losses[mlp])))
        layers = work / "layers.json"
        self.make("profile", mlp, *losses[mlp], "--steps", "5", "--database", work / "times.json", "--layers", layers)
        self.kinds["profile"].append(("layers", layers.read_text(), "layers"))
        self.kinds["profile"].append(("database", (work / "times.json").read_text(), ("database", mlp, losses[mlp])))

    @staticmethod
    def loss(model):
        loss = json.loads((model.parent / "reference.json").read_text()).get("loss")
        return ["--loss", loss["kind"], "--label", loss["label"]] if loss else []

    def make(self, *words):
        done = subprocess.run([self.divisi, *map(str, words)], capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else ""

    def command(self, how, file):
        """The words that read a file, and variables."""
        kind, model, loss = how if isinstance(how, tuple) else (how, None, None)
        return {
            "dump": lambda: (["compile", file, "--emit", "llvm", "-o", "/dev/null"], {}),
            "plan": lambda: (["compile", model, *loss, "--plan", file, "--emit", "exec", "-o", "/dev/null"], {}),
            "cluster": lambda: (["plan", model, *loss, "--cluster", file], {}),
            "layers": lambda: (["plan", "--profile", file, "--objective", "pipedream", "--devices", "2", "--bandwidth", "10Gb/s"], {}),
            "database": lambda: (["plan", model, *loss, "--devices", "2"], {"DIVISI_PROFILE": file}),
        }[kind]()


def check(sources, kind, number, seed, keep):
    """An error text for the reaction to a damaged text, or ""."""
    draw = random.Random(f"{seed}-{kind}-{number}")
    name, text, how = draw.choice(sources.kinds[kind])
    file = sources.work / f"{kind}-{number}.{'mlir' if kind in ('dump', 'plan') else 'toml' if kind == 'cluster' else 'json'}"
    damaged = mutated(text, draw)
    file.write_text(damaged, errors="replace")
    words, variables = sources.command(how, file)
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    try:
        done = subprocess.run([sources.divisi, *map(str, words)], capture_output=True, timeout=TIMEOUT, preexec_fn=limit,
                              env={**os.environ, "DIVISI_PROFILE": str(sources.work / "none.json"), **{k: str(v) for k, v in variables.items()}})
    except subprocess.TimeoutExpired:
        wrong = f"no end after {TIMEOUT} s"
    else:
        lines = done.stderr.decode(errors="replace").splitlines()
        said = any(line.startswith("error: ") for line in lines)
        crash = next((l for l in lines if "Assertion" in l or "UNREACHABLE" in l or "terminate called" in l), "")
        good = done.returncode == 0 and not said or done.returncode in (1, 2, 3) and said
        wrong = "" if good and not crash else f"exit {done.returncode}: {(crash or ' | '.join(lines[:2]))[:300]}"
    if wrong and keep:
        keep.mkdir(parents=True, exist_ok=True)
        (keep / file.name).write_text(damaged, errors="replace")
    file.unlink()
    return f"{kind} #{number} ({name}): {wrong}" if wrong else None


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True, type=lambda path: str(pathlib.Path(path).resolve()))
    p.add_argument("--count", type=int, default=1000, help="of each kind")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--only", default="", help="dump, plan, cluster or profile")
    p.add_argument("--keep", type=pathlib.Path, help="a folder for texts that fail")
    o = p.parse_args()
    passed = failed = 0
    with tempfile.TemporaryDirectory() as work, concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        sources = Sources(o.divisi, pathlib.Path(work))
        kinds = [kind for kind in sources.kinds if o.only in kind]
        jobs = [pool.submit(check, sources, kind, k, o.seed, o.keep) for k in range(o.count) for kind in kinds]
        for job in concurrent.futures.as_completed(jobs):
            wrong = job.result()
            passed, failed = passed + (not wrong), failed + bool(wrong)
            if wrong:
                print(f"FAIL {wrong}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
