#!/usr/bin/env python3
"""Random combinations of the flags of `divisi compile` on the reference models.

    flags.py --divisi PATH [--draws 12] [--seed 0]

What a combination computes is one group of flags (optimizer, precision, clipping, ...), how it is split another (devices, meshes,
searches, pipelines, synchronisation, ...). A program must have the losses of the program for one device with the same first
group; a refusal must be the compiler's own: a line that begins with `error:` and has no name of an operation of the compiler.
Ends with `N passed, N failed`.
"""

import pathlib
import random
import re
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
MODELS = HERE.parent / "models"
sys.path.insert(0, str(MODELS))
import lines  # noqa: E402
from devices import loss_flags  # noqa: E402

NAMES = ("mlp", "gpt_tiny", "lenet", "moe_tiny", "lstm_tiny", "resnet_tiny", "vit_tiny", "mlp_no_loss", "llama_tiny")
STEPS = 3
LEVELS = ("plan", "train", "planned", "dist", "exec")
OPTIMIZERS = {
    "sgd": [[], ["--momentum", "0.9"], ["--momentum", "0.9", "--nesterov"]],
    "adam": [[], ["--beta2", "0.99"]],
    "adamw": [[], ["--weight-decay", "0.1", "--no-decay", "*bias"]],
    "adagrad": [[]],
    "rmsprop": [[], ["--momentum", "0.5", "--centered"]],
    "lion": [[]],
    "lamb": [[]],
    "lars": [[]],
    "adafactor": [[]],
    "muon": [[], ["--match-rms"]],
}
# Names of the compiler's own operations, attributes and passes help no user.
INTERNAL = re.compile(r"'(graph|dist|exec|func|llvm|builtin|scf|arith|memref)\.\w+'|no CPU lowering|Assertion|UNREACHABLE|Stack dump")


def what_it_computes(draw):
    optimizer = draw.choice(list(OPTIMIZERS))
    flags = ["--optimizer", optimizer, *draw.choice(OPTIMIZERS[optimizer]), "--lr", draw.choice(["0.01", "0.02"])]
    if draw.random() < 0.25:
        flags += ["--precision", draw.choice(["bf16", "bf16", "fp16", "tf32"])]
    if draw.random() < 0.2:
        flags += ["--clip-norm", "0.5"]
    if draw.random() < 0.15:
        flags += ["--ema", "0.9"]
    if draw.random() < 0.15:
        flags += ["--lr-schedule", draw.choice(["linear", "cosine", "wsd"]), "--warmup-steps", "2"]
    if draw.random() < 0.15:
        flags += ["--lr-factor", "*weight=0.5"]
    return flags


def how_it_is_split(draw):
    """Flags, and whether the numbers are those of one device. In one draw of seven flags come whether or not they fit each other."""
    flags, wild = [], draw.random() < 1 / 7
    same, mesh, strategy = True, "", ""
    often = lambda fits, share: draw.random() < (share if fits else 0.3 * wild * share)
    if draw.random() < 0.4:
        flags += ["--devices", draw.choice(["2", "3", "4", "4", "2,4"])]
        strategy = draw.choice(["auto", "auto", "data", "data", "operator", "pipeline", "hybrid"])
        flags += ["--strategy", strategy]
        if often(strategy in ("auto", "pipeline", "hybrid"), 0.3):
            flags += ["--cluster", draw.choice(["cpu:4", "8xh100", "2x8xh100"])]
    elif draw.random() < 0.9:
        mesh = draw.choice(["data=2", "data=4", "model=2", "data=2,model=2", "stage=2", "stage=3", "stage=2,data=2", "stage=2,model=2"])
        flags += ["--mesh", mesh]
    staged = "stage" in mesh
    if often(staged, 0.8):
        flags += ["--schedule", draw.choice(["naive", "gpipe", "1f1b", "interleaved", "zb-h1", "pipedream", "pipedream-2bw"])]
        same = "pipedream" not in flags[-1]
    replicas = "data" in mesh or strategy == "data"
    if often(replicas, 0.3):
        flags += ["--zero", draw.choice("123")]
    elif often(replicas, 0.4):
        flags += ["--sync", draw.choice(["driver", "server", "server", "local", "gossip", "async-server"])]
        same = same and flags[-1] in ("driver", "server")
        if flags[-1] == "server" and draw.random() < 0.6:
            flags += ["--servers", draw.choice(["1", "2", "colocated"])]
    split = staged and flags[-1] != "pipedream" or strategy in ("pipeline", "hybrid")
    if draw.random() < (0.9 if split else 0.3):
        flags += ["--microbatches", draw.choice(["2", "2", "3", "4", "auto"] if split or wild else ["2", "4"])]
    if draw.random() < 0.2:
        flags += ["--remat", draw.choice(["all", "2", "auto", "none"])]
    if often(replicas or "--microbatches" in flags, 0.2):
        flags += ["--log-noise-scale"]
    if often(replicas, 0.1):
        flags += ["--batch-norm-stats", draw.choice(["local", "microbatch", "global"])]
        same = same and flags[-1] == "global"
    if draw.random() < 0.1:
        flags += ["--target", draw.choice(["cuda", "cpu,cuda"])]
    return flags, same


