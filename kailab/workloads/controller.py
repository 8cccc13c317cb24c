"""The base of workload controllers: ``Controller``, and ``Workbench`` with which it finds, creates, changes and deletes objects.

The workbench keeps no state of objects; it only records whether anything was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from typing import Any, ClassVar, TypeAlias

from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.embedded.pod_status import with_conditions
from kailab.cluster.embedded.storage.store import store_key
from kailab.cluster.protocol import WatchEvent
from kailab.errors import ApiError
from kailab.model.kinds import KINDS, api_version_of, kind_key
from kailab.model.objects import (
    Key,
    Object,
    annotations_of,
    as_owner_reference,
    conditions_of,
    controller_of,
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
    object_key,
    status_of,
    uid_of,
)
from kailab.model.times import format_time, parse_time

Reference = tuple[str, Key]

_REMEMBERED_SPECS = 256  # beyond this, templates are admitted again
_PENDING = {"phase": "Pending"}  # shared by all pods that wait: a stored object is never changed


StatusCondition: TypeAlias = tuple[str, bool, str, str]
"""Type, status, reason and message of a condition."""


def set_conditions(obj: Object, now: str, *new: StatusCondition) -> list[dict[str, Any]]:
    """The object's conditions with some set in place; the transition time is ``now`` only where the status changed."""
    old: list[dict[str, Any]] | None = status_of(obj).get("conditions")
    result = with_conditions(
        old,
        *(
            {"type": type, "status": str(status), "reason": reason, "message": message, "lastTransitionTime": now}
            for type, status, reason, message in new
        ),
    )
    # Return the old list, so that a comparison with the stored one is cheap.
    return old if old is not None and result == old else result


def ended_at(obj: Object, *types: str) -> str | None:
    """When the first of these conditions became true; None if none is."""
    for condition in conditions_of(obj):
        if condition["type"] in types and condition["status"] == "True":
            return str(condition["lastTransitionTime"])
    return None


def _shared_status(kind: str, fields: tuple[tuple[str, Any], ...]) -> Object:
    """A status with these fields, the same one for owners with equal plain fields: a stored object is never changed."""
    try:
        return _plain_status(kind, fields)
    except TypeError:  # it has lists, such as conditions
        return dict(fields)


@lru_cache(maxsize=256)
def _plain_status(kind: str, fields: tuple[tuple[str, Any], ...]) -> Object:
    return dict(fields)


def with_metadata(template: Object, labels: Mapping[str, str], annotations: Mapping[str, str] | None = None) -> Object:
    """A copy of a template with these labels and annotations added to its own; None: its annotations stay as they are."""
    metadata = {**(template.get("metadata") or {}), "labels": {**labels_of(template), **labels}}
    if annotations is not None:
        metadata["annotations"] = {**annotations_of(template), **annotations}
    return {**template, "metadata": metadata}


