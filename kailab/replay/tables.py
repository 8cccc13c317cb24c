"""Write a replay as tables, jobs and timeline: CSV, or Parquet if pyarrow is installed."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from kailab.errors import InputError
from kailab.evidence.run import write_file
from kailab.model.optional_imports import import_optional
from kailab.replay.readers.lines import FORMULA_SIGNS, is_number
from kailab.replay.run import CompletedReplay

JOBS = (
    "name", "team", "queue", "line", "gpu_milli", "pods", "run_seconds", "arrived", "began", "ended", "waited", "evictions",
    "lost_gpu_milli_seconds",
)  # fmt: skip
TIMELINE = ("seconds", "held_gpu_milli", "waiting_jobs", "running_jobs")
_FORMS = (".csv", ".parquet")


def check_table_target(path: Path) -> None:
    """Check before a replay that a table can be written to ``path``. Raises InputError."""
    if path.suffix not in _FORMS:
        raise InputError(f"{path}: expected a file name that ends in {' or '.join(_FORMS)}")
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {path.parent} does not exist")
    if path.suffix == ".parquet":
        _pyarrow(path)


def marked(path: Path, faults: Sequence[str]) -> Path:
    """Where a table goes: ``path``, or for a replay with ``faults`` a name that nobody takes for sound figures.

    >>> str(marked(Path("out/jobs.csv"), [])), str(marked(Path("out/jobs.csv"), ["held 1 is not done 2"]))
    ('out/jobs.csv', 'out/jobs.unbalanced.csv')
    """
    return path.with_name(f"{path.stem}.unbalanced{path.suffix}") if faults else path


def job_rows(replayed: CompletedReplay) -> Iterable[tuple[Any, ...]]:
    """One row for each job, by arrival. Times are seconds after the first arrival, or None."""
    zero = replayed.began
    for work in replayed.accounts.works.values():
        began = None if work.began is None else work.began - zero
        ended = None if work.ended is None else work.ended - zero
        waited = None if work.began is None else work.began - work.arrived
        job = work.job
        yield (
            job.name, job.team, work.queue, job.line, job.milli, work.pods, job.seconds, work.arrived - zero, began, ended,
            waited, work.evictions, work.lost,
        )  # fmt: skip


def timeline_rows(replayed: CompletedReplay) -> Iterable[tuple[int, int, int, int]]:
    """One row for each change of state. A row is valid until the next one."""
    for at, held, waiting, running in replayed.accounts.timeline:
        yield at - replayed.began, held, waiting, running


def write_table_file(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a table in the format of the file's suffix, atomically. Raises InputError."""
    content = _parquet(path, columns, list(rows)) if path.suffix == ".parquet" else _csv(columns, rows)
    write_file(path, content)


def _csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_plain, columns))
    writer.writerows(map(_plain, row) for row in rows)
    return text.getvalue().encode()


def _plain(cell: Any) -> Any:
    """Prefix text that a spreadsheet would evaluate as a formula with an apostrophe: names come from the author of the
    trace."""
    if not isinstance(cell, str) or not cell.startswith(FORMULA_SIGNS) or is_number(cell):
        return cell
    return f"'{cell}"


def _parquet(path: Path, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> bytes:
    arrow, parquet = _pyarrow(path)
    table = arrow.table({name: [row[index] for row in rows] for index, name in enumerate(columns)})
    sink = arrow.BufferOutputStream()
    parquet.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def _pyarrow(path: Path) -> tuple[Any, Any]:
    need = f"{path}: Parquet needs pyarrow"
    return import_optional("pyarrow", "parquet", need), import_optional("pyarrow.parquet", "parquet", need)
