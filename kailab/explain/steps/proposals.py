"""Proposals: changes that may let the subject run, before they are tried; and edits of the subject's own manifests.

An edit becomes a patch where the API server allows it, else a deletion and an apply of the edited manifest.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, TypeAlias

from kailab.cluster.embedded.merge import merge_patch
from kailab.cluster.protocol import Object
from kailab.engine.relaxing.rules import Relaxation
from kailab.evidence.wording import some
from kailab.explain.steps.question_context import QuestionContext
from kailab.grouping.default import TOP_OWNER_METADATA
from kailab.lab.redacted_changes import redacted_data
from kailab.model import labels
from kailab.model.kind import field_of
from kailab.model.kinds import KINDS, immutable_change, is_namespaced, kind_key
from kailab.model.validation.advice import pod_templates
from kailab.scheduler.reading.podgroups import LAST_EVICTION

SHORT_PATCH = 160
"""Characters of a patch up to which a step shows its command."""
LONGEST_COMMANDS = 320
"""Characters of the commands of a step up to which it shows them."""

ChangeData = Mapping[str, Any]
"""In the forms of ``kailab.lab.change``: ``apply``, ``patch``, ``delete``, ``advance``."""


class Disturbance(IntEnum):
    """Whom a proposal disturbs, the least first."""

    OWN = 0  # the subject's manifests; nothing stops
    REPLACED = 1  # the subject's manifests; waiting objects are deleted and applied again
    MADE = 2  # a missing object is created
    QUEUES = 3  # the rules of queues
    RESTARTED = 4  # the subject's manifests; its running pods restart
    WAITING = 5  # time passes
    NODES = 6  # nodes are opened or labelled
    ADDED = 7  # nodes are added
    FRONT = 8  # waiting work that is the cause, because it blocks the queue, is withdrawn
    PRIORITY = 9  # it is served before others by a higher priority
    LINE = 10  # other waiting work is withdrawn
    OTHERS = 11  # other running work is changed or ended

    @property
    def is_unsafe(self) -> bool:
        """Whether it raises a priority or withdraws or ends the work of others, which is not for everybody to decide."""
        return self >= Disturbance.FRONT


class ObjectsAfterChanges:
    """Objects after changes: words read amounts from here, so that they always agree with the changes."""

    def __init__(self, changes: Iterable[ChangeData]) -> None:
        self.changes = tuple(changes)

    def of(self, obj: Object) -> Object:
        """The object ``obj`` after the changes."""
        name = _named(obj)
        for change in self.changes:
            for made in change.get("apply", ()):
                if _named(made) == name:
                    obj = made
            if (given := change.get("patch")) is not None and {key: given.get(key) for key in name} == name:
                obj = merge_patch(obj, given["patch"])
        return obj


Words: TypeAlias = str | Callable[[ObjectsAfterChanges], str]
"""What a proposal does, as text or as a function of the changed objects."""


@dataclass(frozen=True)
class Proposal:
    """Changes that may let the subject run. ``words``: what they do. ``seen``: the relaxation with the same effect in the
    engine. None: ``step_search`` derives it from the changed objects. ``first``: of a pair of changes, the one that comes first."""

    words: Words
    changes: tuple[ChangeData, ...]
    disturbance: Disturbance
    seen: Relaxation | None = None
    first: Proposal | None = None

    def intent(self, changes: Iterable[ChangeData] | None = None) -> str:
        """What it does. ``changes``: all changes that are carried out, if its own are only a part of them."""
        carried_out = self.changes if changes is None else changes
        return self.words if isinstance(self.words, str) else self.words(ObjectsAfterChanges(carried_out))

    @property
    def do(self) -> str:
        """What it does, and which objects it deletes and applies again."""
        deleted = [change["delete"] for change in self.changes if "delete" in change]
        made = [_named(obj) for change in self.changes for obj in change.get("apply", ())]
        remade = [f"{named['kind']} {named['name']}" for named in deleted if named in made]
        how = f": delete {some(list(dict.fromkeys(remade)))}, and apply with that change" if remade else ""
        return f"{self.intent()}{how}"

    @property
    def text(self) -> str:
        """The text of the step: ``do``, with the commands if they are short and contain nothing redacted."""
        commands = "" if redacted_data(self.changes).get("left_out") else " && ".join(_commands(self.changes))
        return f"{self.do}: {commands}" if 0 < len(commands) <= LONGEST_COMMANDS else f"{self.do}."


def _commands(changes: Iterable[ChangeData]) -> Iterator[str]:
    """The commands that carry out patches and deletions. Equal changes of several objects are one command. Yields none if one of the changes
    has no command."""
    commands: list[tuple[str, str, list[tuple[str, str]]]] = []  # verb, rest, (kind, name)
    for change in changes:
        patch = change.get("patch")
        named = change.get("delete") if patch is None else patch
        # The status of a node is its kubelet's to write.
        if named is None or "subresource" in named:
            return
        rest = f" -n {named['namespace']}" if "namespace" in named else ""
        if patch is not None:
            text = json.dumps(patch["patch"], separators=(",", ":"))
            if len(text) > SHORT_PATCH:
                return
            rest += f" --type merge -p {shlex.quote(text)}"
        verb = "delete" if patch is None else "patch"
        if not commands or commands[-1][:2] != (verb, rest):
            commands.append((verb, rest, []))
        commands[-1][2].append((_resource(named["kind"]), named["name"]))
    for verb, rest, objects in commands:
        kinds = {kind for kind, _ in objects}
        names = [name for _, name in objects] if len(kinds) == 1 else [f"{kind}/{name}" for kind, name in objects]
        yield f"kailab {verb} {' '.join([*(kinds if len(kinds) == 1 else ()), *names])}{rest}"


@dataclass(frozen=True)
class ProposalFamily:
    """Alternative proposals of one kind, the smallest change first. ``grows``: a larger one does all that a smaller one does, so bisection
    finds the smallest that works. ``last``: skipped if another family of the same step function worked. ``corrects``: why it corrects a
    mistyped name; it is then proposed whether the subject runs with it or waits. Empty: it corrects none."""

    proposals: tuple[Proposal, ...]
    grows: bool = False
    last: bool = False
    corrects: str = ""

    def safe(self) -> ProposalFamily:
        """Without the proposals that raise a priority or touch the work of others."""
        return replace(self, proposals=tuple(each for each in self.proposals if not each.disturbance.is_unsafe))

    @classmethod
    def of(cls, proposals: Iterable[Proposal], grows: bool = False, corrects: str = "") -> ProposalFamily:
        return cls(tuple(proposals), grows, corrects=corrects)


def correction(name: str, meant: str | None) -> str:
    """Why naming ``name`` corrects a mistyped name; empty if it is not the name that was meant."""
    return f"{name} is the nearest name that exists" if name == meant else ""


def patch_change(obj: Object, change: Mapping[str, Any]) -> ChangeData:
    """A JSON merge patch of an existing object."""
    return {"patch": {**_named(obj), "patch": change}}


def delete_change(obj: Object) -> ChangeData:
    return {"delete": _named(obj)}


def apply_change(*objects: Object) -> ChangeData:
    return {"apply": list(objects)}


def combined(first: Proposal, second: Proposal, over: Proposal) -> Proposal:
    """Both proposals as one. ``second`` was made for a lab after ``over``, a proposal of the same family as ``first``. If both replace an
    object, the edit of ``second`` is applied to the object of ``first``."""
    before, after = _made(over.changes), _made(first.changes)
    added: list[ChangeData] = []
    for change in second.changes:
        if "delete" in change and _key(change["delete"]) in after:
            continue  # the object is replaced once, with both edits
        left = []
        for obj in change.get("apply", ()):
            key = _key(_named(obj))
            if key in after and key in before:
                after[key] = apply_difference(before[key], obj, after[key])
            else:
                left.append(obj)
        if "apply" not in change:
            added.append(change)
        elif left:
            added.append({**change, "apply": left})
    changes = [
        {**change, "apply": [after.get(_key(_named(obj)), obj) for obj in change["apply"]]}
        if "apply" in change
        else change
        for change in first.changes
    ]

    def words(objects: ObjectsAfterChanges) -> str:
        other = second.intent(objects.changes)
        return f"{first.intent(objects.changes)}; then {other[:1].lower()}{other[1:]}"

    return Proposal(words, (*changes, *added), max(first.disturbance, second.disturbance), first=first)


def apply_difference(before: Any, changed: Any, other: Any) -> Any:
    """``other`` with the difference from ``before`` to ``changed``.

    >>> apply_difference({"a": 1, "b": [{"c": 2}]}, {"a": 5, "b": [{"c": 2, "d": 3}]}, {"a": 1, "b": [{"c": 4}]})
    {'a': 5, 'b': [{'c': 4, 'd': 3}]}
    """
    if before == changed:
        return other
    if isinstance(before, dict) and isinstance(changed, dict) and isinstance(other, dict):
        merged = {key: value for key, value in other.items() if key not in before or key in changed}
        for key, value in changed.items():
            if key not in before:
                merged[key] = value
            elif key in other:
                merged[key] = apply_difference(before[key], value, other[key])
        return merged
    lists = all(isinstance(version, list) for version in (before, changed, other))
    if lists and len(before) == len(changed) == len(other):
        return [apply_difference(*each) for each in zip(before, changed, other, strict=True)]
    return changed


def _made(changes: Iterable[ChangeData]) -> dict[tuple[str, ...], Object]:
    return {_key(_named(obj)): obj for change in changes for obj in change.get("apply", ())}


def _key(name: Mapping[str, str]) -> tuple[str, ...]:
    return name["kind"], name.get("namespace", ""), name["name"]


def _named(obj: Object) -> dict[str, str]:
    metadata = obj["metadata"]
    reference = {"kind": obj["kind"], "name": metadata["name"]}
    if is_namespaced(obj["kind"], obj):
        reference["namespace"] = metadata.get("namespace") or "default"
    return reference


def _resource(kind: str) -> str:
    known = KINDS.get(kind)
    return known.singular if known is not None else kind.lower()


Edit = Callable[[Object], None]
"""Changes a manifest in place."""

_KEPT = ("name", "namespace", "labels", "annotations")
_WRITTEN_BY_OTHERS = frozenset({
    labels.LAST_APPLIED, TOP_OWNER_METADATA, labels.LAST_START, labels.STALE_SINCE, LAST_EVICTION, labels.GPU_GROUP,
    labels.RECEIVED_RESOURCE_TYPE, labels.CHECKPOINT_REQUESTED, labels.CHECKPOINT_DONE, "deployment.kubernetes.io/revision",
})  # fmt: skip
_OF_THE_JOB = ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name")
# The fields of a pod's spec that an API server allows to change and that scheduling reads.
_POD_MAY_CHANGE = frozenset({"tolerations", "schedulingGates", "activeDeadlineSeconds"})


def as_manifest(obj: Object) -> Object:
    """The manifest of an object: without what the server, controllers and the scheduler wrote into it."""
    metadata = {key: obj["metadata"][key] for key in _KEPT if obj["metadata"].get(key)}
    made = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}
    made |= {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata", "status")}
    # Edits change the manifest in place, and stored objects are shared with the lab.
    made = deepcopy(made)
    _without(made["metadata"], obj)
    if kind_key(obj) == "Job" and not obj["spec"].get("manualSelector"):
        # The Job controller's own labels would name the deleted Job.
        made["spec"].pop("selector", None)
        marks = (made["spec"].get("template") or {}).get("metadata", {}).get("labels") or {}
        for key in _OF_THE_JOB:
            marks.pop(key, None)
    for _, pod in pod_templates(made):
        pod["spec"].pop("nodeName", None)
        # Admission sets it from the class, and refuses another number.
        pod["spec"].pop("priority", None)
        pod["spec"].pop("preemptionPolicy", None)
    return made


def _without(metadata: Object, obj: Object) -> None:
    """Remove the labels and annotations that belong to this very object."""
    uid = str(obj["metadata"].get("uid") or "")
    for field in ("labels", "annotations"):
        notes = metadata.get(field) or {}
        for key in list(notes):
            made_for_it = key == labels.POD_GROUP and uid and str(notes[key]).endswith(uid)
            if key in _WRITTEN_BY_OTHERS or key.startswith(labels.GPU_MULTI_GROUP_PREFIX) or made_for_it:
                del notes[key]
        if not notes:
            metadata.pop(field, None)


def edited_manifest(obj: Object, edit: Edit) -> Object:
    """The manifest after an edit."""
    made = as_manifest(obj)
    edit(made)
    return made


def manifest_if_changed(obj: Object, edit: Edit) -> Object | None:
    """The manifest after an edit; None if nothing changes."""
    new = edited_manifest(obj, edit)
    return None if new == as_manifest(obj) else new


def patch_changes(obj: Object, edit: Edit) -> tuple[ChangeData, ...] | None:
    """The edit as a patch; None if an immutable field changes, or nothing does."""
    old, new = as_manifest(obj), edited_manifest(obj, edit)
    change = merge_patch_between(old, new)
    if not change or not _may_change(obj, old, new):
        return None
    return (patch_change(obj, change),)


def replace_changes(obj: Object, edit: Edit) -> tuple[ChangeData, ...] | None:
    """The edit as a deletion and an apply, for immutable fields. None if nothing changes."""
    new = manifest_if_changed(obj, edit)
    return None if new is None else (delete_change(obj), apply_change(new))


def merge_patch_between(old: Any, new: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON merge patch from ``old`` to ``new``.

    >>> merge_patch_between({"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"d": 3}})
    {'b': {'d': 3, 'c': None}}
    """
    difference: dict[str, Any] = {}
    for key, value in new.items():
        if key not in old:
            difference[key] = value
        elif isinstance(value, Mapping) and isinstance(old[key], Mapping):
            if inner := merge_patch_between(old[key], value):
                difference[key] = inner
        elif value != old[key]:
            difference[key] = value
    difference |= {key: None for key in old if key not in new}
    return difference