class Workbench:
    """Access to the cluster for controllers. ``stuck``: owners whose last create was refused, to be tried again."""

    def __init__(self, cluster: EmbeddedCluster, wake: Callable[[Reference], None]) -> None:
        self.cluster = cluster
        self.wrote = False
        self.stuck: dict[Reference, None] = {}
        self.made: set[str] = set()  # uids of pods just created here, whose ADDED event says nothing new
        self._wake = wake
        self._specs: dict[tuple[int, str], tuple[Object, Object]] = {}

    @property
    def now(self) -> float:
        return self.cluster.now()

    def stamp(self) -> str:
        return format_time(self.cluster.now() // 1)

    def find(self, kind: str, key: Key) -> Object | None:
        return self.cluster.store.find(kind, store_key(kind, key[1], key[0]))

    def owned(self, owner: Object, kind: str) -> list[Object]:
        """Objects of a kind that the owner controls, in order of creation."""
        uid = uid_of(owner)
        result = self.cluster.dependents(uid, kind)
        # For pods, the most frequent case, the store's index suffices, because an owner of a pod is its controller here.
        if kind == "Pod":
            return result
        return [obj for obj in result if (ref := controller_of(obj)) is not None and ref["uid"] == uid]

    def wake(self, owner: Object) -> None:
        """Sync the owner again in the next step."""
        self._wake((kind_key(owner), object_key(owner)))

    def wake_at(self, owner: Object, when: float, *, prompt: bool) -> None:
        """Sync the owner again at a time, in seconds since the epoch."""
        # One timer an owner, by UID: a later one takes its place.
        self.cluster.call_at(when, partial(self.wake, owner), prompt=prompt, key=f"workload/{uid_of(owner)}")

    # --- writes -----------------------------------------------------------------------------------------------------

    def set_status(self, kind: str, owner: Object, **fields: Any) -> Object:
        """Set fields of the owner's status (None removes one), written only if something differs; gives the owner."""
        current = self.find(kind, object_key(owner))
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
        status = tuple((name, value) for name, value in new.items() if value is not None)
        self.wrote = True
        return self.cluster.replace_status(kind, owner, _shared_status(kind, status))

    def patch(self, kind: str, obj: Object, patch: Mapping[str, Any]) -> Object:
        namespace, name = object_key(obj)
        new = self.cluster.patch(kind, name, namespace, patch)
        self.wrote = self.wrote or new is not obj
        return new

    def delete(self, kind: str, *objects: Object) -> None:
        """Delete objects of a kind, except those that are gone or being deleted."""
        for obj in objects:
            namespace, name = object_key(obj)
            current = self.find(kind, (namespace, name))
            # Compared by UID, because a new object may have the same name.
            if current is not None and uid_of(current) == uid_of(obj) and not is_terminating(current):
                self.wrote = True
                self.cluster.delete(kind, name, namespace)

    def create(self, owner: Object, kind: str, obj: Object, *, owned: bool = True) -> Object | None:
        """Create an object that the owner controls, unless it is not ``owned``. Returns None, and writes an event, if the cluster refuses it."""
        meta = {**obj["metadata"], "namespace": namespace_of(owner)}
        if owned:
            meta["ownerReferences"] = [as_owner_reference(owner)]
        full = {"apiVersion": api_version_of(kind), "kind": obj.get("kind", kind), **obj, "metadata": meta}
        try:
            created = self.cluster.create(full)
        except ApiError as error:
            self.record_refusal(owner, kind, error)
            return None
        self.wrote = True
        return created

    def update(self, owner: Object, kind: str, obj: Object) -> Object | None:
        """Replace an object that the owner controls. Returns None, and writes an event, if the cluster refuses it."""
        try:
            updated = self.cluster.update(obj)
        except ApiError as error:
            self.record_refusal(owner, kind, error)
            return None
        self.wrote = True
        return updated

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
        webhook: Callable[[Object], Object] | None = None,
    ) -> Object | None:
        """Make a pod from a template: named, or with a name generated from the owner's; None if refused.

        ``labels`` and ``annotations`` are added to the template's; ``spec`` replaces fields of its pod spec. ``webhook``: gives the
        admitted pod as an operator's webhook changes it, or raises an ApiError.
        """
        meta: dict[str, Any] = {"namespace": namespace_of(owner)}
        if name:
            meta["name"] = name
        else:
            meta["generateName"] = f"{name_of(owner)}-"
        for field, own, added in (
            ("labels", labels_of(template), labels),
            ("annotations", annotations_of(template), annotations),
        ):
            if own or added:
                # The template's own ones are shared by its pods.
                meta[field] = {**own, **added} if added else own
        meta["ownerReferences"] = [reference or as_owner_reference(owner)]
        if finalizers:
            meta["finalizers"] = finalizers
        try:
            admitted = self._admitted(template.get("spec") or {}, owner, spec)
            full = {
                "apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": admitted, "status": _PENDING,
            }  # fmt: skip
            if webhook is not None:
                full = webhook(full)
            pod = self.cluster.create_admitted("Pod", full)
        except ApiError as error:
            self.record_refusal(owner, "Pod", error)
            return None
        self.made.add(uid_of(pod))
        self.wrote = True
        return pod

    def _admitted(self, spec: Object, owner: Object, changes: Mapping[str, Any] | None) -> Object:
        namespace = namespace_of(owner)
        # Objects are immutable, so a spec's identity stands for its content. A kept reference prevents reuse of its id.
        # LimitRanges differ between namespaces.
        key = id(spec), namespace
        remembered = self._specs.get(key)
        if remembered is not None and remembered[0] is spec:
            admitted = remembered[1]
        else:
            known = KINDS.get(kind_key(owner))
            checked = known is not None and known.checked_templates
            admitted = self.cluster.admit_pod_spec(spec, name_of(owner), namespace, checked)
            if len(self._specs) >= _REMEMBERED_SPECS:
                self._specs.clear()
            self._specs[key] = (spec, admitted)
        return {**admitted, **changes} if changes else admitted

    def forget_specs(self) -> None:
        """Forget admitted templates after a change of an object that admission reads."""
        self._specs.clear()

    def record_refusal(self, owner: Object, kind: str, error: ApiError) -> None:
        """Write an event that the cluster refused an object, and remember the owner for a retry."""
        reference = (kind_key(owner), object_key(owner))
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

    ignores_own_writes: ClassVar[bool] = False
    """True if one sync is enough: its own writes to the owner cause no further one."""

    def __init__(self, bench: Workbench, kind: str) -> None:
        self._bench = bench
        self.kind = kind

    def sync(self, owner: Object) -> None:
        """Reconcile a stored owner: create missing objects, delete surplus ones, write its status."""
        raise NotImplementedError

    def set_status(self, owner: Object, *conditions: StatusCondition, **fields: Any) -> Object:
        """Set conditions and fields of the owner's status (None removes a field); gives the owner as it is stored then."""
        if conditions:
            fields["conditions"] = set_conditions(owner, self._bench.stamp(), *conditions)
        return self._bench.set_status(self.kind, owner, **fields)

    def is_due(self, owner: Object, when: float) -> bool:
        """True if the time ``when`` (seconds since the epoch) has come. Otherwise the owner is synced again at that time."""
        if self._bench.now >= when:
            return True
        self._bench.wake_at(owner, when, prompt=False)
        return False

    def expire(self, owner: Object, ended: str | None, seconds: float | None) -> None:
        """Delete an owner this long after it ended; None: it has not ended, or stays."""
        if ended and seconds is not None and self.is_due(owner, parse_time(ended) + seconds):
            self._bench.delete(self.kind, owner)

    def concerned(self, event: WatchEvent) -> Iterable[Reference]:
        """The owners to sync after a change of an object of one of ``Kind.watches``."""
        return ()

    def orphaned(self, pod: Object) -> None:
        """Handle a changed pod whose owner no longer exists."""
