"""Installs what a lab needs in a cluster, and removes it again.

Objects created here have the label ``kailab.dev/installed-by``. Existing ones without it, above all those of a real
KAI, are used as they are: never changed, never removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar

from kailab.cluster.base_objects import KAI_NAMESPACES, KAI_PRIORITY_CLASSES, namespace_object, priority_class
from kailab.cluster.install.definitions import crds
from kailab.cluster.polling import poll_until
from kailab.cluster.protocol import Cluster, Object, find_object, object_exists
from kailab.errors import AlreadyExists, Conflict, ConnectError, NotFound
from kailab.model.callbacks import Tell
from kailab.model.objects import condition_of, conditions_of, has_condition, is_terminating, labels_of, name_of

INSTALLED_BY = "kailab.dev/installed-by"
LOOKED_AT = "kailab.dev/looked-at"
OWNER = "kailab"
PATIENCE_SECONDS = 180.0
GOING_SECONDS = 180.0
"""An API server may check only once a minute whether the objects of a deleted kind are gone."""
CRD = "CustomResourceDefinition"

T = TypeVar("T")


def install(cluster: Cluster, tell: Tell = lambda _: None) -> None:
    """Create KAI's kinds, priority classes and namespaces where they are missing.

    ``tell``: gets a line for each object that is created, updated, or found different from kailab's. Raises
    ConnectError for kinds that exist in another version only, or that the server does not establish.
    """
    definitions = crds()
    existing = {name: _settled(cluster, name) for name in map(name_of, definitions)}
    for crd in definitions:  # all of them first: an unusable cluster stays unchanged
        present = existing[name_of(crd)]
        # kailab's own are updated to this version.
        if present is not None and not _is_ours(present):
            _check_version(present, crd)
    for crd in definitions:
        _define(cluster, crd, existing[name_of(crd)], tell)
    # An API server takes a moment before it serves a kind whose definition it has accepted.
    await_established(cluster, map(name_of, definitions))
    for name, value in KAI_PRIORITY_CLASSES.items():
        _provide(cluster, "PriorityClass", priority_class(name, value), tell)
        # A PriorityClass's value is immutable: the existing one is reported and used.
        there_value = cluster.get("PriorityClass", name)["value"]
        if there_value != value:
            tell(f"PriorityClass {name} has the value {there_value} here; with KAI it is {value}")
    for name in KAI_NAMESPACES:
        _provide(cluster, "Namespace", namespace_object(name), tell)


def installed(cluster: Cluster) -> list[tuple[str, str]]:
    """(kind, name) of everything that ``install`` created here, in the order of removal."""
    kinds = ("Namespace", "PriorityClass", CRD)
    return [
        (kind, name_of(obj))
        for kind in kinds
        for obj in cluster.list(kind, labels={INSTALLED_BY: OWNER})
        if _is_ours(obj)
    ]


def uninstall(cluster: Cluster, tell: Tell = lambda _: None) -> None:
    """Remove what ``install`` created, and with the kinds all their objects; wait until it is gone.

    Raises ConnectError for what does not go (a finalizer may hold something in it).
    """
    objects = installed(cluster)
    for kind, name in objects:
        try:
            cluster.delete(kind, name)
        except NotFound:
            continue
        tell(f"removed {kind} {name}")
    left = _await(
        lambda: [remaining for kind, name in objects if (remaining := _going(cluster, kind, name))], GOING_SECONDS
    )
    if left:
        raise ConnectError(f"{cluster.name}: not removed after {GOING_SECONDS:.0f} s: {', '.join(left)}")


def _going(cluster: Cluster, kind: str, name: str) -> str:
    """What is still there and, as far as the server says, why; empty once it is gone.

    A server that could not list the objects of a kind at once ("storage is (re)initializing") sometimes forgets to
    retry for five minutes: its own note of that failure overtakes its second try (Kubernetes 1.31 on, crd_finalizer: a
    conflict counts as done, and a change of the condition Terminating alone as no change). Any other change wakes it.
    """
    obj = find_object(cluster, kind, name)
    if obj is None:
        return ""
    condition = condition_of(obj, "Terminating") or {}
    if _is_ours(obj) and condition.get("reason") == "InstanceDeletionFailed":
        looked_at = {"metadata": {"annotations": {LOOKED_AT: obj["metadata"]["resourceVersion"]}}}
        with suppress(NotFound, Conflict):
            cluster.patch(kind, name, None, looked_at)
    why = condition.get("message") or "a finalizer may hold it"
    return f"{kind} {name} ({why})"


def await_established(cluster: Cluster, names: Iterable[str]) -> None:
    """Wait until the server has established these CRDs. Raises ConnectError for one that it does not."""
    wanted = list(names)

    def left() -> list[str]:
        return [name for name in wanted if not has_condition(find_object(cluster, CRD, name) or {}, "Established")]

    missing = _await(left)
    if missing:
        crd = find_object(cluster, CRD, missing[0]) or {}
        states = [f"{c['type']}={c['status']}: {c.get('message', '')}" for c in conditions_of(crd)]
        why = "; ".join(states) or "no conditions yet"
        raise ConnectError(
            f"{cluster.name}: {CRD} {missing[0]} was not established in {PATIENCE_SECONDS:.0f} s ({why})"
        )


def _is_ours(obj: Object) -> bool:
    return labels_of(obj).get(INSTALLED_BY) == OWNER


def _ours(obj: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "labels": {**labels_of(obj), INSTALLED_BY: OWNER}}}


def _settled(cluster: Cluster, name: str) -> Object | None:
    """An existing definition, or None; waits for one that is being removed to be gone."""
    definition = find_object(cluster, CRD, name)
    if definition is not None and is_terminating(definition):
        if left := _await(lambda: _going(cluster, CRD, name), GOING_SECONDS):
            raise ConnectError(f"{cluster.name}: its removal does not finish: {left}; remove its objects first")
        return None
    return definition


def _check_version(existing: Object, wanted: Object) -> None:
    name, version = name_of(wanted), wanted["spec"]["versions"][0]["name"]
    served = [each["name"] for each in existing["spec"]["versions"] if each.get("served")]
    if version not in served:
        raise ConnectError(
            f"{CRD} {name}: the cluster serves {', '.join(served) or 'no version'}; expected {version}. Bring it to a KAI "
            "that has that version, or use another cluster"
        )


def _define(cluster: Cluster, crd: Object, existing: Object | None, tell: Tell) -> None:
    name = name_of(crd)
    if existing is None:
        try:
            cluster.create(_ours(crd))
        except AlreadyExists:  # somebody else was faster
            present = _settled(cluster, name)
            if present is not None and not _is_ours(present):
                _check_version(present, crd)
        else:
            tell(f"created {CRD} {name}")
    elif _is_ours(existing):
        # Replaced, not merged: fields that an older kailab wrote and this one does not must go.
        after = cluster.update({**crd, "metadata": existing["metadata"]})
        if after["metadata"]["resourceVersion"] != existing["metadata"]["resourceVersion"]:
            tell(f"configured {CRD} {name}")


def _provide(cluster: Cluster, kind: str, obj: Object, tell: Tell) -> None:
    name = name_of(obj)
    if not object_exists(cluster, kind, name):
        with suppress(AlreadyExists):
            cluster.create(_ours(obj))
            tell(f"created {kind} {name}")


def _await(left: Callable[[], T], seconds: float = PATIENCE_SECONDS) -> T:
    """Ask repeatedly until nothing is left. Returns what is left in the end."""
    from tenacity import wait_exponential

    pause = wait_exponential(multiplier=0.05, max=1.0)
    return poll_until(left, lambda remaining: not remaining, seconds, pause=pause)
