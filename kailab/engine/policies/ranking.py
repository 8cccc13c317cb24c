"""The order of jobs if something other than KAI's order is configured.

A ``Ranking`` is attached to the jobs of a working set for one cycle; ``Job.order_key`` and ``Job.victim_key`` then call
it. The key of a waiting job consists of: long waiting (``aged_after``); the weighted score, or the comparisons of KAI's
job order plugins in their order; age; UID.

*Aged* jobs (waiting for ``aged_after`` or longer) come before all others of their queue, the longest wait first.
Waiting ends with the start and begins again with an eviction. Having started does not protect a job; a minimum runtime
does.

Between queues, an aged job, or with scope "cluster" the better score, decides only if KAI's first two criteria (above
its fair share in every resource? within its quota?) are equal for both, so quotas stay guaranteed.

The serving order and the permission to evict must agree, or two jobs would evict each other forever. So of the jobs
that KAI lets it evict, a job evicts only those that would come after it if they waited again. A reclaimer within its
quota takes back whatever KAI allows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kailab.engine.config import EngineConfig
from kailab.engine.decisions import Numbers
from kailab.engine.policies.contract import JobOrder, QueueShares, make_policy
from kailab.engine.policies.job_orders import ChosenOrder, ChosenVictims
from kailab.engine.policies.switches import JOB_ORDER
from kailab.engine.policies.weighted_score import Score, Scores, has_its_turn, waiting_since
from kailab.engine.working.jobindex import JobIndex
from kailab.engine.working.order_criteria import JobCriterion
from kailab.engine.working.queues import Amounts, WQueue
from kailab.engine.working.state import Job
from kailab.errors import PolicyError

if TYPE_CHECKING:
    from kailab.engine.policies.session_contract import PolicySession

Key = tuple[Any, ...]


class Ranking:
    """The job order of one cycle. ``scores`` is None without a weighted order."""

    def __init__(self, session: PolicySession) -> None:
        config, switches = session.config, session.switches
        self.subgroup_order = switches.subgroup_order
        self._session = session
        self._now = session.now
        self._parts = switches.job_order
        self._aged_after = config.aged_after
        self._newest_lowest = config.victim_order == "priority"
        order, victims = config.job_order_policy, config.victim_order_policy
        self.chosen = None if order is None else ChosenOrder(session, order)
        self._order_choice = order
        self._victims = None if victims is None else ChosenVictims(session, victims)
        self._everywhere = config.weighted_order is not None and config.weighted_order.scope == "cluster"
        self._since: dict[str, float | None] = {}
        self.scores = None if config.weighted_order is None else Scores(session, config.weighted_order)
        self._weights = config.weighted_order

    @property
    def victims_as_kai(self) -> bool:
        """True if ``victim_key`` gives KAI's keys, by which the working set's index is sorted already."""
        return self._parts == JOB_ORDER and not self._newest_lowest and self._victims is None

    # Keys

    def order_key(self, job: Job) -> Key:
        """Serving order: the smallest first."""
        state = job.elastic_state()
        own: Key
        if self.scores is not None:
            own = (-self.scores.total(job), state)
        elif self.chosen is not None:
            own = (self.chosen.key(job), *self._plugin_key(job.record.priority, state))
        else:
            own = self._plugin_key(job.record.priority, state)
        if self._aged_after is not None:
            since = self.aged_since(job)
            # The longest wait comes first among the aged; this part is equal for all others.
            own = ((1, 0.0) if since is None else (0, since), *own)
        return (*own, job.record.created, job.uid)

    def victim_key(self, job: Job, state: int) -> Key:
        """Eviction order: the largest first."""
        record = job.record
        if self._newest_lowest or self._victims is not None:
            worth = () if self._victims is None else (self._victims.worth(job),)
            # A job without a recorded start counts by its creation.
            started = record.created if job.last_start is None else job.last_start
            return (*worth, -record.priority, started, record.created, record.uid)
        return (*self._plugin_key(record.priority, state), record.created, record.uid)

    def _plugin_key(self, priority: int, state: int) -> Key:
        return tuple(-priority if part == "priority" else state for part in self._parts)

    @property
    def criteria(self) -> tuple[JobCriterion, ...]:
        """The criteria behind the parts of ``order_key``."""
        if self.scores is not None:
            own: tuple[JobCriterion, ...] = (JobCriterion.SCORE, JobCriterion.MINIMUM)
        else:
            own = tuple(JobCriterion.PRIORITY if part == "priority" else JobCriterion.MINIMUM for part in self._parts)
            if self.chosen is not None:
                own = (JobCriterion.POLICY, *own)
        aged = () if self._aged_after is None else (JobCriterion.AGED,)
        return (*aged, *own, JobCriterion.AGE, JobCriterion.UID)

    def aged_since(self, job: Job) -> float | None:
        """When the wait of an aged job began. None for other jobs, and for a job that was placed in this cycle."""
        if self._aged_after is None or has_its_turn(job):
            return None
        if job.uid not in self._since:
            since = waiting_since(job)
            if since is not None and self._now - since < self._aged_after:
                # No event starts a cycle at that moment, so the ledger asks for one.
                self._session.ledger.wake(since + self._aged_after)
                since = None
            self._since[job.uid] = since
        return self._since[job.uid]

    # Between queues

    @property
    def between_queues(self) -> bool:
        return self._aged_after is not None or self._everywhere

    def first(self, left: WQueue, right: WQueue, left_job: Job, right_job: Job) -> int:
        """-1 if ``left`` is served first because of its next job, 1 if ``right`` is, 0 if KAI's queue order decides."""
        # KAI's first two criteria decide, because they guarantee quotas.
        if self._share_and_quota(left, left_job) != self._share_and_quota(right, right_job):
            return 0
        if self._aged_after is not None:
            mine, theirs = self._aged_key(left_job), self._aged_key(right_job)
            if mine != theirs:
                return -1 if mine < theirs else 1
        if self._everywhere and self.scores is not None:
            ours, others = self.scores.total(left_job), self.scores.total(right_job)
            if ours != others:
                return -1 if ours > others else 1
        return 0

    def criterion(self, left_job: Job, right_job: Job) -> JobCriterion:
        """The criterion of ``first``, if it decided."""
        aged = self._aged_after is not None and self._aged_key(left_job) != self._aged_key(right_job)
        return JobCriterion.AGED if aged else JobCriterion.SCORE

    def taken(self, queue: WQueue, amounts: Amounts, sign: int) -> None:
        """No effect: this order is for waiting jobs."""

    def _share_and_quota(self, queue: WQueue, job: Job) -> tuple[bool, bool]:
        return queue.over_fair_share(), queue.within_quota_with(self._session.wanted(job))

    def _aged_key(self, job: Job) -> tuple[int, float]:
        since = self.aged_since(job)
        return (1, 0.0) if since is None else (0, since)

    # Who may evict whom

    def may_preempt(self, job: Job, victim: Job) -> bool:
        """True if ``job`` would be served before the victim if the victim waited again."""
        # An aged job comes before all others of its queue, whatever their score or key.
        if self.aged_since(job) is not None:
            return True
        if self.chosen is not None:
            return self._comes_before(self.chosen, job, victim)
        if self.scores is None:
            return True
        return self._reaches(self.scores, job, self.scores.anew(victim))

    def may_reclaim(self, job: Job, victim: Job) -> bool:
        # Only a score between queues could return the place at once.
        if not self._everywhere or self.scores is None or self.aged_since(job) is not None:
            return True
        home, queue = self._session.queue_of(job), self._session.queue_of(victim)
        if home is None or queue is None:
            return True
        mine, _ = self._session.tree.diverging_ancestors(home, queue)
        if mine.within_quota_with(self._session.wanted(job)):
            return True
        return self._reaches(self.scores, job, self.scores.anew(victim, bereft=True))

    def _reaches(self, scores: Scores, job: Job, needed: float) -> bool:
        """True if the job's score is at least ``needed``. If waiting alone will raise it, a cycle is due then."""
        if scores.total(job) >= needed:
            return True
        at = scores.reached_at(job, needed)
        if at is not None:
            self._session.ledger.wake(at)
        return False

    def _comes_before(self, order: ChosenOrder, job: Job, victim: Job) -> bool:
        """True if the job's key comes before the victim's. If time can change that, a cycle is due at the next refresh."""
        # Equal is enough, because KAI's priorities allow the eviction already.
        if order.key(job) <= order.anew(victim):
            return True
        if order.refresh is not None:
            self._session.ledger.wake(self._now + order.refresh)
        return False

    # Reports

    def numbers(self, job: Job) -> Numbers:
        """The score and wait of a waiting job, if they decide."""
        numbers: Numbers = {}
        if self.scores is not None and self._weights is not None:
            score: Score = self.scores.of(job)
            weights = self._weights
            numbers["score"] = {
                "total": score.total,
                "priority": [score.priority, weights.priority],
                "waiting": [score.waiting, weights.waiting],
                "efficiency": [score.efficiency, weights.efficiency],
                "fairness": [score.fairness, weights.fairness],
            }
        if self.chosen is not None and self._order_choice is not None:
            numbers["policy"] = {"name": self._order_choice.name, "key": list(self.chosen.key(job))}
        since = self.aged_since(job)
        if since is not None:
            numbers["aged_since"] = since
        return numbers


