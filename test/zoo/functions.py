#!/usr/bin/env python3
"""One step of PyTorch's own samples of its functions and modules by Divisi beside PyTorch, from the files of both exporters.

    functions.py --divisi PATH [--only TEXT] [--most N] [--mesh model=2] [--results FILE]

The samples are those with which PyTorch tests itself (`op_db`, `module_db`). Each tensor of floats in a sample trains; the loss is
the sum of all results, each element times a number of its own. Loss and gradients must be PyTorch's. What an exporter or Divisi
refuses is counted, and so is a file that says something else than the module: then ONNX's reference evaluator must give Divisi's
loss. Ends with `N passed, N failed`.
"""

import argparse
import collections
import contextlib
import copy
import importlib.util
import io
import json
import math
import os
import pathlib
import signal
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path += [str(HERE.parent.parent / "python"), str(HERE)]
import expected  # noqa: E402

NEEDED = ("torch", "onnx", "onnxscript", "expecttest")
TIMEOUT = 300  # seconds for one function
LARGEST = 20000  # elements of the tensors of a sample
LOSS_LIMIT, GRADIENT_LIMIT = 1e-5, 1e-4  # relative to the terms of the loss, and to the largest gradient of a tensor
# Random results, and what ONNX has no type or operator for.
LEFT_OUT = ("rand", "bernoulli", "dropout", "multinomial", "normal.", "sparse", "empty", "fft.", "signal", "jiterator", "Lazy", "Quant",
            "Dropout", "RReLU", "rrelu", "FractionalMax", "fractional_max")  # parts of "NAME."


def mesh(text):
    axis, size = text.split("=")
    return {axis: int(size)}


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--divisi", type=lambda path: str(pathlib.Path(path).resolve()), help="the compiler's command-line program")
    p.add_argument("--only", default="", help="a part of the functions' names, such as nn.functional.pad or nn.LSTM")
    p.add_argument("--most", type=int, default=3, help="samples for each function")
    p.add_argument("--mesh", type=mesh, default={}, metavar="AXIS=SIZE", help="train on CPU ranks with this mesh, such as model=2")
    p.add_argument("--results", type=pathlib.Path, help="write a line of JSON for each file")
    return p.parse_args()


def load():
    """Imports PyTorch and what follows from it, once for all processes."""
    global divisi, torch, nn, pytree, one_line, Calls
    from train import divisi, one_line, torch  # without warnings, and with what PyTorch needs where its CUDA library is a stub
    from torch import nn
    from torch.utils import _pytree as pytree
    torch.set_num_threads(1)

    class Calls(nn.Module):
        """The sum of what a function gives for some samples (args, kwargs), each element times a number of its own."""

        def __init__(self, function, samples):
            super().__init__()
            self.function = function
            self.weights = nn.ParameterList()
            self.parts = []
            for sample in samples:
                leaves, spec = pytree.tree_flatten(sample)
                self.parts.append(([self.keep(leaf) for leaf in leaves], spec))

        def keep(self, leaf):
            """What gives the argument for a module: a parameter if it has floats, else a buffer or the value itself."""
            if not isinstance(leaf, torch.Tensor):
                return lambda module: leaf
            if leaf.is_floating_point():
                self.weights.append(nn.Parameter(leaf.detach().clone()))
                return lambda module, i=len(self.weights) - 1: module.weights[i]
            name = f"buffer{len(list(self.buffers()))}"
            self.register_buffer(name, leaf.detach().clone())
            return lambda module: getattr(module, name)

        def results(self):
            for kept, spec in self.parts:
                args, kwargs = pytree.tree_unflatten([argument(self) for argument in kept], spec)
                yield from (t for t in pytree.tree_leaves(self.function(*args, **kwargs)) if isinstance(t, torch.Tensor))

        def forward(self, x):
            total = x.sum() * 0.5
            for result in self.results():
                total = total + weighted(result.to(torch.float32)).sum()
            return total


def weighted(t):
    return t * torch.arange(t.numel(), dtype=torch.float32).mul(0.7).add(0.3).cos().reshape(t.shape).to(t.dtype)


class Reference:
    """The loss, the sum of the magnitudes of its terms, and the gradients."""

    def __init__(self, module, x, double):
        module = copy.deepcopy(module).double() if double else copy.deepcopy(module)
        total = x.to(torch.float64 if double else torch.float32).sum() * 0.5
        self.size = max(float(total.abs()), 1e-3)
        for result in module.results():
            terms = weighted(result.to(total.dtype))
            total = total + terms.sum()
            self.size += float(terms.detach().abs().nan_to_num().sum())
        total.backward()
        self.loss = float(total.detach())
        self.gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in module.parameters()]


