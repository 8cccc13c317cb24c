"""Changes that may let something run, before they have been tried."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeAlias

from kailab.cluster.embedded.merge import merge_patch
from kailab.cluster.protocol import Object
from kailab.engine.relaxing.rules import Relaxation
from kailab.lab.redacted_changes import redacted_data
from kailab.lab.wording import some
from kailab.model.kinds import KINDS, is_namespaced

SHORT = 160
"""Characters of a patch up to which its command is told."""

Change = Mapping[str, Any]
"""In the forms of ``kailab.lab.change``: ``apply``, ``patch``, ``delete``, ``advance``."""


class Disturbance(IntEnum):
    """Who has to change something, the least first."""

    OWN = 0  # the subject's manifests, nothing stops
    REPLACED = 1  # the subject's manifests: what waits is deleted and applied again
    MADE = 2  # an object that is missing is made
    QUEUES = 3  # the rules of queues
    LINE = 4  # other work waits no more, of which nothing runs
    RESTARTED = 5  # the subject's manifests: pods of it that run begin again
    WAITING = 6  # time passes
    NODES = 7  # nodes are opened or labelled
    ADDED = 8  # nodes are added
    OTHERS = 9  # other work is changed or goes


class After:
    """Objects as changes leave them: what words about amounts are made from, so that they say what is carried out."""

    def __init__(self, changes: Iterable[Change]) -> None:
        self.changes = tuple(changes)

    def of(self, obj: Object) -> Object:
        """``obj``: as it was before."""
        name = _named(obj)
        for change in self.changes:
            for made in change.get("apply", ()):
                if _named(made) == name:
                    obj = made
            if (given := change.get("patch")) is not None and {key: given.get(key) for key in name} == name:
                obj = merge_patch(obj, given["patch"])
        return obj


Words: TypeAlias = str | Callable[[After], str]
"""What is done, in words: amounts are read off the objects as the changes leave them."""


@dataclass(frozen=True)
class Proposal:
    """``words``: what is done, without how. ``seen``: what it is to the engine, where that can't be read off the changed objects."""

    words: Words
    changes: tuple[Change, ...]
    disturbance: Disturbance
    seen: Relaxation | None = None

    def intent(self, changes: Iterable[Change] | None = None) -> str:
        """What is done, without how. ``changes``: all that are carried out, where these are only some of them."""
        given = self.changes if changes is None else changes
        return self.words if isinstance(self.words, str) else self.words(After(given))

    @property
    def do(self) -> str:
        """With what is deleted and applied anew for it."""
        deleted = [change["delete"] for change in self.changes if "delete" in change]
        made = [_named(obj) for change in self.changes for obj in change.get("apply", ())]
        # A node is deleted and applied only on the copy: in the cluster it comes back by itself.
        remade = [f"{one['kind']} {one['name']}" for one in deleted if one in made and one["kind"] != "Node"]
        how = f": delete {some(list(dict.fromkeys(remade)))}, and apply with that change" if remade else ""
        return f"{self.intent()}{how}"

    @property
    def said(self) -> str:
        """With the command, where it is one short patch that tells nothing that evidence leaves out."""
        if len(self.changes) != 1 or "patch" not in self.changes[0]:
            return f"{self.do}."
        one = self.changes[0]["patch"]
        text = json.dumps(one["patch"], separators=(",", ":"))
        if len(text) > SHORT or redacted_data(self.changes).get("left_out"):
            return f"{self.do}."
        space = f" -n {one['namespace']}" if "namespace" in one else ""
        return f"{self.do}: kailab patch {_resource(one['kind'])} {one['name']}{space} --type merge -p '{text}'"


@dataclass(frozen=True)
class Way:
    """Proposals of one sort, the smallest change first: one of them is enough. ``grows``: what a smaller one does each larger one
    does too, so the smallest that works is found by halving. ``last``: not looked at where another way of its source worked."""

    proposals: tuple[Proposal, ...]
    grows: bool = False
    last: bool = False

    @classmethod
    def of(cls, proposals: Iterable[Proposal], grows: bool = False) -> Way:
        return cls(tuple(proposals), grows)


def patch(obj: Object, change: Mapping[str, Any]) -> Change:
    """A JSON merge patch of an object that is there."""
    return {"patch": {**_named(obj), "patch": change}}


def delete(obj: Object) -> Change:
    return {"delete": _named(obj)}


def apply(*objects: Object) -> Change:
    return {"apply": list(objects)}


def together(first: Proposal, second: Proposal, over: Proposal) -> Proposal:
    """One after the other. ``second`` was made for a lab in which ``over`` had been carried out, a change of the sort of ``first``: where
    both make an object anew, what ``second`` changes in it is carried over to the object of ``first``."""
    before, after = _made(over.changes), _made(first.changes)
    rest: list[Change] = []
    for change in second.changes:
        if "delete" in change and _key(change["delete"]) in after:
            continue  # it is made anew once, with both
        left = []
        for obj in change.get("apply", ()):
            key = _key(_named(obj))
            if key in after and key in before:
                after[key] = carried_over(before[key], obj, after[key])
            else:
                left.append(obj)
        if "apply" not in change:
            rest.append(change)
        elif left:
            rest.append({**change, "apply": left})
    changes = [
        {**change, "apply": [after.get(_key(_named(obj)), obj) for obj in change["apply"]]}
        if "apply" in change
        else change
        for change in first.changes
    ]

    def words(found: After) -> str:
        other = second.intent(found.changes)
        return f"{first.intent(found.changes)}; then {other[:1].lower()}{other[1:]}"

    return Proposal(words, (*changes, *rest), max(first.disturbance, second.disturbance))


def carried_over(before: Any, changed: Any, other: Any) -> Any:
    """``other`` with what leads from ``before`` to ``changed``.

    >>> carried_over({"a": 1, "b": [{"c": 2}]}, {"a": 5, "b": [{"c": 2, "d": 3}]}, {"a": 1, "b": [{"c": 4}]})
    {'a': 5, 'b': [{'c': 4, 'd': 3}]}
    """
    if before == changed:
        return other
    if isinstance(before, dict) and isinstance(changed, dict) and isinstance(other, dict):
        found = {key: value for key, value in other.items() if key not in before or key in changed}
        for key, value in changed.items():
            if key not in before:
                found[key] = value
            elif key in other:
                found[key] = carried_over(before[key], value, other[key])
        return found
    lists = all(isinstance(one, list) for one in (before, changed, other))
    if lists and len(before) == len(changed) == len(other):
        return [carried_over(*each) for each in zip(before, changed, other, strict=True)]
    return changed


def _made(changes: Iterable[Change]) -> dict[tuple[str, ...], Object]:
    return {_key(_named(obj)): obj for change in changes for obj in change.get("apply", ())}


def _key(name: Mapping[str, str]) -> tuple[str, ...]:
    return name["kind"], name.get("namespace", ""), name["name"]


def _named(obj: Object) -> dict[str, str]:
    metadata = obj["metadata"]
    found = {"kind": obj["kind"], "name": metadata["name"]}
    if is_namespaced(obj["kind"], obj):
        found["namespace"] = metadata.get("namespace") or "default"
    return found


def _resource(kind: str) -> str:
    known = KINDS.get(kind)
    return known.singular if known is not None else kind.lower()
