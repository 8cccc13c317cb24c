"""Notices about names in manifests that no object in the lab has, if a cluster would refuse, delete or never run the object for it.

An API server takes most of these manifests, so the notices are advice. Each name is reported once, at its first use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kailab.cluster.protocol import Cluster, Object
from kailab.model.kinds import KINDS, is_namespaced, key_of
from kailab.model.manifests import Manifest, Notice
from kailab.model.validation.advice import pod_templates
from kailab.model.validation.fields import shown

_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


class _Reference(NamedTuple):
    kind: str
    namespace: str
    name: str
    uid: str
    field: str
    told: str


def warn_missing_references(cluster: Cluster, manifests: Iterable[Manifest], namespace: str) -> list[Notice]:
    """Names that manifests use and that are neither in the manifests nor in the lab."""
    given = {(one.kind, name) for one in manifests for name in _known_by(one.kind, one.object)}
    there: dict[tuple[str, str], dict[tuple[str, str], str]] = {}
    notices: dict[_Reference, Notice] = {}
    for one in manifests:
        space = one.object["metadata"].get("namespace") or namespace
        for wanted in _references(one, space):
            found = there.get((wanted.kind, wanted.namespace))
            if found is None:
                found = there[wanted.kind, wanted.namespace] = _names(cluster, wanted)
            key = wanted.namespace, wanted.name
            # An owner reference means the object with that uid; an owner in the same manifests gets a new uid.
            if wanted.uid and found.get(key) == wanted.uid:
                continue
            if not wanted.uid and (key in found or (wanted.kind, wanted.name) in given):
                continue
            notices.setdefault(wanted._replace(field=""), Notice(wanted.told, one.where(wanted.field), "not-meant"))
    return list(notices.values())


def _names(cluster: Cluster, wanted: _Reference) -> dict[tuple[str, str], str]:
    found = cluster.list(wanted.kind, wanted.namespace or None)
    # An owner is in the namespace of the object that it owns, or has no namespace.
    return {
        (wanted.namespace, name): one["metadata"].get("uid", "")
        for one in found
        for name in _known_by(wanted.kind, one)
    }


def _known_by(kind: str, obj: Object) -> tuple[str, ...]:
    """Its name; and "" if it serves a claim that names no class (the default class) or no volume (any volume)."""
    metadata = obj["metadata"]
    notes = metadata.get("annotations") or {}
    serves = kind == "PersistentVolume" or (kind == "StorageClass" and notes.get(_DEFAULT_CLASS) == "true")
    # An object with generateName has no name yet.
    names = (metadata["name"],) if metadata.get("name") else ()
    return (*names, "") if serves else names


def _references(one: Manifest, space: str) -> Iterator[_Reference]:
    obj = one.object
    if one.kind == "Pod":
        yield from _of_pod(obj, space)
    elif one.kind == "PersistentVolumeClaim":
        yield from _storage(obj.get("spec"), "spec")
    elif one.kind == "StatefulSet":
        for index, claim in enumerate((obj.get("spec") or {}).get("volumeClaimTemplates") or ()):
            yield from _storage(claim.get("spec"), f"spec.volumeClaimTemplates[{index}].spec")
    elif one.kind == "TrainJob":
        ref = (obj.get("spec") or {}).get("runtimeRef") or {}
        kind, name = ref.get("kind", "ClusterTrainingRuntime"), ref.get("name")
        if name and kind in KINDS:
            text = f"there is no {kind} {shown(name)}: Kubeflow Trainer refuses such a TrainJob; here no pods are made until there is one"
            yield _Reference(kind, space if KINDS[kind].namespaced else "", name, "", "spec.runtimeRef.name", text)
    for path, pod in pod_templates(obj):
        if name := pod["spec"].get("nodeName"):
            text = f"there is no node {shown(name)}: the pod holds what it asks for in its queue, runs nowhere, and is deleted after 40 s"
            yield _Reference("Node", "", name, "", f"{path}spec.nodeName", text)
        if name := pod["spec"].get("runtimeClassName"):
            text = f"there is no RuntimeClass {shown(name)}: a cluster refuses the pods until there is one; here they are taken without it"
            yield _Reference("RuntimeClass", "", name, "", f"{path}spec.runtimeClassName", text)
        for index, volume in enumerate(pod["spec"].get("volumes") or ()):
            claim = ((volume.get("ephemeral") or {}).get("volumeClaimTemplate") or {}).get("spec")
            yield from _storage(claim, f"{path}spec.volumes[{index}].ephemeral.volumeClaimTemplate.spec")


def _storage(spec: Any, path: str) -> Iterator[_Reference]:
    """The reference of a volume claim. A claim that names its volume needs no class; one with an empty class needs an existing volume."""
    if not isinstance(spec, dict) or spec.get("volumeName"):
        return
    name = spec.get("storageClassName")
    kind, lacking = (
        "StorageClass",
        "default StorageClass, and the claim names none" if name is None else f"StorageClass {shown(name)}",
    )
    if name == "":
        kind, lacking = "PersistentVolume", "PersistentVolume, and the claim wants none made"
    text = (
        f"there is no {lacking}: on a cluster the claim gets no volume, and pods that use it wait for ever; "
        "here no volume is looked at, so they run"
    )
    yield _Reference(kind, "", name or "", "", f"{path}.storageClassName", text)


def _of_pod(pod: Object, space: str) -> Iterator[_Reference]:
    node = pod["spec"].get("nodeName")
    for index, owner in enumerate(pod["metadata"].get("ownerReferences") or ()):
        kind = key_of(owner["apiVersion"], owner["kind"])
        where = space if is_namespaced(kind, pod) else ""
        then = (
            "here it stays, and counts in its queue"
            if node
            else "here it can't be grouped without its owner, so it stays pending; leave the owner out to have it run by itself"
        )
        text = f"there is no {owner['kind']} {shown(owner['name'])} with this uid: a cluster's garbage collector deletes the pod; {then}"
        yield _Reference(kind, where, owner["name"], owner["uid"], f"metadata.ownerReferences[{index}]", text)
