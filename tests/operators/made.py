"""What a lab's controllers made of work: its pods and PodGroups, without what is chance (uids, suffixes, hashes)."""

from __future__ import annotations

import re
from typing import Any

from kailab.errors import NotFound
from kailab.lab import Lab
from kailab.model import labels

OPERATORS_OWN = re.compile(r"(jobset|leaderworkerset)\.sigs\.k8s\.io/|training\.kubeflow\.org/|ray\.io/")
"""Labels and annotations that operators give to pods."""
ALONE = (
    "jobset.sigs.k8s.io/priority",
    "ray.io/ft-enabled",
    "ray.io/kuberay-version",
    "ray.io/upgrade-strategy-recreate-hash",
    "ray.io/worker-group-replica-index",
    "ray.io/worker-group-replica-name",
    "ray.io/replica-host-index",
    "ray.io/serve",
)
"""What operators and their webhooks add to a pod, and kailab does not: see docs/operators.md."""
BY_CHANCE = re.compile(r"/(jobset-uid|job-key|group-key|subgroup-key|template-revision-hash|originated-from-.*)$|hash")
_SUFFIX = re.compile(r"-[a-z0-9]{5}$")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def made(lab: Lab) -> dict[str, Any]:
    """By names that are the same everywhere, in order. ``pods``: phase, chain of owners, marks of the operator, PodGroup and subgroup of
    each; ``groups``: the gang of each PodGroup, and where it belongs."""
    pods = [pod for pod in lab.cluster.list("Pod", "default") if "deletionTimestamp" not in pod["metadata"]]
    found = {
        "pods": sorted((_pod(lab, pod) for pod in pods), key=str),
        "groups": [_group(group) for group in lab.cluster.list("PodGroup", "default")],
    }
    for name in _named_by_chance(lab):
        found = _renamed(found, name, _SUFFIX.sub("-CHANCE", name))
    return found


def _named_by_chance(lab: Lab) -> list[str]:
    """What others made of a RayJob or a RayService has a name with a random end, which its pods and their marks repeat."""
    try:
        clusters = lab.cluster.list("RayCluster", "default")
    except NotFound:
        return []
    return [one["metadata"]["name"] for one in clusters if one["metadata"].get("ownerReferences")]


def _renamed(found: Any, old: str, new: str) -> Any:
    if isinstance(found, dict):
        return {key: _renamed(value, old, new) for key, value in found.items()}
    if isinstance(found, list):
        return [_renamed(value, old, new) for value in found]
    return found.replace(old, new) if isinstance(found, str) else found


def _pod(lab: Lab, pod: dict[str, Any]) -> dict[str, Any]:
    notes = pod["metadata"].get("annotations") or {}
    marks = pod["metadata"].get("labels") or {}
    return {
        "name": _name(pod),
        "phase": pod.get("status", {}).get("phase"),
        "owners": _owners(lab, pod),
        "marks": _marks(marks),
        "notes": _marks(notes),
        "group": _plain(notes.get(labels.POD_GROUP, "")),
        "subgroup": marks.get(labels.SUBGROUP_NAME, ""),
    }


def _owners(lab: Lab, obj: dict[str, Any]) -> list[str]:
    """From the one that controls it upwards."""
    for one in obj["metadata"].get("ownerReferences") or ():
        if one.get("controller"):
            above = lab.cluster.get(one["kind"], one["name"], obj["metadata"]["namespace"])
            return [f"{one['kind']} {one['name']}", *_owners(lab, above)]
    return []


def _group(group: dict[str, Any]) -> dict[str, Any]:
    spec = group["spec"]
    shape = ("name", "parent", "minMember", "minSubGroup")
    return {
        "name": _plain(group["metadata"]["name"]),
        "minMember": spec.get("minMember"),
        "minSubGroup": spec.get("minSubGroup"),
        "subGroups": [{key: one.get(key) for key in shape} for one in spec.get("subGroups") or ()],
        "queue": spec.get("queue"),
        "priority": spec.get("priorityClassName"),
        "preemptibility": spec.get("preemptibility"),
    }


def _marks(found: dict[str, str]) -> dict[str, str]:
    own = {key: value for key, value in found.items() if OPERATORS_OWN.search(key) and key not in ALONE}
    return {key: "*" if BY_CHANCE.search(key) else _UID.sub("UID", value) for key, value in sorted(own.items())}


def _name(pod: dict[str, Any]) -> str:
    """Some give their pods a random end."""
    kinds = {one["kind"] for one in pod["metadata"].get("ownerReferences") or ()}
    name: str = pod["metadata"]["name"]
    return _SUFFIX.sub("", name) if kinds & {"Job", "RayCluster"} else name


def _plain(name: str) -> str:
    return _UID.sub("UID", name)
