"""Parquet and Arrow files train as the arrays that pyarrow reads from them, on 1 and 4 ranks, killed and resumed."""

import itertools
import os
import pathlib
import random
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from conftest import BATCH, batches

import divisi

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
import pyarrow.feather  # noqa: E402
import pyarrow.parquet  # noqa: E402

COLUMNS = {"x": ["a", "b", "c"], "y": ["y"]}


def table_of(data):
    return pyarrow.table({name: data["x"][:, i] for i, name in enumerate("abc")} | {"y": data["y"][:, 0], "note": ["none"] * len(data["y"])})


def many():
    draw = np.random.default_rng(7)
    return {"x": draw.normal(size=(100, 3)).astype(np.float32), "y": draw.normal(size=(100, 1)).astype(np.float32)}


@pytest.mark.parametrize("kind", ["parquet", "arrow", "compressed"])
def test_as_arrays(linear, data, tmp_path, kind):
    """Two files of the rows, with parts of five; y as lists of one element in Arrow."""
    for i, part in enumerate((slice(0, 14), slice(14, 24))):
        table = table_of({name: rows[part] for name, rows in data.items()})
        if kind == "parquet":
            pyarrow.parquet.write_table(table, tmp_path / f"{i}.data", row_group_size=5)
        else:
            lists = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(data["y"][part][:, 0]), 1)
            table = table.set_column(3, "y", lists)
            pyarrow.feather.write_feather(table, tmp_path / f"{i}.data", chunksize=5, compression="lz4" if kind == "compressed" else "uncompressed")
    columns = COLUMNS if kind == "parquet" else {"x": ["a", "b", "c"], "y": "y"}
    table = divisi.Table(tmp_path / "*.data", columns, batch=3, shuffle=False)
    assert table.num_rows == 24
    for name in data:
        np.testing.assert_array_equal(np.concatenate([part[name] for part in table]), data[name])
    assert linear.fit(table, epochs=2, quiet=True, init=1).losses == linear.fit(batches(data), epochs=2, quiet=True, init=1).losses
    shuffled = divisi.Table(tmp_path / "*.data", columns)
    assert linear.evaluate(shuffled).loss == linear.evaluate(data).loss


def test_orders(tmp_path):
    data = many()
    pyarrow.parquet.write_table(table_of(data), tmp_path / "all.parquet", row_group_size=9)

    def rows(table):
        return np.concatenate([part["y"][:, 0] for part in table]).tolist()

    table = divisi.Table(tmp_path / "all.parquet", COLUMNS, seed=4)
    first, second = rows(table), rows(table)
    assert first != second and first != data["y"][:, 0].tolist() and sorted(first) == sorted(second) == sorted(data["y"][:, 0].tolist())
    for epoch, want in ((0, first), (1, second)):
        table.set_epoch(epoch)
        assert rows(table) == want
    assert rows(divisi.Table(tmp_path / "all.parquet", COLUMNS, seed=5)) != first
    for stop in range(0, 13):
        table = divisi.Table(tmp_path / "all.parquet", COLUMNS, seed=4, batch=8)
        seen = [part["y"] for part in itertools.islice(table, stop)]
        other = divisi.Table(tmp_path / "all.parquet", COLUMNS, seed=4, batch=8)
        other.load_state_dict(table.state_dict())
        other.set_epoch(0)
        assert np.concatenate([*seen, *[part["y"] for part in other]])[:, 0].tolist() == first
        assert rows(table) == first, "an epoch that was left begins anew"
    with pytest.raises(ValueError, match="files with 99 rows, and these have 100"):
        table.load_state_dict({"epoch": 0, "parts": 0, "rows": 0, "all": 99})


def program_of(work, linear_file, ranks):
    flags = {"devices": ranks, "strategy": "data"} if ranks > 1 else {}
    return divisi.compile(linear_file, work / f"table{ranks}", loss="mse", label="y", lr=0.1, **flags)


