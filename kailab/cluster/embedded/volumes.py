"""Volumes of claims, as the persistent volume controller and a provisioner make and bind them.

A claim is bound to a volume that was made for it by hand, or gets one from the provisioner of its StorageClass. With the binding mode
WaitForFirstConsumer that happens when the first pod that uses the claim is bound to a node, and the volume has to reach that node. A claim
whose class does not exist stays unbound. An ephemeral volume of a pod gets a claim of its own, which goes with the pod.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from kailab.cluster.embedded.storage.store import ObjectStore
from kailab.cluster.protocol import EventType, Object
from kailab.cluster.selectors import from_label_selector, matches
from kailab.cluster.volumes import (
    NO_PROVISIONER,
    asked_size,
    capacity_term,
    claim_of_volume,
    claim_templates,
    combined_terms,
    counts_capacity,
    has_room,
    is_meant_for,
    serves,
    size_of,
    topology_terms,
    volume_node_terms,
)
from kailab.errors import ApiError
from kailab.model.objects import (
    Key,
    annotations_of,
    as_owner_reference,
    is_ended,
    is_terminating,
    labels_of,
    metadata_of,
    name_of,
    owner_uids,
    spec_of,
    status_of,
    uid_of,
)
from kailab.model.pod_resources import format_amount
from kailab.model.quantities import parse

_BOUND = "pv.kubernetes.io/bind-completed"
_PROVISIONED = "pv.kubernetes.io/provisioned-by"
_TAKEN_FROM = "kailab.dev/storage-capacity"
"""The CSIStorageCapacity that a volume takes its storage from, as namespace/name."""


class VolumeBinder:
    """Binds the claims of a store, and makes those of ephemeral volumes. It has only state that the objects give again."""

    def __init__(
        self, store: ObjectStore, create: Callable[[Object], Object], event: Callable[[Object, str, str, str], None]
    ) -> None:
        """``event``: records an Event of an object, from its type, reason and message."""
        self._store = store
        self._create = create
        self._event = event
        # Pods that lack a claim; None: all that have ephemeral volumes are looked at when it is first needed.
        self._refused: dict[Key, None] | None = None
        store.hook("PersistentVolumeClaim", self._claim_changed)
        store.hook("PersistentVolume", self._volume_changed)
        store.hook("StorageClass", self._class_changed)
        store.hook("CSIDriver", self._class_changed)
        store.hook("CSIStorageCapacity", self._capacity_changed)
        store.hook("Pod", self._pod_changed)
        store.hook("ResourceQuota", self._quota_changed)

    def _claim_changed(self, type: EventType, key: Key, old: Object | None, new: Object | None) -> None:
        if type == "DELETED":
            self._release(old)
            self._claim_again()
        elif new is not None and status_of(new).get("phase") == "Bound":
            self._grow(key, new)
        elif new is not None and (old is None or old.get("spec") is not new.get("spec")):
            self._bind(key, None)

    def _volume_changed(self, type: EventType, key: Key, old: Object | None, new: Object | None) -> None:
        if type == "DELETED":
            self._give_back(old)
            for claim_key, claim in list(self._store.table("PersistentVolumeClaim").objects.items()):
                if spec_of(claim).get("volumeName") == key[1] and status_of(claim).get("phase") == "Bound":
                    self._replace(
                        "PersistentVolumeClaim", claim_key, claim, status={**status_of(claim), "phase": "Lost"}
                    )
        elif old is None or old.get("spec") is not (new or {}).get("spec"):
            if old is None and new is not None and not status_of(new).get("phase"):
                self._replace("PersistentVolume", key, new, status={"phase": "Available"})
            self._bind_all()

    def _class_changed(self, type: EventType, key: Key, old: Object | None, new: Object | None) -> None:
        if type == "ADDED":
            self._bind_all()

    def _capacity_changed(self, type: EventType, key: Key, old: Object | None, new: Object | None) -> None:
        if new is not None and (old is None or parse(old.get("capacity", 0)) < parse(new.get("capacity", 0))):
            self._bind_all()

    def _pod_changed(self, type: EventType, key: Key, old: Object | None, new: Object | None) -> None:
        if type == "DELETED" or new is None or (old is not None and old["spec"] is new["spec"]):
            return
        node, volumes = new["spec"].get("nodeName"), new["spec"].get("volumes")
        if not volumes:
            return
        if old is None and any(claim_templates(new)):
            self._claim(key, new)
        if node:
            for volume in volumes:
                if name := claim_of_volume(volume, key[1]):
                    self._bind((key[0], name), node)

    def _quota_changed(self, type: EventType, key: Key, old: Object | None, new: Object | None) -> None:
        self._claim_again()

    def _claim_again(self) -> None:
        """Try again what a quota, or another claim of the name, did not allow."""
        pods = self._store.table("Pod").objects
        if self._refused is None:
            self._refused = {key: None for key, pod in pods.items() if any(claim_templates(pod))}
        for key in list(self._refused):
            if key in pods:
                self._claim(key, pods[key])
            else:
                self._refused.pop(key, None)

    def _claim(self, key: Key, pod: Object) -> None:
        """Make the claims of the pod's ephemeral volumes that are not there yet."""
        fault = ""
        if not is_terminating(pod) and not is_ended(pod):
            for name, template in claim_templates(pod):
                fault = fault or self._claimed(pod, (key[0], name), template)
        refused = self._refused if self._refused is not None else {}
        if not fault:
            refused.pop(key, None)
        elif key not in refused:
            refused[key] = None
            self._event(pod, "Warning", "FailedBinding", fault)

    def _claimed(self, pod: Object, key: Key, template: Object) -> str:
        """Make the claim of an ephemeral volume if there is none. Returns why the pod does not have it, or ""."""
        claim = self._store.find("PersistentVolumeClaim", key)
        if claim is not None:
            return (
                ""
                if uid_of(pod) in owner_uids(claim)
                else f'PVC "{key[1]}" was not created for pod "{name_of(pod)}" (pod is not owner)'
            )
        notes = {field: value for field in ("labels", "annotations") if (value := metadata_of(template).get(field))}
        metadata = {**notes, "name": key[1], "namespace": key[0], "ownerReferences": [as_owner_reference(pod)]}
        made = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec_of(template)}
        try:
            self._create(made)
        except ApiError as error:
            return f"ephemeral volume {key[1]}: {error}"
        return ""

    def _bind_all(self) -> None:
        for key in list(self._store.table("PersistentVolumeClaim").objects):
            self._bind(key, None)

    def _bind(self, key: Key, node: str | None) -> None:
        """Bind a claim if it can be bound now. ``node``: the node of the first pod that uses it."""
        claim = self._store.find("PersistentVolumeClaim", key)
        if claim is None or is_terminating(claim) or status_of(claim).get("phase") in ("Bound", "Lost"):
            return
        if not status_of(claim).get("phase"):
            self._replace("PersistentVolumeClaim", key, claim, status={"phase": "Pending"})
            claim = self._store.get("PersistentVolumeClaim", key)
        storage_class = self._store.find("StorageClass", ("", spec_of(claim).get("storageClassName") or ""))
        waits = (storage_class or {}).get("volumeBindingMode") == "WaitForFirstConsumer"
        volumes = [each for each in self._store.table("PersistentVolume").objects.values() if serves(each, claim)]
        if waits and node is None and not any(is_meant_for(volume, claim) for volume in volumes):
            return
        found = self._store.find("Node", ("", node)) if node else None
        if found is not None:
            volumes = [volume for volume in volumes if reaches(volume, found)]
        if volumes:
            # Those that were made for the claim come first, then the smallest.
            volume = min(volumes, key=lambda each: (not is_meant_for(each, claim), size_of(each), name_of(each)))
        elif (
            storage_class is None
            or storage_class.get("provisioner") == NO_PROVISIONER
            or spec_of(claim).get("volumeName")
        ):
            return
        else:
            made = self._provision(claim, storage_class, found)
            if made is None:
                return
            volume = made
        self._join(key, volume)

    def _provision(self, claim: Object, storage_class: Object, node: Object | None) -> Object | None:
        """A new volume for a claim; None if the driver has no room for it. ``node``: where it has to be used, if that is known."""
        terms = topology_terms(storage_class)
        notes = {_PROVISIONED: str(storage_class.get("provisioner"))}
        if counts_capacity(self._store.find("CSIDriver", ("", storage_class.get("provisioner") or ""))):
            taken = self._take(claim, storage_class, node)
            if taken is None:
                return None
            notes[_TAKEN_FROM] = "/".join(taken)
            room = capacity_term(self._store.get("CSIStorageCapacity", taken))
            terms = [combined_terms(topology, room) for topology in terms or ({},)]
            terms = [term for term in terms if term["matchExpressions"]]
        spec = spec_of(claim)
        made: Object = {
            "capacity": {"storage": asked_size(claim)},
            "accessModes": spec.get("accessModes") or ["ReadWriteOnce"],
            "storageClassName": name_of(storage_class),
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy") or "Delete",
            "volumeMode": spec.get("volumeMode") or "Filesystem",
            "claimRef": _reference(claim),
            "csi": {"driver": storage_class.get("provisioner") or "unknown", "volumeHandle": uid_of(claim)},
        }
        if terms:
            made["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        metadata = {"name": f"pvc-{uid_of(claim)}", "annotations": notes}
        return self._create({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": made})

    def _take(self, claim: Object, storage_class: Object, node: Object | None) -> Key | None:
        """Take the storage of a claim from a CSIStorageCapacity, as the driver does; None if none has room."""
        for key, capacity in list(self._store.table("CSIStorageCapacity").objects.items()):
            fits = has_room(capacity, storage_class, claim)
            if fits and (node is None or _holds(capacity_term(capacity), node)):
                self._change_capacity(key, capacity, -parse(asked_size(claim)))
                return key
        return None

    def _give_back(self, volume: Object | None) -> None:
        namespace, _, name = annotations_of(volume or {}).get(_TAKEN_FROM, "").partition("/")
        capacity = self._store.find("CSIStorageCapacity", (namespace, name))
        if volume is not None and capacity is not None:
            self._change_capacity((namespace, name), capacity, size_of(volume))

    def _change_capacity(self, key: Key, capacity: Object, by: Fraction) -> None:
        if capacity.get("capacity") is not None:
            left = max(parse(capacity["capacity"]) + by, Fraction(0))
            new = {**capacity, "capacity": format_amount("storage", left)}
            self._store.replace("CSIStorageCapacity", key, capacity, new)

    def _join(self, key: Key, volume: Object) -> None:
        claim = self._store.get("PersistentVolumeClaim", key)
        if status_of(claim).get("phase") == "Bound":
            return  # the new volume has been bound on its arrival
        current = self._store.get("PersistentVolume", ("", name_of(volume)))
        # The claim first: a changed volume makes unbound claims look again.
        spec = {**spec_of(claim), "volumeName": name_of(volume)}
        status = {
            "phase": "Bound",
            "accessModes": spec_of(current).get("accessModes"),
            "capacity": spec_of(current).get("capacity"),
        }
        annotations = {**annotations_of(claim), _BOUND: "yes"}
        self._replace("PersistentVolumeClaim", key, claim, spec=spec, status=status, annotations=annotations)
        self._replace(
            "PersistentVolume",
            ("", name_of(volume)),
            self._store.get("PersistentVolume", ("", name_of(volume))),
            spec={**spec_of(current), "claimRef": _reference(claim)},
            status={"phase": "Bound"},
        )

    def _grow(self, key: Key, claim: Object) -> None:
        """Give a bound claim the size that it asks for now, as the driver's resizer does."""
        volume = self._store.find("PersistentVolume", ("", str(spec_of(claim).get("volumeName"))))
        more = Fraction(0) if volume is None else parse(asked_size(claim)) - size_of(volume)
        if volume is None or more <= 0:
            return
        namespace, _, name = annotations_of(volume).get(_TAKEN_FROM, "").partition("/")
        if capacity := self._store.find("CSIStorageCapacity", (namespace, name)):
            self._change_capacity((namespace, name), capacity, -more)
        size = {"storage": asked_size(claim)}
        self._replace("PersistentVolume", ("", name_of(volume)), volume, spec={**spec_of(volume), "capacity": size})
        self._replace("PersistentVolumeClaim", key, claim, status={**status_of(claim), "capacity": size})

    def _release(self, claim: Object | None) -> None:
        name = spec_of(claim or {}).get("volumeName")
        volume = self._store.find("PersistentVolume", ("", name)) if name else None
        if claim is None or volume is None or (spec_of(volume).get("claimRef") or {}).get("uid") != uid_of(claim):
            return
        if spec_of(volume).get("persistentVolumeReclaimPolicy") == "Delete" and _PROVISIONED in annotations_of(volume):
            self._store.remove("PersistentVolume", ("", str(name)))
        else:
            self._replace("PersistentVolume", ("", str(name)), volume, status={"phase": "Released"})

    def _replace(
        self,
        kind: str,
        key: Key,
        old: Object,
        *,
        spec: Object | None = None,
        status: Object | None = None,
        annotations: Object | None = None,
    ) -> None:
        new = {**old}
        if spec is not None:
            new["spec"] = spec
        if status is not None:
            new["status"] = status
        if annotations is not None:
            new["metadata"] = {**old["metadata"], "annotations": annotations}
        self._store.replace(kind, key, old, new)


def reaches(volume: Object, node: Object) -> bool:
    """Whether the volume can be used on the node."""
    terms = volume_node_terms(volume)
    return not terms or any(_holds(term, node) for term in terms)


def _holds(term: Mapping[str, Any], node: Object) -> bool:
    selector = from_label_selector({"matchExpressions": term.get("matchExpressions") or []})
    fields = {expression.get("key"): expression.get("values") for expression in term.get("matchFields") or ()}
    named = fields.get("metadata.name")
    return (named is None or name_of(node) in named) and matches(selector or (), labels_of(node))


def _reference(claim: Object) -> Object:
    metadata = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "uid": metadata.get("uid", ""),
    }