def data_of(name):
    return [f"--data={file.stem}={file}" for file in sorted((MODELS / name / "data").glob("*.npy"))]


def wrong(text):
    """What is wrong with a refusal, or ""."""
    if not re.search(r"^error: ", text, re.MULTILINE):
        return "ends without an error"
    return "names the compiler's own things" if INTERNAL.search(text) else ""


def compile_through(divisi, level, model, split, folder):
    """(exit code, standard error) of a compilation, which at a level is interrupted: from its plan file or its dump."""
    if not level:
        return lines.refusal(divisi, "compile", *model, *split, "-o", folder / "split")
    dump = folder / "dump.mlir"
    code, text = lines.refusal(divisi, "compile", *model, *split, f"--emit={level}", "-o", dump)
    if code:
        return code, text
    target = split[split.index("--target"):][:2] if "--target" in split else []
    source = [*model, "--plan", dump] if level == "plan" else [dump]
    return lines.refusal(divisi, "compile", *source, *target, "-o", folder / "split")


def combination(divisi, seed):
    def test(folder):
        draw = random.Random(f"flags {seed}")
        name = draw.choice(NAMES)
        computes, (split, same) = what_it_computes(draw), how_it_is_split(draw)
        data = data_of(name)
        model = [MODELS / name / "model.onnx", *loss_flags(MODELS / name), "--no-calibration", *computes]
        if name == "resnet_tiny" and "--microbatches" in split:  # batch norm's numbers depend on them
            same = False
        level = draw.choice(LEVELS) if draw.random() < 0.3 and "2,4" not in split else ""
        said = f"{name} {' '.join([*computes, *split])}{level and f' through {level}'}"
        code, text = compile_through(divisi, level, model, split, folder)
        if code:
            fault = f"exit {code}" if code not in (1, 2) else wrong(text)
            yield not fault, f"{said}: {fault or 'refused'}: {text[-400:]}"
            return
        if "cuda" in split:  # no GPU is needed to compile
            yield True, f"{said}: compiled"
            return
        lines.call(divisi, "compile", *model, "-o", folder / "one")
        weights = ["--weights", folder / "one.safetensors"] if level not in ("", "plan") else []  # a dump has none
        got, _ = lines.losses(divisi, folder / "split", data, folder, "--steps", STEPS, *weights)
        if not same:
            yield len(got) == STEPS, f"{said}: losses {got}"
            return
        want, _ = lines.losses(divisi, folder / "one", data, folder, "--steps", STEPS)
        narrow = {"bf16", "fp16"} & set(computes)
        # These turn the rounding of small gradients into steps of full size: in 16 bits only their first loss is compared.
        signs = {"lion", "muon", "lamb", "lars", "adagrad", "rmsprop", "adam", "adamw", "adafactor"} & set(computes)
        tolerance, count = 2e-2 if narrow else 2e-3 if signs else 1e-4, 1 if narrow and signs else STEPS
        close = len(got) == STEPS and all(abs(a - b) <= tolerance * max(1, abs(b)) for a, b in zip(got[:count], want[:count]))
        yield close, f"{said}: losses {got}, one device {want}"
    return test


def main():
    p = lines.parser(__doc__.splitlines()[0])
    p.add_argument("--draws", type=int, default=12)
    p.add_argument("--seed", type=int, default=0)
    options = p.parse_args()
    return lines.run([(f"draw {s}", combination(options.divisi, s)) for s in range(options.seed, options.seed + options.draws)], options)


if __name__ == "__main__":
    sys.exit(main())
