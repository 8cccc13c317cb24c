"""The actions of the page, as JSON, and the changes of the lab that they stand for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from kailab.errors import InputError
from kailab.evidence.wording import some
from kailab.lab import intake
from kailab.lab.change import Apply, Change
from kailab.lab.intake import NamedText
from kailab.lab.lab import Lab
from kailab.lab.node_changes import drain_node, nodes_to_add, pods_to_drain
from kailab.model.objects import name_of
from kailab.whatif.fields import deletion_of, patch_of
from kailab.workloads.disruption import violated_budgets

EDITOR = "editor"
"""The file name that errors and the record give to text from the page."""


class _Action(msgspec.Struct, tag_field="do", forbid_unknown_fields=True):
    """Base of all actions. The JSON key ``do`` selects the action."""


class SubmitManifests(_Action, tag="submit"):
    """Apply manifests."""

    text: str
    namespace: str = "default"


class SetFields(_Action, tag="set"):
    """Set fields of objects, in the form of ``kailab whatif --set``."""

    fields: list[str]
    namespace: str = "default"


class DeleteObject(_Action, tag="delete"):
    """Delete an object. ``what``: KIND/NAME."""

    what: str
    namespace: str = "default"


class DrainNode(_Action, tag="drain"):
    """Cordon a node and delete its pods."""

    node: str


class AddNodes(_Action, tag="add-nodes"):
    """Add nodes like those of a pool. ``nodes``: POOL:COUNT."""

    nodes: str


PageAction: TypeAlias = SubmitManifests | SetFields | DeleteObject | DrainNode | AddNodes


@dataclass(frozen=True)
class PlannedPageAction:
    """``title``: the action in words. ``notes``: warnings about its input."""

    title: str
    changes: tuple[Change, ...]
    notes: tuple[str, ...] = field(default=())


def read_action(body: bytes) -> PageAction:
    """Decode an action. Raises InputError."""
    try:
        return msgspec.json.decode(body, type=PageAction)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"this request can't be read: {error}") from error


def plan_action(lab: Lab, action: PageAction) -> PlannedPageAction:
    """The changes of an action. Raises InputError or InputErrors if the lab does not allow it."""
    match action:
        case SubmitManifests():
            return _plan_submission(lab, action)
        case SetFields():
            if not action.fields:
                raise InputError("no fields to set; expected KIND/NAME.FIELD=VALUE")
            patches = tuple(patch_of(lab, text, action.namespace) for text in action.fields)
            return PlannedPageAction("Set " + ", ".join(action.fields), patches)
        case DeleteObject():
            return PlannedPageAction(f"Delete {action.what}", (deletion_of(lab, action.what, action.namespace),))
        case DrainNode():
            notes = tuple(violated_budgets(lab.cluster, pods_to_drain(lab, action.node)))
            return PlannedPageAction(f"Drain {action.node}", tuple(drain_node(lab, action.node)), notes)
        case AddNodes():
            change = nodes_to_add(lab, action.nodes)
            names = [name_of(obj) for obj in change.objects if obj["kind"] == "Node"]
            note = f"{some(names)} {'is' if len(names) == 1 else 'are'} added"
            return PlannedPageAction(f"Add nodes {action.nodes}", (change,), (note,))


def _plan_submission(lab: Lab, action: SubmitManifests) -> PlannedPageAction:
    text = NamedText(EDITOR, action.text)
    manifests = intake.load_sources([text], namespace=action.namespace)
    objects = tuple(obj for _, of_part in manifests.parts for obj in of_part)
    if not objects:
        raise InputError("the text contains no objects")
    # Applied to a copy first: errors name the line, and warnings are shown before anything changes.
    with lab.fork() as copy:
        warnings = copy.apply(text, namespace=action.namespace).warnings
    names = [f"{obj['kind']}/{name_of(obj)}" for obj in objects]
    return PlannedPageAction(f"Submit {some(names)}", (Apply(objects, action.namespace, (text,)),), tuple(warnings))
