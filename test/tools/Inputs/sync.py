"""Checks the bytes of `divisi plan --sync all --json` against the formulas, and those of a plan file: arguments FILE [FILE SYNC]."""

import json
import sys

facts = json.load(open(sys.argv[1]))
prices = {entry["sync"]: entry for entry in facts["sync"]}
replicas, parameters = 4, next(p for p in facts["plans"] if p["name"] == "data=4")["memory"]["parameters"]
sent = {name: entry["bytes_sent"] for name, entry in prices.items()}
ring = 2 * (replicas - 1) / replicas * parameters
summed = 2 * parameters if len(sys.argv) > 2 else ring  # CPUs add up so few bytes by recursive doubling
for name, wanted in {
    "driver": (replicas - 1) * parameters,
    "server --servers colocated": ring,
    "server --servers 1": replicas * parameters,  # of the busiest: the server
    "server --servers 2": replicas / 2 * parameters,
    "server --servers 4": parameters,
    "async-server --servers 1": replicas * parameters,
    "local --average-every 8": summed / 8,
    "local --average-every 8 --overlap-average": summed / 8,
    "local --average-every 64": summed / 64,
    "gossip --topology ring": 2 * parameters,
    "gossip --topology exponential": parameters,
    "gossip --topology pairs": parameters,
}.items():
    assert abs(sent[name] - wanted) <= 1e-6 * wanted, (name, sent[name], wanted)
assert 0 <= sent["all-reduce"] - summed <= 64, (sent["all-reduce"], summed)  # beside gradients, the loss
assert [name for name, entry in prices.items() if entry["same_numbers"]] == [
    "all-reduce", "driver", "server --servers colocated", "server --servers 1", "server --servers 2", "server --servers 4"]
# One server's link carries the gradients of all workers, and their parameters; K servers have K links.
exposed = {name: prices[name]["exposed_ms"] for name in prices}
assert exposed["server --servers 1"] > exposed["server --servers 2"] > exposed["server --servers 4"]
# An asynchronous worker sees its own messages alone, unless the server's link is busy with the others' for longer.
assert exposed["async-server --servers 1"] <= exposed["server --servers 1"]
assert exposed["local --average-every 8 --overlap-average"] <= exposed["local --average-every 8"] * (len(sys.argv) > 2)  # nothing overlaps on CPUs
for entry in prices.values():  # the computation is the same
    assert abs(entry["step_ms"] - entry["exposed_ms"] - (prices["driver"]["step_ms"] - prices["driver"]["exposed_ms"])) < 1e-9
if len(sys.argv) > 2:
    one, same = json.load(open(sys.argv[2]))["plans"][0], prices[sys.argv[3]]
    for figure in ("step_ms", "exposed_ms", "bytes_sent"):
        assert abs(one[figure] - same[figure]) <= 1e-9 * abs(same[figure]), (figure, one[figure], same[figure])