def _may_change(obj: Object, old: Object, new: Object) -> bool:
    if obj["kind"] == "Pod":
        changed = {key for key in {*old["spec"], *new["spec"]} if old["spec"].get(key) != new["spec"].get(key)}
        return changed <= _POD_MAY_CHANGE
    return not immutable_change(kind_key(obj), old, new)


GroupPatch = Callable[[Object], Mapping[str, Any]]
"""The patch of a PodGroup that a user created; empty if nothing changes."""
EditWords = Callable[[Object], str]
"""The words for an edit, as a function of the edited object."""


def own_change(
    context: QuestionContext,
    do: str | EditWords,
    edit: Edit,
    group: GroupPatch | None = None,
    seen: Relaxation | None = None,
    disturbance: Disturbance | None = None,
) -> Iterator[Proposal]:
    """Proposals to edit all workloads of the subject: as patches first, then as replacements. ``group``: the patch of PodGroups that a user
    created. ``do``: the words, or a function of an edited object. ``seen``: the relaxation that stands for the edit in the engine.
    ``disturbance``: where it disturbs others more than it does the subject."""
    grouped = [
        patch_change(podgroup, change)
        for podgroup in context.groups
        if group is not None and (change := group(podgroup))
    ]
    if grouped:
        words = _extended(_words(do, context.groups[:1]), f" (in {_set_in(grouped)})")
        yield Proposal(words, tuple(grouped), disturbance or Disturbance.OWN, seen)
    patched: list[ChangeData] = []
    edited: list[Object] = []
    deleted: list[ChangeData] = []
    made: list[Object] = []
    fixed = False
    for work in context.works:
        new = manifest_if_changed(work, edit)
        if new is None:
            continue
        first = patch_changes(work, edit)
        fixed |= first is None
        patched += first or ()
        edited.append(work)
        deleted.append(delete_change(work))
        made.append(new)
    restarts, words = bool(context.state.running), _words(do, edited)
    if grouped:
        words = _extended(words, f" (and in {_set_in(grouped)})")
    if patched and not fixed:
        own = Disturbance.RESTARTED if restarts else Disturbance.OWN
        yield Proposal(words, (*grouped, *patched), disturbance or own, seen)
    if made:
        own = Disturbance.RESTARTED if restarts else Disturbance.REPLACED
        yield Proposal(words, (*grouped, *deleted, apply_change(*made)), disturbance or own, seen)


