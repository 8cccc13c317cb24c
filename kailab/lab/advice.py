"""Advice about work that KAI treats in another way than most people expect: no scheduler named, non-preemptible by its PriorityClass, in
KAI's own namespace, rules that KAI does not read. Every API server accepts such objects.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any

from kailab.cluster.base_objects import KAI_PRIORITY_CLASSES
from kailab.cluster.protocol import Cluster
from kailab.grouping.default import PROJECT
from kailab.lab.intake import is_queued_by_labels
from kailab.model import labels
from kailab.model.kinds import is_namespaced
from kailab.model.manifests import Manifest, Manifests, Notice
from kailab.model.objects import Object, annotations_of, labels_of, name_of, namespace_of, priority_of, status_of
from kailab.model.validation.advice import advise_ignored, advise_old_label, advise_scheduler, described_pods
from kailab.model.validation.devices import advise_claim
from kailab.model.validation.fields import Faults, shown
from kailab.scheduler.reading.podgroups import NON_PREEMPTIBLE_FROM

KAI_NAMESPACE = "kai-scheduler"
_QUEUE_LABELS = {labels.QUEUE, labels.QUEUE_RUNAI, PROJECT}


def advise_under_kai(
    cluster: Cluster, manifests: Manifests, namespace: str, adopted: bool, alone: bool = False, closed: bool = False
) -> list[Notice]:
    """Notices about work that KAI treats in another way than its manifest suggests. ``adopted``: pods that name no scheduler are KAI's too.
    ``alone``: the cluster has no other scheduler. ``closed``: it has none but KAI's and the default one. A PriorityClass is reported once, where it is first named."""
    work: list[Manifest] = []
    others: list[Manifest] = []
    for manifest in manifests:
        (work if _is_for_kai(manifest) else others).append(manifest)
    result = [] if adopted else _notices_of(manifests, advise_scheduler, "no-scheduler")
    if alone and not adopted:
        result += _notices_of(others, _advise_unplaced, "no-scheduler")
    if closed:
        # One notice is enough for one field.
        places = {notice.where for notice in result}
        result += [n for n in _notices_of(manifests, _advise_foreign, "no-scheduler") if n.where not in places]
    result += _notices_of(
        [*(manifest for manifest in manifests if manifest.kind == "PriorityClass"), *work],
        advise_ignored,
        "ignored-by-kai",
    )
    result += _notices_of(manifests, advise_old_label, "ignored-by-kai")
    result += _notices_of(
        (manifest for manifest in manifests if manifest.kind in ("ResourceClaim", "ResourceClaimTemplate")),
        advise_claim,
        "not-meant",
    )
    result += [notice for manifest in work if (notice := _in_kais_namespace(manifest, namespace)) is not None]
    # Queues in the same manifests count, because all are applied together.
    queues = {name_of(queue) for queue in (*cluster.list("Queue"), *(m.object for m in manifests if m.kind == "Queue"))}
    if labels.DEFAULT_QUEUE not in queues:
        spaces = _spaces_with_queue(cluster, manifests)
        result += [notice for manifest in work if (notice := _without_queue(manifest, namespace, spaces)) is not None]
    result += _of_other_vendors(cluster, work)
    result += _of_hami(cluster, work)
    result += _of_other_schedulers(work)
    if closed:
        result += [
            Notice(_FAKE_POOL_TEXT, manifest.where(f"metadata.labels[{_FAKE_POOL}]"), "not-meant")
            for manifest in manifests
            if manifest.kind == "Node" and _FAKE_POOL in labels_of(manifest.object)
        ]
    classes = [manifest.object for manifest in manifests if manifest.kind == "PriorityClass"]
    high = {
        name_of(priority_class): priority_of(priority_class)
        for priority_class in (*(cluster.list("PriorityClass") if work else ()), *classes)
        if isinstance(priority_class.get("value"), int)
    }
    # Users of KAI's own classes (inference, build) know what they mean.
    high = {
        name: value
        for name, value in high.items()
        if value >= NON_PREEMPTIBLE_FROM and name not in KAI_PRIORITY_CLASSES
    }
    for manifest in work:
        for path, name in _classes(manifest) if not _says_preemptibility(manifest) else ():
            # Each class is reported once.
            if (value := high.pop(name, None)) is not None:
                text = (
                    f"{name!r} has the value {value}: from {NON_PREEMPTIBLE_FROM} on KAI takes work as "
                    "non-preemptible: it runs only inside its queue's quota and is never evicted. If it may be evicted, use a "
                    f"value below {NON_PREEMPTIBLE_FROM} or the label {labels.PREEMPTIBILITY}: preemptible; if not, set the label to "
                    "non-preemptible"
                )
                result.append(Notice(text, manifest.where(path), "class-non-preemptible"))
    return result


