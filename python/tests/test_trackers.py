"""Callbacks for MLflow and Weights & Biases get the numbers of the log: with stand-ins, and with the packages where they are installed."""

import math
import pathlib
import sys
import types

import pytest

import divisi


def log_of(linear, data, callback):
    return linear.fit(data, epochs=2, eval=data, shuffle=False, quiet=True, callbacks=[callback], log_grad_norms=True)


def check(history, logged, every=1):
    """`logged` has the numbers by name, and by step; names are those of the log."""
    steps = [line for line in history.steps if line.step % every == 0 or line.epoch_loss is not None]
    assert logged["loss"] == {line.step: line.loss for line in steps}
    assert logged["lr"] == {line.step: line.lr for line in steps}
    assert logged["epoch_loss"] == {line.step: line.epoch_loss for line in history.steps if line.epoch_loss is not None}
    assert logged["eval_loss"] == {line.step: line.loss for line in history.evaluations} and len(logged["eval_loss"]) == 2
    assert "wall_time" not in logged and ("grad_norm.w" in logged) == (every == 1)


def collect(logged, numbers, step):
    for name, value in numbers.items():
        assert math.isfinite(value)
        logged.setdefault(name, {})[step] = value


@pytest.mark.parametrize("every", [1, 4])
def test_stand_ins(linear, data, monkeypatch, every):
    found = {}

    class Run:
        info = types.SimpleNamespace(run_id="r1")
        defined = []

        def define_metric(self, name, step_metric=None):
            self.defined.append((name, step_metric))

        def log(self, numbers):
            collect(found, {name: value for name, value in numbers.items() if name != "training_step"}, numbers["training_step"])

    def log_metrics(numbers, step, run_id):
        assert run_id in (None, "r1")
        collect(found, numbers, step)

    monkeypatch.setitem(sys.modules, "mlflow", types.SimpleNamespace(log_metrics=log_metrics))
    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(run=None))
    for make in (divisi.mlflow_callback, divisi.wandb_callback):
        found.clear()
        check(log_of(linear, data, make(Run(), every=every)), found, every)
    assert ("*", "training_step") in Run.defined
    with pytest.raises(ValueError, match="no run is active"):
        divisi.wandb_callback()


def test_mlflow(linear, data, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    with mlflow.start_run() as run:
        history = log_of(linear, data, divisi.mlflow_callback(run))
    client = mlflow.tracking.MlflowClient()
    names = client.get_run(run.info.run_id).data.metrics
    check(history, {name: {m.step: m.value for m in client.get_metric_history(run.info.run_id, name)} for name in names})


def test_wandb_offline(linear, data, tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    monkeypatch.setenv("WANDB_SILENT", "true")
    with wandb.init(project="divisi", mode="offline", dir=str(tmp_path)) as run:
        history = log_of(linear, data, divisi.wandb_callback())
        summary = dict(run.summary)
    assert summary["loss"] == history.steps[-1].loss and summary["eval_loss"] == history.evaluations[-1].loss and summary["training_step"] == 12
    assert list(pathlib.Path(tmp_path).rglob("*.wandb"))