def largest(t):
    finite = t.detach()[t.detach().isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0


def far(got, want):
    """The largest difference; infinite if NaN or infinities are at other places."""
    got, want = (torch.as_tensor(t, dtype=torch.float64) for t in (got, want))
    difference = torch.where((got == want) | (got.isnan() & want.isnan()), 0.0, (got - want).abs())
    return float(difference.nan_to_num(math.inf).max()) if difference.numel() else 0.0


def errors(module, after, loss, reference):
    """Relative errors of the loss and of the gradients, which a step of SGD with the rate 1 shows."""
    found = 0.0
    for before, now, gradient in zip(module.parameters(), after.parameters(), reference.gradients):
        scale = largest(gradient) + 1e-3 * largest(before) + 1e-3
        found = max(found, far(now.detach(), before.detach().double() - gradient.double()) / scale)
    return far(loss, reference.loss) / reference.size, found


def is_of_file(path, x, loss, size):
    """Whether ONNX's reference evaluator gives this loss, too; NaN stands for all that is not finite."""
    try:
        import onnx
        import onnx.reference
        model = onnx.load(str(path))
        result = onnx.reference.ReferenceEvaluator(model).run(None, {model.graph.input[0].name: x.numpy()})[0]
        result = float(result)
        return not math.isfinite(result) if math.isnan(loss) else far(loss, result) <= LOSS_LIMIT * size
    except Exception:  # the evaluator lacks operators
        return False


def step(o, function, samples, dynamo, work, begins):
    """(kind, text) of a step: agrees, export, refused, file, or WRONG. `begins` is told what begins: the exporter or Divisi."""
    module, x, path = Calls(function, samples), torch.tensor([0.4, 1.6]), work / "model.onnx"
    reference = Reference(module, x, double=False)
    begins("export")
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            exported = divisi.export(module, {"x": x}, path, dynamo=dynamo, check=False, divisi=o.divisi)
    except Exception as error:  # whatever an exporter raises
        return "WRONG" if "ended by signal" in f"{error}" else "export", one_line(error)
    begins("divisi")
    try:
        program = divisi.compile(exported, work / "program", divisi=o.divisi, optimizer="sgd", lr=1.0, **({"mesh": o.mesh} if o.mesh else {}))
    except divisi.Error as error:
        text = one_line(error)
        return "WRONG" if "' op " in text or "ended by signal" in text else "refused", text  # MLIR's verifier is no answer to a user
    try:
        loss = program.fit({"x": x}, steps=1, shuffle=False, quiet=True).losses[0]
    except divisi.Error as error:
        ends = "is NaN" in f"{error}" or "is infinite" in f"{error}"
        known = ends and (not math.isfinite(reference.loss) or is_of_file(path, x, math.nan, 1))
        return "file" if known else "WRONG", f"{one_line(error)[:80]}; PyTorch's loss is {reference.loss:.7g}"
    after = copy.deepcopy(module)
    program.load_into(after)
    found = errors(module, after, loss, reference)
    text = f"loss {loss:.7g}, PyTorch's {reference.loss:.7g}, error {found[0]:.0e}, of gradients {found[1]:.0e}"
    exact = lambda: errors(module, after, loss, Reference(module, x, double=True))
    agrees = lambda pair: pair[0] <= LOSS_LIMIT and pair[1] <= GRADIENT_LIMIT
    with contextlib.suppress(RuntimeError):  # of functions that have no double
        if agrees(found) or agrees(exact()):
            return "agrees", text
    return "file" if found[0] > LOSS_LIMIT and is_of_file(path, x, loss, reference.size) else "WRONG", text


def described(samples):
    """The arguments, with shapes in place of tensors."""
    shapes = lambda v: f"{tuple(v.shape)}{'' if v.is_floating_point() else v.dtype}" if isinstance(v, torch.Tensor) else v
    return " ".join(str(pytree.tree_map(shapes, samples)).split())[:200]


def rows_of(o, function, samples, dynamo, begins):
    """A row for the samples together; if they do not agree, for each part of them."""
    with tempfile.TemporaryDirectory(prefix="divisi-functions-") as work:
        try:
            kind, text = step(o, function, samples, dynamo, pathlib.Path(work), begins)
        except Exception as error:
            kind, text = "WRONG", f"{type(error).__name__}: {one_line(error)}"
    lacks = kind == "export" and any(word in text for word in ("UnsupportedOperator", "DispatchError"))
    if kind == "agrees" or len(samples) == 1 or lacks:
        return [{"kind": kind, "text": text, "samples": described(samples)}]
    half = len(samples) // 2
    return rows_of(o, function, samples[:half], dynamo, begins) + rows_of(o, function, samples[half:], dynamo, begins)


def is_usable(function, sample):
    try:
        module = Calls(function, [sample])
        results, again = list(module.results()), list(module.results())
        if sample[1].get("dropout_p") or not all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(results, again)):
            return False  # random numbers
        tensors = [*module.parameters(), *results]
        return (any(r.requires_grad for r in results) and not any(r.is_complex() for r in results) and all(t.numel() for t in tensors)
                and sum(t.numel() for t in tensors) <= LARGEST)
    except Exception:  # samples for errors, or for types that a parameter cannot have
        return False