def _advise_unplaced(faults: Faults, obj: dict[str, Any]) -> None:
    for _, path, pod, _ in described_pods(obj):
        if pod["spec"].get("schedulerName") in (None, labels.DEFAULT_SCHEDULER_NAME):
            faults.add(
                f"{path}schedulerName",
                f"names no scheduler of this lab, so no scheduler places its pods: name {labels.SCHEDULER_NAME} (and a queue, by the "
                f"label {labels.QUEUE}), or open the lab with --scheduler kailab+kube-scheduler (kube-scheduler places them, as in a cluster) or "
                "--adopt-default-scheduler (kailab's does)",
            )


def _advise_foreign(faults: Faults, obj: dict[str, Any]) -> None:
    for _, path, pod, _ in described_pods(obj):
        name = pod["spec"].get("schedulerName")
        if name not in (None, "", labels.SCHEDULER_NAME, labels.DEFAULT_SCHEDULER_NAME):
            faults.add(
                f"{path}schedulerName", f"{shown(name)}: no scheduler of this name runs here, so the pods stay pending"
            )


def _notices_of(
    manifests: Iterable[Manifest], advise: Callable[[Faults, dict[str, Any]], None], rule: str
) -> list[Notice]:
    result: list[Notice] = []
    for manifest in manifests:
        faults = Faults()
        advise(faults, manifest.object)
        # Several pods of an object may share a field.
        result += [Notice(text, manifest.where(path), rule) for path, text in dict.fromkeys(faults.found)]
    return result


def _is_for_kai(manifest: Manifest) -> bool:
    """Work that KAI schedules: it has a queue label or names KAI as its scheduler."""
    if manifest.kind == "PodGroup":
        return True
    pods = [described.pod for described in described_pods(manifest.object)]
    return any(pod["spec"].get("schedulerName") == labels.SCHEDULER_NAME for pod in pods) or (
        bool(pods) and any(labels.QUEUE in _labels(holder) for holder in (manifest.object, *pods))
    )


def _in_kais_namespace(manifest: Manifest, namespace: str) -> Notice | None:
    """Source: the namespace selectors of KAI's webhooks, which its operator writes. KAI's guide forbids work there without a reason."""
    if not is_namespaced(manifest.kind, manifest.object):
        return None
    if (namespace_of(manifest.object) or namespace) != KAI_NAMESPACE:
        return None
    text = (
        f"{KAI_NAMESPACE} is KAI's own namespace: its webhooks ignore pods there, so shared GPUs are neither checked nor "
        "set up for them, and KAI's guide asks to keep work out of it; use another namespace"
    )
    return Notice(text, manifest.where("metadata.namespace"), "kais-namespace")


def _spaces_with_queue(cluster: Cluster, manifests: Iterable[Manifest]) -> set[str]:
    """Namespaces with the label that sets a queue for all work in them."""
    there = (*cluster.list("Namespace"), *(manifest.object for manifest in manifests if manifest.kind == "Namespace"))
    return {name_of(space) for space in there if labels.QUEUE_RUNAI in _labels(space)}


