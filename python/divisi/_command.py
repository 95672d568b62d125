"""Finds the program `divisi`, starts commands, and turns what they say into exceptions and warnings."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import IO, Union

import numpy as np

Path = Union[str, "os.PathLike[str]"]
Scalar = Union[str, int, float, "os.PathLike[str]"]
# A flag of the command line as a keyword: see `words_of`.
Flag = Union[None, bool, Scalar, Sequence[Scalar], Mapping[str, Scalar]]


LONGEST_WAIT, SECONDS_TO_END = 0.05, 10.0  # between looks at a command; for it to end by itself


class Error(Exception):
    """What went wrong, in the one line that the program prints: it names the node, file or flag and what to do.

    `code` is the program's exit code: 1 for a fault of files or data, 2 for a wrong flag, 3 when no plan fits, more than
    128 when a signal ended it, and None when no program was started.
    """

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class Warning(UserWarning):
    """A warning of the compiler or of this package."""


def find_program(program: Path | None = None) -> str:
    """The path of the program `divisi`: the argument, or the environment variable DIVISI, or the first on the PATH.

    Raises Error if what the first of these names is not a program.
    """
    asked = [(program, "the argument divisi"), (os.environ.get("DIVISI"), "the environment variable DIVISI")]
    for value, source in asked:
        if value:
            found = shutil.which(os.fspath(value))
            if not found:
                raise Error(f"{source} names '{os.fspath(value)}', which is not a program that can be started")
            return found
    found = shutil.which("divisi")
    if not found:
        raise Error(
            "there is no program 'divisi': add its folder to PATH, set the environment variable DIVISI to it, "
            "or give the argument divisi='/path/of/divisi'"
        )
    return found


def words_of(flags: Mapping[str, Flag]) -> list[str]:
    """The words of a command line for keywords: `weight_decay=0.1` is `--weight-decay 0.1`.

    True is the flag alone; False and None leave it out; a list repeats it; a dict repeats it as NAME=VALUE, but for `mesh`,
    whose axes are one word: `mesh={"data": 2, "model": 2}`.
    """
    words: list[str] = []
    for name, value in flags.items():
        flag = "--" + name.replace("_", "-")
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or value is False:
            continue
        if value is True:
            words.append(flag)
        elif isinstance(value, Mapping):
            pairs = [f"{key}={_text(size)}" for key, size in value.items()]
            for pair in [",".join(pairs)] if name == "mesh" else pairs:
                words += [flag, pair]
        elif isinstance(value, (str, int, float, os.PathLike)):
            words += [flag, _text(value)]
        else:
            for each in value:
                words += [flag, _text(each)]
    return words


def _text(value: Scalar) -> str:
    return os.fspath(value) if isinstance(value, (str, os.PathLike)) else str(value)


def call(command: Iterable[Path], expected: Iterable[int] = (0,)) -> str:
    """Runs a command to its end and returns its standard output; its warnings become Python's, its failure an Error.

    An exception meanwhile, such as KeyboardInterrupt, ends the command and all ranks that it has started.
    """
    said: list[str] = []
    process = Process([os.fspath(word) for word in command], said.append)
    try:
        while process.is_running():
            process.wait(LONGEST_WAIT)
    except BaseException:
        process.stop(SECONDS_TO_END)
        raise
    process.finish(expected=expected)
    return "".join(line + "\n" for line in said)


def warn_of(said: str) -> None:
    """Passes on the program's warnings."""
    for line in said.splitlines():
        if line.startswith("warning: "):
            warnings.warn(line.removeprefix("warning: "), Warning, stacklevel=4)


def failure(words: Sequence[str], code: int, said: str) -> Error:
    """The Error of a command that ended with this code and printed this on standard error."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    name = pathlib.Path(words[0]).name
    status = 128 - code if code < 0 else code
    if errors:
        return Error("\n".join(dict.fromkeys(errors)), status)
    ending = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return Error(f"'{name}' {ending}" + (f": {lines[-1]}" if lines else ""), status)


def print_line(line: str) -> None:
    """Prints a line; characters that the encoding of standard output lacks become question marks."""
    try:
        print(line)
    except UnicodeEncodeError:
        encoding = getattr(sys.stdout, "encoding", None) or "ascii"
        print(line.encode(encoding, "replace").decode(encoding))


class Process:
    """A running command whose standard output is printed line by line while it runs."""

    def __init__(self, words: Sequence[str], output: Callable[[str], None] | None) -> None:
        self.words = list(words)
        self._said: list[str] = []
        self._unprinted: Exception | None = None
        self._asked = False  # to end
        try:
            self._process = subprocess.Popen(
                self.words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
            )
        except (OSError, ValueError) as error:
            raise Error(f"cannot start '{self.words[0]}': {error}") from None
        keep = self._said.append
        streams = ((self._process.stdout, output or (lambda line: None)), (self._process.stderr, keep))
        self._readers = [threading.Thread(target=self._read, args=stream, daemon=True) for stream in streams]
        for reader in self._readers:
            reader.start()

    def _read(self, stream: IO[str] | None, use: Callable[[str], None]) -> None:
        """Reads to the end, whatever becomes of the lines: a program whose output nobody reads is ended by SIGPIPE."""
        if stream is not None:
            with stream:
                for line in stream:
                    try:
                        use(line.rstrip("\n"))
                    except Exception as error:
                        self._unprinted, use = error, lambda line: None

    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait(self, seconds: float) -> None:
        """Waits for the end of the command, at most so long."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            pass

    def finish(self, stopped: bool = False, expected: Iterable[int] = (0,)) -> None:
        """Waits for the end; raises Error unless the code is one that was expected, or the command was `stopped` and ended by that."""
        code = self._process.wait()
        for reader in self._readers:
            reader.join()
        said = "\n".join(self._said)
        warn_of(said)
        if self._unprinted is not None:
            what = f"{type(self._unprinted).__name__}: {self._unprinted}"
            warnings.warn(f"the program's output could not be printed to its end: {what}; quiet=True prints none", Warning, stacklevel=4)
        if code not in expected and not (stopped and code == 128 + signal.SIGTERM):
            raise failure(self.words, code, said)

    def ask_to_stop(self) -> None:
        """Asks the command, once, to stop after its step."""
        if not self._asked and self.is_running():
            self._asked = True
            self._process.terminate()

    def stop(self, patience: float = 30) -> None:
        """Asks the command to stop after its step, and ends it if it does not do so in this many seconds."""
        self.ask_to_stop()
        self.wait(patience)
        if self.is_running():
            self._process.kill()
        self._process.wait()
        for reader in self._readers:
            reader.join(5)
