"""The names of kailab's own policies in configurations. The module of a policy is imported when it is named."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from kailab.engine.policies.contract import Policy

SHIPPED: Mapping[str, str] = {
    "fifo": "kailab.policies.orders:Fifo",
    "shortest-job": "kailab.policies.orders:ShortestJob",
    "strict-fifo": "kailab.policies.orders:StrictFifo",
    "shortest-remaining": "kailab.policies.orders:ShortestRemaining",
    "smallest-job": "kailab.policies.orders:SmallestJob",
    "tiresias": "kailab.policies.orders:Tiresias",
    "least-attained": "kailab.policies.orders:LeastAttained",
    "longest-remaining": "kailab.policies.orders:LongestRemaining",
    "most-attained": "kailab.policies.orders:MostAttained",
    "backfill": "kailab.policies.reservations:Backfill",
    "keep-for-large": "kailab.policies.reservations:KeepForLarge",
    "themis": "kailab.policies.shares:Themis",
    "random": "kailab.policies.placement:Random",
    "best-fit": "kailab.policies.placement:BestFit",
    "dot-product": "kailab.policies.placement:DotProduct",
    "gpu-packing": "kailab.policies.placement:GpuPacking",
    "gpu-clustering": "kailab.policies.placement:GpuClustering",
    "fgd": "kailab.policies.fragmentation:Fgd",
    "fgd-packed": "kailab.policies.fragmentation:FgdPacked",
    "stay-home": "kailab.policies.dispatching:StayHome",
    "least-cost": "kailab.policies.dispatching:LeastCost",
    "least-latency": "kailab.policies.dispatching:LeastLatency",
    "most-free": "kailab.policies.dispatching:MostFree",
    "shortest-wait": "kailab.policies.dispatching:ShortestWait",
    "data-gravity": "kailab.policies.dispatching:DataGravity",
    "spill-over": "kailab.policies.dispatching:SpillOver",
    "global-queue": "kailab.policies.dispatching:GlobalQueue",
}


def shipped(name: str) -> type[Policy] | None:
    """The class of one of kailab's own policies, or None."""
    place = SHIPPED.get(name)
    if place is None:
        return None
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)
