"""The workbench all workload controllers share: what an owner has, making pods from templates, writing status.

It remembers one thing only, whether anything was written; all else is looked up in the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, ClassVar

from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.protocol import Object, WatchEvent
from kailab.errors import ApiError, NotFound
from kailab.model.kinds import KINDS, api_version_of, kind_key
from kailab.model.times import format_time

Key = tuple[str, str]
Reference = tuple[str, Key]

_NOTHING: Mapping[str, Any] = {}
_REMEMBERED_SPECS = 256  # beyond, templates are admitted once again


def is_ended(pod: Object) -> bool:
    """Succeeded or Failed."""
    return pod["status"].get("phase") in ("Succeeded", "Failed")


def is_active(pod: Object) -> bool:
    """Neither ended nor on its way out: what controllers count as there."""
    return "deletionTimestamp" not in pod["metadata"] and not is_ended(pod)


def is_ready(pod: Object) -> bool:
    for entry in pod["status"].get("conditions") or ():
        if entry["type"] == "Ready":
            return bool(entry["status"] == "True")
    return False


def owner_reference(owner: Object) -> dict[str, Any]:
    meta = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def controller_of(obj: Object) -> dict[str, Any] | None:
    """The owner reference of the controller of an object."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return dict(owner)
    return None


def make_condition(type: str, status: str, reason: str, message: str, now: str) -> dict[str, Any]:
    return {"type": type, "status": status, "reason": reason, "message": message, "lastTransitionTime": now}


def set_conditions(old: list[dict[str, Any]] | None, *new: dict[str, Any]) -> list[dict[str, Any]]:
    """Conditions with some set in place; the transition time is kept where the status stays. May return ``old``."""
    result = list(old or ())
    for wanted in new:
        for index, there in enumerate(result):
            if there["type"] == wanted["type"]:
                if there["status"] == wanted["status"]:
                    # A controller asks with the present time; it is a transition only where the status changed.
                    wanted = {**wanted, "lastTransitionTime": there.get("lastTransitionTime")}
                result[index] = wanted
                break
        else:
            result.append(wanted)
    # The old list itself, so that comparing it with what is stored costs nothing.
    return old if old is not None and result == old else result


def has_condition(obj: Object, *types: str) -> bool:
    """Whether one of these conditions is true."""
    conditions = (obj.get("status") or _NOTHING).get("conditions")
    if not conditions:  # most work that goes on has none
        return False
    return any(entry["type"] in types and entry["status"] == "True" for entry in conditions)


