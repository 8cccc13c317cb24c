"""Why a lab never settles, if the reason is KAI's own behaviour and no fault of the lab."""

from __future__ import annotations

from msgspec import structs

from kailab.engine.cycle import run_cycle
from kailab.lab.wording import count
from kailab.scheduler.loop import Scheduler

EXAMINED_CYCLES = 100
"""The number of latest cycles whose evictions are examined."""


def explain_endless_moves(scheduler: Scheduler) -> str:
    """Explain that consolidation moves pods for work that would fit without evictions but that allocate does not try, because of its queue
    depth. Empty if that is not the reason. KAI's search does not consider an empty set of victims, so it evicts without need
    (docs/conformance.md, "Faults of KAI")."""
    depth = scheduler.config.queue_depth.get("allocate", -1)
    latest = [record.decisions for record in scheduler.history][-EXAMINED_CYCLES:]
    actions = {eviction.action for decisions in latest for eviction in decisions.evictions}
    if depth < 0 or actions != {"consolidation"}:
        return ""
    scheduler.mirror.update()
    # Try every job on free resources alone.
    unbounded = structs.replace(scheduler.config, actions=("allocate",), queue_depth={})
    fitting = dict.fromkeys(
        bind.podgroup for bind in run_cycle(scheduler.mirror.working, unbounded, latest[-1].now).binds
    )
    if not fitting:
        return ""
    groups = count(len(fitting), "PodGroup")
    return (
        f"Consolidation evicts running pods for work that would fit without: {groups} would start at once, but allocate tries "
        f"only {count(depth, 'job')} of each queue in a cycle (queueDepthPerAction), and other jobs come first. KAI's search for victims does "
        "the same. A larger depth for allocate ends it."
    )
