#!/usr/bin/env python3
"""Runs the command lines that README.md, docs/ and examples/ show, page by page, as they are written.

    commands.py --divisi PATH [--only PAGE]

A block is indented by four spaces and begins with a word of COMMANDS. Its lines run in one shell, the blocks of a page one after the other in a
folder that has what they name (fixtures.py). What is replaced (SUBSTITUTES) and what is left out (LEFT_OUT) stands below, with the reason; an
entry that matches nothing any more is a failure. Prints `N passed, N failed`.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

import fixtures

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "execute"))
sys.dont_write_bytecode = True
import cases  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ["README.md", *(str(p.relative_to(ROOT)) for folder in ("docs", "examples") for p in sorted((ROOT / folder).rglob("*.md")))]
COMMANDS = {"divisi", "bash", "cmake", "ninja", "python", "python3", "mkdir", "export", "torchrun", "mpirun", "srun", "sbatch", "pip"}

# (pattern of a line, reason): not run here.
LEFT_OUT = [
    (r"^\./model --data '(tokens|x)=", "test/execute/tokens.py and columns.py train on such files"),
    (r"^\./model --feed ", "needs a process that feeds: python/tests/test_feed.py"),
    (r"^\./model --data (image=train/|'image=shards/)", "test/execute/images.py trains on such files"),
    (r"^bash scripts/(demo|test|install)\.sh", "from nothing on a bare system: .ci/run, and scripts/demo.sh by hand"),
    (r"^cmake --install", "an installation: test/install/package.sh"),
    (r"^ninja -C build package-deb", "an installation: test/install/package.sh"),
    (r"^python3 -m venv|^pip install|^export DIVISI=", "an installation: python/tests"),
    (r"^python test/zoo/zoo\.py", "needs PyTorch and half an hour: the nightly suite `zoo`"),
    (r"slow-network/compare\.py", "a network namespace: test/examples/slow_network.py"),
    (r"^mpirun -n 2 --host", "two machines: test/execute/launchers.py, in two network namespaces"),
    (r"^(torchrun|RANK=0)", "a launcher: test/execute/launchers.py"),
    (r"gpt39b\.onnx|--layers 48 --hidden 8192", "a graph of 39 billion parameters: examples, large_graphs_test.py and planning.py"),
]
# (pattern, replacement) within a line: what a page leaves to the reader.
SUBSTITUTES = [
    (r"(--data image=x\.npy) \.\.\.", r"\1 --data label=y.npy --steps 2"),
    (r"--epochs 20\b", "--epochs 1"),
    (r"\bmodel\.onnx(?=.*--dim )", "symbolic.onnx"),
    (r"(?<!/)\bmodel\.onnx(?=.*--loss )", "logits.onnx"),
    (r"'\*norm\*'", "'fc2.*'"),
    (r"'encoder\.\*=", "'fc1.*="),
]


def blocks(page):
    """(first line, lines) of each block of commands."""
    lines = (ROOT / page).read_text().splitlines()
    block, first, fenced = [], 0, False
    for number, line in enumerate([*lines, ""], 1):
        fenced ^= line.startswith("```")
        if line.startswith("    ") and not fenced:
            first = first if block else number
            block.append(line[4:])
        elif block:
            word = block[0].split()[0]
            if word in COMMANDS or word.startswith("./") or re.match(r"[A-Z_]+=", word):
                yield first, block
            block = []


def joined(lines):
    """The lines with those that a backslash continues put together."""
    return re.sub(r"\\\n\s*", "", "\n".join(lines)).split("\n")


def prepared(line, used):
    """The line as it is run; None if it is left out. `used` collects the entries of the two tables that matched."""
    for pattern, _ in LEFT_OUT:
        if re.search(pattern, line):
            used.add(pattern)
            return None
    for pattern, replacement in SUBSTITUTES:
        line, count = re.subn(pattern, replacement, line)
        if count:
            used.add(pattern)
    return line


def run(page, folder, environment, used):
    """Yields a text for each block that ran."""
    fixtures.write(folder, ROOT)
    done = 0
    for first, block in blocks(page):
        lines = [line for line in (prepared(line, used) for line in joined(block)) if line is not None]
        if not lines:
            continue
        result = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", "\n".join(lines)],
            cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        said = (result.stdout[-300:] + result.stderr[-1500:]).strip()
        assert result.returncode == 0, f"line {first}: exit code {result.returncode} of\n{chr(10).join(lines)}\n{said}"
        done += 1
        yield f"line {first}: {len(lines)} lines"
    if not done:
        yield "no commands to run"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--divisi", required=True, type=pathlib.Path)
    parser.add_argument("--only", help="the pages whose names contain this")
    arguments = parser.parse_args()
    path = f"{arguments.divisi.resolve().parent}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = dict(os.environ, PATH=path, OMP_NUM_THREADS="1")
    used = set()

    def call(page, folder):
        return list(run(page, folder, dict(environment, DIVISI_PROFILE=str(folder / "profile.json")), used))

    def tables(folder):
        unused = [pattern for pattern, _ in [*LEFT_OUT, *SUBSTITUTES] if pattern not in used]
        assert not unused, f"no line matches any more: {unused}"
        return "every line that is replaced or left out occurs"

    pages = [page for page in PAGES if not arguments.only or arguments.only in page]
    last = [] if arguments.only else [tables]
    return cases.run([*pages, *last], lambda case, folder: case(folder) if callable(case) else call(case, folder))


if __name__ == "__main__":
    sys.exit(main())
