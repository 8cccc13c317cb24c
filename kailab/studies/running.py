"""Runs carried out, here or on Dask, but for those that are done already; each is kept as it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kailab.cluster.processes import processors
from kailab.studies.daskcluster import run_on_dask
from kailab.studies.keeping import StudyFolder
from kailab.studies.measuring import Result
from kailab.studies.processes import run_here
from kailab.studies.study import Run

Progress = Callable[[str, int, int], None]


class Runner:
    """Of one study's folder, which is held. ``before``: runs asked for that were done before; ``replayed``: those done now."""

    def __init__(
        self,
        folder: StudyFolder,
        *,
        workers: int | None = None,
        dask: str = "",
        progress: Progress = lambda what, done, total: None,
    ) -> None:
        self._folder = folder
        self._workers = workers
        self._dask = dask
        self._progress = progress
        self.before = 0
        self.replayed = 0

    def results(self, runs: Sequence[Run]) -> Mapping[str, Result]:
        """By key. A run that failed before is done again. Raises StateError, ConnectError: then what is done stays done."""
        results = {
            run.key: found for run in runs if (found := self._folder.result(run)) is not None and not found.error
        }
        self.before += sum(run.key in results for run in runs)
        left = list({run.key: run for run in runs if run.key not in results}.values())
        wanted = len(results) + len(left)

        def done(run: Run, result: Result) -> None:
            self._folder.keep(run, result)
            results[run.key] = result
            self.replayed += 1
            self._progress("running", len(results), wanted)

        self._progress("running", len(results), wanted)
        if left and self._dask:
            run_on_dask(self._dask, left, done)
        elif left:
            run_here(left, min(self._workers or processors(), len(left)), done)
        return results
