"""Victims that can save their state are asked to before they are evicted, and given the time.

A pod can if a container has a preStop hook, or if it says so with the annotation ``kailab.dev/checkpoint-seconds``, which on
fake nodes is how long it takes.
It is told by the annotation ``kailab.dev/checkpoint-requested`` and an event, then evicted with a grace period; until it
is gone its GPUs are its own, and whoever it leaves for is promised the place (pipelined), not given it. On a real cluster
the same eviction reaches the container as its preStop hook and SIGTERM, within the same grace period.
"""

from __future__ import annotations

from kailab.cluster.lifecycle import can_save
from kailab.cluster.protocol import Cluster
from kailab.engine.decisions import Evict
from kailab.engine.policies.settings import Checkpoint
from kailab.model import labels as names
from kailab.model.times import format_time
from kailab.scheduler.mirror import Mirror

DEFAULT_GRACE = 30  # Kubernetes' default of terminationGracePeriodSeconds


def ask_to_save(cluster: Cluster, mirror: Mirror, evict: Evict, policy: Checkpoint) -> float | None:
    """Tell a victim that has a checkpoint hook and runs; the grace period for its eviction. Raises ApiError."""
    pod = mirror.pods.get(evict.task)
    if pod is None:
        return policy.grace
    metadata = pod["metadata"]
    if can_save(pod) and (pod.get("status") or {}).get("phase") == "Running":
        told = {names.CHECKPOINT_REQUESTED: format_time(cluster.now())}
        asked = cluster.patch("Pod", metadata["name"], metadata["namespace"], {"metadata": {"annotations": told}})
        own = pod["spec"].get("terminationGracePeriodSeconds")
        grace = policy.grace if policy.grace is not None else DEFAULT_GRACE if own is None else own
        message = f"Asked to save its state for {mirror.podgroup_name(evict.beneficiary)}: it has {grace:g} s"
        cluster.event(asked, "Normal", "Checkpointing", message)
    return policy.grace
