"""Translate KAI's queues and work into objects of scheduler-plugins.

A queue is a namespace with an ElasticQuota, because capacity scheduling knows no other owner of work: quota is ``min``, limit is ``max``.
Work moves to the namespace of its queue; an annotation keeps its original namespace. A gang is a PodGroup that its pods name by a label.
Capacity scheduling lends no more than the sum of all ``min``, while KAI lends all capacity. So the capacity beyond all quotas is the
``min`` of one more namespace, in which nothing runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from kailab.cluster.protocol import Cluster
from kailab.engine.snapshot.records import UNLIMITED, Queue
from kailab.errors import NotFound
from kailab.model.kinds import kind_key
from kailab.model.manifests import object_name
from kailab.model.objects import Object, annotations_of
from kailab.undertest.contract import NotExpressible
from kailab.undertest.scheduler_plugins.messages import API_VERSION, GANG, NAME, SCHEDULER_NAME
from kailab.undertest.translation import (
    DEFAULT_NAMESPACE,
    RESOURCE_NAMES,
    RESOURCES,
    AppliedQueues,
    TemplateWork,
    WorkReader,
    format_amount,
    rewrite_templates,
    share_of,
)

WRITTEN_FOR = "kailab.dev/written-for"
"""Annotation of an object in its queue's namespace: its original namespace."""

UNOWNED = "kailab-unowned"

# More than any cluster has; the sum of several still fits in 64 bits.
_NO_BOUND = {"gpu": "1000000", "cpu": "1000000", "memory": "1Pi"}
_PATIENCE_SECONDS = 10  # how long a gang waits for its last pods, as in the plugin's tutorial
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def translate(objects: Sequence[Object], there: Cluster) -> Sequence[Sequence[Object]]:
    """See ``SchedulerUnderTest.translate``."""
    queues = AppliedQueues(objects, there)
    saying = _Translation(queues, WorkReader(objects, there, NAME), there)
    if any(kind_key(obj) == "Queue" for obj in objects):
        queues.refuse_tree(NAME)
        queues.refuse_weights(NAME)
        queues.refuse_priorities(NAME)
        queues.refuse_min_runtimes(NAME)
    translations = [list(saying.of(obj)) for obj in objects]
    last = max((index for index, obj in enumerate(objects) if kind_key(obj) == "Queue"), default=None)
    if last is not None:
        translations[last] += _unowned(queues)
    return translations


def space_of(kind: str, name: str, namespace: str, there: Cluster) -> str:
    """See ``SchedulerUnderTest.space_of``."""
    try:
        there.get(kind, name, namespace)
    except NotFound:
        for obj in there.list(kind):
            metadata = obj["metadata"]
            if metadata["name"] == name and (metadata.get("annotations") or {}).get(WRITTEN_FOR) == namespace:
                return str(metadata["namespace"])
    return namespace


