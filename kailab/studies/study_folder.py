"""The folder of a study: a file for each completed run, written atomically, and the table of all runs.

STUDIES/NAME/runs/KEY.json
STUDIES/NAME/results.csv
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from kailab.cluster.embedded.storage.state_file import StateLock
from kailab.errors import StateError, os_errors_as
from kailab.model.files import file_bytes
from kailab.model.private_files import make_folder, replace_file
from kailab.replay import tables
from kailab.studies.measures import MEASURES, OF_FLEET, RunResult
from kailab.studies.study import Study, StudyRun, format_option

TABLE = "results.csv"


class StudyFolder:
    def __init__(self, root: Path, name: str) -> None:
        self.path = root / name
        self._runs = self.path / "runs"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder, so that one process uses it at a time. Raises StateError."""
        with os_errors_as(StateError, f"{self._runs}: cannot create the folder"):
            make_folder(self._runs)
        with StateLock(self.path / "study"):
            yield

    def result(self, run: StudyRun) -> RunResult | None:
        """The stored result of a run, or None. Raises StateError."""
        path = self._file(run)
        try:
            return msgspec.json.decode(file_bytes(path), type=RunResult)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise StateError(f"{path} is not a result of a run: {error}; delete it to repeat the run") from error

    def keep(self, run: StudyRun, result: RunResult) -> None:
        """Store the result of a run. Raises StateError."""
        path = self._file(run)
        with os_errors_as(StateError, f"{path}: cannot write the file"):
            replace_file(path, msgspec.json.encode(result, order="sorted") + b"\n")

    def _file(self, run: StudyRun) -> Path:
        return self._runs / f"{run.key}.json"


def columns(study: Study) -> list[str]:
    """Columns of the table: varied options, seed, queue, measures."""
    return [*study.grid, "seed", "queue", *MEASURES, *OF_FLEET]


def rows(study: Study, runs: Sequence[StudyRun], results: Mapping[str, RunResult]) -> Iterator[list[Any]]:
    """Rows in the order of the study, not of completion."""
    for run in runs:
        for row in results[run.key].rows:
            setting = [format_option(run.setting[name]) for name in study.grid]
            yield [*setting, run.seed, row["queue"], *(row[name] for name in (*MEASURES, *OF_FLEET))]


def write_table(path: Path, study: Study, runs: Sequence[StudyRun], results: Mapping[str, RunResult]) -> None:
    """Write CSV, or Parquet for that suffix. Raises InputError."""
    tables.write_table_file(path, columns(study), rows(study, runs, results))
