"""The pods of LeaderWorkerSets as the operator's webhook admits them: with the labels of their group and subgroup, and, for exclusive
placement, with affinities that give each group or subgroup a domain of a topology to itself. Source: LeaderWorkerSet v0.9.0,
pkg/webhooks/pod_webhook.go.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from kailab.model.labels import SUBGROUP_EXCLUSIVE
from kailab.model.objects import Object, annotations_of, labels_of, name_of, namespace_of
from kailab.model.quantities import parse_count
from kailab.workloads.exclusive_placement import exclusive_affinity

PREFIX = "leaderworkerset.sigs.k8s.io/"
EXCLUSIVE = PREFIX + "exclusive-topology"
GROUP_KEY = PREFIX + "group-key"
_SUBGROUP_KEY = PREFIX + "subgroup-key"


def add_worker_fields(pod: Object) -> Object:
    """A new pod with what the webhook adds; the same object if it is of no LeaderWorkerSet."""
    labels, notes = labels_of(pod), annotations_of(pod)
    if PREFIX + "name" not in labels:
        return pod
    name = name_of(pod)
    number = name.rpartition("-")[2]
    leads = labels.get(PREFIX + "worker-index") == "0"
    if leads:
        # A StatefulSet gives all pods the same labels; only the name tells the group of a leader.
        added = {PREFIX + "group-index": number, GROUP_KEY: _key(namespace_of(pod), name)}
    else:
        added = {PREFIX + "worker-index": number}
    leader = name if leads else notes.get(PREFIX + "leader-name", "")
    added |= _subgroup(notes, leader, 0 if leads else parse_count(number))
    labels = {**labels, **added}
    spec = pod["spec"]
    if leads and EXCLUSIVE in notes:
        spec = _exclusive(spec, notes[EXCLUSIVE], GROUP_KEY, labels)
    if SUBGROUP_EXCLUSIVE in notes and _SUBGROUP_KEY in labels:
        spec = _exclusive(spec, notes[SUBGROUP_EXCLUSIVE], _SUBGROUP_KEY, labels)
    return {**pod, "metadata": {**pod["metadata"], "labels": labels}, "spec": spec}


def _key(first: str, second: str) -> str:
    return hashlib.sha1(f"{first}/{second}".encode(), usedforsecurity=False).hexdigest()


def _subgroup(notes: Mapping[str, str], leader: str, index: int) -> dict[str, str]:
    """Labels with the subgroup of a pod. ``index``: the worker's, 0 for the leader."""
    length, size = parse_count(notes.get(PREFIX + "subgroup-size")), parse_count(notes.get(PREFIX + "size"))
    if not length or (index == 0 and notes.get(PREFIX + "subgroup-policy-type") == "LeaderExcluded"):
        return {}
    # If the workers divide evenly, the leader is an extra pod of the first subgroup.
    number = max(index - 1, 0) // length if (size - 1) % length == 0 else index // length
    return {PREFIX + "subgroup-index": str(number), _SUBGROUP_KEY: _key(leader, str(number))}


def _exclusive(spec: Object, topology: str, key: str, labels: Mapping[str, str]) -> Object:
    affinity = spec.get("affinity") or {}
    return {**spec, "affinity": exclusive_affinity(affinity, topology, key, labels[key])}