class _Translation:
    def __init__(self, queues: AppliedQueues, reading: WorkReader, there: Cluster) -> None:
        self._queues = queues
        self._reading = reading
        self._there = there
        self._gangs: set[tuple[str, str]] = set()

    def of(self, obj: Object) -> Iterator[Object]:
        kind = kind_key(obj)
        if kind == "Queue":
            yield from self._queue(obj)
        elif kind == "PodGroup":
            work = self._reading.of_group(obj)
            self._check(work, obj)
            yield self._moved(obj, work.queue)
            yield from self._gang(work)
        elif works := self._reading.of(obj):
            for work in works:
                self._check(work, obj)
            if len({work.queue for work in works}) > 1:
                raise NotExpressible(NAME, "object with work of several queues", object_name(obj))
            # Before its pods, because pods without it are refused for good.
            for work in works:
                yield from self._gang(work)
            yield self._moved(rewrite_templates(obj, works, SCHEDULER_NAME, _edit_template), works[0].queue)
        else:
            yield obj

    def _queue(self, obj: Object) -> Iterator[Object]:
        """KAI's own Queue stays, because labs count by it; this scheduler ignores it."""
        yield obj
        queue = self._queues.by_name[obj["metadata"]["name"]]
        if queue.name in self._queues.parents:
            return
        if not _NAMESPACE.fullmatch(queue.name):
            raise NotExpressible(NAME, "queue whose name can't be a namespace's", object_name(obj))
        yield from _space(queue.name)
        yield _elastic_quota(queue.name, _least(queue), _most(queue))

    def _check(self, work: TemplateWork, obj: Object) -> None:
        self._queues.check_work(work.queue, NAME, object_name(obj))
        # Pods in a namespace above its min may be evicted, whatever they are; and non-preemptible pods may exceed it too.
        if not work.preemptible:
            raise NotExpressible(NAME, "work that is not to be preempted", object_name(obj))

    def _gang(self, work: TemplateWork) -> Iterator[Object]:
        if work.gang and (work.queue, work.gang) not in self._gangs:
            self._gangs.add((work.queue, work.gang))
            yield {
                "apiVersion": API_VERSION,
                "kind": "PodGroup",
                "metadata": {"name": work.gang, "namespace": work.queue},
                "spec": {"minMember": work.min_member, "scheduleTimeoutSeconds": _PATIENCE_SECONDS},
            }

    def _moved(self, obj: Object, queue: str) -> Object:
        metadata = obj["metadata"]
        origin = metadata.get("namespace") or DEFAULT_NAMESPACE
        name = metadata.get("name")
        if name is not None:
            self._check_place(kind_key(obj), name, queue, origin)
        notes = {**(metadata.get("annotations") or {}), WRITTEN_FOR: origin}
        return {**obj, "metadata": {**metadata, "namespace": queue, "annotations": notes}}

    def _check_place(self, kind: str, name: str, queue: str, origin: str) -> None:
        try:
            there = self._there.get(kind, name, queue)
        except NotFound:
            return
        if annotations_of(there).get(WRITTEN_FOR, queue) != origin:
            raise NotExpressible(NAME, "queue with two objects of one name in several namespaces", f"{kind}/{name}")


def _edit_template(metadata: dict[str, Any], spec: dict[str, Any], work: TemplateWork) -> None:
    if work.gang:
        metadata["labels"][GANG] = work.gang


def _space(name: str) -> Iterator[Object]:
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    # A controller creates it too, but later: until then the namespace accepts no pods.
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}}


def _elastic_quota(namespace: str, least: dict[str, str], most: dict[str, str]) -> Object:
    spec = {"min": least, **({"max": most} if most else {})}
    metadata = {"name": "quota", "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": "ElasticQuota", "metadata": metadata, "spec": spec}


def _least(queue: Queue) -> dict[str, str]:
    found = {RESOURCE_NAMES[name]: _amount(name, share_of(queue, name).quota) for name in RESOURCES}
    # An unnamed resource counts as 0, and exceeding any one means exceeding the quota.
    return {**found, "ephemeral-storage": _NO_BOUND["memory"]}


def _most(queue: Queue) -> dict[str, str]:
    """Empty: no limit at all."""
    if all(share_of(queue, name).limit == UNLIMITED for name in RESOURCES):
        return {}
    found = {RESOURCE_NAMES[name]: _amount(name, share_of(queue, name).limit) for name in RESOURCES}
    return {**found, "ephemeral-storage": _NO_BOUND["memory"]}


def _unowned(queues: AppliedQueues) -> Iterator[Object]:
    rest: dict[str, str] = {}
    for name in RESOURCES:
        quotas = [share_of(leaf, name).quota for leaf in queues.leaves]
        free = 0 if UNLIMITED in quotas else max(0, queues.capacity(name) - sum(quotas))
        rest[RESOURCE_NAMES[name]] = _amount(name, free)
    yield from _space(UNOWNED)
    yield _elastic_quota(UNOWNED, rest, {})


def _amount(resource: str, amount: int) -> str:
    return _NO_BOUND[resource] if amount == UNLIMITED else format_amount(resource, amount)
