"""Functions of all peers: how long to measure, timing of steps, memory, and the machine's other load."""

import json
import os
import time

# The time budget of a measurement.
SECONDS = dict(mlp=2.5, lenet=3.5, resnet18=9, gpt2=5, lstm=6, gpt2_small=12, bert_base=12, vit_b_16=12, resnet50=12)
MIN_STEPS = dict(mlp=10, lenet=6, resnet18=3, gpt2=5, lstm=5, gpt2_small=3, bert_base=3, vit_b_16=3, resnet50=3)
LOSS_INSIDE = ("gpt2", "gpt2_small", "bert_base", "lstm")  # exported with their loss, so that divisi compile needs no --loss
WARM = 2  # first steps that do not count


def busy():
    """CPU seconds that the whole machine has been busy since it started."""
    fields = list(map(int, open("/proc/stat").readline().split()[1:9]))
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def own():
    """CPU seconds of this process and of its children that have ended."""
    t = os.times()
    return t.user + t.system + t.children_user + t.children_system


def memory(field, process="self"):
    """VmRSS (resident now) or VmHWM (its highest value) of a process in MB; 0 when it has gone."""
    try:
        for line in open(f"/proc/{process}/status"):
            if line.startswith(field + ":"):
                return int(line.split()[1]) / 1024
    except (OSError, ValueError):
        pass
    return 0.0


def summary(seconds):
    """Median, p10 and p90 in milliseconds."""
    seconds = sorted(seconds)
    at = lambda f: round(seconds[min(len(seconds) - 1, int(f * len(seconds)))] * 1e3, 2)
    return dict(steps=len(seconds), median_ms=at(0.5), p10_ms=at(0.1), p90_ms=at(0.9))


class OtherLoad:
    """Measures how many cores other processes keep busy, from its creation to `value()`."""

    def __init__(self):
        self.start = (busy(), own(), time.perf_counter())

    def value(self):
        b, o, t = self.start
        return round(max(0.0, (busy() - b) - (own() - o)) / (time.perf_counter() - t), 2)


def measure(step, model):
    """Times `step` for the model's budget, after the warm-up steps."""
    for _ in range(WARM):
        step()
    seconds, load, start = [], OtherLoad(), time.perf_counter()
    while time.perf_counter() - start < SECONDS[model] or len(seconds) < MIN_STEPS[model]:
        t = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - t)
    return dict(summary(seconds), other_cpu=load.value())


def run(step, model, before, **more):
    """The whole measurement of a peer inside its process. step() returns the loss; before: VmRSS without the model."""
    t = time.perf_counter()
    loss = float(step())
    first = time.perf_counter() - t
    row = measure(step, model)
    emit(
        model=model,
        loss=round(loss, 5),
        first_s=round(first, 2),
        base_mb=round(before),
        peak_mb=round(memory("VmHWM")),
        **row,
        **more,
    )


def emit(**row):
    """The result: the last line of the output, as JSON."""
    print(json.dumps(row), flush=True)
