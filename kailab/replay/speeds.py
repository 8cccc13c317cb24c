"""Speeds of jobs by GPU model and by how a job is spread over nodes, from a CSV file.

The columns are ``model`` (empty: any other), ``speed`` (relative to the run time in the trace) and optionally ``nodes``
(the least number of nodes that the job's pods are on; empty: 1), ``kind`` (of jobs, as in the trace; empty: any other)
and ``pods`` (a line for an elastic job, of which so many pods run).

Source: Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads", OSDI 2020, whose
simulator has a throughput for each kind of job and GPU model, consolidated or not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from kailab.errors import InputError, Where
from kailab.fleet.fleet import Fleet
from kailab.lab.seen_names import describe_names
from kailab.replay.job import WHOLE
from kailab.replay.readers.lines import BrokenLine, LineFields, read_table
from kailab.replay.trace import Trace

COLUMNS = ("model", "speed")
FASTEST = 1000
"""Speeds are in thousandths of the trace's: from 0.001 to this."""


class _Row(NamedTuple):
    kind: str
    model: str
    nodes: int
    pods: int
    speed: int


_Pairs = tuple[tuple[int, int], ...]


class SpeedTable(NamedTuple):
    """``speeds``: (kind, model) -> (least number of nodes, speed in thousandths), most nodes first. ``curves``: (kind, model) -> (number of
    pods, speed in thousandths), fewest pods first.
    """

    speeds: Mapping[tuple[str, str], _Pairs]
    curves: Mapping[tuple[str, str], _Pairs] = {}

    def of(self, kind: str, models: Collection[str], nodes: int) -> int:
        """The speed in thousandths of a job with pods on ``nodes`` nodes with GPUs of ``models``: that of the slowest,
        because pods of one job wait for each other.

        >>> table = SpeedTable({("", "A100"): ((2, 800), (1, 1000)), ("", ""): ((1, 500),)})
        >>> table.of("", ["A100"], 1), table.of("", ["A100"], 3), table.of("", ["A100", "T4"], 3)
        (1000, 800, 500)
        """
        return min(self._one(kind, model, nodes) for model in models)

    def of_some(self, kind: str, models: Collection[str], nodes: int, pods: int, of: int) -> int:
        """The speed of an elastic job of which ``pods`` of its ``of`` pods run. Without a line for its pods it is
        proportional to their number; between two lines it lies on the line between them.

        >>> table = SpeedTable({("", ""): ((1, 500),)}, {("", "A100"): ((2, 400), (8, 1000))})
        >>> [table.of_some("", ["A100"], 1, pods, 8) for pods in (1, 2, 5, 8)], table.of_some("", ["T4"], 1, 4, 8)
        ([100, 200, 350, 500], 250)
        """
        part = min(_on_curve(_first(self.curves, kind, model) or ((of, WHOLE),), pods) for model in models)
        return max(1, round(part * self.of(kind, models, nodes) / WHOLE))

    def _one(self, kind: str, model: str, nodes: int) -> int:
        if not self.speeds:
            return WHOLE
        rows = self.rows(kind, model)
        assert rows is not None, "checked when the file was read"
        return next((speed for least, speed in rows if nodes >= least), rows[-1][1])

    def rows(self, kind: str, model: str) -> _Pairs | None:
        """The rows of the job's kind before those of any other, and of its model before those of any other."""
        return _first(self.speeds, kind, model)


def _first(table: Mapping[tuple[str, str], _Pairs], kind: str, model: str) -> _Pairs | None:
    keys = ((kind, model), (kind, ""), ("", model), ("", ""))
    return next((table[key] for key in keys if key in table), None)


def _on_curve(points: _Pairs, pods: int) -> float:
    """The speed at a number of pods: from 0 at none, straight from point to point, and no more after the last."""
    before, speed_before = 0, 0
    for number, speed in points:
        if pods <= number:
            return speed_before + (speed - speed_before) * (pods - before) / (number - before)
        before, speed_before = number, speed
    return speed_before


def read_speeds(path: Path, fleet: Fleet, trace: Trace) -> SpeedTable:
    """Read the file. Raises InputError for a line that can't be read, a model or a kind that is not there, the same row
    twice, and a job and a model of the fleet without a speed."""
    models = {pool.gpu_model for pool in fleet.pools if pool.gpus}
    kinds = {job.kind for job in trace.jobs}
    found: dict[tuple[str, str], dict[int, int]] = {}
    curves: dict[tuple[str, str], dict[int, int]] = {}
    for where, row in read_table(path, COLUMNS, "speeds of jobs", _row):
        for name, known, what in ((row.model, models, "GPU model"), (row.kind, kinds, "kind of jobs")):
            if name and name not in known:
                raise InputError(f"no {what} {name!r:.80}; {describe_names(known - {''}, name)}", where)
        rows = (curves if row.pods else found).setdefault((row.kind, row.model), {})
        if (row.pods or row.nodes) in rows:
            number = "pods" if row.pods else "nodes"
            raise InputError(f"the same kind, model and {number} as in a line before; expected each once", where)
        rows[row.pods or row.nodes] = row.speed
    if curves and not any(job.least for job in trace.jobs):
        raise InputError(
            "lines with pods are for elastic jobs, and no job of the trace has a least number of pods",
            Where(file=str(path)),
        )
    table = SpeedTable(
        {key: tuple(sorted(rows.items(), reverse=True)) for key, rows in found.items()},
        {key: tuple(sorted(rows.items())) for key, rows in curves.items()},
    )
    _check(table, models, kinds, path)
    return table


def _check(table: SpeedTable, models: Iterable[str], kinds: Iterable[str], path: Path) -> None:
    if not table.speeds:
        return  # lines with pods alone leave the speeds as they are in the trace
    for kind in sorted(kinds):
        for model in sorted(models):
            if table.rows(kind, model) is None:
                what = f"jobs of the kind {kind!r:.80}" if kind else "jobs without a kind"
                raise InputError(
                    f"no speed for {what} on {model or 'GPUs without a model'}; expected a line for it, or one with an empty model",
                    Where(file=str(path)),
                )


def _row(fields: LineFields) -> _Row:
    speed = round(fields.number("speed", least=1 / WHOLE) * WHOLE)
    if not 1 <= speed <= FASTEST * WHOLE:
        raise BrokenLine(
            f"{fields.label('speed')} is {fields.text('speed')!r:.80}; expected a number from 0.001 to {FASTEST}"
        )
    pods = fields.whole("pods", 0)
    if pods and fields.text("nodes"):
        raise BrokenLine(
            f"{fields.label('pods')} is {pods} and {fields.label('nodes')} is {fields.text('nodes')!r:.80}; expected one of the two"
        )
    return _Row(fields.text("kind"), fields.text("model"), fields.whole("nodes", 1, least=1), pods, speed)
