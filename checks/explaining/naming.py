"""What the sentence of a cause has to name, read from the manifests: the queue and its limit, the label, the claim, the
amount ...
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from checks.explaining.misconfigurations import template_of
from checks.explaining.workload_context import WorkloadContext
from kailab.cluster.protocol import Object
from kailab.lab.answer import CauseCode
from kailab.model import labels
from kailab.model.objects import condition_of

Alternatives = Iterator[tuple[str, ...]]
"""Sets of texts, one of which has to be named in full."""


def missing_names(context: WorkloadContext, code: str, sentence: str) -> str:
    """What the sentence of a cause fails to name; empty if nothing is missing."""
    needed = _NEEDED.get(code)
    if needed is None:
        return ""
    sets = list(needed(context))
    if code == CauseCode.GANG_INCOMPLETE and sentence.startswith("Without other work"):
        # How many pods exist then is not known here: a ResourceQuota that others use up refuses some of them.
        sets = [texts[:1] for texts in sets]
    if not sets or any(all(mentions(sentence, text) for text in texts) for texts in sets):
        return ""
    return f"it names none of: {'; '.join(' and '.join(texts) for texts in sets[:6])}"


def mentions(sentence: str, text: str) -> bool:
    """True if a text occurs in a sentence, in any case; a number has to stand alone.

    >>> mentions("20 GPUs", "20"), mentions("120 GPUs", "20"), mentions("2.20", "20")
    (True, False, False)
    """
    if re.fullmatch(r"[0-9.]+", text):
        return re.search(rf"(?<![0-9.]){re.escape(text)}(?![0-9]|\.[0-9])", sentence) is not None
    return text.lower() in sentence.lower()


def _queues(field: str) -> Callable[[WorkloadContext], Alternatives]:
    """A queue on the path of the workload, with one of its amounts of that field."""

    def needed(context: WorkloadContext) -> Alternatives:
        for name in context.queue_path():
            resources = context.queues[name]["spec"].get("resources") or {}
            for resource, unit in (("gpu", 1), ("cpu", 1000), ("memory", 1000)):
                amount = (resources.get(resource) or {}).get(field, 0)
                if amount >= 0:
                    yield name, f"{amount / unit:g}"
                    yield name, f"{amount:g}"

    return needed


def _queue(context: WorkloadContext) -> Alternatives:
    yield from ((name,) for name in (context.queue_path() or [context.queue]))


def _parent(context: WorkloadContext) -> Alternatives:
    line = context.queue_path()
    if line:
        yield (str(context.queues[line[-1]]["spec"].get("parentQueue")),)


def _pod(context: WorkloadContext) -> Object:
    manifests = [manifest for manifest in context.manifests if manifest["kind"] != "PodGroup"]
    return template_of(manifests[0])


def _taints(context: WorkloadContext) -> Alternatives:
    for node in context.lab.cluster.list("Node"):
        yield from ((taint["key"],) for taint in (node.get("spec") or {}).get("taints") or ())


def _cordoned(context: WorkloadContext) -> Alternatives:
    for node in context.lab.cluster.list("Node"):
        if (node.get("spec") or {}).get("unschedulable") or (condition_of(node, "Ready") or {}).get(
            "status"
        ) == "False":
            yield (node["metadata"]["name"],)


def _selected(context: WorkloadContext) -> Alternatives:
    spec = _pod(context)["spec"]
    yield from ((value,) for value in (spec.get("nodeSelector") or {}).values())
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    for term in (required or {}).get("nodeSelectorTerms") or ():
        for need in term.get("matchExpressions") or ():
            yield from ((value,) for value in need.get("values") or ())


def _volumes(context: WorkloadContext) -> Alternatives:
    for volume in _pod(context)["spec"].get("volumes") or ():
        for kind, field in (("persistentVolumeClaim", "claimName"), ("configMap", "name")):
            if kind in volume:
                yield (volume[kind][field],)


def _topology(context: WorkloadContext) -> Alternatives:
    notes = context.manifests[0]["metadata"].get("annotations") or {}
    yield (notes.get(labels.TOPOLOGY, ""),)
    yield (notes.get(labels.TOPOLOGY_REQUIRED, ""),)


def _gang(context: WorkloadContext) -> Alternatives:
    """The minimum and the number of pods."""
    first = context.manifests[0]
    least = first["spec"].get("minMember") or (first["metadata"].get("annotations") or {}).get(labels.BATCH_MIN_MEMBER)
    if least:
        yield str(least), str(len(context.work.pods(context.lab)))


def _gpus(context: WorkloadContext) -> Alternatives:
    """The request of one pod or of several pods; for CPU, memory and shares of a GPU, of one pod."""
    pod = _pod(context)
    notes = pod["metadata"].get("annotations") or {}
    yield from ((notes[key],) for key in (labels.GPU_MEMORY, labels.GPU_FRACTION) if key in notes)
    resources = pod["spec"]["containers"][0]["resources"]
    yield from ((str(amount).rstrip("GTi"),) for amount in (resources.get("requests") or {}).values())
    yield from (
        (str(amount),) for name, amount in (resources.get("limits") or {}).items() if name != labels.GPU_RESOURCE
    )
    each = int((resources.get("limits") or {}).get(labels.GPU_RESOURCE, 0))
    if each:
        most = max(context.work.wanted(context.lab), len(context.work.pods(context.lab)), 1)
        yield from ((str(each * number),) for number in range(1, most + 1))


def _domain(context: WorkloadContext) -> Alternatives:
    """The request, or that KAI looks for domains only below the one that all nodes are in, whatever is requested."""
    yield from _gpus(context)
    yield ("KAI's scheduler looks for", "only below")


def _text(*texts: str) -> Callable[[WorkloadContext], Alternatives]:
    return lambda _: iter([(text,) for text in texts])


_NEEDED: Mapping[str, Callable[[WorkloadContext], Alternatives]] = {
    CauseCode.QUEUE_LABEL_MISSING: _text(labels.QUEUE, "spec.queue"),
    CauseCode.QUEUE_MISSING: lambda context: iter([(context.queue,)]),
    CauseCode.QUEUE_NOT_LEAF: lambda context: iter([(context.queue,)]),
    CauseCode.QUEUE_PARENT_MISSING: _parent,
    CauseCode.QUEUE_HAS_NO_RESOURCES: _queue,
    CauseCode.OVER_LIMIT: _queues("limit"),
    CauseCode.NON_PREEMPTIBLE_OVER_QUOTA: _queues("quota"),
    CauseCode.FAIR_SHARE_REACHED: _queue,
    CauseCode.NO_WEIGHT: _queue,
    CauseCode.GANG_INCOMPLETE: _gang,
    CauseCode.SCHEDULING_GATED: _text("lab/budget"),
    CauseCode.SUSPENDED: _text("suspend"),
    CauseCode.SELECTOR_MATCHES_NO_NODE: _selected,
    CauseCode.TAINT_NOT_TOLERATED: _taints,
    CauseCode.NODES_CORDONED: _cordoned,
    CauseCode.VOLUME_MISSING: _volumes,
    CauseCode.TOPOLOGY_UNKNOWN: _topology,
    CauseCode.NODE_POOL_NOT_SERVED: _text("workers"),
    CauseCode.PRIORITY_CLASS_MISSING: _text("research-high"),
    CauseCode.BIND_REFUSED: _text("cost centre"),
    CauseCode.NOT_ENOUGH_GPUS: _gpus,
    CauseCode.FRAGMENTED: _gpus,
    CauseCode.LARGER_THAN_ANY_NODE: _gpus,
    CauseCode.LARGER_THAN_THE_FLEET: _gpus,
    CauseCode.NO_DOMAIN_FREE: _gpus,
    CauseCode.LARGER_THAN_ANY_DOMAIN: _domain,
}
