"""Exports a PyTorch module to ONNX as training wants it, and settles what trains."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import importlib.util
import inspect
import itertools
import json
import logging
import os
import pathlib
import re
import shlex
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

from ._agreement import Trial, compare
from ._command import Error, Flag, Path, Warning, call, find_program, words_of
from ._frozen import warn_of_frozen
from ._modules import scope_in
from ._variation import varied

if TYPE_CHECKING:
    import torch

LARGEST_FILE = 1 << 30  # bytes of weights inside of the .onnx file; more lie beside it
LOSSES = ("cross_entropy", "mse", "bce")

Loss = Union[None, str, Callable[..., Any]]
Examples = Any  # a tensor, a tuple of them, or a dict of them by name


@dataclasses.dataclass(frozen=True)
class Exported:
    """An ONNX file, and the flags with which `divisi compile` trains what the module trains.

    `divisi.compile` takes it in place of a path; `str()` is the command line.
    """

    path: pathlib.Path
    inputs: tuple[str, ...]  # of the module
    labels: tuple[str, ...]  # further arguments of the loss
    batch: int | None  # samples of a batch of the examples, where the file leaves them open
    flags: Mapping[str, Flag]

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return shlex.join(["divisi", "compile", str(self.path), *words_of(self.flags)])


def export(
    module: torch.nn.Module,
    example_inputs: Examples,
    path: Path,
    *,
    loss: Loss = None,
    labels: Examples = None,
    dynamo: bool = True,
    dynamic_batch: bool = False,
    check: bool = True,
    divisi: Path | None = None,
) -> Exported:
    """Writes a module and its loss to an ONNX file for training, and checks that both agree.

    `example_inputs` is what the module is called with: a tensor, a tuple of tensors, or a dict for keyword arguments. The file's inputs
    have the names of these arguments. `loss` is one of

    - None: the module returns its loss, a scalar, alone, as the first of a tuple, or as `.loss`;
    - a function or module that is called with the output of the module and `labels` (a tensor, a tuple, or a dict, whose keys
      are the names of inputs; otherwise `label`, or `label0`, `label1`, ...), and returns a scalar. It becomes a part of the file, beside the module's output, `output`;
    - "cross_entropy", "mse" or "bce": put on the output by the compiler, whose label is the input `label`. Classes of
      `cross_entropy` are along axis 1, as in PyTorch. `labels`, an example, is only for the check.

    `dynamo` chooses the exporter: torch.export, or TorchScript. `dynamic_batch` leaves the first dimension of all inputs open, as
    "batch", which `compile(..., dim={"batch": 32})` then binds. The module is exported in training mode, parts that are in
    eval() by themselves stay so, and is afterwards as it was: training flags, buffers, gradients and the state of random number generators.

    Parameters without requires_grad, buffers and constants do not train, whatever the exporter lost: the result has the flags
    that say so. `check` compiles the file and compares the loss and the gradients of one step in fp32 with PyTorch's, for the examples
    and for others that are made of them; Error if one differs by more than 1e-4. A module with dropout or other random numbers cannot be
    checked: a warning says so. Warnings name the lines of the module whose values TorchScript froze, and parameters that are not in the file.

    A loss that is a module with parameters or buffers has them in the file as `loss.NAME` (`divisi_loss.NAME`, if the module has something
    called `loss`). Its parameters train unless they have no requires_grad, and `Program.load_into` takes the loss, too.

    Needs torch 2.9 or later, onnx and onnxscript. Raises Error with what to do where the exporter, or the compiler, refuses the module.
    """
    _require_packages(dynamo)
    tool = find_program(divisi)
    call_of = _Call(module, example_inputs, labels, loss)
    parameters = call_of.parameters(module)
    if not any(parameter.requires_grad for _, parameter in parameters):
        raise Error(f"{type(module).__name__} has no parameter with requires_grad: there is nothing to train")
    path = pathlib.Path(os.path.abspath(path))
    buffers = call_of.buffers(module)
    with _preserved(module, buffers) as restore:
        with _as_training_form(module, call_of) as shaped:
            _run_exporter(shaped, call_of, path, dynamo, dynamic_batch, restore)
        restore()
        if not dynamo:
            _write_buffers(dict(buffers), path)
        flags = call_of.flags()
        if _keeps_statistics(module):
            flags["batch_norm"] = "inference"
        batch = call_of.batch() if dynamic_batch else None
        flags |= _settled(parameters, path, tool, flags, batch, dynamo)
        names = call_of.names
        exported = Exported(path, names[: call_of.count], names[call_of.count :], batch, flags)
        if check:
            trial, other = (Trial(module, parameters, buffers, each.data, each.value) for each in (call_of, call_of.other()))
            compare(exported, trial, other, tool)
    return exported


def _require_packages(dynamo: bool) -> None:
    for name in ("torch", "onnx", *(["onnxscript"] if dynamo else [])):
        if importlib.util.find_spec(name) is None:
            raise Error(f"divisi.export needs the package {name}, which is not installed: pip install torch onnx onnxscript")


class _Call:
    """How the module and its loss are called: their arguments as one list of named tensors."""

    def __init__(self, module: torch.nn.Module, inputs: Examples, labels: Examples, loss: Loss) -> None:
        import torch

        self.loss = loss
        if isinstance(loss, str) and loss not in LOSSES:
            raise Error(f"loss: '{loss}' is no loss of the compiler: {', '.join(LOSSES)}, or give a function")
        self.keywords = isinstance(inputs, Mapping)
        given = _named(inputs, _argument_names(module), "example_inputs")
        self.count = len(given)
        extra = _named(labels, None, "labels") if labels is not None else {}
        if isinstance(loss, str) and len(extra) > 1:
            raise Error(f"labels: '{loss}' compares with one label, got {len(extra)}")
        if loss is None and extra:
            raise Error("labels: without a loss the module takes everything as example_inputs")
        if both := [name for name in extra if name in given]:
            raise Error(f"labels: '{both[0]}' is the name of an input of the module, too: give a dict with other names")
        self.label = next(iter(extra), "label")
        self._label = next(iter(extra.values()), None) if isinstance(loss, str) else None
        self.inside = given if isinstance(loss, str) else given | extra
        for name, tensor in (given | extra).items():
            if not isinstance(tensor, torch.Tensor):
                raise Error(f"example_inputs, labels: '{name}' is to be a tensor, got {type(tensor).__name__}")
        self.tensors = tuple(self.inside.values())
        self.names = tuple(self.inside)
        self.scope = ""  # of the loss's own tensors, as if it were a part of the module
        if isinstance(loss, torch.nn.Module) and not any(part is loss for part in module.modules()):
            if any(True for _ in [*loss.parameters(), *loss.buffers()]):
                self.scope = scope_in(module)

    def parameters(self, module: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
        """Those of the module and of the loss by their names in the file, and tied ones by each of their names."""
        return [named for part, prefix in self._parts(module) for named in part.named_parameters(prefix, remove_duplicate=False)]

    def buffers(self, module: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
        """The buffers in the same way."""
        return [named for part, prefix in self._parts(module) for named in part.named_buffers(prefix, remove_duplicate=False)]

    def _parts(self, module: torch.nn.Module) -> list[tuple[torch.nn.Module, str]]:
        return [(module, ""), *([(self.loss, self.scope)] if self.scope else [])]  # type: ignore[list-item]

    def other(self) -> _Call:
        """The same call with other examples."""
        call_of = copy.copy(self)
        values = varied(self.inside | ({} if self._label is None else {self.label: self._label}))
        call_of._label = values.pop(self.label, None) if self._label is not None else None
        call_of.inside, call_of.tensors = values, tuple(values.values())
        return call_of

    def output(self, call: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        """What the file computes: the loss and, if it is a tensor, the output that it is made of; or the output that the compiler puts a loss on."""
        import torch

        given, extra = arguments[: self.count], arguments[self.count :]
        result = call(**dict(zip(self.names, given))) if self.keywords else call(*given)
        if callable(self.loss):
            value = self.loss(result, *extra)
            return (value, result) if isinstance(result, torch.Tensor) else value
        return _first(result, "loss" if self.loss is None else "logits")

    def value(self, call: Callable[..., Any]) -> Any:
        """The loss of the examples."""
        import torch

        result = self.output(call, self.tensors)
        if not isinstance(self.loss, str):
            return result[0] if isinstance(result, tuple) else result
        label = self._label_for(result)
        try:
            if self.loss == "cross_entropy":
                return torch.nn.functional.cross_entropy(result, label)
            if label.shape != result.shape:
                raise RuntimeError("other shapes")
            mse = torch.nn.functional.mse_loss
            return (mse if self.loss == "mse" else torch.nn.functional.binary_cross_entropy_with_logits)(result, label)
        except (RuntimeError, ValueError, IndexError) as error:
            hint = "; its classes are along axis 1: for another axis, give a function" if self.loss == "cross_entropy" else ""
            raise Error(
                f"loss='{self.loss}' does not fit an output of shape {list(result.shape)} and a label of shape "
                f"{list(label.shape)}{hint}"
            ) from error

    def _label_for(self, output: Any) -> Any:
        """The example of the label, or one that is drawn; the same at each call."""
        import torch

        if self._label is None:
            draw = torch.Generator().manual_seed(1)
            if self.loss == "cross_entropy":
                shape = [output.shape[0], *output.shape[2:]]
                self._label = torch.randint(output.shape[1], shape, generator=draw)
            elif self.loss == "bce":
                self._label = torch.randint(2, list(output.shape), generator=draw).float()
            else:
                self._label = torch.randn(list(output.shape), generator=draw)
            self._label = self._label.to(output.device)
        return self._label

    def data(self) -> dict[str, Any]:
        """One batch of the inputs of the compiled program; after `value`, which draws the label."""
        return self.inside | ({self.label: self._label} if isinstance(self.loss, str) else {})

    def flags(self) -> dict[str, Flag]:
        if isinstance(self.loss, str):
            return {"loss": self.loss, "output": "output", "label": self.label}
        return {"output": "loss"}

    def batch(self) -> int:
        """The first dimension of all examples."""
        sizes = {name: tensor.shape[0] if tensor.dim() else 0 for name, tensor in self.inside.items()}
        if len(set(sizes.values())) != 1:
            raise Error(f"dynamic_batch: the first dimensions of the examples differ: {sizes}")
        batch = next(iter(sizes.values()))
        if batch < 2:
            raise Error("dynamic_batch: give examples of at least two samples: an exporter keeps a batch of one as it is")
        return int(batch)


def _named(value: Examples, names: Sequence[str] | None, what: str) -> dict[str, Any]:
    """Tensors by name; `names` is for positions, without it they are labels."""
    if isinstance(value, Mapping):
        return dict(value)
    items = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if names is None:
        return {"label" if len(items) == 1 else f"label{i}": item for i, item in enumerate(items)}
    if not items:
        raise Error(f"{what}: there is none")
    known = [*names, *(f"input{i}" for i in range(len(names), len(items)))]
    return dict(zip(known, items))


def _argument_names(module: torch.nn.Module) -> list[str]:
    """The names of the module's positional arguments."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in inspect.signature(module.forward).parameters.values() if p.kind in kinds]


