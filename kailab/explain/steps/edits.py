"""Edits of the subject's own manifests: each as a patch where that is possible, else as delete and apply."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kailab.cluster.protocol import Object
from kailab.engine.relaxing.rules import Relaxation
from kailab.explain.steps.manifest import Edit, changed, in_place
from kailab.explain.steps.proposal import Change, Disturbance, Proposal, Words, apply, delete, patch
from kailab.explain.steps.setting import Setting
from kailab.model.kind import field_of
from kailab.model.kinds import KINDS, kind_key
from kailab.model.validation.advice import pod_templates

GroupPatch = Callable[[Object], Mapping[str, Any]]
"""What to patch into a PodGroup that a user made; empty where nothing has to change."""
Telling = Callable[[Object], str]
"""Tells an edit of the edited object: what it says there is what is carried out."""


def own_change(
    setting: Setting, do: str | Telling, edit: Edit, group: GroupPatch | None = None, seen: Relaxation | None = None
) -> Iterator[Proposal]:
    """The edit of all of the subject's workloads: patched first, then made anew. PodGroups that a user made say for themselves what
    concerns the group: ``group``. ``do``: in words, or what tells it of an edited object. ``seen``: what the edit is to the engine."""
    grouped = [patch(one, change) for one in setting.groups if group is not None and (change := group(one))]
    if grouped:
        yield Proposal(_words(do, setting.groups[:1]), tuple(grouped), Disturbance.OWN, seen)
    patched: list[Change] = []
    edited: list[Object] = []
    deleted: list[Change] = []
    made: list[Object] = []
    fixed = False
    for work in setting.works:
        new = changed(work, edit)
        if new is None:
            continue
        first = in_place(work, edit)
        fixed |= first is None
        patched += first or ()
        edited.append(work)
        deleted.append(delete(work))
        made.append(new)
    restarts, words = bool(setting.standing.running), _words(do, edited)
    if patched and not fixed:
        yield Proposal(words, (*grouped, *patched), Disturbance.RESTARTED if restarts else Disturbance.OWN, seen)
    if made:
        disturbance = Disturbance.RESTARTED if restarts else Disturbance.REPLACED
        yield Proposal(words, (*grouped, *deleted, apply(*made)), disturbance, seen)


def _words(do: str | Telling, edited: Sequence[Object]) -> Words:
    """The first of the edited objects stands for all."""
    if isinstance(do, str) or not edited:
        return do if isinstance(do, str) else ""
    return lambda after: do(after.of(edited[0]))


def in_spec(**fields: Any) -> GroupPatch:
    """These fields in the spec of a PodGroup."""
    return lambda group: {"spec": fields}


def labelled(key: str, value: str | None) -> Edit:
    """Sets a label where the object has it; where it has it nowhere, where scheduling looks for it. None removes it."""

    def edit(obj: Object) -> None:
        holders = [obj, *(pod for path, pod in pod_templates(obj) if path)]
        having = [holder for holder in holders if key in ((holder.get("metadata") or {}).get("labels") or {})]
        if value is None:
            for holder in having:
                holder["metadata"]["labels"].pop(key, None)  # an anchor in YAML makes them one mapping
            return
        for holder in having or [_carrier(obj)]:
            metadata = holder.setdefault("metadata", {})
            metadata["labels"] = {**(metadata.get("labels") or {}), key: value}

    return edit


def annotated(key: str, value: str | None) -> Edit:
    """Sets an annotation on the object and wherever it has it already. None removes it everywhere."""

    def edit(obj: Object) -> None:
        for holder in (obj, *(pod for path, pod in pod_templates(obj) if path)):
            metadata = holder.setdefault("metadata", {})
            notes = dict(metadata.get("annotations") or {})
            if value is None:
                notes.pop(key, None)
            elif key in notes or holder is obj:
                notes[key] = value
            if notes:
                metadata["annotations"] = notes
            else:
                metadata.pop("annotations", None)

    return edit


def of_pods(edit: Edit) -> Edit:
    """The edit of each pod, or pod template, that an object is or has."""

    def edit_all(obj: Object) -> None:
        for _, pod in pod_templates(obj):
            edit(pod)

    return edit_all


def both(*edits: Edit) -> Edit:
    def edit_all(obj: Object) -> None:
        for edit in edits:
            edit(obj)

    return edit_all


def _carrier(obj: Object) -> Object:
    """A pod template that may change, else the object itself."""
    known = KINDS.get(kind_key(obj))
    fixed = known.immutable if known is not None else ()
    template = field_of(obj, "spec.template")
    return template if isinstance(template, dict) and "spec.template" not in fixed else obj
