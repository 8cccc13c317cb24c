"""The scheduling loop: mirror, cycle, carry out, report. It keeps soft state only; the cluster's objects hold the
rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext

import msgspec

from kailab.cluster.protocol import Cluster
from kailab.engine.config import EngineConfig
from kailab.engine.cycle import repeat_cycle, run_cycle
from kailab.engine.decisions import Decisions, Pending
from kailab.engine.policies.orders import call_policy
from kailab.engine.policies.ranking import order_holds
from kailab.engine.snapshot.changes import Follower
from kailab.engine.snapshot.snapshot import Snapshot
from kailab.errors import PolicyError
from kailab.model.labels import SCHEDULER_NAME
from kailab.policies.catalogue import SHIPPED
from kailab.scheduler.binding.execution import DecisionExecutor
from kailab.scheduler.binding.preparation import Preparation
from kailab.scheduler.cycle_record import CycleHistory, CycleRecord, name_decisions
from kailab.scheduler.mirror import Mirror
from kailab.scheduler.observers import Observer
from kailab.scheduler.policy_timeouts import WATCHDOG
from kailab.scheduler.reading.podgroups import DEFAULT_NODE_POOL
from kailab.scheduler.scheduling_state import SchedulingState, read_scheduling_state
from kailab.scheduler.settings.policies import chosen_policies, with_policies
from kailab.scheduler.status.reporting import StatusReporter, starts_always_matter
from kailab.scheduler.usage import UsageHistory, UsageParams


class Scheduler:
    """kailab's scheduler over a cluster.

    ``observer`` is told the phases of each cycle as they begin, and each cycle that ran. ``usage``: how past use counts, where
    ``config.k_value`` is above 0. ``scheduler_names``: the ``schedulerName`` of pods that are its to place. ``preparations``: what is to be in place on a
    node before a pod is bound to it; they are stepped by whoever steps the scheduler. ``sparing``: where writes are dear, those
    that nobody would read are left out: an event that says what another one says, the start of work while no queue protects
    it by a min-runtime and no policy ranks by it. ``ahead``: the next cycle is decided while the binds of the last one are under
    way, where the cluster can do that (``AsyncWrites``); what is being bound counts as bound.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: EngineConfig | None = None,
        observer: Observer | None = None,
        *,
        usage: UsageParams | None = None,
        scheduler_names: Iterable[str] = (SCHEDULER_NAME,),
        node_pool: str = DEFAULT_NODE_POOL,
        preparations: Sequence[Preparation] = (),
        sparing: bool = False,
        ahead: bool = False,
    ) -> None:
        self.config = with_policies(config or EngineConfig())
        self._order_holds = order_holds(self.config)
        self._policies_of_others = any(choice.name not in SHIPPED for choice in chosen_policies(self.config))
        self.mirror = Mirror(cluster, scheduler_names, node_pool)
        self.history = CycleHistory()
        self.cycles = 0
        self._cluster = cluster
        self._observer = observer or Observer()
        self._carrier = DecisionExecutor(cluster, self.mirror, self.config.checkpoint, preparations, sparing, ahead)
        self._reporter = StatusReporter(cluster, self.mirror, self._starts_matter if sparing else starts_always_matter)
        self._usage = UsageHistory.load(cluster, usage or UsageParams()) if self.config.k_value > 0 else None
        # No version of the working set: the first step runs a cycle in any case.
        self._seen = -1
        self._promised: tuple[str, ...] = ()
        self._refused: frozenset[str] = frozenset()
        self._retry = False
        self._wake_at: float | None = None
        self._follower: Follower | None = None

    # --- what has been decided ---------------------------------------------------------------------------------------

    @property
    def decisions(self) -> Decisions | None:
        """Of the latest cycle."""
        latest = self.history.latest
        return latest.decisions if latest else None

    @property
    def wake_at(self) -> float | None:
        """The earliest time at which a cycle could decide differently though nothing else changes; None: never."""
        # Each of these is a time that no watch will tell of.
        moments = [self._wake_at, self.mirror.stuck_at, self._carrier.retry_at, self._reporter.retry_at]
        if self._usage is not None:
            moments.append(self._usage.next_refresh)
        return min((moment for moment in moments if moment is not None), default=None)

    def retry_at(self, since: float) -> float | None:
        """When a bind or an eviction that failed is tried again; None where none was left out since ``since``, or all failed too
        often to be waited for."""
        return self._carrier.due_since(since)

    @property
    def unreachable(self) -> bool:
        """Whether the latest cycle had to leave something undone because the server did not answer."""
        return self._retry

    @property
    def past_usage(self) -> Mapping[str, Mapping[str, float]] | None:
        """Queue -> resource -> part of the cluster it used, where past use counts; None where it does not."""
        return None if self._usage is None else self._usage.latest

    def last_pending(self, podgroup: str) -> Pending | None:
        """Why a PodGroup (by UID) waits, as of the latest cycle; None if it does not."""
        return self.history.pending(podgroup)

    def present(self, promised: tuple[str, ...] = ()) -> SchedulingState:
        """How things stand now, whatever the latest cycle saw. ``promised``: whom it made room for."""
        return read_scheduling_state(self.mirror, self.config, self._usage, promised, self._cluster.now())

    # --- running -----------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """One cycle, if anything has changed since the last one or a time it waited for has come.

        True if it wrote anything to the cluster.
        """
        self.mirror.update()
        answered = self._carrier.settle()  # who could not be bound is held back, which is news of its own
        now = self._cluster.now()
        wake_at = self.wake_at
        woken = wake_at is not None and now >= wake_at
        self._carrier.look(now)  # which forgets the times that have come
        worthy = not self._refused <= self._carrier.held_back.refused  # others may be evicted for some of them again
        unchanged = self._seen == self.mirror.working.version and not self._outdated(now) and not worthy
        if not woken and not self._retry and unchanged:
            return answered
        return self._run(now) or answered

    def _outdated(self, now: float) -> bool:
        """Whether the order of those that wait, as last told, is older than it may be. Nobody has to come for that alone, so it is
        no moment to wake at."""
        holds, latest = self._order_holds, self.history.latest
        if holds is None or latest is None or not latest.decisions.pending:
            return False
        return now - latest.now >= holds

    def carry_on(self, before: Scheduler) -> None:
        """Go on where another is, over a cluster with the same objects: with what it promised, what it was refused, what it has told,
        past use. A cycle that the other would leave out is left out, unless this one is to decide by another configuration."""
        self.cycles = before.cycles
        self.history.carry_on(before.history)
        self._promised, self._refused = before._promised, before._refused
        self._retry, self._wake_at = before._retry, before._wake_at
        self._reporter.carry_on(before._reporter)
        self.mirror.update_like(before.mirror)
        self._carrier.carry_on(before._carrier)
        if self._usage is not None and before._usage is not None:
            self._usage.carry_on(before._usage)
        # Versions of two working sets have nothing to do with each other: the records themselves are compared.
        alike = self.config == before.config and self.mirror.agrees(before.mirror)
        if alike and before._seen == before.mirror.working.version:
            self._seen = self.mirror.working.version

    def cycle(self) -> CycleRecord:
        """One cycle in any case."""
        self.mirror.update()
        self._carrier.settle()
        self._run(self._cluster.now())
        latest = self.history.latest
        assert latest is not None
        return latest

    def follow_records(self) -> None:
        """From now on tell with each cycle the changes of the records (with the first, all records), and the turns of those that
        wait."""
        if self._follower is None:
            self._follower = self.mirror.working.follow()

    def go_on_from(self, records: Snapshot, pending: Sequence[Pending]) -> None:
        """See ``Deciding``."""
        self.mirror.update()
        self.follow_records()
        assert self._follower is not None
        self._follower.go_on(records)
        self._reporter.go_on_from(pending)

    def close(self) -> None:
        self.mirror.close()

    def _run(self, now: float) -> bool:
        # Before anything is written: what our own writes change is news for the next cycle.
        self._seen = self.mirror.working.version
        usage = self.config.usage if self._usage is None else self._usage.shares(now)
        changes = None if self._follower is None else self._follower.take()
        config, decisions = self._decide(now, usage)
        self.cycles += 1
        # Names are taken now: what is evicted may be gone from the mirror when somebody asks.
        tasks, podgroups = name_decisions(decisions, self.mirror)
        self._observer.on_phase("carry out")
        carrier, reporter = self._carrier, self._reporter
        carrier.carry_out(decisions)
        self._observer.on_phase("status")
        reporter.report(decisions, carrier.bound, carrier.evicted)
        # A write that was not sent changes nothing in the mirror; without this no cycle would come to try again.
        failures, self._retry = carrier.failed()
        self._wake_at = decisions.wake_at
        recorded = self._usage is not None and self._usage.observe(now, decisions.queues, self.mirror.capacity())
        record = CycleRecord(
            number=self.cycles,
            now=now,
            decisions=decisions,
            config=config,
            changes=changes,
            tasks=tasks,
            podgroups=podgroups,
            failures=failures,
        )
        # Only the observer gets the changes: kept for a thousand decisions they would hold old records alive.
        self.history.add(record if changes is None else msgspec.structs.replace(record, changes=None))
        self._observer.on_cycle(record)
        return carrier.wrote or reporter.wrote or recorded

    def _decide(self, now: float, usage: Mapping[str, Mapping[str, float]]) -> tuple[EngineConfig, Decisions]:
        """One cycle, told whom the one before it made room for; until it is decided."""
        refused = self._refused = self._carrier.held_back.refused
        config = msgspec.structs.replace(
            self.config,
            usage=usage,
            promised=self._promised,
            refused=refused,
            tell_turns=self._follower is not None,
        )
        working, on_phase = self.mirror.working, self._observer.on_phase
        try:
            with WATCHDOG.ends(call_policy.__code__) if self._policies_of_others else nullcontext():
                config, decisions = repeat_cycle(lambda given: run_cycle(working, given, now, on_phase), config)
        except PolicyError as error:
            raise PolicyError(f"{error}; in cycle {self.cycles + 1}") from error
        self._promised = decisions.heirs
        return config, decisions

    def _starts_matter(self) -> bool:
        config = self.config
        return bool(
            config.reclaim_min_runtime > 0
            or config.preempt_min_runtime > 0
            or config.weighted_order is not None
            or config.victim_order != "queue"
            or config.job_order_policy is not None
            or config.victim_order_policy is not None
            or config.reservation_policy is not None
            or config.queue_shares_policy is not None
            or any(queue.reclaim_min_runtime or queue.preempt_min_runtime for queue in self.mirror.queues.values())
        )
