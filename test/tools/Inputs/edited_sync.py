"""Edits what dumps and plan files say about how replicas are kept in step, and compiles them: arguments MODEL FOLDER. Each edit is an error that names its place."""

import pathlib
import subprocess
import sys

model, folder = sys.argv[1], pathlib.Path(sys.argv[2])
SERVER, ASYNC, LOCAL, DRIVER, NONE = ("--sync server --servers 2", "--sync async-server", "--sync local --average-every 4", "--sync driver", "")
PUSHED = 'dist.pushed = "sum"'
NESTEROV = LOCAL + " --outer-optimizer nesterov"

# (flags, level, what is replaced, by what, words of the error); the mesh is data=2 unless the flags have another one
EDITS = [
    (SERVER, "dist", PUSHED, 'dist.pushed = "copy"', 'argument 0 needs dist.pushed = "sum"'),
    (SERVER, "exec", PUSHED, 'dist.pushed = "copy"', 'argument 0 needs dist.pushed = "sum"'),
    (SERVER, "exec", PUSHED, 'dist.pushed = "max"', 'argument 0 needs dist.pushed = "sum"'),
    (SERVER, "exec", PUSHED, 'dist.pushed = "foo"', 'argument 0 needs dist.pushed = "sum"'),
    (SERVER, "exec", PUSHED, "dist.pushed = 1 : i64", 'argument 0 needs dist.pushed = "sum"'),
    (SERVER, "exec", ", " + PUSHED, "", 'argument 0 needs dist.pushed = "sum"'),
    (SERVER, "exec", '"copy"', '"sum"', 'needs dist.pushed = "copy"'),
    (SERVER, "exec", 'graph.scalar = "learning_rate"', f'{PUSHED}, graph.scalar = "learning_rate"', "has 'dist.pushed', but workers send only"),
    (SERVER, "exec", 'graph.input = "x"', f'{PUSHED}, graph.input = "x"', "has 'dist.pushed', but workers send only"),
    (ASYNC, "exec", '"copy"', '"sum"', 'needs dist.pushed = "copy"'),
    (SERVER, "exec", "servers = 2", "servers = 3", "the tasks are not those of --sync server with 3 servers"),
    (SERVER, "dist", ", servers = 2 : i64", "", "has 'dist.pushed', but workers send only"),
    (SERVER, "exec", "servers = 2", "servers = 0", "'servers' must be a number from 1"),
    (SERVER, "exec", '"server"', '"async-server"', "the tasks are not those of --sync async-server with 2 servers"),
    (ASYNC, "exec", '"async-server"', '"server"', "the tasks are not those of --sync server with 1 servers"),
    (ASYNC, "exec", 'mode = "async-server", servers = 1 : i64', 'every = 2 : i64, mode = "local"', "has 'dist.pushed', but workers send only"),
    (LOCAL, "exec", 'dist.sync = {every = 4 : i64, mode = "local"}, ', "", "the replicas of the training step exchange nothing"),
    (LOCAL, "dist", 'every = 4 : i64, mode = "local"', 'mode = "driver"', "the replicas of the training step exchange nothing"),
    (LOCAL, "exec", "every = 4 : i64, ", "", "'every' is missing"),
    (NESTEROV, "exec", ", outer_momentum = 9.000000e-01 : f64", "", "'outer_momentum' is missing"),
    (NESTEROV, "train", 'outer = "nesterov", ', "", "'outer_lr' is for an 'outer'"),
    (NONE, "exec", "module attributes {", 'module attributes {dist.sync = {every = 2 : i64, mode = "local"}, ', "exchange nothing within a step"),
    (NONE, "dist", "module attributes {", 'module attributes {dist.sync = {mode = "gossip"}, ', "exchange nothing within a step"),
    ("--mesh model=2", "exec", "module attributes {", 'module attributes {dist.sync = {mode = "driver"}, ', "the mesh has no axis 'data'"),
    ("--mesh model=2", "planned", "module attributes {", 'module attributes {dist.sync = {mode = "driver"}, ', "the mesh has no axis 'data'"),
    ("--mesh data=2,model=2 --sync gossip --topology pairs", "exec", 'mode = "gossip"', 'asynchronous, mode = "gossip"', "is on a ring"),
    ("", "planned", "module attributes {", 'module attributes {dist.sync = {every = 2 : i64, mode = "local"}, ', "'sync' is another way"),
    ("--precision fp16", "dist", "module attributes {", 'module attributes {dist.sync = {every = 2 : i64, mode = "local"}, ', "fp16 replicas would skip different steps"),
    (DRIVER, "planned", 'sync = {mode = "driver"}} {\n', "} {\n", "'sync' is another way"),
    (LOCAL, "planned", 'sync = {every = 4 : i64, mode = "local"}} {\n', 'sync = {every = 8 : i64, mode = "local"}} {\n', "'sync' is another way"),
    (LOCAL, "train", '<"data" = 2>', '<"data" = 4>', "the training step was made for 4 replicas that go apart, not for 2"),
    (LOCAL, "graph", '<"data" = 2>', '<"model" = 2>', "'dist.sync_mesh' must be"),
    (LOCAL, "graph", ', dist.sync_mesh = #dist.mesh<"data" = 2>', "", "says --sync local: --sync local needs replicas"),
    (SERVER, "plan", "servers = 2", "servers = 0", "'servers' must be a number from 1"),
    (SERVER, "plan", "servers = 2", "servers = -1", "'servers' must be a number from 1"),
    (SERVER, "plan", "servers = 2", "servers = 1025", "there are 1 to 1024 servers"),
    (ASYNC, "plan", ", servers = 1 : i64", "", "'servers' is missing"),
    (ASYNC, "plan", 'mode = "async', 'max_staleness = 0 : i64, mode = "async', "that is --sync server"),
    (LOCAL, "plan", "every = 4 : i64", "every = 0 : i64", "not every 0"),
    (LOCAL, "plan", "every = 4 : i64, ", "", "'every' is missing"),
    (NESTEROV, "plan", "outer_momentum = 9.000000e-01", "outer_momentum = 0x7FF8000000000000", "the outer momentum (--outer-momentum) must be"),
    (LOCAL, "plan", "sync = {", "synk = {", "a plan has no 'synk': expected pipeline, sync"),
]


def compile(source, *flags):
    return subprocess.run(["divisi", "compile", source, *flags], capture_output=True, text=True)


dumps, wrong = {}, []
for flags, level, old, new, expected in EDITS:
    words = flags.split() if "--mesh" in flags else ["--mesh", "data=2", *flags.split()]
    if (flags, level) not in dumps:
        made = compile(model, *words, "--emit", level)
        assert made.returncode == 0, made.stderr
        dumps[flags, level] = made.stdout
    text = dumps[flags, level]
    assert old in text, (flags, level, old)
    edited = folder / "edited.mlir"
    edited.write_text(text.replace(old, new, 1))
    onward = [model, "--plan", edited] if level == "plan" else [edited, *(["--mesh", "data=2"] if "made for" in expected else [])]
    result = compile(*onward, "-o", folder / "program")
    if not (result.returncode in (1, 2) and expected in result.stderr and "edited.mlir" in result.stderr):
        wrong.append(f"{flags} {level}: {old!r} -> {new!r}: exit {result.returncode}, {result.stderr!r} instead of {expected!r}")
sys.exit("\n".join(wrong) or 0)
