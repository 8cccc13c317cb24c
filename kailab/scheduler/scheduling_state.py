"""The present state of scheduling: allocated, requested and fair amounts of queues, and the serving order of pending work.

Decisions report the queues as of the start of their cycle. This module reads the cluster's present objects with the code that a cycle
begins with, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from kailab.cluster.protocol import Cluster
from kailab.engine.config import EngineConfig
from kailab.engine.decisions import LabelDemand, QueueState, ServingPosition
from kailab.engine.queueing.division import Division
from kailab.engine.queueing.order_records import EarlierQueue, ReclaimOption
from kailab.engine.report.label_demand import label_demands
from kailab.engine.report.pending import queue_states
from kailab.engine.report.reclaim_options import ReclaimOptions, divisions
from kailab.engine.report.serving import queues_before, serving_positions
from kailab.engine.session import Session
from kailab.engine.snapshot.snapshot import Snapshot
from kailab.model.labels import gpu_model
from kailab.scheduler.mirror import COUNTED_KINDS, Mirror
from kailab.scheduler.saved_state import SchedulingStateRecord
from kailab.scheduler.settings.policies import with_policies
from kailab.scheduler.usage import UsageHistory, UsageParams

MOST_SAVED_QUEUES = 200
"""For more queues than this, a saved state leaves out the answers per queue; they are computed on request."""


class CycleInput(NamedTuple):
    """The input of one cycle: see ``engine.cycle.decide``."""

    snapshot: Snapshot
    config: EngineConfig
    now: float


class SchedulingState:
    """The state at one moment. It is valid until the mirror is updated again. PodGroups are named by UID."""

    def __init__(
        self, mirror: Mirror, config: EngineConfig, now: float, placing: Callable[[], Mirror] | None = None
    ) -> None:
        """``placing`` returns a mirror with everything that placement depends on, if ``mirror`` has only enough to count."""
        self._mirror = mirror
        self._placing = placing
        self._config = config
        self._now = now

    @cached_property
    def queues(self) -> tuple[QueueState, ...]:
        """The state of every queue, ordered by name."""
        with self._session() as session:
            return queue_states(session)

    @cached_property
    def order(self) -> tuple[ServingPosition, ...]:
        """All pending PodGroups that their queue's limits allow to run, in serving order."""
        with self._session() as session:
            return serving_positions(session)

    def queues_before(self, name: str) -> tuple[EarlierQueue, ...]:
        """The queues served before ``name``, each with its next PodGroup."""
        with self._session() as session:
            return queues_before(session, self.order, name)

    @cached_property
    def divisions(self) -> tuple[Division, ...]:
        """How the fair shares were divided, for every resource and level of the tree, from the root down."""
        with self._session() as session:
            return divisions(session)

    @cached_property
    def model_demands(self) -> tuple[LabelDemand, ...]:
        """The GPU models that waiting and running work can use, with the GPUs that it wants or holds."""
        with self._session(self._placing_mirror()) as session:
            return label_demands(session, gpu_model)

    def returns(self, *names: str) -> dict[str, tuple[ReclaimOption, ...]]:
        """For each named queue, what other queues could reclaim from it or from an ancestor, and what stops them."""
        with self._session() as session:
            return _returns(session, names)

    def cycle_input(self) -> CycleInput:
        """The input of a cycle that ran now."""
        return CycleInput(self._placing_mirror().snapshot(), self._config, self._now)

    def to_record(self) -> SchedulingStateRecord:
        with self._session() as session:
            order = serving_positions(session)
            # Selectors and taints are known only to a mirror with everything that placement depends on.
            demands = None if self._placing is not None else label_demands(session, gpu_model)
            uids = [turn.podgroup for turn in order]
            uids += [demand.podgroup for demand in demands or () if demand.podgroup]
            names = sorted(session.tree.queues) if len(session.tree.queues) <= MOST_SAVED_QUEUES else None
            return SchedulingStateRecord(
                queues=queue_states(session),
                order=order,
                names={uid: self.podgroup(uid) for uid in uids},
                before=None if names is None else {name: queues_before(session, order, name) for name in names},
                divisions=None if names is None else divisions(session),
                returns=None if names is None else _returns(session, names),
                model_demands=demands,
            )

    def podgroup(self, uid: str) -> str:
        """``namespace/name``."""
        return self._mirror.podgroup_name(uid)

    def _placing_mirror(self) -> Mirror:
        return self._mirror if self._placing is None else self._placing()

    def _session(self, mirror: Mirror | None = None) -> closing[Session]:
        # A session per question: one that stayed open would leave its changes in the shared working set.
        return closing(Session((mirror or self._mirror).working, self._config, self._now))


def _returns(session: Session, names: Iterable[str]) -> dict[str, tuple[ReclaimOption, ...]]:
    returns = ReclaimOptions(session)
    return {name: returns.of(name) for name in names}


class SchedulingStateReader:
    """Reads the scheduling state of a cluster that no scheduler of this process mirrors. It watches the cluster from the first request
    on."""

    def __init__(
        self, cluster: Cluster, config: EngineConfig, usage: UsageParams | None, scheduler_names: Iterable[str]
    ) -> None:
        self._cluster = cluster
        self._config = with_policies(config)
        self._usage = usage or UsageParams()
        self._names = tuple(scheduler_names)
        self._mirror: Mirror | None = None
        self._placing: Mirror | None = None

    def scheduling_state(self, promised: tuple[str, ...] = ()) -> SchedulingState:
        """See ``Scheduler.scheduling_state``."""
        mirror = self._mirror
        if mirror is None:
            mirror = self._mirror = Mirror(self._cluster, self._names, kinds=COUNTED_KINDS, tell=_ignore)
        # Loaded each time: another process writes it.
        usage = UsageHistory.load(self._cluster, self._usage) if self._config.k_value > 0 else None
        return read_scheduling_state(mirror, self._config, usage, promised, self._cluster.now(), self._placing_mirror)

    def _placing_mirror(self) -> Mirror:
        if self._placing is None:
            # Made on demand: it watches all kinds, while counting needs only a few.
            self._placing = Mirror(self._cluster, self._names, tell=_ignore)
        self._placing.update()
        return self._placing

    def close(self) -> None:
        for mirror in (self._mirror, self._placing):
            if mirror is not None:
                mirror.close()


def _ignore(*_: Any, **__: Any) -> None:
    """Report nothing: the scheduler itself reports unreadable objects."""


def read_scheduling_state(
    mirror: Mirror,
    config: EngineConfig,
    usage: UsageHistory | None,
    promised: tuple[str, ...],
    now: float,
    placing: Callable[[], Mirror] | None = None,
) -> SchedulingState:
    """``usage``: past usage, if it counts. ``placing``: see ``SchedulingState``."""
    mirror.update()
    past = config.usage if usage is None else usage.shares_at(now)
    return SchedulingState(mirror, msgspec.structs.replace(config, usage=past, promised=promised), now, placing)
