"""The input of a test cycle: a cluster before the first cycle, its configuration, and the time of all test cycles."""

from __future__ import annotations

from kailab.engine.config import EngineConfig
from kailab.engine.snapshot.records import ALLOCATED, ON_NODE, Status
from kailab.engine.snapshot.snapshot import Snapshot

NOW = 1_767_225_600.0

PLACED = frozenset(status for status in Status if ON_NODE[status])
LEAVING = frozenset({Status.RELEASING, Status.STUCK_RELEASING})
ACTIVE = frozenset(status for status in Status if ALLOCATED[status])  # allocated, not only promised


class CaseInput(Snapshot, frozen=True, kw_only=True):
    """A snapshot with its configuration. Evicted tasks of ``deleted_for_good`` PodGroups are not created again."""

    config: EngineConfig = EngineConfig()
    deleted_for_good: frozenset[str] = frozenset()
