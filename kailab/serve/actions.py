"""What the page asks to be done to the lab, as JSON, and the changes that it stands for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from kailab.errors import InputError
from kailab.lab import intake
from kailab.lab.change import Apply, Change
from kailab.lab.disruption_budgets import broken_by
from kailab.lab.intake import Text
from kailab.lab.lab import Lab
from kailab.lab.node_changes import added_nodes, drained, leaving
from kailab.lab.whatif.fields import patch_of
from kailab.lab.whatif.removal import deleted
from kailab.lab.wording import some

EDITOR = "editor"
"""What errors and the record call text from the page."""


class _Action(msgspec.Struct, tag_field="do", forbid_unknown_fields=True):
    """Any of them."""


class SubmitManifests(_Action, tag="submit"):
    """Apply manifests."""

    text: str
    namespace: str = "default"


class SetFields(_Action, tag="set"):
    """Fields of objects, as ``kailab whatif --set`` takes them."""

    fields: list[str]
    namespace: str = "default"


class DeleteObject(_Action, tag="delete"):
    """``what``: KIND/NAME."""

    what: str
    namespace: str = "default"


class DrainNode(_Action, tag="drain"):
    """Empty a node and cordon it."""

    node: str


class AddNodes(_Action, tag="add-nodes"):
    """``nodes``: POOL:COUNT."""

    nodes: str


Action: TypeAlias = SubmitManifests | SetFields | DeleteObject | DrainNode | AddNodes


@dataclass(frozen=True)
class PlannedAction:
    """``title``: what it is, in words. ``notes``: what is worth saying about the input."""

    title: str
    changes: tuple[Change, ...]
    notes: tuple[str, ...] = field(default=())


def read_action(body: bytes) -> Action:
    """Raises InputError."""
    try:
        return msgspec.json.decode(body, type=Action)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"this request can't be read: {error}") from error


def plan_action(lab: Lab, wish: Action) -> PlannedAction:
    """What is to be done to a lab. Raises InputError or InputErrors for what can't be done there."""
    match wish:
        case SubmitManifests():
            return _submitted(lab, wish)
        case SetFields():
            if not wish.fields:
                raise InputError("nothing is to be changed")
            patches = tuple(patch_of(lab, one, wish.namespace) for one in wish.fields)
            return PlannedAction("Set " + ", ".join(wish.fields), patches)
        case DeleteObject():
            return PlannedAction(f"Delete {wish.what}", (deleted(lab, wish.what, wish.namespace),))
        case DrainNode():
            notes = tuple(broken_by(lab, leaving(lab, wish.node)))
            return PlannedAction(f"Drain {wish.node}", tuple(drained(lab, wish.node)), notes)
        case AddNodes():
            change = added_nodes(lab, wish.nodes)
            names = [one["metadata"]["name"] for one in change.objects if one["kind"] == "Node"]
            note = f"{some(names)} {'comes' if len(names) == 1 else 'come'} to the lab"
            return PlannedAction(f"Add nodes {wish.nodes}", (change,), (note,))


def _submitted(lab: Lab, wish: SubmitManifests) -> PlannedAction:
    text = Text(EDITOR, wish.text)
    read = intake.read([text], namespace=wish.namespace)
    objects = tuple(obj for _, part in read.parts for obj in part)
    if not objects:
        raise InputError("there is no object in the text")
    # Applied to a copy: what is refused there names the line, and what is worth saying is said before anything is done.
    with lab.fork() as trial:
        warnings = trial.apply(text, namespace=wish.namespace).warnings
    names = [f"{obj['kind']}/{obj['metadata'].get('name', '')}" for obj in objects]
    return PlannedAction(f"Submit {some(names)}", (Apply(objects, wish.namespace, (text,)),), tuple(warnings))
