"""How objects are named to and by people: ``job.batch/train``, ``pod/a pod/b``, ``pods,queues``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kailab.errors import InputError
from kailab.model.kinds import KINDS, resolve


def everything() -> list[str]:
    """The kinds that ``get all`` shows: workloads, and then the groups they are scheduled in."""
    from kailab.model.kinds import register_installed

    register_installed()
    shown = [key for key, kind in KINDS.items() if kind.in_all]
    return sorted(shown, key="PodGroup".__eq__)


class Target(NamedTuple):
    """A kind key and the names wanted of it; no names: all."""

    kind: str
    names: tuple[str, ...]


def resource(kind: str) -> str:
    """A kind key as kubectl prints it before a name: ``pod``, ``job.batch``, ``queue.scheduling.run.ai``."""
    known = KINDS.get(kind)
    if known is None:
        return kind.lower()
    return f"{known.singular}.{known.group}" if known.group else known.singular


def full_name(kind: str, name: str) -> str:
    """``job.batch/train``."""
    return f"{resource(kind)}/{name}"


def targets(words: Sequence[str], others: Sequence[str] = ()) -> list[Target]:
    """What was typed after ``get``, ``delete`` or ``explain``: ``pods``, ``pods a b``, ``pods,jobs``, ``pod/a job/b``.

    ``others``: kinds in use that kailab does not know. Raises InputError.
    """
    if not words:
        raise InputError("say what: a kind such as pods, or kind/name")
    if any("/" in word for word in words):
        found: list[Target] = []
        for word in words:
            kind, slash, name = word.partition("/")
            if not slash or not kind or not name or "/" in name:
                raise InputError(f"{word!r}: where one argument is kind/name all have to be")
            found.append(Target(resolve(kind, others), (name,)))
        return found
    kinds, names = words[0].split(","), tuple(words[1:])
    if names and len(kinds) > 1:
        raise InputError("names can't go with several kinds; write kind/name for each")
    if kinds == ["all"]:
        if names:
            raise InputError("names can't go with all")
        return [Target(kind, ()) for kind in everything()]
    return [Target(resolve(kind, others), names) for kind in kinds if kind] or targets(())
