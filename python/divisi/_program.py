"""A compiled program: training, evaluation, weights."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import pathlib
import re
import shutil
import tempfile
import weakref
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ._command import Error, Flag, Path, Process, call, find_program, print_line, words_of
from ._data import Data, Files, Input, check_kind, files_of_arrays, temporary_folder, writing
from ._feed import Feeder, steps_of_pass
from ._log import Evaluation, Follower, Line, Step
from ._modules import load_into
from ._safetensors import Array, read_safetensors
from ._spool import write_files
from ._tables import Table

if TYPE_CHECKING:
    import torch

Callback = Callable[[Line], Any]

# Flags with which a program does something else than training, and what does that.
OTHER_CALLS = {
    "eval_only": "evaluate() does that",
    "predict": "predict() does that",
    "find_lr": "find_lr() does that",
}

NEVER = 2**62  # steps between two checkpoints: only the last one is kept
SECONDS_TO_STOP = 600.0  # a checkpoint is written meanwhile
# Seconds between two looks at the log: a stop takes effect about so much later.
SHORTEST_PAUSE, LONGEST_PAUSE = 0.001, 0.02


class Parameter(NamedTuple):
    """A parameter of the model; `dtype` as safetensors spells it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    trainable: bool


class Output(NamedTuple):
    """An output that `predict` gives (`predict=[...]` of `compile`), of one batch; `inputs` are those that it depends on."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    inputs: tuple[str, ...]


@dataclasses.dataclass
class History:
    """What the log of one `fit` said, in its order."""

    steps: list[Step] = dataclasses.field(default_factory=list)
    evaluations: list[Evaluation] = dataclasses.field(default_factory=list)
    stopped: bool = False  # by a callback

    @property
    def losses(self) -> list[float]:
        """The loss of each step."""
        return [line.loss for line in self.steps]


@dataclasses.dataclass
class RateTest:
    """What a learning rate range test found."""

    steps: list[Step]  # their rates and losses
    fastest: float | None  # the rate at which the smoothed loss falls fastest; None if it does not fall
    least: float | None  # at which it is least
    advice: str  # the program's


class Program:
    """A program that `divisi compile` wrote.

    `path` is the program, `divisi` the compiler, as `find_program` takes it: it starts programs for several devices.
    Weights and checkpoints of runs are kept in a temporary folder as long as this object, unless `fit` is told where.
    """

    def __init__(self, path: Path, *, divisi: Path | None = None) -> None:
        self.path = pathlib.Path(os.path.abspath(path))
        self._divisi = divisi
        facts = json.loads(call([self.path, "--describe", "json"]))
        self.model: str = facts["model"]
        self.batch: int = facts["batch"]
        self.mesh: dict[str, int] = facts.get("mesh", {})
        self._devices: int = facts["devices"]
        self.inputs = [Input(x["name"], x["dtype"], tuple(x["shape"]), x["label"], self.batch) for x in facts["inputs"]]
        self.parameters = [
            Parameter(x["name"], x["dtype"], tuple(x["shape"]), x["trainable"]) for x in facts["parameters"]
        ]
        self.outputs = [Output(x["name"], x["dtype"], tuple(x["shape"]), tuple(x["inputs"])) for x in facts["outputs"]]
        self._has_buffers: bool = facts["state_bytes"]["buffer"] > 0
        with writing(tempfile.tempdir or os.environ.get("TMPDIR") or "/tmp", "weights and logs"):
            self._folder = pathlib.Path(tempfile.mkdtemp(prefix="divisi-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._runs = 0
        self._weights: pathlib.Path | None = None  # of the last run; None: those beside the program
        self._checkpoint: pathlib.Path | None = None
        self._averaged = False  # those weights are moving averages

    def __repr__(self) -> str:
        return f"divisi.Program({str(self.path)!r}): batch {self.batch}, {self.devices} device(s)"

    @property
    def devices(self) -> int:
        """The number of devices that the program is for."""
        return self._devices

    def fit(
        self,
        data: Data,
        *,
        epochs: int | None = None,
        steps: int | None = None,
        eval: Data | None = None,
        shuffle: bool | None = None,
        callbacks: Iterable[Callback] = (),
        quiet: bool = False,
        most_bytes: int = 64 << 30,
        **flags: Flag,
    ) -> History:
        """Trains, and returns what the log said. A program for several devices is started with `divisi run`.

        `data` is one of

        - a dict by the names of the inputs, of arrays with a row for each sample, or of paths (or lists of them) of `.npy`, `.csv` or token
          files, or of folders or tar files of images, as `--data` takes them. Files are mapped by the program and may be larger than memory; arrays are first written to a temporary folder. Both are
          shuffled in each epoch, unless `shuffle=False`.
        - an iterable, such as a DataLoader of PyTorch or a dataset of HuggingFace, of batches (or single samples): dicts, or tuples
          in the order of `inputs`. Its batches go to the program through shared memory while it trains, some ahead of it
          (64 MiB of them, 3 to 32). The order is the iterable's, rows are regrouped to the program's batch, and what does not fill a
          batch at the end of a pass is left out. With `resume=True` it goes on from its own position: by `load_state_dict` if it has
          that and `state_dict`, else by reading again, and leaving out, what was trained on.

        Without `epochs` and `steps`, one epoch; `steps` counts batches. `eval` is evaluated after each epoch, and at the end; an iterable
        is written to a temporary folder for that (Error if it takes more than `most_bytes`). `flags` are those of the program's `--help`, with underscores: lr, lr_schedule,
        warmup_steps, seed, save, save_weights, checkpoint, every, resume, log_grad_norms, ...

        Each of `callbacks` is called with every line of the log, a `Step` or an `Evaluation`, soon after it was written.
        One that returns True, or what Python takes for true, stops training after the step that is then running; one that raises an exception
        does that, too.

        A second `fit` goes on from the weights of the first with a new optimizer state and step 1; to go on exactly, give both
        the same `checkpoint` folder, and the second `resume=True`. Raises Error with the program's message.
        """
        own = [name for name in ("data", "feed", "log", "no_shuffle", "describe", "info") if name in flags]
        if own:
            raise TypeError(f"fit() gives the flag '{own[0]}' to the program itself")
        for name, instead in OTHER_CALLS.items():
            if flags.get(name):
                raise TypeError(f"fit() trains, and takes no '{name}': {instead}")
        epochs, steps = _count(epochs, "epochs"), _count(steps, "steps")
        is_loader = not isinstance(data, Mapping)
        if is_loader:
            check_kind(data, self.inputs)
            if shuffle:
                raise Error("shuffle=True is for arrays and files: the order of an iterable is its own")
        run = self._new_run()
        given = flags | {"save_weights": flags.get("save_weights") or str(run / "weights.safetensors")}
        if not flags.get("checkpoint"):
            given |= {"checkpoint": str(run / "checkpoint"), "every": NEVER}
        if self._weights and not any(flags.get(name) for name in ("weights", "init", "resume")):
            start = self._weights
            if self._averaged:  # training goes on from the weights themselves
                start = run / "start.safetensors"
                call([find_program(self._divisi), "checkpoint", "export", str(self._checkpoint), "-o", start])
            given["weights"] = str(start)
        with contextlib.ExitStack() as stack:
            place = stack.enter_context(temporary_folder("divisi-data-"))
            feeder = None
            if is_loader:
                passes = epochs or (1 if steps is None else None)
                keeps, resumes = bool(flags.get("checkpoint")), bool(flags.get("resume"))
                feeder = stack.enter_context(
                    Feeder(data, self.inputs, self.devices, passes=passes, steps=steps, resume=resumes, keeps=keeps)
                )
                words = ["--feed", feeder.path]
                each = steps_of_pass(data, self.batch)
                given["steps"] = min(steps or NEVER, passes * each) if passes and each else steps
            else:
                train = self._files(data, place / "data", most_bytes)
                stack.enter_context(train.named())
                words = train.words("--data")
                given |= {"epochs": epochs, "steps": steps, "no_shuffle": shuffle is False}
            if eval is not None:
                tests = self._files(eval, place / "eval", most_bytes)
                stack.enter_context(tests.named())
                words += tests.words("--eval")
            given["quiet"] = quiet
            history = self._train([*words, *words_of(given)], run / "log.jsonl", list(callbacks), feeder)
        self._checkpoint = pathlib.Path(str(given["checkpoint"])).absolute()
        self._weights = pathlib.Path(str(given["save_weights"])).absolute()
        self._averaged = bool(given.get("ema"))
        if history.stopped:
            call([find_program(self._divisi), "checkpoint", "export", self._checkpoint, "-o", self._weights,
                  *(["--ema"] if given.get("ema") else [])])
        return history

    def find_lr(self, data: Data, *, steps: int = 100, quiet: bool = False, **flags: Flag) -> RateTest:
        """The learning rate range test: steps whose rate grows from 1e-7 to 10, until the loss diverges; nothing is saved.

        `data` and `flags` are as for `fit`; it begins with the weights of the last `fit`.
        """
        for name in ("checkpoint", "resume", "eval", "epochs", "save", "save_weights"):
            if flags.get(name):
                raise TypeError(f"find_lr() saves and evaluates nothing, and takes no '{name}'")
        run, said = self._new_run(), []
        given = dict(flags)
        if self._weights and not any(flags.get(name) for name in ("weights", "init")):
            given["weights"] = str(self._weights)
        with contextlib.ExitStack() as stack:
            place = stack.enter_context(temporary_folder("divisi-data-"))
            feeder = None
            steps = _count(steps, "steps") or 100
            if isinstance(data, Mapping):
                files = self._files(data, place / "data", 64 << 30)
                stack.enter_context(files.named())
                words = files.words("--data")
            else:
                check_kind(data, self.inputs)
                feeder = stack.enter_context(Feeder(data, self.inputs, self.devices, passes=None, steps=steps, resume=False, keeps=False))
                words = ["--feed", feeder.path]

            def output(line: str) -> None:
                said.append(line)
                if not quiet:
                    print_line(line)

            history = self._train([*words, "--find-lr", *words_of({**given, "steps": steps})], run / "log.jsonl", [], feeder, output)
        advice = said[-1] if said else ""
        fastest, least = (re.search(pattern, advice) for pattern in (r"falls fastest at --lr (\S+) and", r"is least, \S+, at (\S+):"))
        return RateTest(history.steps, float(fastest[1]) if fastest else None, float(least[1]) if least else None, advice)

    def evaluate(self, data: Data, *, ema: bool = False, most_bytes: int = 64 << 30) -> Evaluation:
        """The loss, and the accuracy where there are classes, over all samples of `data`, which is as for `fit`.

        The weights are those of the last `fit`, and before it those that the program begins with. Raises Error with the
        program's message, and for a model with batch norm before the first `fit`. `ema`: by the moving average of the weights.
        """
        run = self._new_run()
        with temporary_folder("divisi-data-") as place:
            files = self._files(data, place / "eval", most_bytes)
            words = [*files.words("--eval"), *self._state_for("evaluate"), *words_of({"ema": ema})]
            with files.named():
                history = self._train([*words, "--eval-only", "--quiet"], run / "log.jsonl", [])
        found = history.evaluations[-1]
        return found if self._checkpoint else dataclasses.replace(found, step=0, epoch=0)

    def predict(
        self, data: Data, outputs: str | Sequence[str] | None = None, *, ema: bool = False, most_bytes: int = 64 << 30
    ) -> dict[str, npt.NDArray[Any]]:
        """The model's outputs for each sample of `data`, in its order: arrays by name.

        `outputs` names some of those that the program was compiled for (`compile(..., predict=[...])`); None: all. `data` is as for
        `fit`; labels may be left out. Weights, and `ema`, are those of `evaluate`.
        """
        known = {each.name: each for each in self.outputs}
        if not known:
            raise Error("predict: this program gives no outputs: compile it with predict=[NAME], the name of an output of the model")
        names = [outputs] if isinstance(outputs, str) else list(known if outputs is None else outputs)
        for name in names:
            if name not in known:
                raise Error(f"predict: there is no output '{name}'; the outputs are: {', '.join(known)}")
        needed = {name for output in names for name in known[output].inputs}
        start = [find_program(self._divisi), "run", "--devices", str(self.devices)] if self.devices > 1 else []
        with temporary_folder("divisi-data-") as place:
            inputs = [each for each in self.inputs if each.name in needed]
            folder = place / "data"
            with writing(folder):
                folder.mkdir()
            rows = _with_inputs(data, self.inputs, needed)
            files = write_files(rows, inputs, folder, most_bytes)
            words = [*files.words("--data"), *self._state_for("predict"), *words_of({"ema": ema, "quiet": True})]
            paths = {name: place / f"{i}.npy" for i, name in enumerate(names)}
            for name, path in paths.items():
                words += ["--predict", f"{name}={path}"]
            with files.named():
                call([*start, self.path, *words])
            return {name: np.load(path) for name, path in paths.items()}

    def weights(self) -> dict[str, Array]:
        """The parameters and buffers by their names in the model, after the last `fit` or as the program begins."""
        return read_safetensors(self._weights or f"{self.path}.safetensors")

    def load_into(self, module: torch.nn.Module, loss: torch.nn.Module | None = None) -> None:
        """Copies `weights()` into a PyTorch module with the same names; num_batches_tracked of batch norm stays as it is.

        Parameters and buffers of the loss (weights of classes, ...) go back into `loss`, and without it nowhere. Raises Error, before anything is changed, if a tensor has no place in the module; warns of parameters that got none.
        """
        load_into(module, self.weights(), loss, {each.name for each in self.parameters if each.trainable})

    def _new_run(self) -> pathlib.Path:
        """A folder for the files of one run."""
        self._runs += 1
        folder = self._folder / str(self._runs)
        with writing(folder, "weights and logs"):
            folder.mkdir()
        return folder

    def _files(self, data: Data, folder: pathlib.Path, most_bytes: int) -> Files:
        with writing(folder):
            folder.mkdir()
        return write_files(data, self.inputs, folder, most_bytes)

    def _state_for(self, what: str) -> list[str]:
        """Flags with which a program takes the newest checkpoint, once there was a `fit`."""
        if self._checkpoint is None:
            if self._has_buffers:
                raise Error(f"{what}: this model has running statistics, which only training can set: call fit first")
            return []
        if not (self._checkpoint / "latest").is_file():
            raise Error(f"{what}: there is no checkpoint in '{self._checkpoint}' any more: call fit again")
        return words_of({"checkpoint": str(self._checkpoint), "resume": True})

    def _train(
        self, words: Sequence[str], log: pathlib.Path, callbacks: Sequence[Callback], feeder: Feeder | None = None,
        output: Callable[[str], None] = print_line,
    ) -> History:
        start = [find_program(self._divisi), "run", "--devices", str(self.devices)] if self.devices > 1 else []
        command = [*start, str(self.path), *words, "--log", str(log)]
        process = Process(command, None if "--quiet" in words else output)
        history, follower = History(), Follower(log)
        pause, deadline = SHORTEST_PAUSE, math.inf
        try:
            running = True
            while running:
                fed = feeder is not None and feeder.advance()
                process.wait(0 if fed else pause)
                running = process.is_running()
                pause = SHORTEST_PAUSE if fed else min(2 * pause, LONGEST_PAUSE)
                for line in follower.lines():
                    pause = SHORTEST_PAUSE
                    self._note(line, history, callbacks)
                if history.stopped and deadline == math.inf:
                    process.ask_to_stop()
                    deadline = time.monotonic() + SECONDS_TO_STOP  # a feeder goes on until then: steps that have begun may need batches
                if time.monotonic() > deadline:
                    process.stop(0)
        except BaseException:
            if feeder is not None:
                feeder.close()
            process.stop()
            raise
        process.finish(stopped=history.stopped)
        return history

    def _note(self, line: Line, history: History, callbacks: Sequence[Callback]) -> None:
        if isinstance(line, Step):
            history.steps.append(line)
        else:
            history.evaluations.append(line)
        for callback in () if history.stopped else callbacks:
            if callback(line):
                history.stopped = True


def _count(value: Any, name: str) -> int | None:
    """A number of epochs or steps as a flag takes it, before data are read."""
    if value is None:
        return None
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or value < 1:
        raise Error(f"{name}: expected a whole number from 1, got {value!r}")
    return int(value)


def _with_inputs(data: Data, inputs: Sequence[Input], needed: set[str]) -> Data:
    """The same data with some of the inputs alone; what has them alone already stays as it is."""
    if isinstance(data, Mapping):
        left_out = {each.name for each in inputs} - needed
        return {name: value for name, value in data.items() if name not in left_out}
    if not isinstance(data, Iterable) or isinstance(data, (str, bytes, os.PathLike)):
        return data

    if isinstance(data, Table):
        data = data.in_order()

    def parts(batch: Any) -> Any:
        if isinstance(batch, (tuple, list)) and len(batch) == len(inputs):
            return tuple(part for part, each in zip(batch, inputs) if each.name in needed)
        return batch

    return (parts(batch) for batch in data)
