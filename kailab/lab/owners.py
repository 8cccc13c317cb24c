"""Ownership: the objects that a workload owns, down to the controllers of its pods, and the owners of a pod, up to the top one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from kailab.cluster.protocol import Object
from kailab.errors import NotFound
from kailab.lab.picture import Picture
from kailab.model.kinds import KINDS, is_namespaced, key_of, kind_key, part
from kailab.model.objects import involved_of, is_terminating, namespace_of, owner_references, owner_uids, uid_of

if TYPE_CHECKING:
    from kailab.lab.venues import LabCluster


def refused_owners(cluster: LabCluster) -> Iterator[Object]:
    """The objects whose pods the API server refused, as for a ResourceQuota or a LimitRange; some may have got their pods since."""
    refused = {
        (key_of(about.get("apiVersion") or "", about["kind"]), about.get("namespace"), about["name"]): about.get("uid")
        for event in cluster.list("Event")
        if event.get("reason") == "FailedCreate" and (about := involved_of(event)).get("kind") and about.get("name")
    }
    for (kind, namespace, name), uid in refused.items():
        try:
            obj = cluster.get(kind, name, namespace)
        except NotFound:
            continue
        if uid_of(obj) == uid:
            yield obj


def refused_pods(cluster: LabCluster) -> list[tuple[Object, int]]:
    """The workloads (top owners) that lack pods because the API server refuses them, and how many they lack."""
    owners = list(refused_owners(cluster))
    pods = [pod for pod in cluster.list("Pod") if not is_terminating(pod)] if owners else []
    there = Counter(uid for pod in pods for uid in owner_uids(pod))
    lacking: dict[str, tuple[Object, int]] = {}
    for obj in owners:
        if lacks := _lacks(obj, there[uid_of(obj)]):
            top = top_of(cluster, obj)
            _, before = lacking.get(uid_of(top), (top, 0))
            lacking[uid_of(top)] = (top, before + lacks)
    # A workload may lack more: the workers of a group are made only once its leader exists.
    present = Counter(uid_of(top_of(cluster, pod)) for pod in pods) if lacking else Counter()
    return [(top, max(lacks, _lacks(top, present[uid_of(top)]))) for top, lacks in lacking.values()]


def _lacks(obj: Object, present: int) -> int:
    """How many pods an object lacks of those that it wants; 0 if its kind does not say how many it wants."""
    wanted = part(kind_key(obj), "wanted_pods")
    return 0 if wanted is None else max(0, wanted(obj) - present)


def owned_by(cluster: LabCluster, owner: Object) -> Iterator[Object]:
    """Objects that ``owner`` owns, directly or through others, except pods: nearest first."""
    uids = {uid_of(owner)}
    namespace = namespace_of(owner) or None
    candidates = [
        obj
        for kind in cluster.kinds()
        if kind in KINDS and KINDS[kind].owns_pods and kind != "Pod" and is_namespaced(kind)
        for obj in cluster.list(kind, namespace)
    ]
    grew = True
    # Repeat while new objects are found, because kinds are listed in no particular order.
    while grew:
        grew = False
        for obj in list(candidates):
            if any(reference.get("uid") in uids for reference in owner_references(obj)):
                candidates.remove(obj)
                uids.add(uid_of(obj))
                grew = True
                yield obj


def top_of(cluster: LabCluster, obj: Object, shared: Container[str] = ()) -> Object:
    """The top owner of an object that exists; the object itself if it has no owner. ``shared``: UIDs of owners to ignore, with those above
    them."""
    *_, top = (obj, *takewhile(lambda owner: uid_of(owner) not in shared, owners_of(cluster, obj)))
    return top


def owners_of(cluster: LabCluster, obj: Object) -> Iterator[Object]:
    """The first owner of an object, the first owner of that, and so on, while they exist."""
    seen = {uid_of(obj)}
    while references := owner_references(obj):
        try:
            obj = cluster.get(_key(references[0]), references[0]["name"], namespace_of(obj) or None)
        except NotFound:
            return
        if uid_of(obj) in seen:
            return
        seen.add(uid_of(obj))
        yield obj


def owner_names(picture: Picture, owner: str, namespace: str) -> list[str]:
    """An owner and its owners, as ``Kind/name``, from the pod up."""
    known = picture.owner_lines.get((namespace, owner))
    if known is None:
        known = picture.owner_lines[namespace, owner] = _owner_line(picture, owner, namespace)
    return known


def work_title(picture: Picture, podgroup: str, *, namespaced: bool = False) -> str:
    """The top owner of a PodGroup (``namespace/name``) as a title: ``Deployment api``; without owner the pod, or the PodGroup itself.
    ``namespaced``: ``Deployment team/api``."""
    namespace, _, name = podgroup.partition("/")
    rows = picture.by_group.get(podgroup, [])
    line = owner_names(picture, rows[0].owner, namespace) if rows else []
    if line:
        kind, _, name = line[-1].partition("/")
    elif rows:
        kind, name = "Pod", rows[0].name.partition("/")[2]
    else:
        kind = "PodGroup"
    return f"{kind} {namespace}/{name}" if namespaced else f"{kind} {name}"


def _owner_line(picture: Picture, owner: str, namespace: str) -> list[str]:
    line: list[str] = []
    key = _key_of_kind(owner.partition("/")[0])
    # Nothing refuses a cycle of owners.
    while owner and owner not in line:
        line.append(owner)
        try:
            obj = picture.cluster.get(key, owner.partition("/")[2], namespace)
        except NotFound:
            break
        references = owner_references(obj)
        owner = f"{references[0]['kind']}/{references[0]['name']}" if references else ""
        key = _key(references[0]) if references else ""
    return line


def _key(reference: Mapping[str, Any]) -> str:
    """The kind key of an owner."""
    return key_of(reference.get("apiVersion") or "", reference["kind"])


def _key_of_kind(kind: str) -> str:
    """The kind key of a pod's owner by its bare kind. If several kinds share it, one that may own pods is returned."""
    if kind in KINDS and KINDS[kind].owns_pods:
        return kind
    return next((key for key, known in KINDS.items() if known.kind == kind and known.owns_pods), kind)
