"""Callbacks for trackers of experiments: MLflow, and Weights & Biases, also offline. Neither is needed by the package."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from ._log import Evaluation, Line, Step


def numbers_of(line: Line) -> dict[str, float]:
    """The numbers of a line under the log's names, those of an evaluation with `eval_` before them; NaN is left out."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(line):
        value = getattr(line, field.name)
        if field.name == "metrics":
            values |= dict(value)
        elif field.name == "grad_norms":
            values |= {f"grad_norm.{name}": norm for name, norm in (value or {}).items()}
        elif field.name not in ("step", "wall_time"):
            values[field.name] = value
    prefix = "eval_" if isinstance(line, Evaluation) else ""
    return {prefix + name: float(value) for name, value in values.items() if value is not None and math.isfinite(value)}


def _due(line: Line, every: int) -> bool:
    return not isinstance(line, Step) or line.step % every == 0 or line.epoch_loss is not None


def mlflow_callback(run: Any = None, *, every: int = 1) -> Callable[[Line], None]:
    """A callback of `fit` that logs to MLflow: to `run` (of mlflow.start_run), or to the one that is active or that MLflow begins.

    Of steps, each `every`-th, and the last of each epoch.
    """
    import mlflow

    run_id = run.info.run_id if run is not None else None

    def log(line: Line) -> None:
        if _due(line, every):
            mlflow.log_metrics(numbers_of(line), step=line.step, run_id=run_id)

    return log


def wandb_callback(run: Any = None, *, every: int = 1) -> Callable[[Line], None]:
    """A callback of `fit` that logs to Weights & Biases: to `run` (of wandb.init, mode="offline" if there is no network), or to the active one.

    Of steps, each `every`-th, and the last of each epoch. The step is the number "training_step", which curves have as their axis.
    """
    import wandb

    to = run if run is not None else wandb.run
    if to is None:
        raise ValueError("wandb_callback: no run is active: call wandb.init(project=..., mode='offline') first")
    to.define_metric("training_step")
    to.define_metric("*", step_metric="training_step")

    def log(line: Line) -> None:
        if _due(line, every):
            to.log({"training_step": line.step, **numbers_of(line)})

    return log
