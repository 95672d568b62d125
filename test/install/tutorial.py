#!/usr/bin/env python3
"""Follows docs/python.md to the letter: its commands in a shell, one after the other, and its blocks of Python in one interpreter of the venv that they made.

    tutorial.py [--skip-build]

Runs in the root of a clone, which it leaves with a folder `venv` (on a machine that has nothing: the tools of CONTRIBUTING.md). --skip-build leaves the first line of commands out. Blocks that say
`# needs PACKAGE` run after `pip install PACKAGE`. Needs Python alone. Prints `tutorial: N blocks`, and ends with the exit code of what failed.
"""

import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs/python.md"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--skip-build", action="store_true")
    o = p.parse_args()
    text = PAGE.read_text()
    before = text.partition("\n## ")[0]  # commands that prepare; later ones are for clusters
    commands = [line[4:] for line in before.splitlines() if line.startswith("    ")]
    assert any("scripts/build.sh" in line for line in commands) and any("pip install" in line for line in commands), commands
    if o.skip_build:
        commands = [line for line in commands if "scripts/build.sh" not in line]
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    needed = sorted(set(re.findall(r"^# needs (\w+)", text, re.MULTILINE)))
    commands += [f"pip install {name}" for name in needed]
    script = ROOT / "build/tutorial"
    script.mkdir(parents=True, exist_ok=True)
    (script / "tutorial.py").write_text("\n".join(blocks) + f"\nprint('tutorial: {len(blocks)} blocks')\n")
    commands += [f"cd {script}", "python tutorial.py", "find curves -name 'events.out.tfevents.*' | grep ."]
    for line in commands:
        print("$", line, flush=True)
    return subprocess.run(["bash", "-e", "-c", "\n".join(commands)], cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())
