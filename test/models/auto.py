#!/usr/bin/env python3
"""Random models under the plan that a search chooses for 2, 3, 4 and 6 devices: the losses of one device.

    auto.py --divisi PATH [--draws 6] [--seed 0]

Each draw is a model (random_models.py), an optimizer, and a cluster: this machine, where one device is often the best, or devices
so slow that a search splits whatever it can. Also refused: crashes, and messages that are not the compiler's own. Needs onnx. Ends
with `N passed, N failed`.
"""

import random
import sys

sys.dont_write_bytecode = True
import lines  # noqa: E402
import random_models  # noqa: E402

DEVICES = (2, 3, 4, 6)
STEPS = 3
# Of float programs whose sums have other orders; batch norm of few values after a few steps amplifies them.
TOLERANCE = {"cnn": 2e-3}
# Of what a search may be asked for beside the number of devices.
EXTRAS = ([], [], ["--remat", "auto"], ["--strategy", "data", "--zero", "3"], ["--microbatches", "2"], ["--strategy", "hybrid", "--microbatches", "2"], ["--strategy", "operator"])


def slow_cluster(devices):
    """Devices beside which every link is fast."""
    return f"""[cluster]
name = "slow"
[device]
kind = "cpu"
name = "slow"
memory = "1GB"
flops = {{ fp32 = "10MFLOPS" }}
bandwidth = "100MB/s"
launch = "1us"
[[level]]
name = "links"
size = {devices}
bandwidth = "100GB/s"
latency = "1us"
"""


def same_as_one_device(divisi, seed):
    def losses(program, folder, model):
        data = [f"--data={name}={folder / name}.npy" for name in model.data]
        return lines.losses(divisi, program, data, folder, "--steps", STEPS)

    def test(folder):
        draw = random.Random(f"auto {seed}")
        model = random_models.draw_model(seed)
        model.save(folder)
        train = [folder / "model.onnx", "--optimizer", draw.choice(["sgd", "adamw"]), "--lr", "0.02", "--no-calibration"]
        wanted = {}
        for devices in DEVICES:
            extra = draw.choice(EXTRAS)
            parts = extra[-2:] if model.kind == "cnn" and "--microbatches" in extra else []  # batch norm's numbers depend on them
            if str(parts) not in wanted:
                lines.call(divisi, "compile", *train, *parts, "-o", folder / "one")
                wanted[str(parts)], _ = losses(folder / "one", folder, model)
            want = wanted[str(parts)]
            flags = ["--devices", devices, *extra]
            if not {"operator", "data"} & set(extra) and draw.random() < 0.7:
                (folder / "slow.toml").write_text(slow_cluster(devices))
                flags += ["--cluster", folder / "slow.toml"]
            said = " ".join(str(f).replace(f"{folder}/", "") for f in flags)
            code, text = lines.refusal(divisi, "compile", *train, *flags, "-o", folder / "many")
            if code:
                yield code == 1 and text.startswith("error: ") and may_refuse(flags, text), f"{said}: refused: {text[-300:]}"
                continue
            got, used = losses(folder / "many", folder, model)
            close = len(got) == STEPS and all(abs(a - b) <= TOLERANCE.get(model.kind, 1e-4) * max(1, abs(b)) for a, b in zip(got, want))
            yield close, f"{said}: {used} devices, losses {got}, one device {want}"
    return test


def may_refuse(flags, text):
    """Whether a flag beside the number of devices may be what cannot be had."""
    return any(flag in flags for flag in ("--microbatches", "--zero", "--strategy"))


def main():
    p = lines.parser(__doc__.splitlines()[0])
    p.add_argument("--draws", type=int, default=6)
    p.add_argument("--seed", type=int, default=0)
    options = p.parse_args()
    seeds = range(options.seed, options.seed + options.draws)
    return lines.run([(f"{random_models.KINDS[s % len(random_models.KINDS)].__name__} {s}", same_as_one_device(options.divisi, s)) for s in seeds], options)


if __name__ == "__main__":
    sys.exit(main())
