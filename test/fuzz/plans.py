"""Random plans, as flags of the compiler."""

SCHEDULES = ("1f1b", "gpipe", "naive", "zb-h1", "interleaved")


def microbatches(draw, batch):
    return draw.choice([n for n in range(2, batch + 1) if batch % n == 0] or [1])


LEVELS = ("plan", "plan", "train", "planned", "dist", "exec")


def random_plan(draw, batch):
    """Flags; if the first is `--emit=LEVEL`, the program is compiled from a dump of that level, or from a plan file."""
    through = draw.random() < 0.2
    plan = direct_plan(draw, batch)
    return [f"--emit={draw.choice(LEVELS)}", *plan] if through else plan


def direct_plan(draw, batch):
    kind = draw.random() * (0.65 if batch == 1 else 1)  # one row is no microbatches
    if kind < 0.3:
        return ["--devices", str(draw.choice([2, 2, 3, 4])), "--strategy", draw.choice(["data", "operator", "auto"])]
    if kind < 0.5:
        mesh = draw.choice(["data=2", "data=4", "data=3", "data=2,model=2"])
        return ["--mesh", mesh, "--zero", str(draw.choice([1, 2, 3]))]
    if kind < 0.65:
        return ["--mesh", draw.choice(["data=2,model=2", "model=3", "model=4", "data=1,model=2"])]
    if kind < 0.9:
        mesh = draw.choice(["stage=2", "stage=2", "stage=3", "stage=2,data=2", "stage=2,model=2"])
        schedule = draw.choice(SCHEDULES)
        count = microbatches(draw, batch)
        return ["--mesh", mesh, "--microbatches", str(count), "--schedule", schedule]
    plan = ["--microbatches", str(microbatches(draw, batch))]
    return [*plan, "--remat", "all"] if draw.random() < 0.5 else plan
