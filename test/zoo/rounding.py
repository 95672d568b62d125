#!/usr/bin/env python3
"""How far a model of the zoo at its usual start is from float64 after three steps: Divisi, PyTorch, and PyTorch from weights that are disturbed by their rounding.

    rounding.py --divisi PATH MODEL [--microbatches N] [--disturbed N]

Deep networks with batch norm amplify rounding: which of two orders of sums is nearer to float64 is then chance. Divisi's largest
relative error of a loss is to be within twice the largest of the disturbed runs. Ends with `N passed, N failed`. Needs PyTorch.
"""

import argparse
import pathlib
import statistics
import sys
import tempfile

try:
    import torch
    import train  # also sets the paths
    from models import case as cases
except ImportError:
    print("0 passed, 0 failed (PyTorch and what the zoo needs are missing)")
    sys.exit(0)

RELATIVE = 2.0**-24  # half a unit in the last place of float32


def usual(name):
    """The case without the other numbers in batch norms."""
    cases.conditioned = lambda network, **_: network
    return cases.load()[name]()


def worst(losses, exact):
    return max(abs(got - want) / abs(want) for got, want in zip(losses, exact))


def program(case, tool, parts, folder):
    """The losses of the program."""
    file = train.divisi.export(case.module, case.rows(0), folder / "model.onnx", dynamo=True, check=False, divisi=tool)
    flags = case.optimizer | ({"microbatches": parts} if parts > 1 else {})
    return train.divisi.compile(file, folder / "program", divisi=tool, **flags).fit(case.data, steps=cases.STEPS, shuffle=False, quiet=True).losses


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", required=True, type=lambda path: str(pathlib.Path(path).resolve()), help="the compiler's command-line program")
    p.add_argument("model")
    p.add_argument("--microbatches", type=int, default=1)
    p.add_argument("--disturbed", type=int, default=8, help="runs of PyTorch from disturbed weights")
    o = p.parse_args()
    torch.set_num_threads(1)
    case = usual(o.model)
    exact = train.Reference(case, o.microbatches, double=True).losses
    spread = sorted(worst(train.Reference(train.disturbed(case, RELATIVE, seed), o.microbatches).losses, exact) for seed in range(o.disturbed))
    theirs = worst(train.Reference(case, o.microbatches).losses, exact)
    with tempfile.TemporaryDirectory(prefix="divisi-rounding-") as folder:
        ours = worst(program(case, o.divisi, o.microbatches, pathlib.Path(folder)), exact)
    ok = ours <= 2 * spread[-1]
    print(f"{'ok  ' if ok else 'FAIL'} {o.model}, {o.microbatches} microbatches, from float64: Divisi {ours:.1e}, PyTorch {theirs:.1e}, "
          f"PyTorch from disturbed weights {spread[0]:.1e} to {spread[-1]:.1e}, median {statistics.median(spread):.1e}")
    print(f"{int(ok)} passed, {int(not ok)} failed")
    return int(not ok)


if __name__ == "__main__":
    sys.exit(main())
