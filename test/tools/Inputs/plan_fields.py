"""plan_fields.py PLAN EXPLAIN: the JSON of `divisi plan` and `divisi explain` has the fields of docs/plans.md."""

import json
import sys

plan, explain = (json.load(open(path)) for path in sys.argv[1:])
TIMES = {"step_ms", "compute_ms", "communication_ms", "exposed_ms", "overlapped_ms"}
PLAN = {"rank", "name", "mesh", "devices", "parallelism", "fits", "collectives", "bytes_sent", "bytes_moved", "memory"} | TIMES
LAYER = {"name", "forward_ms", "backward_ms", "exposed_ms", "overlapped_ms", "parameter_bytes", "weights", "collectives"}
MEMORY = {"parameters", "optimizer_state", "others", "inputs", "transient", "total", "worst_phase", "worst_node"}

for report in plan, explain:
    assert set(report["cluster"]) == {"name", "device", "devices", "memory", "calibration"}, report["cluster"]
    for rank, entry in enumerate(report["plans"], 1):
        assert entry["rank"] == rank and PLAN <= set(entry), entry
        assert ("why_not" in entry) == ("tie" in entry) == (rank > 1), entry
        memory = entry["memory"]
        assert set(memory) == MEMORY and memory["worst_phase"] in {"forward", "backward", "update"}, memory
        parts = sum(memory[key] for key in ("parameters", "optimizer_state", "others", "inputs", "transient"))
        assert abs(parts - memory["total"]) < 1, memory
        assert abs(entry["exposed_ms"] + entry["overlapped_ms"] - entry["communication_ms"]) < 1e-9, entry
        search = entry.get("search", {"mesh": "", "cost_ms": 1, "bound_ms": 1, "gap": 0})
        assert set(search) == {"mesh", "cost_ms", "bound_ms", "gap"} and search["bound_ms"] <= search["cost_ms"] * (1 + 1e-9), search
assert sum("search" in entry for entry in plan["plans"]) == 1
assert set(plan) == {"model", "cluster", "plans", "suggestions"}, set(plan)
assert set(explain) == set(plan) | {"layers", "parameters", "flips", "remat"}, set(explain)
for layer in explain["layers"]:
    assert set(layer) == LAYER, layer
    for collective in layer["collectives"]:
        assert set(collective) == {"kind", "axes", "bytes", "ms", "exposed_ms", "reason"} and collective["reason"], collective
assert [p["name"] for p in explain["parameters"]] == ["fc1.weight", "fc2.weight"]
for parameter in explain["parameters"]:
    assert set(parameter) == {"name", "shape", "sharding", "local_bytes", "alternatives"}, parameter
    for alternative in parameter["alternatives"]:
        assert set(alternative) == {"sharding", "step_ms", "fits", "why_not"}, alternative
assert explain["parameters"][0]["sharding"] == "[model, _]"
for flip in explain["flips"]:
    assert set(flip) == {"figure", "unit", "now", "then", "exact", "plan"}, flip
