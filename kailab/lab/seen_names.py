"""Names that exist or existed in a lab. Expectations and explanations accept names of deleted objects, and refuse misspelt names.

The decision log has the names of deleted pods and PodGroups. Other names are taken from applied and deleted objects, and from the owners
of pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

from kailab.engine.config import ACTIONS
from kailab.engine.decisions import PendingCode
from kailab.errors import InputError
from kailab.evidence.entries import PodRow
from kailab.evidence.wording import count, some
from kailab.lab.answer import CauseCode
from kailab.lab.picture import Picture
from kailab.model.kinds import is_namespaced, kind_key
from kailab.model.objects import name_of, namespace_of
from kailab.model.suggestions import closest_names
from kailab.scheduler.observers import Observer

SHOWN = 8


class SeenNames(Observer):
    """Names of all objects that were applied to a lab or deleted in it: kind key -> names, ``namespace/name`` for kinds in namespaces."""

    def __init__(self) -> None:
        self._names: dict[str, set[str]] = {}

    def of(self, kind: str) -> set[str]:
        return self._names.get(kind, set())

    def carry_on(self, other: SeenNames) -> None:
        """Copy the names that another lab has seen."""
        self._names = {kind: set(names) for kind, names in other._names.items()}

    def on_step(self, operation: str, text: str = "", *, state: bool = False, **detail: Any) -> None:
        for _, objects in detail.get("manifests", ()):
            for obj in objects:
                # A generated name (generateName) becomes known by its pods.
                if name := name_of(obj):
                    kind = kind_key(obj)
                    space = namespace_of(obj) or detail.get("namespace", "default")
                    self._add(kind, space if is_namespaced(kind, obj) else "", name)
        for kind, name, space in detail.get("objects", ()):
            self._add(kind, space, name)

    def _add(self, kind: str, namespace: str, name: str) -> None:
        self._names.setdefault(kind, set()).add(f"{namespace}/{name}" if namespace else name)


def names_of_owners(picture: Picture, kind: str) -> set[str]:
    """``namespace/name`` of objects of one kind that have or had pods."""
    pods = [(row.name, row.owner) for row in picture.rows]
    pods += ((entry.pod, entry.owner) for entry in picture.log.evictions)
    pods += ((known.name, known.owner) for known in picture.log.names.everyone())
    begin = f"{kind}/"
    return {f"{pod.partition('/')[0]}/{owner.removeprefix(begin)}" for pod, owner in pods if owner.startswith(begin)}


def check_action(picture: Picture, name: str | None) -> None:
    """Raises InputError for an action by which no scheduler evicts."""
    # "schedule" stands for schedulers that do not report their decisions.
    names = {*ACTIONS[1:], "schedule", *(entry.action for entry in picture.log.evictions)}
    if name is not None and name not in names:
        raise InputError(f"no evicting action has the name {name!r}; {describe_names(names, name)}")


def check_reason(picture: Picture, name: str | None, rows: Iterable[PodRow]) -> None:
    """Raises InputError for a code that is no reason to be pending. Checked only under KAI's rules, because other schedulers have reasons of
    their own. ``rows``: the pods that the caller asks about; the message has their reasons."""
    names = {
        *map(str, PendingCode),
        "SchedulingGated",
        *(picture.code_of(row) for row in picture.rows if row.phase == "Pending"),
    }
    if name is None or not picture.scheduler.understands_kai or name in names:
        return
    text = f"no reason for pending has the name {name!r}"
    if name in CauseCode.__members__.values():
        text += f": {name} is a cause of `explain`, and a reason is the rule that the scheduler met"
    waiting = Counter(picture.code_of(row) or "no reason yet" for row in rows if row.phase == "Pending")
    if waiting:
        codes = [f"{count(number, 'pod')} of it with {code}" for code, number in sorted(waiting.items())]
        text += f". Now waiting: {', '.join(codes)}"
    raise InputError(f"{text}; {describe_names(names, name, len(names))}")


def describe_names(names: Iterable[str], wanted: str, most: int = SHOWN) -> str:
    """A text with ``most`` of the names that exist, close matches of ``wanted`` first.

    >>> describe_names(["team-a", "org", "team-b"], "taem-b")
    'there are: team-b, team-a, org'
    """
    ordered = closest_first(set(names) - {""}, wanted)
    return f"there are: {some(ordered, most)}" if ordered else "there are none"


def closest_first(names: Collection[str], wanted: str) -> list[str]:
    ordered = sorted(names)
    close = closest_names(wanted, ordered, SHOWN)
    return [*close, *(name for name in ordered if name not in close)]
