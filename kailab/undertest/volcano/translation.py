"""KAI's words said in those of Volcano.

A queue is one of its own, in the same tree: quota is ``deserved``, limit is ``capability``. A gang is a PodGroup that its pods name;
of other work Volcano's controller makes one. Work that KAI would not preempt says that it is not preemptable; that it may not go
beyond its quota either Volcano has no words for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kailab.cluster.protocol import Cluster, Object
from kailab.engine.snapshot.records import UNLIMITED, Queue
from kailab.model.kinds import kind_key
from kailab.model.manifests import object_name
from kailab.undertest.contract import NotExpressible
from kailab.undertest.translation.queues import NAMES, RESOURCES, Queues, quantity, share
from kailab.undertest.translation.templates import said
from kailab.undertest.translation.work import Reading, Work
from kailab.undertest.volcano import words


def translate(objects: Sequence[Object], there: Cluster) -> Sequence[Sequence[Object]]:
    """See ``SchedulerUnderTest.translate``."""
    saying = _Saying(Queues(objects, there), Reading(objects, there, words.NAME))
    return [list(saying.of(obj)) for obj in objects]


class _Saying:
    def __init__(self, queues: Queues, reading: Reading) -> None:
        self._queues = queues
        self._reading = reading
        self._gangs: set[tuple[str, str]] = set()

    def of(self, obj: Object) -> Iterator[Object]:
        kind = kind_key(obj)
        works = [self._reading.of_group(obj)] if kind == "PodGroup" else self._reading.of(obj)
        for work in works:
            self._queues.check_work(work.queue, words.NAME, object_name(obj))
        # Before its pods: without it a controller makes each of them one of its own.
        for work in works:
            yield from self._gang(work)
        if kind == "Queue":
            self._check()
            # KAI's own stays beside it: labs count by it, and this scheduler does not look at it.
            yield obj
            yield self._queue(self._queues.by_name[obj["metadata"]["name"]])
        elif works and kind != "PodGroup":
            yield said(obj, works, words.SCHEDULER_NAME, _say)
        else:
            yield obj

    def _check(self) -> None:
        self._queues.refuse_weights(words.NAME)
        self._queues.refuse_overcommitted(words.NAME)
        self._queues.refuse_min_runtimes(words.NAME)

    def _queue(self, queue: Queue) -> Object:
        if queue.name == words.ROOT:
            raise NotExpressible(
                words.NAME, f"queue of the name {words.ROOT}, which is that of all queues", "Queue/root"
            )
        spec: dict[str, Any] = {"reclaimable": True, "priority": queue.priority, "deserved": self._deserved(queue)}
        if limits := _limits(queue):
            spec["capability"] = limits
        if queue.parent in self._queues.by_name:
            spec["parent"] = queue.parent
        return {"apiVersion": words.API_VERSION, "kind": "Queue", "metadata": {"name": queue.name}, "spec": spec}

    def _deserved(self, queue: Queue) -> dict[str, str]:
        """Without a bound all that there is is sure. What is not named is not deserved, and is taken back whatever else is."""
        found = {}
        for name in RESOURCES:
            quota = share(queue, name).quota
            found[NAMES[name]] = quantity(name, self._queues.capacity(name) if quota == UNLIMITED else quota)
        return found

    def _gang(self, work: Work) -> Iterator[Object]:
        if not work.gang or (work.namespace, work.gang) in self._gangs:
            return
        self._gangs.add((work.namespace, work.gang))
        spec: dict[str, Any] = {"minMember": work.min_member, "queue": work.queue}
        if work.priority_class:
            spec["priorityClassName"] = work.priority_class
        yield {
            "apiVersion": words.API_VERSION,
            "kind": "PodGroup",
            "metadata": {"name": work.gang, "namespace": work.namespace, "annotations": _preemptable(work)},
            "spec": spec,
        }


def _say(metadata: dict[str, Any], spec: dict[str, Any], work: Work) -> None:
    notes = metadata.setdefault("annotations", {})
    notes[words.QUEUE] = work.queue
    notes |= _preemptable(work)
    if work.gang:
        notes[words.GROUP] = work.gang


def _preemptable(work: Work) -> dict[str, str]:
    return {words.PREEMPTABLE: "true" if work.preemptible else "false"}


def _limits(queue: Queue) -> dict[str, str]:
    found = {}
    for name in RESOURCES:
        limit = share(queue, name).limit
        # Of these two it takes 0 for no limit.
        if limit == 0 and name != "gpu":
            raise NotExpressible(words.NAME, f"limit of 0 for {name}", f"Queue/{queue.name}")
        if limit != UNLIMITED:
            found[NAMES[name]] = quantity(name, limit)
    return found