def _without_queue(manifest: Manifest, namespace: str, spaces: Container[str]) -> Notice | None:
    """A notice for work that names no queue in any way that KAI reads, so that it goes to the default queue, which does not exist.
    ``spaces``: namespaces that set a queue for all work in them."""
    holders = [manifest.object, *(described.pod for described in described_pods(manifest.object))]
    if manifest.kind == "PodGroup" or not is_queued_by_labels(manifest):
        return None
    if (namespace_of(manifest.object) or namespace) in spaces or any(
        _labels(each).keys() & _QUEUE_LABELS for each in holders
    ):
        return None
    text = f"is missing: the work goes to the queue {labels.DEFAULT_QUEUE}, which does not exist, and stays pending (QueueDoesNotExist). KAI's chart makes it, and so does `kailab up --default-queues`"
    return Notice(text, manifest.where(f"metadata.labels[{labels.QUEUE}]"), "no-queue")


def _of_other_vendors(cluster: Cluster, work: Iterable[Manifest]) -> Iterator[Notice]:
    """Notices for work that names the GPUs of one vendor but no nodes, while nodes have GPUs of the other vendor. Source: KAI's resource
    vectors, which count both as one resource (normalizeResourceName); no predicate of KAI reads the name."""
    asking = [
        (manifest, path, pod["spec"], name)
        for manifest in work
        for _, path, pod, _ in described_pods(manifest.object)
        for name in labels.GPU_RESOURCES
        if any(
            name in ((each.get("resources") or {}).get("limits") or {}) for each in pod["spec"].get("containers") or ()
        )
    ]
    nodes = cluster.list("Node") if asking else []
    offered = {
        name: [node for node in nodes if name in (status_of(node).get("allocatable") or {})]
        for name in labels.GPU_RESOURCES
    }
    if not all(offered.values()):
        return
    for manifest, path, spec, name in asking:
        (other,) = (each for each in labels.GPU_RESOURCES if each != name)
        selector = spec.get("nodeSelector") or {}
        open_to = [node for node in offered[other] if selector.items() <= labels_of(node).items()]
        if open_to and not (spec.get("affinity") or {}).get("nodeAffinity"):
            text = (
                f"asks for {name} but selects no nodes: KAI counts {other} as the same resource, so pods may be placed on "
                f"{name_of(open_to[0])}, where they get none; select nodes, for example by a label of the vendor's operator"
            )
            yield Notice(text, manifest.where(f"{path}nodeSelector"), "gpu-vendor")


_FAKE_POOL = "run.ai/simulated-gpu-node-pool"
_FAKE_POOL_TEXT = "is the fake-gpu-operator's, which publishes the GPUs of its pool on such a node; here the node offers what its status says"


_HAMI_RESOURCES = ("nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores", "nvidia.com/priority")
_HAMI_ANNOTATIONS = (
    "nvidia.com/use-gputype", "nvidia.com/nouse-gputype", "nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid", "nvidia.com/vgpu-mode",
    "hami.io/node-scheduler-policy", "hami.io/gpu-scheduler-policy",
)  # fmt: skip


def _of_hami(cluster: Cluster, work: Iterable[Manifest]) -> list[Notice]:
    """Notices about HAMi's resources and annotations in work of KAI, each name once. HAMi's own scheduler divides GPUs by them; KAI counts a
    resource of that name on the nodes that offer it."""
    notices: dict[str, Notice] = {}
    nodes: list[Object] | None = None
    for manifest in work:
        for metadata, spec, pod, _ in described_pods(manifest.object):
            for index, container in enumerate(pod["spec"].get("containers") or ()):
                resources = container.get("resources") or {}
                asked = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
                for name in set(_HAMI_RESOURCES).intersection(asked).difference(notices):
                    nodes = cluster.list("Node") if nodes is None else nodes
                    offered = any(name in (status_of(node).get("allocatable") or {}) for node in nodes)
                    then = (
                        "KAI counts it as a resource of the whole node, not of a GPU"
                        if offered
                        else "KAI takes it for a resource of nodes, and no node offers it, so the pods never run"
                    )
                    text = (
                        f"is HAMi's, whose own scheduler divides GPUs by it: {then}; for a part of a GPU under KAI use the "
                        f"annotation {labels.GPU_MEMORY} (in MiB) or {labels.GPU_FRACTION}, without {labels.GPU_RESOURCE}"
                    )
                    field = f"{spec}containers[{index}].resources.limits[{name}]"
                    notices[name] = Notice(text, manifest.where(field), "ignored-by-kai")
            for name in set(_HAMI_ANNOTATIONS).intersection(annotations_of(pod)).difference(notices):
                text = (
                    "is HAMi's, and KAI does not read it; select nodes by their labels, such as nvidia.com/gpu.product"
                )
                notices[name] = Notice(text, manifest.where(f"{metadata}annotations[{name}]"), "ignored-by-kai")
    return [notices[name] for name in sorted(notices)]


