"""Translate KAI's queues and work into Volcano's objects.

A queue is a Volcano queue in the same tree: quota is ``deserved``, limit is ``capability``. A gang is a PodGroup that its pods name;
Volcano's controller creates one for other work. Non-preemptible work is marked as not preemptable; Volcano can't restrict it to its
quota.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kailab.cluster.protocol import Cluster
from kailab.engine.snapshot.records import UNLIMITED, Queue
from kailab.model.kinds import kind_key
from kailab.model.manifests import object_name
from kailab.model.objects import Object
from kailab.undertest.contract import NotExpressible
from kailab.undertest.translation import (
    RESOURCE_NAMES,
    RESOURCES,
    AppliedQueues,
    TemplateWork,
    WorkReader,
    format_amount,
    rewrite_templates,
    share_of,
)
from kailab.undertest.volcano import messages


def translate(objects: Sequence[Object], there: Cluster) -> Sequence[Sequence[Object]]:
    """See ``SchedulerUnderTest.translate``."""
    saying = _Translation(AppliedQueues(objects, there), WorkReader(objects, there, messages.NAME))
    return [list(saying.of(obj)) for obj in objects]


class _Translation:
    def __init__(self, queues: AppliedQueues, reading: WorkReader) -> None:
        self._queues = queues
        self._reading = reading
        self._gangs: set[tuple[str, str]] = set()

    def of(self, obj: Object) -> Iterator[Object]:
        kind = kind_key(obj)
        works = [self._reading.of_group(obj)] if kind == "PodGroup" else self._reading.of(obj)
        for work in works:
            self._queues.check_work(work.queue, messages.NAME, object_name(obj))
        # Before its pods, because a controller would create a PodGroup for each of them.
        for work in works:
            yield from self._gang(work)
        if kind == "Queue":
            self._check()
            # KAI's own Queue stays, because labs count by it; this scheduler ignores it.
            yield obj
            yield self._queue(self._queues.by_name[obj["metadata"]["name"]])
        elif works and kind != "PodGroup":
            yield rewrite_templates(obj, works, messages.SCHEDULER_NAME, _edit_template)
        else:
            yield obj

    def _check(self) -> None:
        self._queues.refuse_weights(messages.NAME)
        self._queues.refuse_overcommitted(messages.NAME)
        self._queues.refuse_min_runtimes(messages.NAME)

    def _queue(self, queue: Queue) -> Object:
        if queue.name == messages.ROOT:
            raise NotExpressible(
                messages.NAME, f"queue with the name {messages.ROOT}, which is Volcano's root queue", "Queue/root"
            )
        spec: dict[str, Any] = {"reclaimable": True, "priority": queue.priority, "deserved": self._deserved(queue)}
        if limits := _limits(queue):
            spec["capability"] = limits
        if queue.parent in self._queues.by_name:
            spec["parent"] = queue.parent
        return {"apiVersion": messages.API_VERSION, "kind": "Queue", "metadata": {"name": queue.name}, "spec": spec}

    def _deserved(self, queue: Queue) -> dict[str, str]:
        """An unlimited quota deserves all capacity. A resource that is not named is not deserved and can always be reclaimed."""
        result = {}
        for name in RESOURCES:
            quota = share_of(queue, name).quota
            result[RESOURCE_NAMES[name]] = format_amount(
                name, self._queues.capacity(name) if quota == UNLIMITED else quota
            )
        return result

    def _gang(self, work: TemplateWork) -> Iterator[Object]:
        if not work.gang or (work.namespace, work.gang) in self._gangs:
            return
        self._gangs.add((work.namespace, work.gang))
        spec: dict[str, Any] = {"minMember": work.min_member, "queue": work.queue}
        if work.priority_class:
            spec["priorityClassName"] = work.priority_class
        yield {
            "apiVersion": messages.API_VERSION,
            "kind": "PodGroup",
            "metadata": {"name": work.gang, "namespace": work.namespace, "annotations": _preemptable(work)},
            "spec": spec,
        }


def _edit_template(metadata: dict[str, Any], spec: dict[str, Any], work: TemplateWork) -> None:
    notes = metadata.setdefault("annotations", {})
    notes[messages.QUEUE] = work.queue
    notes |= _preemptable(work)
    if work.gang:
        notes[messages.GROUP] = work.gang


def _preemptable(work: TemplateWork) -> dict[str, str]:
    return {messages.PREEMPTABLE: "true" if work.preemptible else "false"}


def _limits(queue: Queue) -> dict[str, str]:
    result = {}
    for name in RESOURCES:
        limit = share_of(queue, name).limit
        # For these two, 0 means no limit.
        if limit == 0 and name != "gpu":
            raise NotExpressible(messages.NAME, f"limit of 0 for {name}", f"Queue/{queue.name}")
        if limit != UNLIMITED:
            result[RESOURCE_NAMES[name]] = format_amount(name, limit)
    return result
