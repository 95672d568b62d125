"""A program that runs is followed: its output, and callbacks that stop it."""

import io
import sys

import numpy as np
import pytest

import divisi


class Broken:
    """A standard output that cannot be written to."""

    encoding = "utf-8"

    def write(self, text):
        raise OSError("broken output")

    def flush(self):
        pass


def test_output_that_cannot_be_printed_does_not_end_training(linear, data, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", Broken())
        with pytest.warns(divisi.Warning, match="output could not be printed to its end: OSError: broken output; quiet=True"):
            history = linear.fit(data, epochs=2000)
    assert len(history.steps) == 12000 and linear.evaluate(data).step == 12000


def test_output_in_another_encoding(linear, data, monkeypatch, tmp_path):
    folder = tmp_path / "données"
    folder.mkdir()
    for name, rows in data.items():
        np.save(folder / f"{name}.npy", rows.astype(np.float64) if name == "x" else rows)
    printed = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", printed)
        linear.fit({name: folder / f"{name}.npy" for name in data}, epochs=2000)
    printed.flush()
    text = printed.buffer.getvalue().decode()
    assert "final loss" in text and "donn" in text


@pytest.mark.parametrize("answer", [True, np.bool_(True), 1], ids=repr)
def test_true_stops(linear, data, answer):
    calls = []

    def stop(line):
        calls.append(line.step)
        return answer

    history = linear.fit(data, epochs=10**6, quiet=True, callbacks=[stop])
    assert history.stopped and calls == [1]
    for falsehood in (False, np.bool_(False), None, 0):
        assert not linear.fit(data, epochs=1, quiet=True, callbacks=[lambda line: falsehood]).stopped


def test_a_stop_takes_effect_soon(linear, data):
    """The fewest steps after the one that stops, of several runs: others are beside busy processes."""
    more = [len(linear.fit(data, epochs=10**6, quiet=True, callbacks=[lambda line: line.step >= 50]).steps) - 50 for _ in range(5)]
    assert min(more) < 2000, more
