"""What the sentence of a cause has to name, read from the manifests: the queue and its limit, the label, the claim, the amount ..."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from checks.explaining.misconfigurations import template_of
from checks.explaining.workload_context import WorkloadContext
from kailab.cluster.protocol import Object
from kailab.explain.answer import Code
from kailab.model import labels

Alternatives = Iterator[tuple[str, ...]]
"""Of several sets of texts one has to be named in full."""


def missing_names(place: WorkloadContext, code: str, sentence: str) -> str:
    """What is missing in the sentence of a cause; empty where nothing is."""
    needed = _NEEDED.get(code)
    if needed is None:
        return ""
    sets = list(needed(place))
    if not sets or any(all(mentions(sentence, text) for text in texts) for texts in sets):
        return ""
    return f"it names none of: {'; '.join(' and '.join(texts) for texts in sets[:6])}"


def mentions(sentence: str, text: str) -> bool:
    """Whether a text is in a sentence, in whatever case; a number has to stand by itself.

    >>> names("20 GPUs", "20"), names("120 GPUs", "20"), names("2.20", "20")
    (True, False, False)
    """
    if re.fullmatch(r"[0-9.]+", text):
        return re.search(rf"(?<![0-9.]){re.escape(text)}(?![0-9]|\.[0-9])", sentence) is not None
    return text.lower() in sentence.lower()


def _queues(field: str) -> Callable[[WorkloadContext], Alternatives]:
    """A queue in the line of the workload with one of its amounts of that field."""

    def needed(place: WorkloadContext) -> Alternatives:
        for name in place.line():
            resources = place.queues[name]["spec"].get("resources") or {}
            for resource, unit in (("gpu", 1), ("cpu", 1000), ("memory", 1000)):
                amount = (resources.get(resource) or {}).get(field, 0)
                if amount >= 0:
                    yield name, f"{amount / unit:g}"
                    yield name, f"{amount:g}"

    return needed


def _queue(place: WorkloadContext) -> Alternatives:
    yield from ((name,) for name in (place.line() or [place.queue]))


def _parent(place: WorkloadContext) -> Alternatives:
    line = place.line()
    if line:
        yield (str(place.queues[line[-1]]["spec"].get("parentQueue")),)


def _pod(place: WorkloadContext) -> Object:
    made = [one for one in place.manifests if one["kind"] != "PodGroup"]
    return template_of(made[0])


def _taints(place: WorkloadContext) -> Alternatives:
    for node in place.lab.cluster.list("Node"):
        yield from ((taint["key"],) for taint in (node.get("spec") or {}).get("taints") or ())


def _cordoned(place: WorkloadContext) -> Alternatives:
    for node in place.lab.cluster.list("Node"):
        if (node.get("spec") or {}).get("unschedulable"):
            yield (node["metadata"]["name"],)


def _selected(place: WorkloadContext) -> Alternatives:
    spec = _pod(place)["spec"]
    yield from ((value,) for value in (spec.get("nodeSelector") or {}).values())
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    for term in (required or {}).get("nodeSelectorTerms") or ():
        for need in term.get("matchExpressions") or ():
            yield from ((value,) for value in need.get("values") or ())


def _volumes(place: WorkloadContext) -> Alternatives:
    for volume in _pod(place)["spec"].get("volumes") or ():
        for kind, field in (("persistentVolumeClaim", "claimName"), ("configMap", "name")):
            if kind in volume:
                yield (volume[kind][field],)


def _topology(place: WorkloadContext) -> Alternatives:
    notes = place.manifests[0]["metadata"].get("annotations") or {}
    yield (notes.get(labels.TOPOLOGY, ""),)
    yield (notes.get(labels.TOPOLOGY_REQUIRED, ""),)


def _gang(place: WorkloadContext) -> Alternatives:
    """The minimum and how many there are."""
    first = place.manifests[0]
    least = first["spec"].get("minMember") or (first["metadata"].get("annotations") or {}).get(labels.BATCH_MIN_MEMBER)
    if least:
        yield str(least), str(len(place.work.pods(place.lab)))


def _gpus(place: WorkloadContext) -> Alternatives:
    """What a pod of it asks for, or several of them; of CPU and memory, and of shares of a GPU, one pod's."""
    pod = _pod(place)
    notes = pod["metadata"].get("annotations") or {}
    yield from ((notes[key],) for key in (labels.GPU_MEMORY, labels.GPU_FRACTION) if key in notes)
    resources = pod["spec"]["containers"][0]["resources"]
    yield from ((str(amount).rstrip("GTi"),) for amount in (resources.get("requests") or {}).values())
    each = int((resources.get("limits") or {}).get(labels.GPU_RESOURCE, 0))
    if each:
        most = max(place.work.wanted(place.lab), len(place.work.pods(place.lab)), 1)
        yield from ((str(each * number),) for number in range(1, most + 1))


def _text(*texts: str) -> Callable[[WorkloadContext], Alternatives]:
    return lambda _: iter([(text,) for text in texts])


_NEEDED: Mapping[str, Callable[[WorkloadContext], Alternatives]] = {
    Code.QUEUE_LABEL_MISSING: _text(labels.QUEUE),
    Code.QUEUE_MISSING: lambda place: iter([(place.queue,)]),
    Code.QUEUE_NOT_LEAF: lambda place: iter([(place.queue,)]),
    Code.QUEUE_PARENT_MISSING: _parent,
    Code.QUEUE_HAS_NO_RESOURCES: _queue,
    Code.OVER_LIMIT: _queues("limit"),
    Code.NON_PREEMPTIBLE_OVER_QUOTA: _queues("quota"),
    Code.FAIR_SHARE_REACHED: _queue,
    Code.NO_WEIGHT: _queue,
    Code.GANG_INCOMPLETE: _gang,
    Code.SCHEDULING_GATED: _text("lab/budget"),
    Code.SUSPENDED: _text("suspend"),
    Code.SELECTOR_MATCHES_NO_NODE: _selected,
    Code.TAINT_NOT_TOLERATED: _taints,
    Code.NODES_CORDONED: _cordoned,
    Code.VOLUME_MISSING: _volumes,
    Code.TOPOLOGY_UNKNOWN: _topology,
    Code.NODE_POOL_NOT_SERVED: _text("workers"),
    Code.PRIORITY_CLASS_MISSING: _text("research-high"),
    Code.BIND_REFUSED: _text("cost centre"),
    Code.NOT_ENOUGH_GPUS: _gpus,
    Code.FRAGMENTED: _gpus,
    Code.LARGER_THAN_ANY_NODE: _gpus,
    Code.LARGER_THAN_THE_FLEET: _gpus,
    Code.NO_DOMAIN_FREE: _gpus,
    Code.LARGER_THAN_ANY_DOMAIN: _gpus,
}
