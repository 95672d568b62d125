"""fails.py CODE COMMAND...: the command must end with this exit code, print one line on standard error and nothing else.

Prints that line.
"""

import subprocess
import sys

code, command = int(sys.argv[1]), sys.argv[2:]
done = subprocess.run(command, capture_output=True, text=True)
lines = done.stderr.splitlines()
if done.returncode != code or done.stdout or len(lines) != 1:
    sys.exit(f"exit {done.returncode}, expected {code} and one line; it said:\n{done.stdout}{done.stderr}")
print(lines[0])
