"""Changes that may let something run, before they have been tried."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from kailab.cluster.protocol import Object
from kailab.engine.relaxing.relaxation import Relaxation
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


@dataclass(frozen=True)
class Proposal:
    """``do``: the change in words, without a command. ``seen``: what it is to the engine, where that can't be read off the changed
    objects."""

    do: str
    changes: tuple[Change, ...]
    disturbance: Disturbance
    seen: Relaxation | None = None

    @property
    def said(self) -> str:
        """With the command, where it is one short patch."""
        if len(self.changes) != 1 or "patch" not in self.changes[0]:
            return f"{self.do}."
        one = self.changes[0]["patch"]
        text = json.dumps(one["patch"], separators=(",", ":"))
        if len(text) > SHORT:
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


def _named(obj: Object) -> dict[str, str]:
    metadata = obj["metadata"]
    found = {"kind": obj["kind"], "name": metadata["name"]}
    if is_namespaced(obj["kind"], obj):
        found["namespace"] = metadata.get("namespace") or "default"
    return found


def _resource(kind: str) -> str:
    known = KINDS.get(kind)
    return known.singular if known is not None else kind.lower()