def attach(session: PolicySession) -> Ranking | None:
    """Order the working set's jobs as configured until ``detach``. None if that is KAI's order.

    Each cycle computes the keys of all waiting jobs again if they depend on time or on other jobs. Victims are ordered
    only in cycles that search for some.
    """
    config = session.config
    if (
        session.switches.kai_order
        and config.weighted_order is None
        and config.aged_after is None
        and config.victim_order == "queue"
        and config.job_order_policy is None
        and config.victim_order_policy is None
    ):
        return None
    ranking = Ranking(session)
    _rank_by(session, ranking)
    try:
        # The working set's own index stays in KAI's order, for the next cycle.
        session.waiting = _ranked_waiting(session, ranking)
        if not ranking.victims_as_kai:
            session.victims = JobIndex("victims", session.victims)
    except PolicyError:
        detach(session)
        raise
    return ranking


def _ranked_waiting(session: PolicySession, ranking: Ranking) -> JobIndex:
    """The waiting jobs in the configured order. Kept by the working set if keys are lasting."""
    config = session.config
    if ranking.chosen is not None and ranking.chosen.lasting and config.aged_after is None:
        # All that such keys are made of, beside the jobs themselves.
        made_of = (config.job_order_policy, session.switches.job_order, session.table.min_gpu_memory)
        return session.working.waiting_ranked(made_of)
    waiting = JobIndex("waiting")
    waiting.fill(session.waiting.jobs())
    return waiting


