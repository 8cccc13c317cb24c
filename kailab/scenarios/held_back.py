"""Pods that Jobs owe and hold back: a Job whose pods were evicted waits before it makes new ones."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from kailab.cluster.protocol import Cluster
from kailab.workloads.jobs import back_off


class HeldBack(NamedTuple):
    """``pods``: that Jobs owe and hold back after failures; ``seconds``: how long the longest of their back-offs lasts."""

    pods: int
    seconds: float


def held_back(cluster: Cluster) -> dict[str, HeldBack]:
    """By app. A Job whose pods were evicted waits 10 s after one of them, minutes after several at once; where the cluster of a
    recording lost pods before they were counted as failed, it did not."""
    found: dict[str, HeldBack] = {}
    phases: dict[str, Counter[str]] = {}
    for pod in cluster.list("Pod"):
        phase = (
            "Terminating" if "deletionTimestamp" in pod["metadata"] else pod.get("status", {}).get("phase", "Pending")
        )
        if pod.get("status", {}).get("phase") == "Failed":
            phase = "Failed"
        for reference in pod["metadata"].get("ownerReferences") or ():
            phases.setdefault(reference["uid"], Counter())[phase] += 1
    for job in cluster.list("Job"):
        spec, status, seen = job["spec"], job.get("status") or {}, phases.get(job["metadata"]["uid"], Counter())
        app = spec["template"]["metadata"].get("labels", {}).get("app", "")
        # Some may not have been counted yet.
        failures = status.get("failed", 0) + seen["Failed"]
        if not failures or any(c["status"] == "True" for c in status.get("conditions") or ()):
            continue
        wanted = spec.get("parallelism", 1)
        if spec.get("completions") is not None:
            wanted = min(wanted, spec["completions"] - status.get("succeeded", 0))
        before = found.get(app, HeldBack(0, 0.0))
        owed = max(0, wanted - seen["Pending"] - seen["Running"])
        found[app] = HeldBack(before.pods + owed, max(before.seconds, back_off(failures)))
    return found


def missed(cluster: Cluster, wanted: dict[str, dict[str, int]]) -> float:
    """Seconds of the longest back-off among Jobs of which fewer pods run than are wanted (app -> phase -> number). 0: there is
    none."""
    running = Counter(
        pod["metadata"].get("labels", {}).get("app")
        for pod in cluster.list("Pod")
        if pod.get("status", {}).get("phase") == "Running"
    )
    return max(
        (
            held.seconds
            for app, held in held_back(cluster).items()
            if held.pods and running[app] < wanted.get(app, {}).get("Running", 0)
        ),
        default=0.0,
    )
