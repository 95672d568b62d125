"""same_losses.py LOG LOG...: logs of steps whose losses are the same, digit by digit."""

import json
import sys

losses = [[json.loads(line)["loss"] for line in open(path)] for path in sys.argv[1:]]
if not losses[0] or any(other != losses[0] for other in losses[1:]):
    sys.exit("\n".join(f"{path}: {values}" for path, values in zip(sys.argv[1:], losses)))