def detach(session: PolicySession) -> None:
    """Return to KAI's order."""
    # Otherwise the cycle's sorted lists would live until garbage collection, thousands of entries each time.
    session.waiting, session.victims = session.working.waiting, session.working.victims
    _rank_by(session, None)


def _rank_by(session: PolicySession, ranking: Ranking | None) -> None:
    """Set the ranking of all jobs. Cached tasks are dropped only if the order of a job's tasks changes."""
    session.working.order.ranking = ranking
    plain_tasks, by_name = not session.switches.task_order, not session.switches.subgroup_order
    if not (plain_tasks or by_name):
        return
    for job in session.jobs.values():
        if plain_tasks or by_name:
            job.version += 1
        if plain_tasks:
            for task in job.tasks.values():
                task.key = task.natural_key() if ranking is None else (1, 0, task.record.created, task.uid)


def order_holds(config: EngineConfig) -> float | None:
    """Seconds for which the order of waiting jobs and the shares of queues stay valid. None: time does not change them."""
    holds = config.weighted_order.holds if config.weighted_order is not None else None
    if config.job_order_policy is not None:
        holds = make_policy(config.job_order_policy, JobOrder).refresh
    if config.queue_shares_policy is not None:
        shares = make_policy(config.queue_shares_policy, QueueShares).refresh
        holds = min((seconds for seconds in (holds, shares) if seconds is not None), default=None)
    return holds
