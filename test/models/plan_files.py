"""Cases of plans.py about plan files: given back they make the same program, and they are refused for anything else."""

import json
import re
import sys

sys.dont_write_bytecode = True
from planner import HERE  # noqa: E402

LINES, EXPLAINED, SCREEN = 150, 120, 48  # at most, of GPT-2 small: a plan, explain, diff
WAYS = ["--mesh data=2,model=2", "--mesh data=3", "--mesh data=2 --zero 3", "--mesh model=4 --remat 2", "--mesh data=2 --precision bf16",
        "--mesh stage=2,data=2 --microbatches 2", "--devices 4"]  # fmt: skip


def loss_flags(case):
    loss = json.loads((case / "reference.json").read_text()).get("loss")
    return ["--loss", loss["kind"], "--label", loss["label"]] if loss else []


def round_trips(p):
    """Every reference model's plan, given back, makes the same program and the same plan, for either target; the other target refuses it."""
    file = p.folder / "plan.mlir"
    targets = [("cpu", "cuda"), ("cuda", "cpu")]
    for number, case in enumerate(sorted(f.parent for f in HERE.glob("*/reference.json"))):
        model = ["compile", case / "model.onnx", *loss_flags(case)]
        if p.brief and number % 3:
            continue
        for target, other in targets[number % 2:][:1] if p.brief else targets:
            given, wrong = 0, []
            for way in WAYS:
                words = [*model, "--target", target, *way.split()]
                plan = p.run(*words, "--emit", "plan", codes=(0, 1))
                if plan.returncode:
                    assert "there is no plan for one device" in plan.stderr, plan.stderr
                    continue
                file.write_text(plan.stdout)
                again = [*model, *(["--precision", "bf16"] if "bf16" in way else []), "--plan", file]
                for level in "plan", "exec":
                    made = plan if level == "plan" else p.run(*words, "--emit", level)
                    followed = p.run(*again, "--target", target, "--emit", level, codes=(0, 1))
                    if made.stdout != followed.stdout:
                        wrong.append(f"{way}, {level}: {followed.stderr.strip()[-200:]}")
                refused = p.run(*again, "--target", other, "--emit", "plan", codes=(1,)).stderr
                if f"the plan was made for the target {target}, this is for {other}" not in refused:
                    wrong.append(f"{way}, for {other}: {refused.strip()[-200:]}")
                given += 1
            yield f"{case.name}, {target}: {given} plans", given >= len(WAYS) - 1 and not wrong, "; ".join(wrong)


def other_models(p):
    """No plan of a reference model is accepted for another model, or for other constants of the optimizer."""
    file = p.folder / "plan.mlir"
    cases = sorted(f.parent for f in HERE.glob("*/reference.json"))
    for case, another in zip(cases, [*cases[1:], cases[0]]):
        words = [case / "model.onnx", *loss_flags(case)]
        file.write_text(p.run("compile", *words, "--mesh", "data=2", "--optimizer", "adamw", "--emit", "plan").stdout)
        for what, others in ((another.name, [another / "model.onnx", *loss_flags(another), "--optimizer", "adamw"]),
                             ("another beta2", [*words, "--optimizer", "adamw", "--beta2", "0.5"]), ("sgd", words)):  # fmt: skip
            refused = p.run("compile", *others, "--plan", file, "--emit", "plan", codes=(1,)).stderr
            yield f"{case.name}'s for {what}: refused", "the plan was made for another model" in refused, refused.strip()[-200:]


def short_plans(p):
    """A person can read what is decided for GPT-2 small on eight GPUs: its plan, its explanation, and how two plans differ."""
    model = [p.graph("gpt --layers 12 --hidden 768 --heads 12 --vocab 50304 --seq 1024"), "--dim", "batch=64", "--optimizer", "adamw"]
    file = p.folder / "plan.mlir"
    for way in "--mesh data=8", "--mesh data=4,model=2", "--mesh data=8 --zero 1", "--mesh data=8 --zero 3", "--cluster 8xh100 --strategy auto":
        words = ["compile", *model, "--target", "cuda"]
        file.write_text(p.run(*words, *way.split(), "--emit", "plan").stdout)
        lines = len(file.read_text().splitlines())
        yield f"the plan of {way}: at most {LINES} lines", lines <= LINES, f"{lines}"
        made, followed = (p.run(*words, *more, "--emit", "dist").stdout for more in (way.split(), ["--plan", file]))
        yield "  given back, it makes the same program", made == followed, ""
    explained = p.run("explain", *model, "--cluster", "8xh100").stdout.splitlines()
    yield f"explain: at most {EXPLAINED} lines", len(explained) <= EXPLAINED, f"{len(explained)}"
    exponents = [line for line in explained if re.search(r"[0-9]e[-+]?[0-9]", line)]
    yield "  no number has an exponent", not exponents, "; ".join(exponents)
    compared = p.run("diff", "data=8", "data=4,model=2", *model, "--cluster", "8xh100").stdout
    yield f"diff: at most {SCREEN} lines", len(compared.splitlines()) <= SCREEN, compared
    yield "  it names a weight that is split", "blocks.*.mlp.fc.weight: [_, _] -> [model, _]" in compared, compared


CASES = [round_trips, other_models, short_plans]
