"""Node pools: which one the scheduler under test serves, and which nobody does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kailab.cluster.protocol import Object
from kailab.scheduler.reading.podgroups import DEFAULT_NODE_POOL, node_pool
from kailab.undertest.contract import SchedulerUnderTest


def served_pool(scheduler: SchedulerUnderTest) -> str | None:
    """None where that is not known, or the scheduler knows no pools."""
    # Labs run kailab's scheduler for the default pool; which shards a real KAI has nobody says here.
    return DEFAULT_NODE_POOL if scheduler.reports_shares else None


def of_other_pools(objects: Iterable[Object], served: str) -> dict[str, int]:
    """Pool -> how many of the objects belong to it, of pools that are not served."""
    pools = Counter(node_pool(one["metadata"]) for one in objects)
    return {pool: number for pool, number in sorted(pools.items()) if pool != served}
