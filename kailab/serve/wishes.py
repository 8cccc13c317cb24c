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


class _Wish(msgspec.Struct, tag_field="do", forbid_unknown_fields=True):
    """Any of them."""


class Submit(_Wish, tag="submit"):
    """Apply manifests."""

    text: str
    namespace: str = "default"


class Set(_Wish, tag="set"):
    """Fields of objects, as ``kailab whatif --set`` takes them."""

    fields: list[str]
    namespace: str = "default"


class Remove(_Wish, tag="delete"):
    """``what``: KIND/NAME."""

    what: str
    namespace: str = "default"


class Drain(_Wish, tag="drain"):
    """Empty a node and cordon it."""

    node: str


class AddNodes(_Wish, tag="add-nodes"):
    """``nodes``: POOL:COUNT."""

    nodes: str


Wish: TypeAlias = Submit | Set | Remove | Drain | AddNodes


@dataclass(frozen=True)
class Wished:
    """``title``: what it is, in words. ``notes``: what is worth saying about the input."""

    title: str
    changes: tuple[Change, ...]
    notes: tuple[str, ...] = field(default=())


def read_wish(body: bytes) -> Wish:
    """Raises InputError."""
    try:
        return msgspec.json.decode(body, type=Wish)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"this request can't be read: {error}") from error


def wished(lab: Lab, wish: Wish) -> Wished:
    """What is to be done to a lab. Raises InputError or InputErrors for what can't be done there."""
    match wish:
        case Submit():
            return _submitted(lab, wish)
        case Set():
            if not wish.fields:
                raise InputError("nothing is to be changed")
            patches = tuple(patch_of(lab, one, wish.namespace) for one in wish.fields)
            return Wished("Set " + ", ".join(wish.fields), patches)
        case Remove():
            return Wished(f"Delete {wish.what}", (deleted(lab, wish.what, wish.namespace),))
        case Drain():
            notes = tuple(broken_by(lab, leaving(lab, wish.node)))
            return Wished(f"Drain {wish.node}", tuple(drained(lab, wish.node)), notes)
        case AddNodes():
            change = added_nodes(lab, wish.nodes)
            names = [one["metadata"]["name"] for one in change.objects if one["kind"] == "Node"]
            note = f"{some(names)} {'comes' if len(names) == 1 else 'come'} to the lab"
            return Wished(f"Add nodes {wish.nodes}", (change,), (note,))


def _submitted(lab: Lab, wish: Submit) -> Wished:
    text = Text(EDITOR, wish.text)
    read = intake.read([text], namespace=wish.namespace)
    objects = tuple(obj for _, part in read.parts for obj in part)
    if not objects:
        raise InputError("there is no object in the text")
    # Applied to a copy: what is refused there names the line, and what is worth saying is said before anything is done.
    with lab.fork() as trial:
        warnings = trial.apply(text, namespace=wish.namespace).warnings
    names = [f"{obj['kind']}/{obj['metadata'].get('name', '')}" for obj in objects]
    return Wished(f"Submit {some(names)}", (Apply(objects, wish.namespace, (text,)),), tuple(warnings))
