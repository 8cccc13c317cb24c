"""Failed searches of reclaim that stand for those of jobs which want the same when their queue has the same turn.

Jobs of which some pods run are not skipped as jobs that failed before (``signatures``), because differently many of their pods
wait, although the search is for the same next pod. A set of victims fails for the later one of two such jobs as it did for the
earlier one if no job from the one to the other in their queue wants anything else: none of these is placed in the simulation, so
the queue has its turns for both at the same moment.

Only cycles that try a change on a fork share searches (``searches_shared``). A search that fails may leave domains of a
topology in another order and other numbers in the names of shared devices, and the decisions of a scheduler depend on both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from kailab.engine.session import Session
from kailab.engine.working.state import Job, ShapeInfo, WTask

_Kind = tuple[ShapeInfo, str, bool, int, bool]

_SHARED: ContextVar[bool] = ContextVar("searches_shared", default=False)


@contextmanager
def searches_shared() -> Iterator[None]:
    """Share searches in the cycles of this block: a change is tried there on a fork."""
    before = _SHARED.set(True)
    try:
        yield
    finally:
        _SHARED.reset(before)


class AlikeSearches:
    """The failed searches of one action of a cycle, by what was asked for."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._on = (
            _SHARED.get()
            and session.ranking is None
            and not session.imitated
            and not session.config.search_budget.bounded
            and session.config.max_taken_ratio is None
        )
        self._failed: dict[_Kind, tuple[int, Job, str]] = {}

    def outcome(self, job: Job, tasks: list[WTask]) -> str | None:
        """The outcome of an earlier search that is also that of a search for this job; None if it has to be made."""
        if not self._on or (kind := self._kind(job, tasks)) is None or kind not in self._failed:
            return None
        commits, failed, outcome = self._failed[kind]
        return outcome if commits == self._session.commits and self._same_turn(failed, job) else None

    def add(self, job: Job, tasks: list[WTask], outcome: str) -> None:
        """Remember a search in which no set of victims made room."""
        if self._on and (kind := self._kind(job, tasks)) is not None:
            self._failed[kind] = self._session.commits, job, outcome

    @staticmethod
    def _kind(job: Job, tasks: list[WTask]) -> _Kind | None:
        """Equal for jobs whose next pod is placed alike. None for jobs that place several at once, or whose own pods matter for it."""
        if len(tasks) != 1 or len(job.podsets) != 1 or job.root.constraint is not None:
            return None
        [task], [podset] = tasks, job.podsets
        info = task.info
        if (
            podset.constraint is not None
            or not info.plain
            or info.requires_pods
            or info.prefers_pods
            or info.shape.ports
        ):
            return None
        record = job.record
        return info, record.queue, record.preemptible, record.priority, any(each.info.cpu_only for each in job)

    def _same_turn(self, failed: Job, job: Job) -> bool:
        """True if all jobs from one to the other in their queue want the same."""
        line = [each for _, each in self._session.waiting.lists.get(job.record.queue, ())]
        if failed not in line or job not in line:
            return False
        between = line[line.index(failed) : line.index(job) + 1]
        return bool(between) and len({self._session.wanted(each) for each in between}) == 1
