"""What KAI makes of work, where few people mean it: no scheduler named, non-preemptible by its class, in KAI's own namespace,
rules that it does not look at.

It takes the objects together with what the cluster holds, and every API server accepts them, so it is advice.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any

from kailab.cluster.base import KAI_PRIORITY_CLASSES
from kailab.cluster.protocol import Cluster
from kailab.grouping.queues import DEFAULT_QUEUE, PROJECT
from kailab.lab.intake import goes_by_its_labels
from kailab.model import labels
from kailab.model.kinds import is_namespaced
from kailab.model.manifests import Manifest, Manifests, Notice
from kailab.model.validation.advice import advise_ignored, advise_old_label, advise_scheduler, pod_templates
from kailab.model.validation.devices import advise_claim
from kailab.model.validation.fields import Faults
from kailab.scheduler.reading.podgroups import NON_PREEMPTIBLE_FROM

KAI_NAMESPACE = "kai-scheduler"
_QUEUE_LABELS = {labels.QUEUE, labels.QUEUE_RUNAI, PROJECT}


def under_kai(
    cluster: Cluster, manifests: Manifests, namespace: str, adopted: bool, alone: bool = False
) -> list[Notice]:
    """What is to be said about work that KAI's rules treat in another way than its manifest suggests. ``adopted``: pods that name no
    scheduler are KAI's too. ``alone``: no other scheduler is in the cluster. Each class is told once, where it is first named."""
    work = [one for one in manifests if _is_kais(one)]
    found = [] if adopted else _told(manifests, advise_scheduler, "no-scheduler")
    if alone and not adopted:
        found += _told((one for one in manifests if one not in work), _advise_unplaced, "no-scheduler")
    found += _told(
        [*(one for one in manifests if one.kind == "PriorityClass"), *work], advise_ignored, "ignored-by-kai"
    )
    found += _told(manifests, advise_old_label, "ignored-by-kai")
    found += _told(
        (one for one in manifests if one.kind in ("ResourceClaim", "ResourceClaimTemplate")), advise_claim, "not-meant"
    )
    found += [notice for one in work if (notice := _in_kais_namespace(one, namespace)) is not None]
    # With the queues that come in the same manifests: what is applied together is judged together.
    queues = {
        one["metadata"]["name"] for one in (*cluster.list("Queue"), *(m.object for m in manifests if m.kind == "Queue"))
    }
    if DEFAULT_QUEUE not in queues:
        spaces = _spaces_with_queue(cluster, manifests)
        found += [notice for one in work if (notice := _without_queue(one, namespace, spaces)) is not None]
    found += _of_other_vendors(cluster, work)
    classes = [one.object for one in manifests if one.kind == "PriorityClass"]
    high = {
        one["metadata"]["name"]: one["value"]
        for one in (*(cluster.list("PriorityClass") if work else ()), *classes)
        if isinstance(one.get("value"), int)
    }
    # KAI's own classes are meant as they are (inference, build and the like); only those of the user may be a surprise.
    high = {
        name: value
        for name, value in high.items()
        if value >= NON_PREEMPTIBLE_FROM and name not in KAI_PRIORITY_CLASSES
    }
    for one in work:
        for path, name in _classes(one) if not _says_preemptibility(one) else ():
            # Taken out where it is told, so that each class is told once.
            if (value := high.pop(name, None)) is not None:
                text = (
                    f"{name!r} has the value {value}: from {NON_PREEMPTIBLE_FROM} on KAI takes work as "
                    "non-preemptible: it runs only inside its queue's quota and is never evicted. If it may be evicted, use a "
                    f"value below {NON_PREEMPTIBLE_FROM} or the label {labels.PREEMPTIBILITY}: preemptible; if not, say so "
                    "with non-preemptible"
                )
                found.append(Notice(text, one.where(path), "class-non-preemptible"))
    return found


def _advise_unplaced(faults: Faults, obj: dict[str, Any]) -> None:
    for path, pod in pod_templates(obj):
        if pod["spec"].get("schedulerName") in (None, labels.DEFAULT_SCHEDULER_NAME):
            faults.add(
                f"{path}spec.schedulerName",
                f"names no scheduler of this lab, so nobody places its pods: say {labels.SCHEDULER_NAME} (and a queue, by the "
                f"label {labels.QUEUE}), or begin the lab with --adopt-default-scheduler",
            )


def _told(manifests: Iterable[Manifest], advise: Callable[[Faults, dict[str, Any]], None], rule: str) -> list[Notice]:
    found: list[Notice] = []
    for one in manifests:
        faults = Faults()
        advise(faults, one.object)
        found += [Notice(text, one.where(path), rule) for path, text in faults.found]
    return found


def _is_kais(one: Manifest) -> bool:
    """Work that KAI looks at: in a queue, or handed to it by name."""
    if one.kind == "PodGroup":
        return True
    pods = [pod for _, pod in pod_templates(one.object)]
    return any(pod["spec"].get("schedulerName") == labels.SCHEDULER_NAME for pod in pods) or (
        bool(pods) and any(labels.QUEUE in _labels(holder) for holder in (one.object, *pods))
    )