def _words(do: str | EditWords, edited: Sequence[Object]) -> Words:
    """Words that read the first of the edited objects."""
    if isinstance(do, str) or not edited:
        return do if isinstance(do, str) else ""
    return lambda after: do(after.of(edited[0]))


def _extended(words: Words, more: str) -> Words:
    return f"{words}{more}" if isinstance(words, str) else lambda after: f"{words(after)}{more}"


def _set_in(patches: Sequence[ChangeData]) -> str:
    """``PodGroup a: spec.queue: team-b``: what patches of PodGroups set. A label of a pod does not reach a PodGroup that a user made."""
    names: dict[str, list[str]] = {}
    for change in patches:
        fields = "; ".join(f"{path}: {value}" for path, value in _leaves(change["patch"]["patch"]))
        names.setdefault(fields, []).append(change["patch"]["name"])
    return " and ".join(f"PodGroup {some(groups)}: {fields}" for fields, groups in names.items())


def _leaves(value: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, inner in value.items():
        below = f"{path}.{key}" if path else f"{key}"
        if isinstance(inner, Mapping):
            yield from _leaves(inner, below)
        else:
            yield below, "none" if inner is None else inner


def spec_patch(**fields: Any) -> GroupPatch:
    """A patch of these fields in the spec of a PodGroup."""
    return lambda group: {"spec": fields}


def set_label(key: str, value: str | None) -> Edit:
    """An edit that sets a label wherever the object has it, or else where scheduling reads it. None removes the label."""

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


def set_annotation(key: str, value: str | None) -> Edit:
    """An edit that sets an annotation on the object and wherever it already is. None removes it everywhere."""

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


def edit_of_pods(edit: Edit) -> Edit:
    """The edit applied to each pod or pod template that an object is or has."""

    def edit_all(obj: Object) -> None:
        for _, pod in pod_templates(obj):
            edit(pod)

    return edit_all


def all_edits(*edits: Edit) -> Edit:
    def edit_all(obj: Object) -> None:
        for edit in edits:
            edit(obj)

    return edit_all


def _carrier(obj: Object) -> Object:
    """The pod template if it is mutable, else the object itself."""
    known = KINDS.get(kind_key(obj))
    fixed = known.immutable if known is not None else ()
    template = field_of(obj, "spec.template")
    return template if isinstance(template, dict) and "spec.template" not in fixed else obj