def _first(result: Any, name: str) -> Any:
    """The tensor in the output of a module: itself, its member with this name, or its first."""
    import torch

    if isinstance(result, torch.Tensor):
        return result
    member = result.get(name) if isinstance(result, Mapping) else getattr(result, name, None)
    if isinstance(member, torch.Tensor):
        return member
    if isinstance(result, (tuple, list)) and result and isinstance(result[0], torch.Tensor):
        return result[0]
    raise Error(f"the module returns a {type(result).__name__} without a tensor '{name}': give loss a function that takes it")


@contextlib.contextmanager
def _preserved(module: torch.nn.Module, named: Sequence[tuple[str, torch.Tensor]]) -> Iterator[Callable[[], None]]:
    """Afterwards the module's flags, the buffers, and the random number generators, are as before. Gives what restores buffers."""
    import torch

    flags = [(part, part.training) for part in module.modules()]
    buffers = [(buffer, buffer.detach().clone()) for _, buffer in named]

    def restore() -> None:
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)

    with torch.random.fork_rng():
        try:
            if not module.training:
                module.train()
            yield restore
        finally:
            for part, training in flags:
                part.training = training
            restore()


@contextlib.contextmanager
def _as_training_form(module: torch.nn.Module, call_of: _Call) -> Iterator[torch.nn.Module]:
    """The module with the loss in its forward(). It keeps its place, so that its tensors keep their names."""
    import torch

    kind = type(module)

    own = module.__dict__.pop("forward", None)  # one that was set on the object

    def forward(self: Any, *args: Any) -> Any:
        inner = types.MethodType(kind.forward, self) if own is None else own
        return call_of.output(_without(self, call_of.scope, inner) if call_of.scope else inner, args)

    # A dropout of zero would be a copy in the file, which the compiler takes for a dropout that was lost.
    idle = [part for part in module.modules() if isinstance(part, torch.nn.modules.dropout._DropoutNd) and part.p == 0]
    kinds = [type(part) for part in idle]
    if call_of.scope:
        module.add_module(call_of.scope, call_of.loss)  # type: ignore[arg-type]
    try:
        for part in idle:
            part.__class__ = torch.nn.Identity  # type: ignore[assignment]
        module.__class__ = type(kind.__name__, (kind,), {"forward": forward, "__module__": kind.__module__})
        yield module
    finally:
        module.__class__ = kind
        for part, before in zip(idle, kinds):
            part.__class__ = before
        if own is not None:
            module.__dict__["forward"] = own
        if call_of.scope:
            delattr(module, call_of.scope)