_SUSPENDS = "Kueue, where it runs, keeps the work suspended until its queue admits it"
_OTHER_SCHEDULERS = {
    ("labels", "kueue.x-k8s.io/queue-name"): ("Kueue", _SUSPENDS),
    ("labels", "kueue.x-k8s.io/pod-group-name"): ("Kueue", _SUSPENDS),
    ("labels", "scheduling.x-k8s.io/pod-group"): ("the coscheduling plugin", ""),
    ("annotations", "scheduling.k8s.io/group-name"): ("Volcano", ""),
    ("annotations", "scheduling.volcano.sh/group-name"): ("Volcano", ""),
    ("annotations", "scheduling.volcano.sh/queue-name"): ("Volcano", ""),
    ("annotations", "yunikorn.apache.org/task-groups"): ("YuniKorn", ""),
}
"""Where other schedulers have the queue or the gang of work: (field of the metadata, key) -> whose it is, and what a cluster does with it."""


def _of_other_schedulers(work: Iterable[Manifest]) -> list[Notice]:
    """Notices about queues and gangs of other schedulers in work of KAI, each name once."""
    notices: dict[str, Notice] = {}
    for manifest in work:
        pods = [(each.metadata, each.pod) for each in described_pods(manifest.object) if not each.itself]
        for path, holder in (("metadata.", manifest.object), *pods):
            for (field, key), (whose, in_cluster) in _OTHER_SCHEDULERS.items():
                if key in (labels_of(holder) if field == "labels" else annotations_of(holder)):
                    where = manifest.where(f"{path}{field}[{key}]")
                    text = f"is for {whose}, and KAI does not read it: nothing here acts on it"
                    notices.setdefault(key, Notice(text, where, "ignored-by-kai", in_cluster))
    return list(notices.values())


def _classes(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """The PriorityClasses that work names, each with its field: labels before fields, as KAI reads them."""
    obj = manifest.object
    pods = list(described_pods(obj))
    holders = [("metadata.", obj), *((each.metadata, each.pod) for each in pods if not each.itself)]
    for path, holder in holders:
        if isinstance(name := _labels(holder).get(labels.PRIORITY_CLASS), str):
            yield f"{path}labels[{labels.PRIORITY_CLASS}]", name
            return
    own = [("spec.", obj)] if manifest.kind == "PodGroup" else [(each.spec, each.pod) for each in pods]
    for path, holder in own:
        name = holder["spec"].get("priorityClassName") if isinstance(holder.get("spec"), dict) else None
        if isinstance(name, str):
            yield f"{path}priorityClassName", name


def _says_preemptibility(manifest: Manifest) -> bool:
    obj = manifest.object
    if manifest.kind == "PodGroup" and isinstance(obj.get("spec"), dict) and obj["spec"].get("preemptibility"):
        return True
    return any(
        labels.PREEMPTIBILITY in _labels(holder)
        for holder in (obj, *(described.pod for described in described_pods(obj)))
    )


def _labels(holder: dict[str, Any]) -> dict[str, Any]:
    metadata = holder.get("metadata")
    own = metadata.get("labels") if isinstance(metadata, dict) else None
    return own if isinstance(own, dict) else {}
