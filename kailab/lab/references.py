"""Notices about references in manifests to objects that do not exist, and about pods with another priority or preemption policy than their
PriorityClass.

A missing reference is reported if a cluster would refuse the object, delete it or never run it. The notices are advice, because an API server
accepts most such manifests. Each name is reported once, at its first use. An API server refuses a pod with another priority; here the value
of the class counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kailab.cluster.protocol import Cluster, Object
from kailab.model.kinds import KINDS, is_namespaced, key_of, part
from kailab.model.manifests import Manifest, Notice
from kailab.model.objects import annotations_of, name_of, namespace_of, owner_references, spec_of, uid_of
from kailab.model.validation.advice import described_pods
from kailab.model.validation.fields import shown

_REFUSED = "they are refused until there is one"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


class _Reference(NamedTuple):
    kind: str
    namespace: str
    name: str
    uid: str
    field: str
    notice: str
    in_cluster: str = ""


def warn_missing_references(cluster: Cluster, manifests: Iterable[Manifest], namespace: str) -> list[Notice]:
    """A notice for each name that manifests use and that is neither in the manifests nor in the lab."""
    given = {(manifest.kind, name) for manifest in manifests for name in _names_of(manifest.kind, manifest.object)}
    existing: dict[tuple[str, str], dict[tuple[str, str], str]] = {}
    notices: dict[_Reference, Notice] = {}
    for manifest in manifests:
        space = namespace_of(manifest.object) or namespace
        for wanted in _references(manifest, space):
            present = existing.get((wanted.kind, wanted.namespace))
            if present is None:
                present = existing[wanted.kind, wanted.namespace] = _names(cluster, wanted)
            key = wanted.namespace, wanted.name
            # An owner reference means the object with that uid; an owner in the same manifests gets a new uid.
            if wanted.uid and present.get(key) == wanted.uid:
                continue
            if not wanted.uid and (key in present or (wanted.kind, wanted.name) in given):
                continue
            notice = Notice(wanted.notice, manifest.where(wanted.field), "not-meant", wanted.in_cluster)
            notices.setdefault(wanted._replace(field=""), notice)
    return list(notices.values())


def warn_unmet_needs(cluster: Cluster, manifests: Iterable[Manifest], namespace: str) -> list[Notice]:
    """A notice for each object without which no pods are made (``Kind.needs``), if neither the manifests nor the lab have it."""
    given = list(manifests)
    notices: dict[str, Notice] = {}
    for manifest in given:
        needs = part(manifest.kind, "needs")
        for need in needs(manifest.object) if needs is not None else ():
            space = namespace_of(manifest.object) or namespace
            others = [
                other.object
                for other in given
                if other.kind in need.kinds
                and (not KINDS[other.kind].namespaced or (namespace_of(other.object) or namespace) == space)
            ]
            there = [
                obj for kind in need.kinds for obj in cluster.list(kind, space if KINDS[kind].namespaced else None)
            ]
            if not any(map(need.met_by, (*others, *there))):
                notices.setdefault(need.told, Notice(need.told, manifest.where(need.field), "not-meant"))
    return list(notices.values())


def _names(cluster: Cluster, wanted: _Reference) -> dict[tuple[str, str], str]:
    objects = cluster.list(wanted.kind, wanted.namespace or None)
    # An owner is in the namespace of the object that it owns, or has no namespace.
    return {(wanted.namespace, name): uid_of(obj) for obj in objects for name in _names_of(wanted.kind, obj)}


def _names_of(kind: str, obj: Object) -> tuple[str, ...]:
    """The names under which an object is found: its own, and "" for a default StorageClass and for volumes, which claims may use without a
    name."""
    notes = annotations_of(obj)
    serves = kind == "PersistentVolume" or (kind == "StorageClass" and notes.get(_DEFAULT_CLASS) == "true")
    # An object with generateName has no name yet.
    names = (name_of(obj),) if name_of(obj) else ()
    return (*names, "") if serves else names


def _references(manifest: Manifest, space: str) -> Iterator[_Reference]:
    obj = manifest.object
    if manifest.kind == "Pod":
        yield from _of_pod(obj, space)
    elif manifest.kind == "PersistentVolumeClaim":
        yield from _storage(obj.get("spec"), "spec")
    elif manifest.kind in ("StatefulSet", "LeaderWorkerSet"):
        path, holder = "spec", spec_of(obj)
        if manifest.kind == "LeaderWorkerSet":
            path, holder = f"{path}.leaderWorkerTemplate", holder.get("leaderWorkerTemplate") or {}
        for index, claim in enumerate(holder.get("volumeClaimTemplates") or ()):
            yield from _storage(claim.get("spec"), f"{path}.volumeClaimTemplates[{index}].spec")
    elif manifest.kind == "JobSet":
        for index, policy in enumerate(spec_of(obj).get("volumeClaimPolicies") or ()):
            for number, claim in enumerate(policy.get("templates") or ()):
                yield from _storage(claim.get("spec"), f"spec.volumeClaimPolicies[{index}].templates[{number}].spec")
    for _, path, pod, itself in described_pods(obj):
        if name := pod["spec"].get("nodeName"):
            text = f"there is no node {shown(name)}: the pod holds what it asks for in its queue, runs nowhere, and is deleted after 40 s"
            yield _Reference("Node", "", name, "", f"{path}nodeName", text)
        # The account "default" is made with each namespace.
        # The older name of the field means the same.
        account = next(
            (field for field in ("serviceAccountName", "serviceAccount") if pod["spec"].get(field)),
            "serviceAccountName",
        )
        if (name := pod["spec"].get(account)) and name != "default":
            text = f"there is no ServiceAccount {shown(name)}; here the pods are taken without it"
            yield _Reference("ServiceAccount", space, name, "", f"{path}{account}", text, _REFUSED)
        # A pod itself is refused.
        for kind, field in (("PriorityClass", "priorityClassName"), ("RuntimeClass", "runtimeClassName")):
            if (name := pod["spec"].get(field)) and not itself:
                text = f"there is no {kind} {shown(name)}: the pods are refused until there is one"
                yield _Reference(kind, "", name, "", f"{path}{field}", text)
        for at, name in _secrets(pod["spec"]):
            text = f"there is no Secret {shown(name)}; here the pods run without it"
            in_cluster = "their containers do not start until there is one, and hold what they ask for"
            yield _Reference("Secret", space, name, "", f"{path}{at}", text, in_cluster)
        for index, volume in enumerate(pod["spec"].get("volumes") or ()):
            claim = ((volume.get("ephemeral") or {}).get("volumeClaimTemplate") or {}).get("spec")
            yield from _storage(claim, f"{path}volumes[{index}].ephemeral.volumeClaimTemplate.spec")


def _secrets(spec: Object) -> Iterator[tuple[str, str]]:
    """The Secrets without which the kubelet starts no container of a pod, each with the path of its name. A volume that no container
    mounts is not made."""
    mounted = set()
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            mounted |= {mount.get("name") for mount in container.get("volumeMounts") or ()}
            for number, source in enumerate(container.get("envFrom") or ()):
                yield from _needed(source.get("secretRef"), "name", f"{field}[{index}].envFrom[{number}].secretRef")
            for number, variable in enumerate(container.get("env") or ()):
                reference = (variable.get("valueFrom") or {}).get("secretKeyRef")
                yield from _needed(reference, "name", f"{field}[{index}].env[{number}].valueFrom.secretKeyRef")
    for index, volume in enumerate(spec.get("volumes") or ()):
        if volume.get("name") in mounted:
            yield from _needed(volume.get("secret"), "secretName", f"volumes[{index}].secret")
            for number, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
                yield from _needed(source.get("secret"), "name", f"volumes[{index}].projected.sources[{number}].secret")


def _needed(reference: Any, field: str, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(reference, dict) and reference.get(field) and not reference.get("optional"):
        yield f"{path}.{field}", str(reference[field])


def _storage(spec: Any, path: str) -> Iterator[_Reference]:
    """The reference of a volume claim. A claim that names its volume needs no class; one with an empty class needs an existing volume."""
    if not isinstance(spec, dict):
        return
    if volume := spec.get("volumeName"):
        text = f"there is no PersistentVolume {shown(volume)}; here pods that use the claim run without it"
        in_cluster = "they wait until there is one"
        yield _Reference("PersistentVolume", "", volume, "", f"{path}.volumeName", text, in_cluster)
        return
    name = spec.get("storageClassName")
    kind, lacking = (
        "StorageClass",
        "default StorageClass, and the claim names none" if name is None else f"StorageClass {shown(name)}",
    )
    if name == "":
        kind, lacking = "PersistentVolume", "PersistentVolume, and the claim wants none made"
    text = f"there is no {lacking}; here pods that use the claim run without a volume"
    in_cluster = "the claim gets no volume, and the pods wait until there is one"
    yield _Reference(kind, "", name or "", "", f"{path}.storageClassName", text, in_cluster)


def _of_pod(pod: Object, space: str) -> Iterator[_Reference]:
    node = pod["spec"].get("nodeName")
    for index, owner in enumerate(owner_references(pod)):
        kind = key_of(owner["apiVersion"], owner["kind"])
        where = space if is_namespaced(kind, pod) else ""
        then = (
            "here the pod stays, and counts in its queue"
            if node
            else "here the pod can't be grouped without its owner, so it stays pending; leave the owner out to have it run by itself"
        )
        text = f"there is no {owner['kind']} {shown(owner['name'])} with this uid; {then}"
        in_cluster = "the garbage collector deletes the pod"
        yield _Reference(
            kind, where, owner["name"], owner["uid"], f"metadata.ownerReferences[{index}]", text, in_cluster
        )


# --- priorities of pods -----------------------------------------------------------------------------------------------


def warn_pod_priorities(cluster: Cluster, manifests: Iterable[Manifest]) -> list[Notice]:
    """Each pair of class and number, and of class and preemption policy, is reported once, at its first pod."""
    given = list(manifests)
    pods = [
        (manifest, path, pod["spec"])
        for manifest in given
        for _, path, pod, _ in described_pods(manifest.object)
        if pod["spec"].get("priority") is not None or pod["spec"].get("preemptionPolicy")
    ]
    if not pods:
        return []
    classes = [
        *cluster.list("PriorityClass"),
        *(manifest.object for manifest in given if manifest.kind == "PriorityClass"),
    ]
    by_name = {name_of(priority_class): priority_class for priority_class in classes}
    usual = next((priority_class for priority_class in classes if priority_class.get("globalDefault")), {"value": 0})
    notices: dict[tuple[object, object], Notice] = {}
    for manifest, path, spec in pods:
        name = spec.get("priorityClassName")
        priority_class = by_name.get(name) if name else usual
        if priority_class is None:
            continue  # an unknown class is refused elsewhere
        for field, of_class in (
            ("priority", priority_class.get("value")),
            ("preemptionPolicy", priority_class.get("preemptionPolicy", "PreemptLowerPriority")),
        ):
            given_here = spec.get(field)
            if given_here in (None, "", of_class):
                continue
            whose = f"its class {name} has {of_class}" if name else f"without a class it is {of_class}"
            text = f"{given_here} differs from the class: {whose}; here {of_class} counts"
            notice = Notice(text, manifest.where(f"{path}{field}"), "not-meant", "the pod is refused")
            notices.setdefault((name, given_here), notice)
    return list(notices.values())
