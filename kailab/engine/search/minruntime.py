"""Minimum runtimes: a job that started less than its queue's minimum runtime ago is no victim.

Elastic jobs may still lose their surplus. For reclaim, the value is read at the level where the two queues part (or, if
configured, at the victim's queue); for preempt, at the victim's queue. Both go up the tree until a value is set.
Source: KAI's minruntime plugin.
"""

from __future__ import annotations

from kailab.engine.session import Session
from kailab.engine.working.queues import WQueue
from kailab.engine.working.state import Job, WTask


class MinRuntime:
    def __init__(self, session: Session) -> None:
        self.session = session
        self._preempt: dict[str, float] = {}
        self._reclaim: dict[tuple[str, str], float] = {}

    def reclaim_protects(self, pending: WQueue, victim: Job) -> bool:
        return self.reclaim_until(pending, victim) is not None

    def reclaim_until(self, pending: WQueue, victim: Job) -> float | None:
        """The end of the victim's protection from jobs of queue ``pending``; None without protection."""
        queue = self.session.queue_of(victim)
        return None if queue is None else self._until(victim, self.reclaim_runtime(pending, queue))

    def reclaim_runtime(self, pending: WQueue, queue: WQueue) -> float:
        """For how many seconds after its start a job of ``queue`` is protected from jobs of ``pending``."""
        if not self.session.switches.min_runtime:
            return 0.0
        key = (pending.name, queue.name)
        runtime = self._reclaim.get(key)
        if runtime is None:
            runtime = self._reclaim[key] = self._resolve_reclaim(pending, queue)
        return runtime

    def preempt_protects(self, victim: Job) -> bool:
        return self.preempt_until(victim) is not None

    def preempt_until(self, victim: Job) -> float | None:
        """The end of the victim's protection from jobs of its own queue; None without protection."""
        queue = self.session.queue_of(victim)
        if queue is None:
            return None
        runtime = self._preempt.get(queue.name)
        if runtime is None:
            runtime = self.session.config.preempt_min_runtime
            # The nearest value counts, from the queue itself upwards.
            for level in queue.path:
                if level.record.preempt_min_runtime is not None:
                    runtime = level.record.preempt_min_runtime
                    break
            self._preempt[queue.name] = runtime
        return self._until(victim, runtime)

    def _until(self, victim: Job, runtime: float) -> float | None:
        if victim.last_start is None or runtime <= 0 or not self.session.switches.min_runtime:
            return None
        until = victim.last_start + runtime
        if self.session.now >= until:
            return None
        # No event starts a cycle when the protection ends, so the ledger asks for one.
        self.session.ledger.wake(until)
        return until

    def _resolve_reclaim(self, pending: WQueue, victim: WQueue) -> float:
        default = self.session.config.reclaim_min_runtime
        levels = victim.path
        if self.session.config.reclaim_resolve == "lca":
            mine, theirs = list(reversed(pending.path)), list(reversed(victim.path))
            # Root queues have no common ancestor; KAI treats them as siblings and reads only the victim's root queue
            # (resolver.go).
            if mine[0] is not theirs[0]:
                own = theirs[0].record.reclaim_min_runtime
                return default if own is None else own
            common = 0
            for i, (left, right) in enumerate(zip(mine, theirs, strict=False)):
                if left is not right:
                    break
                common = i
            # One step down from the common ancestor on the victim's side: the queue that protects it from the other
            # side.
            start = common + 1 if common + 1 < len(theirs) else common
            levels = list(reversed(theirs[: start + 1]))
        for level in levels:
            if level.record.reclaim_min_runtime is not None:
                return level.record.reclaim_min_runtime
        return default


def keeps_minimum(job: Job, victims: list[WTask]) -> bool:
    """True if a protected elastic job would lose only surplus."""
    lost: dict[int, int] = {}
    for task in victims:
        lost[id(task.podset)] = lost.get(id(task.podset), 0) + 1
    return all(podset.minimum <= podset.used - lost.get(id(podset), 0) for podset in job.podsets if id(podset) in lost)
