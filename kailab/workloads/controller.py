"""The base of workload controllers: ``Controller``, and ``Workbench`` with which it finds, creates, changes and deletes objects.

The workbench keeps no state of objects; it only records whether anything was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, ClassVar

from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.protocol import WatchEvent
from kailab.errors import ApiError, NotFound
from kailab.model.kinds import KINDS, api_version_of, kind_key
from kailab.model.objects import Object, as_owner_reference, controller_of, is_terminating
from kailab.model.times import format_time

Key = tuple[str, str]
Reference = tuple[str, Key]

_REMEMBERED_SPECS = 256  # beyond this, templates are admitted again


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
    # Return the old list, so that a comparison with the stored one is cheap.
    return old if old is not None and result == old else result


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
        result = self.cluster.dependents(uid, kind)
        # For pods, the most frequent case, the store's index suffices, because an owner of a pod is its controller here.
        if kind == "Pod":
            return result
        return [obj for obj in result if (ref := controller_of(obj)) is not None and ref["uid"] == uid]

    def wake(self, owner: Object) -> None:
        """Sync the owner again in the next step."""
        meta = owner["metadata"]
        self._wake((kind_key(owner), (meta.get("namespace", ""), meta["name"])))

    def wake_at(self, owner: Object, when: float, *, prompt: bool) -> None:
        """Sync the owner again at a time, in seconds since the epoch."""
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
        # Use the stored owner: the given one may be older than writes of this sync.
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
        """Delete an object unless it is gone or being deleted."""
        meta = obj["metadata"]
        current = self.find(kind, (meta.get("namespace", ""), meta["name"]))
        # Compared by UID, because a new object may have the same name.
        if current is None or current["metadata"]["uid"] != meta["uid"] or is_terminating(current):
            return
        self.wrote = True
        self.cluster.delete(kind, meta["name"], meta.get("namespace"), grace)

    def create(self, owner: Object, kind: str, obj: Object) -> Object | None:
        """Create an object that the owner controls. Returns None, and writes an event, if the cluster refuses it."""
        meta = {**obj["metadata"], "namespace": owner["metadata"]["namespace"]}
        meta["ownerReferences"] = [as_owner_reference(owner)]
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
        meta["ownerReferences"] = [reference or as_owner_reference(owner)]
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
        # Objects are immutable, so a spec's identity stands for its content. A kept reference prevents reuse of its id.
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
        """Forget admitted templates after a change of a priority or runtime class."""
        self._specs.clear()

    def refused(self, owner: Object, kind: str, error: ApiError) -> None:
        """Write an event that the cluster refused an object, and remember the owner for a retry."""
        meta = owner["metadata"]
        reference = (kind_key(owner), (meta.get("namespace", ""), meta["name"]))
        # One event in each step, even if several objects of the owner are refused.
        if reference not in self.stuck:
            self.stuck[reference] = None
            self.cluster.event(
                owner, "Warning", "FailedCreate", f"Error creating {kind}: {error}", "workload-controller"
            )


# --- the controller of a kind -----------------------------------------------------------------------------------------


class Controller:
    """The controller of one kind, made when its first object is seen. ``kind``: its kind key. It keeps soft state only, so it can be made
    over a resumed cluster."""

    one_look: ClassVar[bool] = False
    """True if one sync is enough: its own writes to the owner cause no further one."""

    def __init__(self, bench: Workbench, kind: str) -> None:
        self._bench = bench
        self.kind = kind

    def sync(self, owner: Object) -> None:
        """Reconcile a stored owner: create missing objects, delete surplus ones, write its status."""
        raise NotImplementedError

    def concerned(self, event: WatchEvent) -> Iterable[Reference]:
        """The owners to sync after a change of an object of one of ``Kind.watches``."""
        return ()

    def orphaned(self, pod: Object) -> None:
        """Handle a changed pod whose owner no longer exists."""
