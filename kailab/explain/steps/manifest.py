"""Objects of a cluster as manifests that can be applied anew, and what changing them takes: a patch, or delete and apply."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from kailab.cluster.embedded.updates import LAST_APPLIED
from kailab.cluster.protocol import Object
from kailab.explain.steps.proposal import Change, apply, delete, patch
from kailab.grouping.ownermeta import TOP_OWNER_METADATA
from kailab.model import labels
from kailab.model.kinds import immutable_change, kind_key
from kailab.model.validation.advice import pod_templates
from kailab.scheduler.reading.podgroups import LAST_EVICTION

Edit = Callable[[Object], None]
"""Changes a manifest in place."""

_KEPT = ("name", "namespace", "labels", "annotations")
_WRITTEN_BY_OTHERS = frozenset({
    LAST_APPLIED, TOP_OWNER_METADATA, labels.LAST_START, labels.STALE_SINCE, LAST_EVICTION, labels.GPU_GROUP,
    labels.RECEIVED_RESOURCE_TYPE, labels.CHECKPOINT_REQUESTED, labels.CHECKPOINT_DONE, "deployment.kubernetes.io/revision",
})  # fmt: skip
_OF_THE_JOB = ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name")
# What an API server lets be changed of a pod's spec, as far as scheduling reads it.
_POD_MAY_CHANGE = frozenset({"tolerations", "schedulingGates", "activeDeadlineSeconds"})


def as_manifest(obj: Object) -> Object:
    """What would make the object anew: without what server, controllers and scheduler wrote into it."""
    metadata = {key: obj["metadata"][key] for key in _KEPT if obj["metadata"].get(key)}
    made = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}
    made |= {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata", "status")}
    # Edits change it in place, and stored objects are shared.
    made = deepcopy(made)
    _without(made["metadata"], obj)
    if kind_key(obj) == "Job" and not obj["spec"].get("manualSelector"):
        # The Job controller's own marks: applied again they would name the Job that was deleted.
        made["spec"].pop("selector", None)
        marks = (made["spec"].get("template") or {}).get("metadata", {}).get("labels") or {}
        for key in _OF_THE_JOB:
            marks.pop(key, None)
    for _, pod in pod_templates(made):
        pod["spec"].pop("nodeName", None)
        # Admission works it out anew from the class, and refuses another number.
        pod["spec"].pop("priority", None)
        pod["spec"].pop("preemptionPolicy", None)
    return made


def _without(metadata: Object, obj: Object) -> None:
    """Labels and annotations that came with this very object go: a new one gets its own."""
    uid = str(obj["metadata"].get("uid") or "")
    for field in ("labels", "annotations"):
        notes = metadata.get(field) or {}
        for key in list(notes):
            made_for_it = key == labels.POD_GROUP and uid and str(notes[key]).endswith(uid)
            if key in _WRITTEN_BY_OTHERS or key.startswith(labels.GPU_MULTI_GROUP_PREFIX) or made_for_it:
                del notes[key]
        if not notes:
            metadata.pop(field, None)


def edited(obj: Object, edit: Edit) -> Object:
    """The manifest after an edit."""
    made = as_manifest(obj)
    edit(made)
    return made


def changed(obj: Object, edit: Edit) -> Object | None:
    """The manifest after an edit; None where nothing would change."""
    new = edited(obj, edit)
    return None if new == as_manifest(obj) else new


def in_place(obj: Object, edit: Edit) -> tuple[Change, ...] | None:
    """The edit as a patch; None where a fixed field would change, or nothing would."""
    old, new = as_manifest(obj), edited(obj, edit)
    change = difference(old, new)
    if not change or not _may_change(obj, old, new):
        return None
    return (patch(obj, change),)


def anew(obj: Object, edit: Edit) -> tuple[Change, ...] | None:
    """The edit as a user makes it where fields are fixed: delete and apply. None where nothing would change."""
    new = changed(obj, edit)
    return None if new is None else (delete(obj), apply(new))


def difference(old: Any, new: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON merge patch that makes ``new`` of ``old``.

    >>> difference({"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"d": 3}})
    {'b': {'d': 3, 'c': None}}
    """
    found: dict[str, Any] = {}
    for key, value in new.items():
        if key not in old:
            found[key] = value
        elif isinstance(value, Mapping) and isinstance(old[key], Mapping):
            if inner := difference(old[key], value):
                found[key] = inner
        elif value != old[key]:
            found[key] = value
    found |= {key: None for key in old if key not in new}
    return found


def _may_change(obj: Object, old: Object, new: Object) -> bool:
    if obj["kind"] == "Pod":
        changed = {key for key in {*old["spec"], *new["spec"]} if old["spec"].get(key) != new["spec"].get(key)}
        return changed <= _POD_MAY_CHANGE
    return not immutable_change(kind_key(obj), old, new)
