"""Data of all kinds: what is converted, what is refused by name, and files that cannot be written."""

import io
import resource
import struct
import tarfile
import tempfile
import zlib

import numpy as np
import onnx
import pytest
from conftest import batches
from onnx import TensorProto, helper, numpy_helper

import divisi
from divisi import _data


class Untouched:
    """A loader that must not be read."""

    def __iter__(self):
        raise AssertionError("data were read")


@pytest.mark.parametrize("name", ["epochs", "steps"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "2", np.float64(2)], ids=repr)
def test_numbers_are_refused_before_data_are_read(linear, data, name, value):
    for given in (data, Untouched()):
        with pytest.raises(divisi.Error, match=f"{name}: expected a whole number from 1, got "):
            linear.fit(given, quiet=True, **{name: value})


def test_numbers_of_numpy(linear, data):
    assert len(linear.fit(batches(data), steps=np.int64(9), quiet=True).steps) == 9
    assert len(linear.fit(batches(data), epochs=np.int32(2), quiet=True).steps) == 12


@pytest.mark.parametrize(("flag", "instead"), [("eval_only", "evaluate"), ("predict", "predict"), ("find_lr", "find_lr")])
def test_other_work_than_training(linear, data, flag, instead):
    with pytest.raises(TypeError, match=instead):
        linear.fit(data, quiet=True, **{flag: True})


def test_masked_arrays(linear, data):
    masked = np.ma.masked_array(data["x"], mask=data["x"] > 1)
    for x in (masked, list(masked)):
        with pytest.raises(divisi.Error, match=r"data: 'x' is to be F32 \[N, 3\]: it is a masked array, .* array.filled"):
            linear.fit(data | {"x": x}, quiet=True)
    with pytest.raises(divisi.Error, match=r"batch 1: 'x' is .* a masked array"):
        linear.fit([{"x": masked, "y": data["y"]}], quiet=True)
    nothing = np.ma.masked_array(data["x"])
    assert linear.fit(data | {"x": nothing}, quiet=True).steps


def test_tensors(linear, reference, data):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: DIVISI_PYTHON names an interpreter that has it")
    x, y = torch.from_numpy(data["x"]), torch.from_numpy(data["y"])
    rounded = {"x": x.bfloat16().float().numpy(), "y": data["y"]}
    expected = [reference.step(**rows) for rows in batches(rounded)]
    for given in ({"x": x.bfloat16(), "y": y}, {"x": list(x.bfloat16()), "y": y}, [(x.bfloat16(), y)]):
        program = divisi.Program(linear.path)
        steps = program.fit(given, quiet=True, **({"shuffle": False} if isinstance(given, dict) else {})).losses
        assert steps == pytest.approx(expected, abs=1e-5)
    for kind, message in (
        (x.to_sparse(), r"a sparse or nested tensor: give tensor.to_dense\(\)"),
        (x.to_sparse_csr(), r"a sparse or nested tensor: give tensor.to_dense\(\)"),
        (torch.nested.nested_tensor([x[:2], x[2:]]), "a sparse or nested tensor"),
        (x.to("meta"), "a tensor without values"),
    ):
        with pytest.raises(divisi.Error, match=r"data: 'x' is to be F32 \[N, 3\]: it is " + message) as raised:
            linear.fit({"x": kind, "y": y}, quiet=True)
        assert "\n" not in str(raised.value)


def test_numbers_beyond_float32(linear, data):
    large = data["x"].astype(np.float64)
    assert linear.fit(data | {"x": large}, quiet=True).steps
    large[1, 2] = 1e39
    with pytest.raises(divisi.Error, match="data: 'x' is to be .*: numbers that are too large for float32"):
        linear.fit(data | {"x": large}, quiet=True)


