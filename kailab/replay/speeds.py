"""Speeds of jobs by GPU model and by how a job is spread over nodes, from a CSV file.

The columns are ``model`` (empty: any other), ``nodes`` (the least number of nodes that the job's pods are on; empty: 1),
``speed`` (relative to the run time in the trace) and optionally ``kind`` (of jobs, as in the trace; empty: any other).

Source: Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads", OSDI 2020, whose
simulator has a throughput for each kind of job and GPU model, consolidated or not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from kailab.errors import InputError, Where
from kailab.fleet import Fleet
from kailab.lab.seen_names import describe_names
from kailab.replay.job import WHOLE
from kailab.replay.readers.lines import BrokenLine, LineFields, read_table
from kailab.replay.trace import Trace

COLUMNS = ("model", "nodes", "speed")
FASTEST = 1000
"""Speeds are in thousandths of the trace's: from 0.001 to this."""


class _Row(NamedTuple):
    kind: str
    model: str
    nodes: int
    speed: int


class SpeedTable(NamedTuple):
    """``speeds``: (kind, model) -> (least number of nodes, speed in thousandths), most nodes first."""

    speeds: Mapping[tuple[str, str], tuple[tuple[int, int], ...]]

    def of(self, kind: str, models: Collection[str], nodes: int) -> int:
        """The speed in thousandths of a job with pods on ``nodes`` nodes with GPUs of ``models``: that of the slowest,
        because pods of one job wait for each other.

        >>> table = SpeedTable({("", "A100"): ((2, 800), (1, 1000)), ("", ""): ((1, 500),)})
        >>> table.of("", ["A100"], 1), table.of("", ["A100"], 3), table.of("", ["A100", "T4"], 3)
        (1000, 800, 500)
        """
        return min(self._one(kind, model, nodes) for model in models)

    def _one(self, kind: str, model: str, nodes: int) -> int:
        rows = self.rows(kind, model)
        assert rows is not None, "checked when the file was read"
        return next((speed for least, speed in rows if nodes >= least), rows[-1][1])

    def rows(self, kind: str, model: str) -> tuple[tuple[int, int], ...] | None:
        """The rows of the job's kind before those of any other, and of its model before those of any other."""
        keys = ((kind, model), (kind, ""), ("", model), ("", ""))
        return next((self.speeds[key] for key in keys if key in self.speeds), None)


def read_speeds(path: Path, fleet: Fleet, trace: Trace) -> SpeedTable:
    """Read the file. Raises InputError for a line that can't be read, a model or a kind that is not there, the same row
    twice, and a job and a model of the fleet without a speed."""
    models = {pool.gpu_model for pool in fleet.pools if pool.gpus}
    kinds = {job.kind for job in trace.jobs}
    found: dict[tuple[str, str], dict[int, int]] = {}
    for where, row in read_table(path, COLUMNS, "speeds of jobs", _row):
        for name, known, what in ((row.model, models, "GPU model"), (row.kind, kinds, "kind of jobs")):
            if name and name not in known:
                raise InputError(f"no {what} {name!r:.80}; {describe_names(known - {''}, name)}", where)
        rows = found.setdefault((row.kind, row.model), {})
        if row.nodes in rows:
            raise InputError("the same kind, model and nodes as in a line before; expected each once", where)
        rows[row.nodes] = row.speed
    table = SpeedTable({key: tuple(sorted(rows.items(), reverse=True)) for key, rows in found.items()})
    _check(table, models, kinds, path)
    return table


def _check(table: SpeedTable, models: Iterable[str], kinds: Iterable[str], path: Path) -> None:
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
    nodes = fields.whole("nodes", 1, least=1)
    return _Row(fields.text("kind"), fields.text("model"), nodes, speed)