def _in_kais_namespace(one: Manifest, namespace: str) -> Notice | None:
    """Source: the selectors of KAI's webhooks, which its operator makes; KAI's own guide forbids it without a reason."""
    if not is_namespaced(one.kind, one.object):
        return None
    if (one.object["metadata"].get("namespace") or namespace) != KAI_NAMESPACE:
        return None
    text = (
        f"{KAI_NAMESPACE} is where KAI itself runs: its webhooks pass over pods there, so that shared GPUs are neither checked nor "
        "set up for them, and KAI's guide asks to keep work out of it; use a namespace of your own"
    )
    return Notice(text, one.where("metadata.namespace"), "kais-namespace")


def _spaces_with_queue(cluster: Cluster, manifests: Iterable[Manifest]) -> set[str]:
    """Namespaces that say which queue everything in them is for."""
    there = (*cluster.list("Namespace"), *(one.object for one in manifests if one.kind == "Namespace"))
    return {one["metadata"]["name"] for one in there if labels.QUEUE_RUNAI in _labels(one)}


def _without_queue(one: Manifest, namespace: str, spaces: Container[str]) -> Notice | None:
    """Work that says in none of the ways that KAI reads which queue it is for, where there is no queue for such work. ``spaces``:
    namespaces that say it of everything in them."""
    holders = [one.object, *(pod for _, pod in pod_templates(one.object))]
    if one.kind == "PodGroup" or not goes_by_its_labels(one):
        return None
    if (one.object["metadata"].get("namespace") or namespace) in spaces or any(
        _labels(each).keys() & _QUEUE_LABELS for each in holders
    ):
        return None
    text = f"is missing: the work goes to the queue {DEFAULT_QUEUE}, which is not there, and stays pending (QueueDoesNotExist)"
    return Notice(text, one.where(f"metadata.labels[{labels.QUEUE}]"), "no-queue")


def _of_other_vendors(cluster: Cluster, work: Iterable[Manifest]) -> Iterator[Notice]:
    """Work that names the GPUs of one vendor and no nodes, where nodes have those of another. Source: KAI's resource vectors, which make one
    resource of both (normalizeResourceName), and none of whose predicates looks at the name."""
    asking = [
        (one, path, pod["spec"], name)
        for one in work
        for path, pod in pod_templates(one.object)
        for name in labels.GPU_RESOURCES
        if any(
            name in ((each.get("resources") or {}).get("limits") or {}) for each in pod["spec"].get("containers") or ()
        )
    ]
    nodes = cluster.list("Node") if asking else []
    offered = {
        name: [node for node in nodes if name in ((node.get("status") or {}).get("allocatable") or {})]
        for name in labels.GPU_RESOURCES
    }
    if not all(offered.values()):
        return
    for one, path, spec, name in asking:
        (other,) = (each for each in labels.GPU_RESOURCES if each != name)
        selector = spec.get("nodeSelector") or {}
        open_to = [
            node for node in offered[other] if selector.items() <= (node["metadata"].get("labels") or {}).items()
        ]
        if open_to and not (spec.get("affinity") or {}).get("nodeAffinity"):
            text = (
                f"asks for {name}, and names no nodes: KAI takes {other} for the same, so pods may be placed on "
                f"{open_to[0]['metadata']['name']}, where they get none; select nodes, as by a label of the vendor's operator"
            )
            yield Notice(text, one.where(f"{path}spec.nodeSelector"), "gpu-vendor")


def _classes(one: Manifest) -> Iterator[tuple[str, str]]:
    """The PriorityClasses that work names, each with its place: by label before by field, as KAI reads them."""
    obj = one.object
    pods = list(pod_templates(obj))
    for path, holder in (("", obj), *(item for item in pods if item[0])):
        if isinstance(name := _labels(holder).get(labels.PRIORITY_CLASS), str):
            yield f"{path}metadata.labels[{labels.PRIORITY_CLASS}]", name
            return
    own = [("", obj)] if one.kind == "PodGroup" else pods
    for path, holder in own:
        name = holder["spec"].get("priorityClassName") if isinstance(holder.get("spec"), dict) else None
        if isinstance(name, str):
            yield f"{path}spec.priorityClassName", name


def _says_preemptibility(one: Manifest) -> bool:
    obj = one.object
    if one.kind == "PodGroup" and isinstance(obj.get("spec"), dict) and obj["spec"].get("preemptibility"):
        return True
    return any(labels.PREEMPTIBILITY in _labels(holder) for holder in (obj, *(pod for _, pod in pod_templates(obj))))


def _labels(holder: dict[str, Any]) -> dict[str, Any]:
    metadata = holder.get("metadata")
    found = metadata.get("labels") if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}
