"""Batches of iterables reach the program while it trains, and training goes on from their position."""

import itertools
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from conftest import BATCH, batches

import divisi
from divisi._feed import Positions, set_epoch, steps_of_pass


class Shuffled:
    """Batches in an order that its own generator draws for each pass."""

    def __init__(self, data, seed=3, size=BATCH):
        self.data, self.size, self.draw, self.read = data, size, np.random.default_rng(seed), 0

    def __iter__(self):
        order = self.draw.permutation(len(self.data["x"]))
        for i in range(0, len(order), self.size):
            self.read += 1
            yield {name: rows[order[i : i + self.size]] for name, rows in self.data.items()}


class ByEpoch(Shuffled):
    """One that is told the pass."""

    def set_epoch(self, epoch):
        self.draw = np.random.default_rng(epoch)


class Stateful(Shuffled):
    """One that can say where it is, as torchdata's StatefulDataLoader."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.order, self.at = [], 0

    def __iter__(self):
        if self.at >= len(self.order):
            self.order, self.at = self.draw.permutation(len(self.data["x"])).tolist(), 0
        while self.at < len(self.order):
            rows = self.order[self.at : self.at + self.size]
            self.at += self.size
            self.read += 1
            yield {name: values[rows] for name, values in self.data.items()}

    def state_dict(self):
        return {"draw": self.draw.bit_generator.state, "order": list(self.order), "at": self.at}

    def load_state_dict(self, state):
        self.draw.bit_generator.state, self.order, self.at = state["draw"], state["order"], state["at"]


@pytest.mark.parametrize("size", [BATCH, 5, 1])
@pytest.mark.parametrize("kind", [Shuffled, ByEpoch, Stateful])
def test_resume_from_its_own_position(linear, data, tmp_path, kind, size):
    """Six batches a pass (of 24 rows): a stop after batch 2 of pass 2, and one at the end of pass 3."""
    whole = linear.fit(kind(data, size=size), epochs=4, quiet=True, init=1).losses
    for steps in (8, 18):
        keep = {"checkpoint": tmp_path / f"{steps}", "quiet": True}
        first = linear.fit(kind(data, size=size), steps=steps, init=1, **keep).losses
        loader = kind(data, size=size)
        rest = linear.fit(loader, epochs=4, resume=True, **keep)
        assert first + rest.losses == whole and rest.steps[0].step == steps + 1
        assert [line.epoch for line in rest.steps] == [1 + (i - 1) // 6 for i in range(steps + 1, 25)]
        rows = loader.read * size
        if kind is Stateful:
            assert rows <= 4 * (24 - steps) + 24, "what was trained on is read again"


def test_the_mean_of_an_epoch_is_of_all_its_steps(linear, data, tmp_path):
    """Also of one that was cut short and resumed: from an iterable, and from arrays."""
    for name, given, more in (("iterable", batches(data), {}), ("arrays", data, {"shuffle": False})):
        keep = {"checkpoint": tmp_path / name, "quiet": True, **more}
        first = linear.fit(given, steps=8, init=1, **keep)
        rest = linear.fit(given, epochs=2, resume=True, **keep)
        losses = first.losses + rest.losses
        assert len(losses) == 12
        assert rest.steps[-1].epoch_loss == pytest.approx(np.mean(losses[6:]), rel=1e-6)


def test_killed_and_resumed(work, linear_file, data, tmp_path):
    """Python and the program are killed in their midst; two ranks and one go on as if nothing had been."""
    for ranks in (1, 2):
        program = divisi.compile(linear_file, work / f"killed{ranks}", loss="mse", label="y", lr=0.1, **({"devices": 2, "strategy": "data"} if ranks > 1 else {}))
        script = textwrap.dedent(f"""
            import sys, time
            sys.path[:0] = {[os.path.dirname(__file__), *sys.path]!r}
            import numpy as np, divisi
            from test_feed import Stateful, data_of
            class Slow(Stateful):
                def __iter__(self):
                    for batch in super().__iter__():
                        time.sleep(0.01)
                        yield batch
            divisi.Program({str(program.path)!r}).fit(Slow(data_of()), epochs=1000, checkpoint={str(tmp_path / str(ranks))!r}, every=5, quiet=True, init=1)
        """)
        child = subprocess.Popen([sys.executable, "-B", "-c", script], env=os.environ)
        latest = tmp_path / str(ranks) / "latest"
        deadline = time.monotonic() + 120
        while not (latest.exists() and int(latest.read_text().strip().rpartition("-")[2]) >= 10) and time.monotonic() < deadline:
            assert child.poll() is None
            time.sleep(0.01)
        child.send_signal(signal.SIGKILL)
        child.wait()
        time.sleep(0.5)  # the program ends by itself, as it has nobody that feeds it
        rest = program.fit(Stateful(data_of()), epochs=12, checkpoint=tmp_path / str(ranks), resume=True, quiet=True)
        assert rest.steps[0].step >= 11
        whole = program.fit(Stateful(data_of()), epochs=12, quiet=True, init=1)
        assert rest.losses == whole.losses[rest.steps[0].step - 1 :]


def data_of():
    draw = np.random.default_rng(5)
    return {"x": draw.normal(size=(24, 3)).astype(np.float32), "y": draw.normal(size=(24, 1)).astype(np.float32)}


def test_batches_come_while_the_program_trains(linear, data):
    """The iterable is not read to its end first: it sees what the program has said."""
    seen, known = [], []

    def live():
        for batch in itertools.islice(itertools.cycle(batches(data)), 400):
            known.append(len(seen))
            yield batch

    history = linear.fit(live(), quiet=True, callbacks=[lambda line: seen.append(line)])
    assert len(history.steps) == 400 and known[-1] > 200
    assert all(line.feed_ms >= 0 for line in history.steps)


def test_evaluations_after_each_epoch_of_an_iterable(linear, data):
    history = linear.fit(batches(data), epochs=3, eval=data, quiet=True)
    assert [line.step for line in history.evaluations] == [6, 12, 18]


def test_a_stop_by_a_callback(linear, data):
    history = linear.fit(itertools.cycle(batches(data)), steps=10**6, quiet=True, callbacks=[lambda line: line.step >= 20])
    assert history.stopped and 20 <= len(history.steps) < 5000
    assert linear.evaluate(data).step == len(history.steps)


def test_a_stop_while_the_program_waits(linear, data):
    """A slow iterable: the stop does not wait for the next batches."""

    def slow():
        yield from batches(data)
        for batch in batches(data):
            time.sleep(0.5)
            yield batch

    began = time.monotonic()
    history = linear.fit(slow(), quiet=True, callbacks=[lambda line: line.step >= 2])
    assert history.stopped and time.monotonic() - began < 2.5 and len(history.steps) <= 8


def test_schedules_need_the_number_of_steps(linear, data):
    with pytest.raises(divisi.Error, match="give --steps"):
        linear.fit(batches(data), lr_schedule="cosine", quiet=True)
    rates = [line.lr for line in linear.fit(batches(data), lr_schedule="linear", epochs=9, steps=6, quiet=True).steps]
    assert rates == pytest.approx([0.1 * (1 - i / 6) for i in range(6)], rel=1e-6)


def test_a_program_that_fails_is_reported(linear, data):
    nan = [{"x": rows["x"] * np.nan, "y": rows["y"]} for rows in batches(data)]
    with pytest.raises(divisi.Error, match="the loss of step 3 is NaN"):
        linear.fit([*batches(data)[:2], *nan], quiet=True)


def test_positions_of_all_kinds():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: DIVISI_PYTHON names an interpreter that has it")

    class Loader:
        state = {"at": 3, "generator": torch.arange(5, dtype=torch.uint8), "pairs": (1, 2), 7: "seven"}

        def state_dict(self):
            return self.state

        def load_state_dict(self, state):
            self.loaded = state

    loader = Loader()
    positions = Positions(loader)
    text = positions.text(positions.now(), 4)
    assert text.isascii() and text.isprintable() and positions.restore(text) == 4
    assert loader.loaded["pairs"] == (1, 2) and loader.loaded[7] == "seven" and torch.equal(loader.loaded["generator"], loader.state["generator"])


def test_a_position_is_not_trusted(tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: DIVISI_PYTHON names an interpreter that has it")
    import base64
    import io
    import json
    import pickle

    class Evil:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "evil"),))

    file = io.BytesIO()
    torch.save({"at": Evil()}, file)
    for content in (file.getvalue(), pickle.dumps(Evil()), b"none"):
        text = json.dumps({"rows": 0, "torch": base64.b64encode(content).decode()})
        with pytest.raises(divisi.Error, match="position in the data cannot be read"):
            Positions(Stateful(data_of())).restore(text)
    assert not (tmp_path / "evil").exists()


def test_a_dataloader(linear, data, tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: DIVISI_PYTHON names an interpreter that has it")
    dataset = torch.utils.data.TensorDataset(torch.from_numpy(data["x"]), torch.from_numpy(data["y"]))

    def loader(workers=0, **more):
        return torch.utils.data.DataLoader(dataset, batch_size=5, num_workers=workers, **more)

    plain = linear.fit(batches(data, 5), epochs=2, quiet=True, init=1).losses
    assert linear.fit(loader(), epochs=2, quiet=True, init=1).losses == plain
    assert linear.fit(loader(2), epochs=2, quiet=True, init=1).losses == plain
    assert steps_of_pass(loader(), BATCH) == 6 and steps_of_pass(loader(drop_last=True), BATCH) == 5
    rates = [line.lr for line in linear.fit(loader(), epochs=2, lr_schedule="linear", quiet=True).steps]
    assert rates == pytest.approx([0.1 * (1 - i / 12) for i in range(12)], rel=1e-6)
    keep = {"checkpoint": tmp_path / "kept", "quiet": True}

    def shuffled():
        return loader(shuffle=True, generator=torch.Generator().manual_seed(1))

    whole = linear.fit(shuffled(), epochs=4, quiet=True, init=1).losses
    first = linear.fit(shuffled(), steps=8, init=1, **keep).losses
    assert first + linear.fit(shuffled(), epochs=4, resume=True, **keep).losses == whole
    sampler = torch.utils.data.distributed.DistributedSampler(dataset, num_replicas=1, rank=0)
    told = loader(sampler=sampler)
    assert set_epoch(told, 4) and sampler.epoch == 4 and not set_epoch(loader(), 4)


def test_a_stateful_dataloader(linear, data, tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: DIVISI_PYTHON names an interpreter that has it")
    stateful = pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata is not installed")
    dataset = torch.utils.data.TensorDataset(torch.from_numpy(data["x"]), torch.from_numpy(data["y"]))

    def loader():
        return stateful.StatefulDataLoader(dataset, batch_size=BATCH, shuffle=True, generator=torch.Generator().manual_seed(1))

    whole = linear.fit(loader(), epochs=4, quiet=True, init=1).losses
    keep = {"checkpoint": tmp_path / "kept", "quiet": True}
    losses = linear.fit(loader(), steps=8, init=1, **keep).losses + linear.fit(loader(), epochs=4, resume=True, **keep).losses
    # After load_state_dict, it draws other orders for later passes than without, which is torchdata's own.
    assert losses[:12] == whole[:12] and len(losses) == 24


def test_a_huggingface_dataset(linear, data, tmp_path):
    datasets = pytest.importorskip("datasets", reason="HuggingFace's datasets are not installed")
    rows = datasets.Dataset.from_dict({"x": data["x"], "y": data["y"], "note": ["none"] * 24})
    plain = linear.fit(batches(data), epochs=2, quiet=True, init=1).losses
    assert steps_of_pass(rows, BATCH) == 6
    assert linear.fit(rows, epochs=2, quiet=True, init=1).losses == plain
    assert linear.fit(rows.with_format("numpy"), epochs=2, quiet=True, init=1).losses == plain

    def stream():
        return rows.to_iterable_dataset(num_shards=3).shuffle(seed=1, buffer_size=8)

    whole = linear.fit(stream(), epochs=3, quiet=True, init=1).losses
    keep = {"checkpoint": tmp_path / "stream", "quiet": True}
    first = linear.fit(stream(), steps=6, init=1, **keep).losses
    assert first + linear.fit(stream(), epochs=3, resume=True, **keep).losses == whole and len(whole) == 18
