"""Why a lab never comes to rest, where that is KAI's own way and not a fault of the lab."""

from __future__ import annotations

from msgspec import structs

from kailab.engine.cycle import run_cycle
from kailab.lab.wording import count
from kailab.scheduler.loop import Scheduler

EXAMINED_CYCLES = 100
"""The latest cycles, of which all evictions are looked at."""


def explain_endless_moves(scheduler: Scheduler) -> str:
    """That consolidation moves pods for work which would find room without, because allocate does not try it; empty where it is not
    that. A set of victims without anybody in it is no solution to KAI's search, so it evicts where it need not
    (docs/conformance.md, "Faults of KAI")."""
    depth = scheduler.config.queue_depth.get("allocate", -1)
    latest = [record.decisions for record in scheduler.history][-EXAMINED_CYCLES:]
    actions = {eviction.action for decisions in latest for eviction in decisions.evictions}
    if depth < 0 or actions != {"consolidation"}:
        return ""
    scheduler.mirror.update()
    # Tried: with every job in turn, and nothing but what is free.
    unbounded = structs.replace(scheduler.config, actions=("allocate",), queue_depth={})
    fitting = dict.fromkeys(
        bind.podgroup for bind in run_cycle(scheduler.mirror.working, unbounded, latest[-1].now).binds
    )
    if not fitting:
        return ""
    groups = count(len(fitting), "PodGroup")
    return (
        f"Consolidation evicts running pods for work that would find room without: {groups} would start at once, but allocate tries "
        f"only {count(depth, 'job')} of each queue in a cycle (queueDepthPerAction), and others come first. KAI's search for victims does "
        "so, too. A larger depth for allocate ends it."
    )
