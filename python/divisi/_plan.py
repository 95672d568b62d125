"""What `divisi plan` and `divisi explain` find, as records; tables and pictures of them."""

from __future__ import annotations

import dataclasses
import html
import json
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from ._command import Error, Flag, Path, call, find_program, words_of
from ._compile import with_exported

Record = TypeVar("Record")


@dataclasses.dataclass(frozen=True)
class Cluster:
    """What was planned for."""

    name: str
    device: str
    devices: int
    memory: int  # bytes of one device


@dataclasses.dataclass(frozen=True)
class Memory:
    """Bytes of one device at the worst moment of a step."""

    parameters: int
    optimizer_state: int
    inputs: int
    others: int
    transient: int  # activations, gradients and scratch
    total: int
    worst_phase: str  # forward, backward or update
    worst_node: str


@dataclasses.dataclass(frozen=True)
class Search:
    """How far a search was from the best plan of its mesh, at most."""

    mesh: str
    cost_ms: float
    bound_ms: float
    gap: float  # a share of the cost


@dataclasses.dataclass(frozen=True)
class Plan:
    """One way to split a step over devices. Times are of a step, bytes of one device."""

    rank: int  # from 1, by time
    name: str
    mesh: str
    devices: int
    microbatches: int
    parallelism: tuple[str, ...]
    fits: bool
    step_ms: float
    compute_ms: float
    communication_ms: float
    exposed_ms: float
    overlapped_ms: float
    collectives: int
    bytes_sent: float
    bytes_moved: float
    memory: Memory
    measured_ms: float | None = None
    arena_bytes: int | None = None
    search: Search | None = None
    why_not: str | None = None  # compared with the first


@dataclasses.dataclass(frozen=True)
class Pipeline:
    """A pipeline, with `pipelines=True`."""

    name: str
    stages: int
    microbatches: int
    schedule: str
    cuts: tuple[str, ...]  # the nodes that begin the second stage, the third, ...
    stage_plan: str
    fits: bool
    step_ms: float
    bubble: float  # as a share of the time that is computed
    memory_bytes: int


@dataclasses.dataclass(frozen=True)
class Collective:
    """One collective of a layer, and for whose sake it is."""

    kind: str
    axes: tuple[str, ...]
    bytes: float
    ms: float
    exposed_ms: float
    reason: str


@dataclasses.dataclass(frozen=True)
class Layer:
    """A module scope of the model under the best plan."""

    name: str
    forward_ms: float
    backward_ms: float
    exposed_ms: float
    overlapped_ms: float
    parameter_bytes: int
    weights: tuple[str, ...]
    collectives: tuple[Collective, ...]


@dataclasses.dataclass(frozen=True)
class Alternative:
    """Another sharding of a parameter, and the best plan with it."""

    sharding: str
    step_ms: float
    fits: bool
    why_not: str


@dataclasses.dataclass(frozen=True)
class ShardedParameter:
    """A parameter under the best plan."""

    name: str
    shape: tuple[int, ...]
    sharding: str
    local_bytes: int
    alternatives: tuple[Alternative, ...]


@dataclasses.dataclass(frozen=True)
class Flip:
    """A figure of the cluster, and the value at which another plan is the best."""

    figure: str
    unit: str
    now: float
    then: float
    plan: str
    exact: bool = True