def test_errors_of_the_program_name_the_data(linear, data):
    with pytest.raises(divisi.Error) as raised:
        linear.fit(data | {"y": data["y"][:5]}, quiet=True)
    assert "the data of 'y'" in str(raised.value) and ".npy" not in str(raised.value)
    with pytest.raises(divisi.Error, match="the data of 'y'"):
        linear.evaluate(data | {"y": data["y"][:, 0]})


def test_predictions_of_nothing_and_of_one_output(linear_file, reference, data, work):
    program = divisi.compile(linear_file, work / "predicted", loss="mse", label="y", predict=["pred"])
    with pytest.raises(divisi.Error, match="data: it has no samples"):
        program.predict([])
    np.testing.assert_allclose(program.predict(data, "pred")["pred"], data["x"] @ reference.w.T + reference.b, atol=1e-6)


@pytest.fixture
def small_files():
    """No file may have more than 20,000 bytes: a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk(linear, small_files):
    x, y = np.zeros((4000, 3), np.float32), np.zeros((4000, 1), np.float32)
    loaders = batches({"x": x, "y": y}), batches({"x": x, "y": y}, 4000)
    for use, given in ((linear.fit, {"x": x, "y": y}), *((linear.evaluate, loader) for loader in loaders)):
        with pytest.raises(divisi.Error, match=r"cannot write data to '.*/\d\.npy': File too large; the environment variable TMPDIR"):
            use(given)
    with pytest.raises(divisi.Error, match=r"data: cannot share \d+ bytes of memory with the program: .*File too large"):
        linear.fit(loaders[0], quiet=True)


def test_a_temporary_folder_that_is_gone(linear, data, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    for use in (linear.fit, linear.evaluate, lambda _: divisi.Program(linear.path)):
        with pytest.raises(divisi.Error, match="gone.*: No such file or directory; the environment variable TMPDIR"):
            use(data)


@pytest.mark.parametrize("array", [np.arange(12.0).reshape(3, 4), np.float32(2), np.zeros((0, 3), "i8"), np.array([True, False])], ids=repr)
def test_files_are_those_of_numpy(tmp_path, array):
    _data._save(tmp_path / "a.npy", np.asarray(array))
    found = np.load(tmp_path / "a.npy")
    assert found.dtype == array.dtype and found.shape == array.shape
    np.testing.assert_array_equal(found, array)


def png(grey):
    """A picture of 8 x 8 pixels of one grey."""

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0))
    rows = chunk(b"IDAT", zlib.compress((b"\0" + bytes([grey] * 8)) * 8))
    return b"\x89PNG\r\n\x1a\n" + header + rows + chunk(b"IEND", b"")


def test_lists_of_tar_files(tmp_path):
    greys = [10, 60, 110, 160, 210, 250]
    for part in range(2):
        with tarfile.open(tmp_path / f"{part}.tar", "w") as tar:
            for i in range(3 * part, 3 * part + 3):
                for end, body in (("png", png(greys[i])), ("cls", b"0")):
                    member = tarfile.TarInfo(f"{i}.{end}")
                    member.size = len(body)
                    tar.addfile(member, io.BytesIO(body))
    mean = numpy_helper.from_array(np.full((192, 2), 1 / 192, np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("Flatten", ["image"], ["flat"]), helper.make_node("MatMul", ["flat", "w"], ["pred"])],
        "mean",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [2, 3, 8, 8])],
        [helper.make_tensor_value_info("pred", TensorProto.FLOAT, [2, 2])],
        [mean],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    flags = {"loss": "cross_entropy", "label": "y", "predict": ["pred"], "train": "w"}
    program = divisi.compile(tmp_path / "m.onnx", tmp_path / "m", **flags)
    tars = [tmp_path / "0.tar", str(tmp_path / "1.tar")]
    found = program.predict({"image": tars})["pred"]
    channels = (np.array(greys)[:, None] / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]  # ImageNet's normalisation
    np.testing.assert_allclose(found, np.repeat(channels.mean(1, keepdims=True), 2, 1), atol=1e-5)
    assert len(program.fit({"image": tuple(tars)}, quiet=True).steps) == 3