def _without(module: torch.nn.Module, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """The call, in which the module has no part of this name: a forward() may run over all parts, as that of nn.Sequential does."""

    def inside(*args: Any, **keywords: Any) -> Any:
        part = module._modules.pop(name)
        try:
            return call(*args, **keywords)
        finally:
            module._modules[name] = part

    return inside


def _keeps_statistics(module: torch.nn.Module) -> bool:
    """Whether batch norm in a part of a module in train() is in eval()."""
    import torch

    return any(isinstance(part, torch.nn.modules.batchnorm._BatchNorm) and not part.training for part in module.modules())


def _run_exporter(
    module: torch.nn.Module, call_of: _Call, path: pathlib.Path, dynamo: bool, dynamic_batch: bool, restore: Callable[[], None]
) -> None:
    import torch

    names = ["output"] if isinstance(call_of.loss, str) else ["loss"]
    options: dict[str, Any] = {"input_names": list(call_of.names), "output_names": names}
    if dynamic_batch:
        call_of.batch()
    if dynamo:
        if dynamic_batch:
            batch = torch.export.Dim("batch", min=2)
            options["dynamic_shapes"] = (tuple({0: batch} for _ in call_of.names),)
        options |= {"dynamo": True, "optimize": False, "verbose": False}
    else:
        if dynamic_batch:
            options["dynamic_axes"] = {name: {0: "batch"} for name in call_of.names}
        mixed = any(part.training != module.training for part in module.modules())
        mode = torch.onnx.TrainingMode.PRESERVE if mixed else torch.onnx.TrainingMode.TRAINING
        options |= {"dynamo": False, "training": mode, "do_constant_folding": False}
    try:
        with _quiet_exporter() as noticed:
            if callable(call_of.loss):
                with torch.no_grad():
                    names += ["output"] if isinstance(module(*call_of.tensors), tuple) else []
                restore()
            program = torch.onnx.export(module, call_of.tensors, None if dynamo else str(path), **options)
            if dynamo:
                if dynamic_batch and any(value.shape and isinstance(value.shape[0], int) for value in program.model.graph.inputs):
                    raise Error(
                        "dynamic_batch: torch.export has fixed the batch, since the module uses its size as a number (len(x), "
                        "int(x.shape[0]), a comparison of x.shape[0] with one, view(4, -1)) or has a tensor of this size"
                    )
                _name_nodes_apart(program.model.graph)
                bytes_inside = sum(p.numel() * p.element_size() for p in [*module.parameters(), *module.buffers()])
                program.save(str(path), external_data=bytes_inside > LARGEST_FILE)
    except Error:
        raise
    except Exception as error:
        raise Error(
            f"torch.onnx.export(dynamo={dynamo}) cannot export {type(module).__name__}: {_reason(error)} (dynamo={not dynamo} may)"
        ) from error
    warn_of_frozen(noticed, lambda: module(*call_of.tensors), dynamic_batch)
    restore()


def _name_nodes_apart(graph: Any) -> None:
    """torch.export names the results of nodes after operators (`pad`, `mean`, `t`), also where an input or parameter is called so."""
    kept = [*graph.inputs, *graph.initializers.values()]
    names = {value.name for value in kept}
    results = [value for node in graph for value in node.outputs]
    taken = names | {value.name for value in results}
    for value in results:
        if value.name in names:
            value.name = next(name for i in itertools.count(1) if (name := f"{value.name}.{i}") not in taken)
            taken.add(value.name)


@contextlib.contextmanager
def _quiet_exporter() -> Iterator[list[warnings.WarningMessage]]:
    """Yields the warnings of values that the trace froze. There are none about training mode, which is wanted, and about the
    older exporter, and no dump of the graph that it refuses."""
    import torch

    logger = logging.getLogger("torch.onnx")
    internals: Any = torch._C
    level, dump = logger.level, getattr(internals, "_jit_onnx_log", None)  # the exporter switches its log on by itself
    try:
        logger.setLevel(logging.ERROR)
        if dump:
            internals._jit_onnx_log = lambda *_: None
        with warnings.catch_warnings(record=True) as noticed:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", torch.jit.TracerWarning)  # type: ignore[attr-defined]
            yield noticed
    finally:
        if dump:
            internals._jit_onnx_log = dump
        logger.setLevel(level)


def _reason(error: BaseException) -> str:
    """The first line of what an exporter's error goes back to: the others say which step of the export failed."""
    said = ""
    cause: BaseException | None = error
    while cause is not None:
        lines = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", str(cause)).splitlines()
        if first := next((line.strip() for line in lines if line.strip()), ""):
            said = f"{type(cause).__name__}: {first.partition('  [Caused by')[0]}"  # which tensor of a graph that nobody has seen
        cause = cause.__cause__
    return said or type(error).__name__


def _write_buffers(buffers: Mapping[str, torch.Tensor], path: pathlib.Path) -> None:
    """TorchScript runs the module before it writes the buffers: the file gets those of before."""
    import onnx

    model = onnx.load(str(path), load_external_data=False)
    changed = False
    for tensor in model.graph.initializer:
        if tensor.name in buffers and tensor.data_location != onnx.TensorProto.EXTERNAL:
            written = onnx.numpy_helper.from_array(buffers[tensor.name].detach().cpu().numpy(), tensor.name)
            if written.dims == tensor.dims and written.data_type == tensor.data_type and written != tensor:
                tensor.CopyFrom(written)
                changed = True
    if changed:
        onnx.save(model, str(path))


def _settled(
    parameters: Sequence[tuple[str, torch.nn.Parameter]],
    path: pathlib.Path,
    tool: str,
    flags: Mapping[str, Flag],
    batch: int | None,
    dynamo: bool,
) -> dict[str, Flag]:
    """The flags by which the file trains the parameters that the module and its loss train, and nothing else."""
    dim: Mapping[str, Flag] = {"dim": {"batch": batch}} if batch else {}
    command = [tool, "compile", str(path), *words_of({**flags, **dim}), "--list-parameters", "--json"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about what is settled here
        rows = json.loads(call(command))
    trained = {name for name, p in parameters if p.requires_grad}
    there = {id(p) for name, p in parameters if name in {row["name"] for row in rows}}
    if lost := [name for name, p in parameters if p.requires_grad and p.numel() and id(p) not in there]:
        warnings.warn(
            f"{path.name} has no tensor for these parameters, which the module did not use for the examples: {', '.join(lost)}; they do not "
            "train: give them requires_grad=False if that is wanted",
            Warning,
            stacklevel=3,
        )
    # TorchScript's files do not say what is a buffer: the compiler asks for a confirmation of what it guesses.
    unsure = ("parameter", "undecided") if dynamo else ("parameter", "undecided", "frozen")
    freeze = [row["name"] for row in rows if row["role"] in unsure and row["name"] not in trained]
    sure = [row["name"] for row in rows if row["trains"] and (dynamo or row["reason"].startswith("by its name"))]
    train = [row["name"] for row in rows if row["name"] in trained and row["name"] not in sure]
    return {name: value for name, value in {"freeze": freeze, "train": train}.items() if value}