@pytest.mark.parametrize("ranks", [1, 4])
def test_killed_and_resumed(work, linear_file, tmp_path, ranks):
    data = many()
    pyarrow.parquet.write_table(table_of(data), tmp_path / "all.parquet", row_group_size=9)
    program = program_of(work, linear_file, ranks)
    script = textwrap.dedent(f"""
        import sys, time
        sys.path[:0] = {sys.path!r}
        import divisi
        table = divisi.Table({str(tmp_path / "all.parquet")!r}, {COLUMNS!r}, batch=7)
        def wait(line): time.sleep(0.01)
        divisi.Program({str(program.path)!r}).fit(table, epochs=10000, checkpoint={str(tmp_path / "kept")!r}, every=10, quiet=True, init=1, callbacks=[wait])
    """)
    child = subprocess.Popen([sys.executable, "-B", "-c", script], env=os.environ)
    latest = tmp_path / "kept/latest"
    deadline = time.monotonic() + 120
    while not (latest.exists() and int(latest.read_text().strip().rpartition("-")[2]) >= 30) and time.monotonic() < deadline:
        assert child.poll() is None
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    time.sleep(1)  # the program ends by itself
    step = int(latest.read_text().strip().rpartition("-")[2])

    def table():
        return divisi.Table(tmp_path / "all.parquet", COLUMNS, batch=7)

    rest = program.fit(table(), epochs=step // 25 + 3, checkpoint=tmp_path / "kept", resume=True, quiet=True)
    whole = program.fit(table(), epochs=step // 25 + 3, quiet=True, init=1)
    assert rest.steps[0].step > 30 and len(whole.steps) == 25 * (step // 25 + 3)
    assert rest.losses == whole.losses[rest.steps[0].step - 1 :]


def test_predictions_are_in_the_order_of_the_file(linear_file, reference, data, work, tmp_path):
    pyarrow.parquet.write_table(table_of(data), tmp_path / "all.parquet", row_group_size=5)
    program = divisi.compile(linear_file, work / "predicted-table", loss="mse", label="y", predict=["pred"])
    found = program.predict(divisi.Table(tmp_path / "all.parquet", {"x": ["a", "b", "c"]}))["pred"]
    np.testing.assert_allclose(found, data["x"] @ reference.w.T + reference.b, atol=1e-6)


def test_what_is_refused(data, tmp_path):
    table = table_of(data)
    pyarrow.parquet.write_table(table, tmp_path / "all.parquet")
    for given, message in (
        ({"x": ["a", "d"]}, r"all.parquet' has no column 'd'; its columns are: a, b, c, y, note"),
        ({"x": "note"}, r"column 'note': it has string, and numbers are expected"),
    ):
        with pytest.raises(divisi.Error, match=message):
            list(divisi.Table(tmp_path / "all.parquet", given))
    columns = {
        "null": (pyarrow.array([1.0, None]), "a value"),
        "lists": (pyarrow.array([[1.0], [2.0, 3.0]]), "lists have 1 to 2 elements: pad them"),
        "time": (pyarrow.array([1, 2], pyarrow.timestamp("s")), "numbers are expected"),
    }
    for name, (column, message) in columns.items():
        pyarrow.parquet.write_table(pyarrow.table({name: column}), tmp_path / f"{name}.parquet")
        with pytest.raises(divisi.Error, match=message):
            list(divisi.Table(tmp_path / f"{name}.parquet", {"x": name}))
    (tmp_path / "text.csv").write_text("a,b\n1,2\n")
    for path, message in (("text.csv", "neither a Parquet nor an Arrow file"), ("none.parquet", "there is no file"), (".", "cannot read")):
        with pytest.raises(divisi.Error, match=message):
            divisi.Table(tmp_path / path, COLUMNS)
    for batch in (0, True, 1.5):
        with pytest.raises(divisi.Error, match="batch: expected a whole number from 1"):
            divisi.Table(tmp_path / "all.parquet", COLUMNS, batch=batch)


def test_damaged_files_are_errors(data, tmp_path):
    """Some thousand damaged files: each is read, or an Error of one line; nothing else."""
    pyarrow.parquet.write_table(table_of(data), tmp_path / "all.parquet", row_group_size=5)
    pyarrow.feather.write_feather(table_of(data), tmp_path / "all.arrow", chunksize=5, compression="uncompressed")
    draw, refused = random.Random(1), 0
    for name in ("all.parquet", "all.arrow"):
        sound = (tmp_path / name).read_bytes()
        for i in range(300):
            damaged = bytearray(sound[: draw.randrange(len(sound))] if i % 3 == 0 else sound)
            for _ in range(draw.randrange(4)):
                if damaged:
                    damaged[draw.randrange(len(damaged))] = draw.randrange(256)
            (tmp_path / "damaged").write_bytes(damaged)
            try:
                list(divisi.Table(tmp_path / "damaged", COLUMNS))
            except divisi.Error as error:
                refused += 1
                assert "\n" not in str(error)
    assert refused > 200


def test_without_pyarrow(tmp_path, monkeypatch):
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(divisi.Error, match="pip install pyarrow"):
        divisi.Table(pathlib.Path(tmp_path / "a.parquet"), COLUMNS)
