"""What of KAI stands in a cluster: whether a lab put it there, what its pods lack, what has to go with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kailab.cluster.images import without_image
from kailab.cluster.install import CRD, INSTALLED_BY
from kailab.cluster.protocol import Cluster, Object
from kailab.errors import NotFound
from kailab.model.kinds import key_of
from kailab.model.times import parse_time
from kailab.undertest.kai.chart.rendering import RELEASE

CHART_NOTE = "kailab.dev/kai-chart"
"""Annotation of KAI's namespace: the release whose chart a lab installed."""
OBJECTS_NOTE = "kailab.dev/kai-chart-objects"
"""Annotation of KAI's namespace: what that chart makes for the whole cluster, as ``Kind/name`` with commas between."""

_ADMISSION = "admissionregistration.k8s.io"
_WIDE = {
    "Namespace": "",
    "PriorityClass": "scheduling.k8s.io",
    "ClusterRole": "rbac.authorization.k8s.io",
    "ClusterRoleBinding": "rbac.authorization.k8s.io",
    "MutatingWebhookConfiguration": _ADMISSION,
    "ValidatingWebhookConfiguration": _ADMISSION,
}
KEYS = {kind: key_of(f"{group}/v1" if group else "v1", kind) for kind, group in _WIDE.items()}
"""Kinds of objects for the whole cluster that KAI's charts make -> their kind keys, in the order in which to look at them."""

_GROUPS = ("scheduling.run.ai", "kai.scheduler")
_UNPLACED_SECONDS = 120.0


def installed_release(cluster: Cluster) -> str:
    """The release that a lab installed; empty for none."""
    return str(_notes(_namespace(cluster)).get(CHART_NOTE, ""))


def noted_objects(cluster: Cluster) -> list[tuple[str, str]]:
    """(kind key, name) of what the installed chart makes for the whole cluster."""
    told = str(_notes(_namespace(cluster)).get(OBJECTS_NOTE, ""))
    pairs = (one.partition("/") for one in told.split(",") if one)
    return [(KEYS[kind], name) for kind, _, name in pairs if kind in KEYS]


def wide(objects: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """(kind, name) of those of a chart's objects that are the whole cluster's."""
    found = [(obj["kind"], obj["metadata"]["name"]) for obj in objects if obj.get("kind") in KEYS]
    return sorted(set(found), key=lambda one: ([*KEYS].index(one[0]), one[1]))


def in_the_way(cluster: Cluster, objects: list[dict[str, Any]]) -> list[str]:
    """What is there already of what the chart would make, and no lab's: it would be taken over, and removed in the end."""
    found = [f"{CRD} {crd['metadata']['name']}" for crd in definitions(cluster) if not _labs(crd)]
    names = [*wide(objects), ("Namespace", RELEASE.namespace)]
    for kind, name in dict.fromkeys(names):
        try:
            obj = cluster.get(KEYS[kind], name)
        except NotFound:
            continue
        if not _labs(obj):
            found.append(f"{kind} {name}")
    return found


def definitions(cluster: Cluster) -> list[Object]:
    """Of KAI's kinds, whoever brought them."""
    return [crd for crd in cluster.list(CRD) if crd["spec"]["group"] in _GROUPS]


def webhooks(cluster: Cluster) -> Iterator[tuple[str, str]]:
    """(kind key, name) of configurations that call services of KAI's namespace: its operator makes them."""
    for kind in (key for key in KEYS.values() if key.endswith(_ADMISSION)):
        for obj in cluster.list(kind):
            called = [(one.get("clientConfig") or {}).get("service") or {} for one in obj.get("webhooks") or ()]
            if any(service.get("namespace") == RELEASE.namespace for service in called):
                yield kind, obj["metadata"]["name"]


def cannot_start(cluster: Cluster) -> str:
    """The first pod of KAI whose image is not to be had, or that no node takes for long, and why; empty for none."""
    for pod in cluster.list("Pod", RELEASE.namespace):
        if refused := _unplaced(pod, cluster.now()):
            return refused
        if lacking := without_image(pod):
            return lacking
    return ""


def _unplaced(pod: Object, now: float) -> str:
    if pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]:
        return ""
    since = parse_time(pod["metadata"]["creationTimestamp"])
    conditions = (pod.get("status") or {}).get("conditions") or ()
    why = next((one.get("message", "") for one in conditions if one.get("reason") == "Unschedulable"), "")
    return f"pod {pod['metadata']['name']} has no node: {why}" if why and now - since > _UNPLACED_SECONDS else ""


def failing(cluster: Cluster) -> str:
    """The first pod of KAI that does not run, and why; empty where all do."""
    for pod in cluster.list("Pod", RELEASE.namespace):
        status = pod.get("status") or {}
        if status.get("phase") == "Succeeded" or "deletionTimestamp" in pod["metadata"]:
            continue
        for container in status.get("containerStatuses") or ():
            state = container.get("state") or {}
            if (told := state.get("waiting") or state.get("terminated")) is not None:
                last = (container.get("lastState") or {}).get("terminated") or {}
                code = f" (it ended with {last['exitCode']})" if "exitCode" in last else ""
                return f"pod {pod['metadata']['name']}: {told.get('reason', 'not running')}{code}"
        if not status.get("containerStatuses"):
            conditions = status.get("conditions") or ()
            why = next((one.get("message", "") for one in conditions if one.get("status") == "False"), "")
            return f"pod {pod['metadata']['name']}: {status.get('phase', 'Pending')} {why}".rstrip()
    return ""


def rolled_out(cluster: Cluster, told: Mapping[str, str], scheduler: bool) -> str:
    """What is still missing until KAI's Deployments stand as they are to; empty once they do. ``told``: flags that its scheduler is
    to have; ``scheduler``: whether an operator still has to make its Deployment."""
    deployments = cluster.list("Deployment", RELEASE.namespace)
    schedulers = [one for one in deployments if _runs_scheduler(one)]
    if scheduler and not schedulers:
        return "the operator has made no Deployment of the scheduler"
    for one in schedulers:
        arguments = [arg for box in _containers(one) for arg in box.get("args") or ()]
        if lacking := [flag for flag, value in told.items() if f"--{flag}={value}" not in arguments]:
            return f"Deployment {one['metadata']['name']} is not told --{lacking[0]}"
    for one in deployments:
        wanted, status = one["spec"].get("replicas", 1), one.get("status") or {}
        fresh = status.get("observedGeneration") == one["metadata"].get("generation")
        if not fresh or any(
            status.get(key, 0) != wanted for key in ("updatedReplicas", "availableReplicas", "replicas")
        ):
            return f"Deployment {one['metadata']['name']} is not available"
    return ""


def _runs_scheduler(deployment: Object) -> bool:
    # By its image: releases call the Deployment otherwise.
    return any("/scheduler:" in str(box.get("image", "")) for box in _containers(deployment))


def _containers(deployment: Object) -> list[Object]:
    found: list[Object] = deployment["spec"]["template"]["spec"]["containers"]
    return found


def _namespace(cluster: Cluster) -> Object:
    try:
        return cluster.get("Namespace", RELEASE.namespace)
    except NotFound:
        return {}


def _notes(obj: Object) -> Mapping[str, Any]:
    return (obj.get("metadata") or {}).get("annotations") or {}


def _labs(obj: Object) -> bool:
    return INSTALLED_BY in (obj["metadata"].get("labels") or {}) or CHART_NOTE in _notes(obj)