class Workbench:
    """Access to the cluster for controllers. ``stuck``: owners whose last create was refused, to be tried again."""

    def __init__(self, cluster: EmbeddedCluster, wake: Callable[[Reference], None]) -> None:
        self.cluster = cluster
        self.wrote = False
        self.stuck: dict[Reference, None] = {}
        self.made: set[str] = set()  # uids of pods just created here, whose ADDED event says nothing new
        self._wake = wake
        self._specs: dict[int, tuple[Object, Object]] = {}

    @property
    def now(self) -> float:
        return self.cluster.now()

    def stamp(self) -> str:
        return format_time(self.cluster.now() // 1)

    def find(self, kind: str, key: Key) -> Object | None:
        try:
            return self.cluster.get(kind, key[1], key[0])
        except NotFound:
            return None

    def owned(self, owner: Object, kind: str) -> list[Object]:
        """Objects of a kind that the owner controls, in order of creation."""
        uid = owner["metadata"]["uid"]
        found = self.cluster.dependents(uid, kind)
        # Pods are asked for most, and the store's index is enough for them: who owns one here controls it.
        if kind == "Pod":
            return found
        return [obj for obj in found if (ref := controller_of(obj)) is not None and ref["uid"] == uid]

    def wake(self, owner: Object) -> None:
        """Look at the owner again in the next step."""
        meta = owner["metadata"]
        self._wake((kind_key(owner), (meta.get("namespace", ""), meta["name"])))

    def wake_at(self, owner: Object, when: float, *, prompt: bool) -> None:
        """Look at the owner again at a time."""
        meta = owner["metadata"]
        # One timer an owner, by UID: a later one takes its place.
        self.cluster.call_at(when, partial(self.wake, owner), prompt=prompt, key=f"workload/{meta['uid']}")

    # --- writes -----------------------------------------------------------------------------------------------------

    def set_status(self, kind: str, owner: Object, **fields: Any) -> Object:
        """Set fields of the owner's status (None removes one), written only if something differs; gives the owner."""
        meta = owner["metadata"]
        current = self.find(kind, (meta.get("namespace", ""), meta["name"]))
        if current is None:
            return owner
        # As it is now: the owner that was given may be from before writes of this very look.
        owner = current
        old = owner.get("status") or {}
        for name, value in fields.items():
            if old.get(name) != value:
                break
        else:
            return owner
        new = {**old, **fields}
        status = {name: value for name, value in new.items() if value is not None}
        self.wrote = True
        return self.cluster.replace_status(kind, owner, status)

    def patch(self, kind: str, obj: Object, patch: Mapping[str, Any]) -> Object:
        meta = obj["metadata"]
        new = self.cluster.patch(kind, meta["name"], meta.get("namespace"), patch)
        self.wrote = self.wrote or new is not obj
        return new

    def delete(self, kind: str, obj: Object, grace: float | None = None) -> None:
        """Delete; what is gone or going already is left alone."""
        meta = obj["metadata"]
        current = self.find(kind, (meta.get("namespace", ""), meta["name"]))
        # By UID: in the meantime another may have come under this name.
        if current is None or current["metadata"]["uid"] != meta["uid"] or "deletionTimestamp" in current["metadata"]:
            return
        self.wrote = True
        self.cluster.delete(kind, meta["name"], meta.get("namespace"), grace)

    def create(self, owner: Object, kind: str, obj: Object) -> Object | None:
        """Create an object that the owner controls; None if refused, which is told by an event."""
        meta = {**obj["metadata"], "namespace": owner["metadata"]["namespace"]}
        meta["ownerReferences"] = [owner_reference(owner)]
        full = {"apiVersion": api_version_of(kind), "kind": obj.get("kind", kind), **obj, "metadata": meta}
        try:
            created = self.cluster.create(full)
        except ApiError as error:
            self.refused(owner, kind, error)
            return None
        self.wrote = True
        return created

    def create_pod(
        self,
        owner: Object,
        template: Object,
        *,
        name: str = "",
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        finalizers: list[str] | None = None,
        spec: Mapping[str, Any] | None = None,
        reference: dict[str, Any] | None = None,
    ) -> Object | None:
        """Make a pod from a template: named, or with a name generated from the owner's; None if refused.

        ``labels`` and ``annotations`` are added to the template's; ``spec`` replaces fields of its pod spec.
        """
        owner_meta = owner["metadata"]
        inner = template.get("metadata") or {}
        meta: dict[str, Any] = {"namespace": owner_meta["namespace"]}
        if name:
            meta["name"] = name
        else:
            meta["generateName"] = f"{owner_meta['name']}-"
        base = inner.get("labels")
        if labels:
            meta["labels"] = {**base, **labels} if base else dict(labels)
        elif base:
            meta["labels"] = base
        notes = inner.get("annotations")
        if annotations:
            meta["annotations"] = {**notes, **annotations} if notes else dict(annotations)
        elif notes:
            meta["annotations"] = notes
        meta["ownerReferences"] = [reference or owner_reference(owner)]
        if finalizers:
            meta["finalizers"] = finalizers
        try:
            admitted = self._admitted(template.get("spec") or {}, owner, spec)
            pod = self.cluster.create_admitted(
                "Pod",
                {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": admitted, "status": {"phase": "Pending"}},
            )
        except ApiError as error:
            self.refused(owner, "Pod", error)
            return None
        self.made.add(meta["uid"])
        self.wrote = True
        return pod

    def _admitted(self, spec: Object, owner: Object, changes: Mapping[str, Any] | None) -> Object:
        remembered = self._specs.get(id(spec))
        # Objects are never changed: a spec's identity stands for its content, and kept, its id is not reused.
        if remembered is not None and remembered[0] is spec:
            admitted = remembered[1]
        else:
            known = KINDS.get(kind_key(owner))
            checked = known is not None and known.checked_templates
            admitted = self.cluster.admit_pod_spec(spec, owner["metadata"]["name"], checked)
            if len(self._specs) >= _REMEMBERED_SPECS:
                self._specs.clear()
            self._specs[id(spec)] = (spec, admitted)
        return {**admitted, **changes} if changes else admitted

    def forget_specs(self) -> None:
        """A priority or runtime class changed: what admission made of templates may differ now."""
        self._specs.clear()

    def refused(self, owner: Object, kind: str, error: ApiError) -> None:
        """Tell that the cluster refused what an owner was to have; it is looked at again when that may have changed."""
        meta = owner["metadata"]
        reference = (kind_key(owner), (meta.get("namespace", ""), meta["name"]))
        # Once a look, though several objects of the owner may be refused in it.
        if reference not in self.stuck:
            self.stuck[reference] = None
            self.cluster.event(
                owner, "Warning", "FailedCreate", f"Error creating {kind}: {error}", "workload-controller"
            )


# What the controller of a kind is: it brings what an owner has in line with what the owner says.


class Controller:
    """The controller of one kind, made when the first object of the kind is seen. ``kind``: its kind key. Soft state only: built over
    a resumed cluster it carries on."""

    one_look: ClassVar[bool] = False
    """Done in one look: a write of its own to the owner is no reason for another."""

    def __init__(self, bench: Workbench, kind: str) -> None:
        self._bench = bench
        self.kind = kind

    def sync(self, owner: Object) -> None:
        """Look at an owner, given as it is stored now: make what it lacks, delete what it has too much, write its status."""
        raise NotImplementedError

    def concerned(self, event: WatchEvent) -> Iterable[Reference]:
        """The owners to look at after a change of an object of another kind, one of ``Kind.watches``."""
        return ()

    def orphaned(self, pod: Object) -> None:
        """A pod changed whose owner is gone."""
