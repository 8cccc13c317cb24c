"""Fair shares by a user's policy: its answers replace the queues' priorities and over-quota weights; the engine still
divides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from kailab.engine.policies.contract import QueueShares, make_policy
from kailab.engine.policies.job_orders import JobViews, call_policy, is_finite, quoted_answer, wrong_answer
from kailab.engine.policies.settings import PolicyChoice
from kailab.engine.policies.views import JobView, QueueView, Resources
from kailab.engine.snapshot.records import Queue, ResourceShare
from kailab.engine.working.queues import WQueue

if TYPE_CHECKING:
    from kailab.engine.policies.session_contract import PolicySession
    from kailab.engine.working.state import Job


def queues_for_division(session: PolicySession) -> Sequence[Queue]:
    """The queues among which this cycle divides, as they are or as a policy changes them. Their amounts must be known.
    Raises PolicyError.
    """
    choice = session.config.queue_shares_policy
    records = list(session.working.queues.values())
    return records if choice is None else _ChosenShares(session, choice).of(records)


class _ChosenShares:
    """Calls a ``QueueShares`` in one cycle."""

    def __init__(self, session: PolicySession, choice: PolicyChoice) -> None:
        self._session = session
        self._choice = choice
        self._policy = make_policy(choice, QueueShares)
        self._views: JobViews | None = None
        self._jobs: dict[str, list[Job]] | None = None
        self._beside: dict[str, int] = {}
        for queue in session.tree.queues.values():
            self._beside[queue.record.parent] = self._beside.get(queue.record.parent, 0) + any(queue.request)

    def of(self, records: Sequence[Queue]) -> list[Queue]:
        """The changed queues, in their order. Queues that ask for nothing take no part in any division."""
        queues = self._session.tree.queues
        answers = {
            record.name: self._ask(queues[record.name]) for record in records if any(queues[record.name].request)
        }
        # A queue priority is a whole number, so bands are numbered.
        ranks = {band: rank for rank, band in enumerate(sorted({band for band, _ in answers.values()}))}
        return [
            _with(record, ranks[answers[record.name][0]], answers[record.name][1]) if record.name in answers else record
            for record in records
        ]

    def _ask(self, queue: WQueue) -> tuple[float, float]:
        view = QueueView(
            queue=queue.record,
            holds=Resources(*queue.allocated),
            requested=Resources(*queue.request),
            beside=self._beside[queue.record.parent],
            total=Resources(*map(int, self._session.tree.totals)),
            now=self._session.now,
            look_at_jobs=lambda: self._jobs_of(queue),
        )
        about = f"queue {queue.name}"
        answer = call_policy(self._choice, "weight", about, lambda: self._policy.weight(view))
        parts = answer if isinstance(answer, tuple) else (float(queue.record.priority), answer)
        if len(parts) != 2 or not all(map(is_finite, parts)) or parts[1] < 0:
            raise wrong_answer(
                self._choice, "weight", about, quoted_answer(answer), "a number from 0 on, or a band and such a number"
            )
        return float(parts[0]), float(parts[1])

    def _jobs_of(self, queue: WQueue) -> tuple[JobView, ...]:
        if self._jobs is None or self._views is None:
            self._views, self._jobs = JobViews(self._session, divided=False), {}
            for job in self._session.jobs.values():
                own = self._session.queue_of(job)
                for level in () if own is None else own.path:
                    self._jobs.setdefault(level.name, []).append(job)
        views = map(self._views.of, self._jobs.get(queue.name, ()))
        return tuple(view for view in views if any(view.holds) or any(view.wants))


def _with(queue: Queue, priority: int, weight: float) -> Queue:
    def of(share: ResourceShare) -> ResourceShare:
        return structs.replace(share, weight=weight if share.weight else 0)

    return structs.replace(queue, priority=priority, gpu=of(queue.gpu), cpu=of(queue.cpu), memory=of(queue.memory))
