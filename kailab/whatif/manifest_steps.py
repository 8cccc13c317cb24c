"""Steps for work that exists only in a simulation: they change its manifests before they are applied, because there is no object to
delete or patch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from kailab.evidence.wording import some
from kailab.explain.steps.proposals import ObjectsAfterChanges, apply_change, as_manifest
from kailab.lab.answer import ObjectRef, Step
from kailab.lab.lab import Lab


def step_in_manifests(lab: Lab, step: Step, new: Collection[ObjectRef]) -> Step:
    """The step with the manifests of new objects applied as its changes leave them, instead of deletions and patches of these objects.
    ``lab``: of the simulation, in which they exist. ``new``: the objects that it made."""
    after = ObjectsAfterChanges(step.changes)
    applied = {
        _reference({"kind": obj["kind"], **obj["metadata"]})
        for change in step.changes
        for obj in change.get("apply", ())
    }
    changes: list[Mapping[str, Any]] = []
    edited: dict[ObjectRef, None] = {}
    for change in step.changes:
        named = change.get("delete") or change.get("patch")
        if named is None or (key := _reference(named)) not in new or "subresource" in named:
            changes.append(change)
        elif "patch" in change:
            if key not in edited and key not in applied:
                obj = lab.cluster.get(key.kind, key.name, key.namespace or None)
                changes.append(apply_change(as_manifest(after.of(obj))))
            edited[key] = None
        elif key in applied:
            edited[key] = None
        else:
            changes.append(change)
    if not edited:
        return step
    works = some([f"{key.kind} {key.name}" for key in edited])
    return replace(step, do=f"{step.intent}: apply {works} with that change.", changes=tuple(changes))


def _reference(named: Mapping[str, Any]) -> ObjectRef:
    """The object that a deletion or a patch names."""
    return ObjectRef(named["kind"], named.get("namespace") or "", named["name"])
