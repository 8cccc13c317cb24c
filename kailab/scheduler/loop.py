"""The scheduling loop: update the mirror, decide, write the decisions, report status.

The scheduler keeps soft state only; everything else is in the cluster's objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext

import msgspec

from kailab.cluster.protocol import Cluster
from kailab.engine.config import EngineConfig
from kailab.engine.cycle import name_faults, repeat_cycle, run_cycle
from kailab.engine.decisions import Bind, Decisions, Evict, Pending, Pipeline
from kailab.engine.following import foresee_binds, nothing_follows
from kailab.engine.policies.job_orders import call_policy
from kailab.engine.policies.ranking import order_holds
from kailab.engine.snapshot.changes import Follower
from kailab.engine.snapshot.snapshot import Snapshot
from kailab.errors import PolicyError
from kailab.model.labels import SCHEDULER_NAME
from kailab.policies.catalogue import SHIPPED
from kailab.scheduler.binding import Preparation
from kailab.scheduler.binding.execution import DecisionExecutor
from kailab.scheduler.cycle_record import CycleHistory, CycleRecord, name_decisions
from kailab.scheduler.mirror import Mirror
from kailab.scheduler.observers import Observer
from kailab.scheduler.policy_timeouts import WATCHDOG
from kailab.scheduler.reading.podgroups import DEFAULT_NODE_POOL
from kailab.scheduler.scheduling_state import SchedulingState, read_scheduling_state
from kailab.scheduler.settings.policies import chosen_policies, head_blocks, order_preempts, with_policies
from kailab.scheduler.status.reporting import GroupReason, StatusReporter, starts_always_matter
from kailab.scheduler.usage import UsageHistory, UsageParams

MANY_WAIT = 1_000
"""Waiting PodGroups whose reasons may cost more than the decisions of a cycle."""


class Scheduler:
    """kailab's scheduler over a cluster.

    ``observer`` hears of each phase and each cycle. ``usage``: how past usage counts if ``config.k_value`` is above 0. ``scheduler_names``:
    the scheduler places pods with one of these ``schedulerName``\\ s. ``preparations``: prepare a node before a pod is bound to it; the caller
    steps them. ``sparing``: leave out writes that nobody reads: events that repeat another one, and start times while no min-runtime and no
    policy needs them. ``ahead``: decide the next cycle while the binds of the last one are under way, if the cluster can do that
    (``AsyncWrites``); pods being bound count as bound. ``reasons_every``: while more than ``MANY_WAIT`` PodGroups wait and cycle follows
    cycle, give reasons at most once in that many seconds, and again when nothing changes any more; 0: in each cycle.
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
        reasons_every: float = 0.0,
    ) -> None:
        self.config = with_policies(config or EngineConfig())
        self._order_holds = order_holds(self.config)
        self._policies_of_others = any(choice.name not in SHIPPED for choice in chosen_policies(self.config))
        self._head_blocks = head_blocks(self.config)
        self.mirror = Mirror(cluster, scheduler_names, node_pool, order_preempts=order_preempts(self.config))
        self.history = CycleHistory()
        self.cycles = 0
        self._cluster = cluster
        self._observer = observer or Observer()
        self._executor = DecisionExecutor(cluster, self.mirror, self.config.checkpoint, preparations, sparing, ahead)
        self._reporter = StatusReporter(cluster, self.mirror, self._starts_matter if sparing else starts_always_matter)
        self._usage = UsageHistory.load(cluster, usage or UsageParams()) if self.config.k_value > 0 else None
        # -1 is no version of a working set, so the first step always runs a cycle.
        self._seen_version = -1
        self._promised: tuple[str, ...] = ()
        self._refused: frozenset[str] = frozenset()
        self._retry = False
        self._wake_at: float | None = None
        self._follower: Follower | None = None
        self._says_why = True
        self._reasons_every = reasons_every
        self._told_at = float("-inf")
        self._reasons_outdated = False  # the latest cycle repeats the reasons of an earlier one
        self._looked_at = float("-inf")  # when a cycle was run, or known to decide nothing

    # --- results ------------------------------------------------------------------------------------------------------

    @property
    def decisions(self) -> Decisions | None:
        """Of the latest cycle."""
        latest = self.history.latest
        return latest.decisions if latest else None

    @property
    def wake_at(self) -> float | None:
        """The earliest time at which a cycle could decide differently without any change of an object; None: never."""
        moments = [self._wake_at, self.mirror.stuck_at, self._executor.retry_at, self._reporter.retry_at]
        if self._usage is not None:
            moments.append(self._usage.next_refresh)
        return min((moment for moment in moments if moment is not None), default=None)

    def retry_at(self, since: float) -> float | None:
        """When the next failed bind or eviction is tried again. None if nothing failed since ``since``, or if everything failed too often
        to be worth waiting for."""
        return self._executor.next_retry_since(since)

    @property
    def unreachable(self) -> bool:
        """Whether the latest cycle could not send something because the server did not answer."""
        return self._retry

    @property
    def past_usage(self) -> Mapping[str, Mapping[str, float]] | None:
        """Queue -> resource -> past usage as a part of the cluster; None if past usage does not count."""
        return None if self._usage is None else self._usage.latest

    def scheduling_state(self, promised: tuple[str, ...] = ()) -> SchedulingState:
        """The present state of queues and pending work. ``promised``: UIDs of PodGroups that the latest cycle evicted others for."""
        return read_scheduling_state(self.mirror, self.config, self._usage, promised, self._cluster.now())

    # --- running -----------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Run a cycle if anything changed since the last one, or if ``wake_at`` has come. Returns whether it wrote anything."""
        self.mirror.update()
        # A failed bind holds its pod back, which changes the mirror.
        answered = self._executor.collect_outcomes()
        now = self._cluster.now()
        wake_at = self.wake_at
        woken = wake_at is not None and now >= wake_at
        self._executor.release_due(now)  # after wake_at: it forgets the times that have come
        # Pods that are no longer refused may have others evicted for them again.
        refusals_ended = not self._refused <= self._executor.bind_backoff.refused_pods
        outdated = refusals_ended or self._order_outdated(now)
        if not (woken or self._retry or outdated):
            if self._seen_version == self.mirror.working.version:
                # Now there is time to say why work waits.
                return self._run(now) or answered if self._reasons_outdated else answered
            if self._nothing_follows():
                self._seen_version, self._looked_at = self.mirror.working.version, now
                return answered
        wrote = self._run(now)
        # Each cycle tries the first job of a queue only, so the next one may start at once.
        while self._head_blocks and self.decisions is not None and self.decisions.binds:
            self.mirror.update()
            if self._seen_version == self.mirror.working.version:
                break  # nothing was bound after all
            wrote |= self._run(now)
        return wrote or answered

    def _nothing_follows(self) -> bool:
        """True if a further cycle certainly decides nothing, because the latest one made only binds. Only while nobody asks for reasons."""
        latest, mirror = self.history.latest, self.mirror
        if self._says_why or self._follower is not None or self._usage is not None or latest is None:
            return False
        if mirror.conditioned or mirror.marked_stale:
            return False
        return nothing_follows(mirror.working, latest.config)

    def _order_outdated(self, now: float) -> bool:
        """Whether the serving order of the latest cycle is older than the policy allows. ``wake_at`` does not include this time:
        the order is renewed at the next step, and the scheduler does not wake only for that."""
        max_age, latest = self._order_holds, self.history.latest
        if max_age is None or latest is None:
            return False
        reported = self._says_why and not self._reasons_outdated
        if not (latest.decisions.pending if reported else self.mirror.working.some_wait()):
            return False
        return now - self._looked_at >= max_age

    def carry_on(self, before: Scheduler) -> None:
        """Continue from the state of another scheduler over a cluster with the same objects: its promises, refusals, reports and past
        usage. Skip the first cycle if the other scheduler would skip it and decides by the same configuration."""
        self.cycles, self._looked_at = before.cycles, before._looked_at
        self.history.carry_on(before.history)
        self._promised, self._refused = before._promised, before._refused
        self._retry, self._wake_at = before._retry, before._wake_at
        self._reporter.carry_on(before._reporter)
        self.mirror.update_like(before.mirror)
        self._executor.carry_on(before._executor)
        if self._usage is not None and before._usage is not None:
            self._usage.carry_on(before._usage)
        # Versions of two working sets can't be compared, so compare the records.
        same = self.config == before.config and self.mirror.agrees(before.mirror)
        if same and before._seen_version == before.mirror.working.version:
            self._seen_version = self.mirror.working.version

    def cycle(self) -> CycleRecord:
        """Run a cycle even if nothing changed."""
        self.mirror.update()
        self._executor.collect_outcomes()
        self._run(self._cluster.now())
        latest = self.history.latest
        assert latest is not None
        return latest

    def follow_records(self) -> None:
        """From now on record with each cycle the changes of the records (with the first, all records) and the serving order."""
        if self._follower is None:
            self._follower = self.mirror.working.follow()

    def reasons_when_asked(self) -> None:
        """From now on decide without saying why work waits: only ``reasons`` does. Not if records are followed."""
        self._says_why = False

    @property
    def unread(self) -> bool:
        """True if nobody reads what is written for people."""
        return not self._says_why

    def reasons(self) -> dict[str, GroupReason]:
        """Why work waits by the present records and the configuration of the latest cycle, by PodGroup (UID). Writes nothing."""
        latest = self.history.latest
        if latest is None:
            return {}
        self.mirror.update()
        return self._reporter.reasons(run_cycle(self.mirror.working, latest.config, self._looked_at))

    def go_on_from(self, records: Snapshot, pending: Sequence[Pending]) -> None:
        """See ``DecidingScheduler``."""
        self.mirror.update()
        self.follow_records()
        assert self._follower is not None
        self._follower.go_on(records)
        self._reporter.go_on_from(pending)

    def close(self) -> None:
        self.mirror.close()

    def _run(self, now: float) -> bool:
        # Before anything is written: the effects of our own writes are for the next cycle.
        changed = self._seen_version != self.mirror.working.version
        self._seen_version = self.mirror.working.version
        usage = self.config.usage if self._usage is None else self._usage.shares(now)
        changes = None if self._follower is None else self._follower.take()
        config, decisions = self._decide(now, usage, changed)
        self._looked_at = now
        if not self._says_why:
            foresee_binds(self.mirror.working, config, decisions)
        self.cycles += 1
        # Resolve names now: an evicted pod may be gone from the mirror later.
        tasks, podgroups = name_decisions(decisions, self.mirror)
        self._observer.on_phase("carry out")
        executor, reporter = self._executor, self._reporter
        executor.execute(decisions)
        self._observer.on_phase("status")
        reporter.report(decisions, executor.bound, executor.evicted)
        # A write that was not sent changes nothing in the mirror, so only this flag makes the next step try again.
        failures, self._retry = executor.collect_failures()
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
        # Only the observer gets the changes: in the history they would keep old records alive.
        self.history.add(record if changes is None else msgspec.structs.replace(record, changes=None))
        self._observer.on_cycle(record)
        return executor.wrote or reporter.wrote or recorded

    def _decide(
        self, now: float, usage: Mapping[str, Mapping[str, float]], changed: bool
    ) -> tuple[EngineConfig, Decisions]:
        """Decide one cycle, with the promises of the previous one."""
        refused = self._refused = self._executor.bind_backoff.refused_pods
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
                reasons = self._follower is not None or (
                    self._says_why and not (changed and self._puts_off_reasons(now))
                )
                config, decisions = repeat_cycle(
                    lambda given: run_cycle(working, given, now, on_phase, reasons=reasons), config
                )
                decisions = name_faults(decisions, working, config, now)
        except PolicyError as error:
            raise PolicyError(f"{error}; in cycle {self.cycles + 1}") from error
        self._promised = decisions.heirs
        self._reasons_outdated = self._says_why and not reasons
        if self._reasons_outdated:
            decisions = msgspec.structs.replace(decisions, pending=self._known_reasons(decisions))
        elif reasons:
            self._told_at = now
        return config, decisions

    def _puts_off_reasons(self, now: float) -> bool:
        """Whether a cycle leaves the reasons of waiting work to a later one, because they cost more than all its decisions."""
        return 0 <= now - self._told_at < self._reasons_every and self.mirror.working.waiting.count > MANY_WAIT

    def _known_reasons(self, decisions: Decisions) -> tuple[Pending, ...]:
        """The latest reasons of all that still waits and got nothing in this cycle."""
        latest, jobs = self.history.latest, self.mirror.working.jobs
        decided: tuple[Bind | Pipeline | Evict, ...] = (*decisions.binds, *decisions.pipelines, *decisions.evictions)
        served = {entry.podgroup for entry in decided}
        return tuple(
            entry
            for entry in (latest.decisions.pending if latest is not None else ())
            if (job := jobs.get(entry.podgroup)) is not None
            and (job.pending or job.unassigned_tasks)
            and entry.podgroup not in served
        )

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
