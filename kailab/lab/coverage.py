"""What an embedded lab does with each field of the kinds that users write most: it acts on it, only checks it, or tells what it leaves out.
Fields that no definition has are refused (``lab.unknown_fields``).

The notices of ``apply`` and the table in docs/coverage.md are made from the same data: fields that are told are the ``Unread`` ones of the
kind and of pods, and those that other notices name (``lab.advice``, ``lab.references``). Every other field of a definition has a row here. A test compares the rows with the definitions,
so that a field of a new version can't be overlooked.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from kailab.cluster.install.definitions import schema
from kailab.lab.unknown_fields import OF_PODS
from kailab.model.kinds import KINDS
from kailab.model.objects import Object
from kailab.model.validation import core


class Effect(StrEnum):
    ACTS = "acts"
    CHECKED = "checked"
    TOLD = "told"


class Field(NamedTuple):
    """A field with everything below it that has no row of its own. ``path``: with ``*`` for items of a list."""

    path: str
    effect: Effect
    note: str = ""


COVERED = ("Pod", "Job", "Queue", "PodGroup")

_POD_ACTS = {
    "activeDeadlineSeconds": "the pod fails after it",
    "affinity": "required node affinity, pod affinity and anti-affinity",
    "hostNetwork": "container ports become host ports",
    "nodeName": "the pod is on this node; deleted after 40 s if there is none of this name",
    "nodeSelector": "",
    "overhead": "added to the requests; only a RuntimeClass sets it",
    "priority": "the PriorityClass decides it",
    "priorityClassName": "",
    "resourceClaims": "",
    "restartPolicy": "",
    "runtimeClassName": "overhead, node selector and tolerations of the class",
    "schedulerName": "",
    "schedulingGates": "",
    "terminationGracePeriodSeconds": "",
    "tolerations": "",
}
_CONTAINER_ACTS = {
    "env": "a ConfigMap that is named must exist",
    "envFrom": "a ConfigMap that is named must exist",
    "image": "updates may change it",
    "name": "unique in the pod",
    "ports": "host ports keep pods apart",
    "resources": "requests, limits, claims; LimitRanges and ResourceQuotas",
    "volumeMounts": "a ConfigMap that is mounted must exist",
}
_INIT_ACTS = {"restartPolicy": "Always makes it a sidecar, whose requests and host ports count while the pod runs"}
_VOLUMES_ACT = {
    "configMap": "must exist, if a container mounts it",
    "emptyDir": "drain asks for --delete-emptydir-data",
    "name": "",
    "persistentVolumeClaim": "the claim must exist, and its volume decides about nodes",
    "projected": "its ConfigMaps must exist",
}
_JOB_ACTS = {
    "activeDeadlineSeconds": "",
    "backoffLimit": "",
    "backoffLimitPerIndex": "",
    "completionMode": "",
    "completions": "",
    "managedBy": "the Job is left to another controller",
    "maxFailedIndexes": "",
    "parallelism": "",
    "podFailurePolicy": "",
    "successPolicy": "the Job succeeds, and its other pods go, once these indexes have succeeded",
    "podReplacementPolicy": "",
    "suspend": "",
    "template": "as a Pod",
    "ttlSecondsAfterFinished": "",
}
_QUEUE_ACTS = {
    "parentQueue": "", "priority": "", "preemptMinRuntime": "", "reclaimMinRuntime": "", "resources": "quota, limit and overQuotaWeight of gpu, cpu and memory",
}  # fmt: skip
_PODGROUP_ACTS = {
    "minMember": "", "minSubGroup": "", "queue": "", "priorityClassName": "", "preemptibility": "", "preemptionDelay": "",
    "stalenessGracePeriod": "", "schedulingBackoff": "", "topologyConstraint": "", "subGroups": "",
    "markUnschedulable": "whether pods get the condition Unschedulable",
}  # fmt: skip
_TOLD_BY_OTHERS = {
    "spec.preemptionPolicy": "KAI does not look at it",
    "spec.serviceAccountName": "if there is no such account: a cluster refuses the pod",
    "spec.topologySpreadConstraints": "KAI does not spread pods by them",
    "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution": "KAI scores no preferred node affinity",
}


def fields_of(kind: str) -> list[Field]:
    """The rows of a kind, sorted by path. ``kind``: one of ``COVERED``."""
    rows = {row.path: row for row in _rows(kind)}
    for unread in (*KINDS[kind].unread, *(OF_PODS if kind == "Pod" else ())):
        path = ".".join(unread.steps)
        rows[path] = Field(path, Effect.TOLD, f"in a cluster {unread.in_cluster}")
    if kind == "Pod":
        for path, note in _TOLD_BY_OTHERS.items():
            rows[path] = Field(path, Effect.TOLD, note)
    return [rows[path] for path in sorted(rows)]


def _rows(kind: str) -> Iterator[Field]:
    if kind == "Pod":
        yield from _of_type("V1PodSpec", "spec.", _POD_ACTS, without=("containers", "initContainers", "volumes"))
        yield from _of_type("V1Container", "spec.containers.*.", _CONTAINER_ACTS)
        yield from _of_type("V1Container", "spec.initContainers.*.", {**_CONTAINER_ACTS, **_INIT_ACTS})
        yield from _of_type("V1Volume", "spec.volumes.*.", _VOLUMES_ACT)
    elif kind == "Job":
        yield from _of_type("V1JobSpec", "spec.", _JOB_ACTS)
    else:
        acts = _QUEUE_ACTS if kind == "Queue" else _PODGROUP_ACTS
        for name in _spec_of(kind):
            yield Field(f"spec.{name}", Effect.ACTS if name in acts else Effect.CHECKED, acts.get(name, ""))


def _spec_of(kind: str) -> Object:
    known = KINDS[kind]
    definition = schema(known.group, known.kind, known.versions[0]) or {}
    properties: Object = definition["properties"]["spec"]["properties"]
    return properties


def _of_type(type: str, above: str, acts: dict[str, str], without: tuple[str, ...] = ()) -> Iterator[Field]:
    for name in core.field_types(type):
        if name in without:
            continue
        if name in acts:
            yield Field(f"{above}{name}", Effect.ACTS, acts[name])
        else:
            yield Field(f"{above}{name}", Effect.CHECKED)


def stale_rows() -> list[str]:
    """Fields that are said to act and that no definition has."""
    declared = (
        ("V1PodSpec", _POD_ACTS), ("V1Container", {**_CONTAINER_ACTS, **_INIT_ACTS}), ("V1Volume", _VOLUMES_ACT), ("V1JobSpec", _JOB_ACTS),
    )  # fmt: skip
    missing = [f"{type}.{name}" for type, acts in declared for name in acts if name not in core.field_types(type)]
    for kind, acts in (("Queue", _QUEUE_ACTS), ("PodGroup", _PODGROUP_ACTS)):
        missing += [f"{kind}.spec.{name}" for name in acts if name not in _spec_of(kind)]
    return missing