def functions():
    """(name, builder of (function, sample)) of all functions and modules."""
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.common_modules import module_db
    for op in op_db:
        if op.supports_autograd and torch.float32 in op.dtypes:
            yield f"{op.name}.{op.variant_test_name}".rstrip("."), lambda op=op: [
                (op.op, ((s.input, *s.args), s.kwargs)) for s in op.sample_inputs("cpu", torch.float32, requires_grad=True)]
    for info in module_db:
        yield info.name, lambda info=info: list(of_module(info))


def of_module(info):
    for made in info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=True, training=True):
        torch.manual_seed(1)
        module = info.module_cls(*made.constructor_input.args, **made.constructor_input.kwargs).float().train()
        for part in module.modules():
            for name in ("p", "dropout"):
                if isinstance(getattr(part, name, None), float) and "ropout" in f"{name}{type(part).__name__}":
                    setattr(part, name, 0.0)
        if made.forward_input is not None:
            yield module, (made.forward_input.args, made.forward_input.kwargs)


def chosen_samples(build, most):
    """At most `most` usable samples by function, spread over all."""
    torch.manual_seed(0)
    with contextlib.suppress(Exception):  # some need packages or devices
        usable = [(f, s) for f, s in build() if is_usable(f, s)]
        picked = [usable[i * len(usable) // min(most, len(usable))] for i in range(min(most, len(usable)))]
        groups = collections.defaultdict(list)
        for f, s in picked:
            groups[f].append(s)
        return list(groups.items())
    return []


def run_child(name, build, o, out):
    """Writes the rows of a function, and before each what begins."""
    os.setsid()
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(0, signal.SIGKILL))
    signal.alarm(TIMEOUT)
    write = lambda row: print(json.dumps({"function": name, **row}), file=out, flush=True)
    groups = chosen_samples(build, o.most)
    if not groups:
        write({"kind": "unused"})
    for function, samples in groups:
        for dynamo in (True, False):
            for row in rows_of(o, function, samples, dynamo, lambda what: write({"begins": what})):
                write({"exporter": "dynamo" if dynamo else "TorchScript", **row})


def run_apart(name, build, o):
    """The rows of a function from a process of its own: an exporter may crash."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with os.fdopen(writer, "w") as out:
            run_child(name, build, o, out)
        os._exit(0)
    os.close(writer)
    begun = ""
    with os.fdopen(reader) as lines:
        for row in map(json.loads, lines):
            begun = row.get("begins", begun)
            if "kind" in row:
                yield row
    status = os.waitpid(child, 0)[1]
    if status:
        yield {"function": name, "exporter": "", "kind": "export" if begun == "export" else "WRONG",
               "text": f"the process ended with {status} in {begun or 'the samples'}", "samples": ""}


def main():
    o = arguments()
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(f"functions.py: this Python has no {', '.join(missing)} (test/zoo/README.md)")
    if not o.divisi:
        sys.exit("functions.py: --divisi names the compiler: build/bin/divisi")
    load()
    counts, rows = collections.Counter(), []
    for name, build in functions():
        if o.only not in name or any(word in f"{name}." for word in LEFT_OUT):
            continue
        for row in run_apart(name, build, o):
            known = expected.of_function(name)
            if row["kind"] == "WRONG" and known and row["text"].startswith("loss "):
                row["kind"] = "known"
            counts[row["kind"]] += 1
            rows.append(row)
            if row["kind"] in ("WRONG", "known", "file"):
                print(f"{'FAIL' if row['kind'] == 'WRONG' else 'ok  '} {name}, {row['exporter']}: {row['text']}; {known or row['kind']}; {row['samples']}", flush=True)
    if o.results:
        o.results.write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(f"{counts['agrees']} agree with PyTorch, {counts['file']} with a file that differs from it, {counts['known']} differ as is known, "
          f"{counts['refused']} refused by Divisi, {counts['export']} by exporters; {counts['unused']} functions have no sample that fits")
    print(f"{counts['agrees'] + counts['file'] + counts['known']} passed, {counts['WRONG']} failed")
    return 1 if counts["WRONG"] or not counts["agrees"] else 0


if __name__ == "__main__":
    sys.exit(main())
