"""Queues as practice wants them: each with a quota and a bound, all together within the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kailab.advice.practice.rules import GUARANTEED_PERCENT, Finding
from kailab.engine.snapshot.records import UNLIMITED
from kailab.lab.wording import gpus
from kailab.model.manifests import Manifest
from kailab.undertest.translation import AppliedQueues

_GPU = "spec.resources.gpu"


def check_queues(given: Mapping[str, Manifest], queues: AppliedQueues) -> Iterator[Finding]:
    """``given``: the manifests, by name. A limit of 0 is told when manifests are read."""
    for queue in queues.leaves:
        if (one := given.get(queue.name)) is None or queue.gpu.limit == 0:
            continue
        if queue.gpu.quota == 0:
            why = "has no GPU guaranteed: it runs only what others leave idle, and gives that back"
            yield Finding("queue-no-quota", one.where(f"{_GPU}.quota"), why)
        if queue.gpu.quota == UNLIMITED:
            why = "is unlimited: all that the queue takes counts as its own"
            yield Finding("queue-endless-quota", one.where(f"{_GPU}.quota"), why)
        if all(queues.by_name[name].gpu.limit == UNLIMITED for name in queues.line(queue.name)):
            why = "has no limit, nor has any queue above it: it may hold all GPUs while others need none"
            yield Finding("queue-no-limit", one.where(f"{_GPU}.limit"), why)


def check_guaranteed(given: Mapping[str, Manifest], queues: AppliedQueues) -> Iterator[Finding]:
    """What is guaranteed in all against the cluster's GPUs, where they are known. An unlimited queue guarantees what those below it
    do."""
    there = queues.capacity("gpu")
    top = list(queues.below(""))
    counted = []
    while top:
        queue = top.pop()
        if queue.gpu.quota == UNLIMITED:
            top += queues.below(queue.name)
        else:
            counted.append(queue)
    promised = sum(queue.gpu.quota for queue in counted)
    if (
        there
        and promised * 100 > there * GUARANTEED_PERCENT
        and (ours := [one for one in counted if one.name in given])
    ):
        largest = max(ours, key=lambda queue: (queue.gpu.quota, queue.name))
        why = f"quotas guarantee {gpus(promised)}, more than {GUARANTEED_PERCENT} % of {gpus(there)}"
        yield Finding("quotas-over-share", given[largest.name].where(f"{_GPU}.quota"), why)
