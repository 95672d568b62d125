"""Plans as records: the same that the command line prints."""

import xml.etree.ElementTree as ElementTree

import onnx
import pytest
from conftest import linear_model

import divisi
from divisi._plan import Alternative, Cluster, Plans, ShardedParameter, _bytes, _ms, record

FLAGS = {"loss": "mse", "label": "y"}


@pytest.fixture(scope="module")
def open_file(work):
    onnx.save(linear_model("batch"), work / "open.onnx")
    return work / "open.onnx"


def test_plans(open_file):
    plans = divisi.plan(open_file, cluster="4xh100", dim={"batch": 64}, **FLAGS)
    assert plans.cluster == Cluster("4xh100", "H100 SXM5 80GB", 4, 80_000_000_000)
    assert [plan.rank for plan in plans.plans] == list(range(1, len(plans.plans) + 1))
    assert [plan.step_ms for plan in plans.plans] == sorted(plan.step_ms for plan in plans.plans)
    for plan in plans.plans:
        assert plan.exposed_ms + plan.overlapped_ms == pytest.approx(plan.communication_ms)
        assert plan.step_ms == pytest.approx(plan.compute_ms + plan.exposed_ms)
        parts = ("parameters", "optimizer_state", "inputs", "others", "transient")
        assert plan.memory.total == sum(getattr(plan.memory, part) for part in parts)
    alone = next(plan for plan in plans.plans if plan.name == "one device")
    assert (alone.devices, alone.collectives, alone.bytes_sent) == (1, 0, 0)
    assert alone.memory.parameters == 4 * 4  # four numbers of four bytes
    assert plans.best == plans.plans[0]


def test_table_and_picture(open_file):
    plans = divisi.plan(open_file, cluster="2xh100", dim={"batch": 64}, **FLAGS)
    lines = str(plans).splitlines()
    assert lines[0] == "open.onnx on 2xh100: 2 x H100 SXM5 80GB, 80 GB each"
    assert len(lines) == 2 + len(plans.plans) and lines[1].split()[:3] == ["#", "plan", "step"]
    picture = ElementTree.fromstring(plans.svg())
    bars = [float(bar.get("width")) for bar in picture.iter("{http://www.w3.org/2000/svg}rect")]
    assert len(bars) == 2 * len(plans.plans)
    assert (bars[0] + bars[1]) / (bars[-2] + bars[-1]) == pytest.approx(
        plans.plans[0].step_ms / plans.plans[-1].step_ms, rel=1e-2
    )
    page = ElementTree.fromstring(f"<div>{plans._repr_html_()}</div>")
    assert len(list(page.iter("tr"))) == 1 + len(plans.plans)


def test_explanation(open_file):
    found = divisi.explain(open_file, cluster="2xh100", dim={"batch": 64}, mesh={"data": 2}, **FLAGS)
    assert [(p.name, p.shape) for p in found.parameters] == [("w", (1, 3)), ("b", (1,))]
    assert {weight for layer in found.layers for weight in layer.weights} == {"w", "b"}
    assert isinstance(found, divisi.Plans)


def test_pipelines(open_file):
    found = divisi.plan(open_file, cluster="2xh100", dim={"batch": 64}, pipelines=True, **FLAGS)
    assert all(pipeline.stages == 2 == len(pipeline.cuts) + 1 for pipeline in found.pipelines) and found.pipelines


def test_nothing_fits(open_file, tmp_path):
    (tmp_path / "small.toml").write_text(
        '[cluster]\nname = "small"\n[device]\npreset = "h100"\nmemory = "100B"\n'
        '[[level]]\nname = "link"\nsize = 2\nbandwidth = "1GB/s"\nlatency = "1us"\n'
    )
    found = divisi.plan(open_file, cluster=tmp_path / "small.toml", dim={"batch": 64}, **FLAGS)
    assert found.best is None and not any(plan.fits for plan in found.plans)
    assert "does not fit" in str(found) and "does not fit" in found.svg()


def test_errors(open_file):
    with pytest.raises(divisi.Error, match="9000xabacus"):
        divisi.plan(open_file, cluster="9000xabacus", dim={"batch": 64}, **FLAGS)
    with pytest.raises(divisi.Error, match="batch"):
        divisi.plan(open_file, cluster="2xh100", **FLAGS)


def test_records_from_json():
    values = {"name": "c", "device": "d", "devices": 2, "memory": 5, "unknown": []}
    assert record(Cluster, values) == Cluster("c", "d", 2, 5)
    plans = record(Plans, {"model": "m<", "cluster": values, "plans": [], "suggestions": ["less"]})
    assert plans.cluster.devices == 2 and plans.suggestions == ("less",) and "m&lt;" in plans._repr_html_()
    parameter = {"name": "w", "shape": [2, 3], "sharding": "[_, _]", "local_bytes": 24}
    other = {"sharding": "[data, _]", "step_ms": 1.5, "fits": True, "why_not": "more"}
    found = record(ShardedParameter, parameter | {"alternatives": [other]})
    assert found.alternatives == (Alternative("[data, _]", 1.5, True, "more"),) and found.shape == (2, 3)


@pytest.mark.parametrize(("value", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (8e10, "80 GB"), (5e15, "5e+03 TB")])
def test_bytes(value, text):
    assert _bytes(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.05783, "0.0578 ms"), (227, "227 ms"), (1750, "1.75 s")])
def test_milliseconds(value, text):
    assert _ms(value) == text
