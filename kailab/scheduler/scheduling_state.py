"""How things stand now, by the scheduler's own reading and reckoning: what queues hold, ask for and are due, what is free, and
in which order work is served.

Decisions tell how queues stood when a cycle began. What has become of it since, and what others did meanwhile, is in the
cluster's objects; so whoever asks is answered from these, by the same code that a cycle begins with. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from kailab.cluster.protocol import Cluster
from kailab.engine.config import EngineConfig
from kailab.engine.decisions import QueueState, ServingPosition
from kailab.engine.queueing.division import Division
from kailab.engine.queueing.order_records import Earlier, Return
from kailab.engine.report.pending import queue_states
from kailab.engine.report.returning import Returns, divisions
from kailab.engine.report.serving import queues_before, serving_positions
from kailab.engine.session import Session
from kailab.engine.snapshot.counting import offered_gpus
from kailab.engine.snapshot.snapshot import Snapshot
from kailab.scheduler.mirror import COUNTED_KINDS, Mirror
from kailab.scheduler.saved_state import FreeGpus, SchedulingStateRecord
from kailab.scheduler.settings.policies import with_policies
from kailab.scheduler.usage import UsageHistory, UsageParams

MOST_SAVED_QUEUES = 200
"""In a cluster of more queues, which of them is served before which is not kept: it is reckoned when somebody asks."""


class CycleInput(NamedTuple):
    """What a cycle depends on: see ``engine.cycle.decide``."""

    snapshot: Snapshot
    config: EngineConfig
    now: float


class SchedulingState:
    """One moment: made, asked, thrown away, all before the mirror is updated again. PodGroups go by UID here."""

    def __init__(
        self, mirror: Mirror, config: EngineConfig, now: float, placing: Callable[[], Mirror] | None = None
    ) -> None:
        """``placing``: gives a mirror of all that placing depends on, where ``mirror`` is only enough to count."""
        self._mirror = mirror
        self._placing = placing
        self._config = config
        self._now = now

    @cached_property
    def queues(self) -> tuple[QueueState, ...]:
        """Where every queue stands, by name."""
        with self._session() as session:
            return queue_states(session)

    @cached_property
    def room(self) -> dict[str, FreeGpus]:
        """Of each node where anything new may go."""
        with self._session() as session:
            return _room(session)

    @cached_property
    def order(self) -> tuple[ServingPosition, ...]:
        """All PodGroups that wait and could run in their queue, in the order in which they are served."""
        with self._session() as session:
            return serving_positions(session)

    def queues_before(self, name: str) -> tuple[Earlier, ...]:
        """Queues that are served before one, each with the PodGroup whose turn is next there."""
        with self._session() as session:
            return queues_before(session, self.order, name)

    @cached_property
    def divisions(self) -> tuple[Division, ...]:
        """How the fair shares came about, of every resource and level of the tree, from the root down."""
        with self._session() as session:
            return divisions(session)

    def returns(self, *names: str) -> dict[str, tuple[Return, ...]]:
        """Of each queue named what others could take from it, or from an ancestor of it, and what stops them."""
        with self._session() as session:
            return _returns(session, names)

    def moment(self) -> CycleInput:
        """All that a cycle would decide by now, as a value."""
        mirror = self._mirror if self._placing is None else self._placing()
        return CycleInput(mirror.working.value(), self._config, self._now)

    def keep(self) -> SchedulingStateRecord:
        """All of it."""
        with self._session() as session:
            # One session for all of it, where the properties above open one each.
            order = serving_positions(session)
            names = sorted(session.tree.queues) if len(session.tree.queues) <= MOST_SAVED_QUEUES else None
            return SchedulingStateRecord(
                queues=queue_states(session),
                room=_room(session),
                order=order,
                names={turn.podgroup: self.podgroup(turn.podgroup) for turn in order},
                before=None if names is None else {name: queues_before(session, order, name) for name in names},
                divisions=None if names is None else divisions(session),
                returns=None if names is None else _returns(session, names),
            )

    def podgroup(self, uid: str) -> str:
        """``namespace/name``."""
        return self._mirror.podgroup_name(uid)

    @contextmanager
    def _session(self) -> Iterator[Session]:
        # Each question opens a session of its own: one that stayed open would keep its changes in the shared working
        # set.
        session = Session(self._mirror.working, self._config, self._now)
        try:
            yield session
        finally:
            session.close()


def _returns(session: Session, names: Iterable[str]) -> dict[str, tuple[Return, ...]]:
    returns = Returns(session)
    return {name: returns.of(name) for name in names}


def _room(session: Session) -> dict[str, FreeGpus]:
    table = session.table
    return {
        node.name: FreeGpus(table.unheld_gpus(i), offered_gpus(node))
        for i, node in enumerate(table.nodes)
        if table.available[i]
    }


class SchedulingStateReader:
    """Sees the present of a cluster where no scheduler of this process has a mirror of it. Nothing is read before somebody
    asks; from then on it follows the cluster."""

    def __init__(
        self, cluster: Cluster, config: EngineConfig, usage: UsageParams | None, scheduler_names: Iterable[str]
    ) -> None:
        self._cluster = cluster
        self._config = with_policies(config)
        self._usage = usage or UsageParams()
        self._names = tuple(scheduler_names)
        self._mirror: Mirror | None = None
        self._placing: Mirror | None = None

    def present(self, promised: tuple[str, ...] = ()) -> SchedulingState:
        """As ``Scheduler.present``."""
        mirror = self._mirror
        if mirror is None:
            mirror = self._mirror = Mirror(self._cluster, self._names, kinds=COUNTED_KINDS, tell=_nobody)
        # Read each time: the scheduler that writes it is another process.
        usage = UsageHistory.load(self._cluster, self._usage) if self._config.k_value > 0 else None
        return read_scheduling_state(mirror, self._config, usage, promised, self._cluster.now(), self._all_of_it)

    def _all_of_it(self) -> Mirror:
        if self._placing is None:
            # Made when placing is asked about: it watches all kinds, while counting does with a few.
            self._placing = Mirror(self._cluster, self._names, tell=_nobody)
        self._placing.update()
        return self._placing

    def close(self) -> None:
        for mirror in (self._mirror, self._placing):
            if mirror is not None:
                mirror.close()


def _nobody(*_: Any, **__: Any) -> None:
    """The scheduler itself tells of what can't be read."""


def read_scheduling_state(
    mirror: Mirror,
    config: EngineConfig,
    usage: UsageHistory | None,
    promised: tuple[str, ...],
    now: float,
    placing: Callable[[], Mirror] | None = None,
) -> SchedulingState:
    """``usage``: past use, where it counts. ``placing``: see ``SchedulingState``."""
    mirror.update()
    past = config.usage if usage is None else usage.shares_at(now)
    return SchedulingState(mirror, msgspec.structs.replace(config, usage=past, promised=promised), now, placing)