@dataclasses.dataclass(frozen=True)
class Plans:
    """Plans by time, the fastest that fits first. Prints as a table; in a notebook as a table and a picture."""

    model: str
    cluster: Cluster
    plans: tuple[Plan, ...]
    suggestions: tuple[str, ...] = ()  # what would help where nothing fits
    pipelines: tuple[Pipeline, ...] = ()

    @property
    def best(self) -> Plan | None:
        """The fastest plan that fits; None if none does."""
        return next((plan for plan in self.plans if plan.fits), None)

    def rows(self) -> list[list[str]]:
        """The table, with its header."""
        table = [["#", "plan", "step", "compute", "communication", "exposed", "sent", "memory", "parallelism"]]
        for plan in self.plans:
            times = (plan.step_ms, plan.compute_ms, plan.communication_ms, plan.exposed_ms)
            kinds = " ".join(plan.parallelism) + ("" if plan.fits else " (does not fit)")
            memory = _bytes(plan.memory.total)
            table.append([str(plan.rank), plan.name, *map(_ms, times), _bytes(plan.bytes_sent), memory, kinds.strip()])
        return table

    def __str__(self) -> str:
        c = self.cluster
        table = self.rows()
        widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
        left = (1, len(widths) - 1)
        lines = [
            "  ".join(cell.ljust(w) if i in left else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))).rstrip()
            for row in table
        ]
        head = f"{self.model} on {c.name}: {c.devices} x {c.device}, {_bytes(c.memory)} each"
        return "\n".join([head, *lines, *self.suggestions])

    def svg(self) -> str:
        """Bars of the plans' times: computation and exposed communication; grey where the memory does not suffice."""
        height, label, length = 22, 230, 420
        longest = max((plan.step_ms for plan in self.plans), default=0) or 1.0
        parts = []
        for i, plan in enumerate(self.plans):
            y, x = i * height + 4, float(label)
            parts.append(f'<text x="{label - 8}" y="{y + 12}" text-anchor="end">{html.escape(plan.name)}</text>')
            colors = ("#4a7ebb", "#e08a3c") if plan.fits else ("#bbb", "#ddd")
            for value, color in zip((plan.step_ms - plan.exposed_ms, plan.exposed_ms), colors):
                width = max(0.0, value) / longest * length
                parts.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="16" fill="{color}"/>')
                x += width
            note = f"{_ms(plan.step_ms)}, {_bytes(plan.memory.total)}" + ("" if plan.fits else ", does not fit")
            parts.append(f'<text x="{x + 6:.1f}" y="{y + 12}">{html.escape(note)}</text>')
        style = 'font-family="sans-serif" font-size="12" fill="currentColor"'
        size = f'width="{label + length + 200}" height="{len(self.plans) * height + 8}"'
        return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{"".join(parts)}</svg>'

    def _repr_html_(self) -> str:
        first, *rest = self.rows()
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in first)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rest)
        title = html.escape(str(self).splitlines()[0])
        return f"<p>{title}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{self.svg()}"


@dataclasses.dataclass(frozen=True)
class Explanation(Plans):
    """Plans, and why the first is the best. `remat` has the first and last node of each segment that is recomputed."""

    layers: tuple[Layer, ...] = ()
    parameters: tuple[ShardedParameter, ...] = ()
    flips: tuple[Flip, ...] = ()
    remat: tuple[Mapping[str, str], ...] = ()


def plan(model: Path, *, cluster: Path | None = None, divisi: Path | None = None, **flags: Flag) -> Plans:
    """The plans for a model on a cluster, by time; neither a device of it nor the weights are needed.

    `cluster` is "8xh100", "2x8xh100", "cpu:4" (this machine) or a .toml file. `flags` are those of `divisi plan --help`, with
    underscores: devices, mesh, dim, optimizer, loss, label, pipelines, ... Where nothing fits the memory, `best` is None. Raises Error.
    """
    return _ask("plan", Plans, model, cluster, divisi, flags)


def explain(model: Path, *, cluster: Path | None = None, divisi: Path | None = None, **flags: Flag) -> Explanation:
    """The same, with layers, parameters, their shardings, and what would change the choice: as `divisi explain`."""
    return _ask("explain", Explanation, model, cluster, divisi, flags)


def _ask(
    command: str, kind: type[Record], model: Path, cluster: Path | None, divisi: Path | None, flags: Mapping[str, Flag]
) -> Record:
    words = words_of({"cluster": cluster, **with_exported(model, flags)})
    said = call([find_program(divisi), command, model, "--json", *words], expected=(0, 3))
    try:
        return record(kind, json.loads(said))
    except (KeyError, TypeError, ValueError) as error:
        raise Error(f"divisi {command} printed what this package does not know: {error}") from error


def record(kind: type[Record], values: Mapping[str, Any]) -> Record:
    """A dataclass from JSON; fields that it does not have are left out."""
    hints = typing.get_type_hints(kind)
    fields = [field.name for field in dataclasses.fields(kind) if field.name in values]  # type: ignore[arg-type]
    return kind(**{name: _value(hints[name], values[name]) for name in fields})


def _value(hint: Any, value: Any) -> Any:
    """JSON as what a field's type says."""
    arguments = [a for a in typing.get_args(hint) if a not in (type(None), Ellipsis)]
    if typing.get_origin(hint) is tuple:
        return tuple(_value(arguments[0], each) for each in value)
    inner = arguments[0] if type(None) in typing.get_args(hint) else hint
    is_record = isinstance(inner, type) and dataclasses.is_dataclass(inner)
    return record(inner, value) if is_record and isinstance(value, Mapping) else value


def _ms(value: float) -> str:
    return f"{value:.3g} ms" if value < 1000 else f"{value / 1000:.3g} s"


def _bytes(value: float, units: Sequence[str] = ("B", "kB", "MB", "GB", "TB")) -> str:
    size = float(value)
    for unit in units[:-1]:
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} {units[-1]}"
