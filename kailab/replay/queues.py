"""Whose jobs go to which queue: a queue for each team of a trace, with quotas from a file, from each team's share, or without."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kailab.cluster.embedded.bootstrap import PRIORITY_CLASSES
from kailab.cluster.protocol import Object
from kailab.errors import InputError, Where
from kailab.lab.names import there_are
from kailab.model.kinds import api_version_of
from kailab.replay.trace import Trace

NOBODYS = "trace"
"""The queue of jobs for which the trace names no team."""
_ODD = re.compile(r"[^a-z0-9.-]+", re.ASCII)
_BOUNDLESS = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


@dataclass(frozen=True)
class Queues:
    """``objects``: queues, to be applied before the first job comes, as ``classes``, PriorityClasses beside those that there are. ``of_team``: team ->
    name of its queue."""

    objects: Sequence[Object]
    of_team: Mapping[str, str]
    classes: Sequence[Object] = ()

    @property
    def names(self) -> list[str]:
        return sorted(set(self.of_team.values()))

    @property
    def quotas(self) -> dict[str, float]:
        """Of the teams' queues, in GPUs; -1 without bound."""
        told = {obj["metadata"]["name"]: (obj["spec"].get("resources") or {}).get("gpu") or {} for obj in self.objects}
        return {name: float(told[name].get("quota", 0)) for name in self.names}


def queue_name(team: str) -> str:
    """The name of a team's queue, as Kubernetes takes it.

    >>> queue_name("6214e9"), queue_name("Vision & Speech"), queue_name("")
    ('6214e9', 'vision-speech', 'trace')
    """
    return _ODD.sub("-", team.lower()).strip("-.")[:63].strip("-.") or NOBODYS


NO_QUOTA, BY_SHARE, ONE = "none", "by-share", "one"
MODES = (NO_QUOTA, BY_SHARE, ONE)


def queues_for(trace: Trace, gpus: int, how: str) -> Queues:
    """``how``: one of ``MODES``, else the path of a file of Queues. ``gpus``: of the fleet. Raises InputError."""
    if how == BY_SHARE:
        return by_share(trace, gpus)
    if how == ONE:
        return one_queue(trace)
    return without_quota(trace) if how == NO_QUOTA else from_file(trace, Path(how))


def without_quota(trace: Trace) -> Queues:
    """A queue for each team, which owes its GPUs to nobody: all share alike."""
    return _with_quotas(trace, dict.fromkeys(_teams(trace).values(), 0.0))


def by_share(trace: Trace, gpus: int) -> Queues:
    """Quotas as large a part of ``gpus`` as the GPU time that each team's jobs ask for is of the trace's; to a thousandth, rounded down so
    that no more is promised than there is."""
    of_team = _teams(trace)
    asked = dict.fromkeys(of_team.values(), 0)
    for job in trace.jobs:
        asked[of_team[job.team]] += job.demand
    total = sum(asked.values())
    return _with_quotas(
        trace, {name: (1000 * gpus * own // total if total else 0) / 1000 for name, own in asked.items()}
    )


def from_file(trace: Trace, path: Path) -> Queues:
    """The queues and PriorityClasses of a file of manifests; each team of the trace has a leaf of its name there. Raises InputError."""
    objects, classes = _read(path)
    names = {obj["metadata"]["name"] for obj in objects}
    parents = {obj["metadata"]["name"]: obj["spec"].get("parentQueue") for obj in objects}
    # In a lab such a queue waits for somebody to make its parent; in a replay nobody does.
    if orphan := next((name for name, parent in parents.items() if parent and parent not in names), None):
        raise InputError(
            f"there is no queue {parents[orphan]!r:.80}; expected one of the file: {there_are(names, parents[orphan])}",
            Where(file=str(path), object=f"Queue/{orphan}", field="spec.parentQueue"),
        )
    leaves = names - set(parents.values())
    of_team = _teams(trace)
    if missing := sorted({name for name in of_team.values() if name not in leaves}):
        raise InputError(
            f"no queue for the trace's {', '.join(missing)}; it has: {', '.join(sorted(leaves)) or 'none without queues below'}",
            Where(file=str(path)),
        )
    return Queues(objects, of_team, classes)


def priorities_of(how: str | Path | None) -> tuple[str, ...]:
    """Names of the PriorityClasses that jobs may have. ``how``: as ``queues_for`` takes it. Raises InputError."""
    own = [] if how is None or how in MODES else _read(Path(how))[1]
    return (*PRIORITY_CLASSES, *(one["metadata"]["name"] for one in own))


def _read(path: Path) -> tuple[list[Object], list[Object]]:
    """The queues of a file, and its PriorityClasses. Raises InputError."""
    from kailab.lab import intake

    of_kind: dict[str, list[Object]] = {"Queue": [], "PriorityClass": []}
    for _, objects in intake.read([path]).parts:
        for obj in objects:
            if obj["kind"] not in of_kind:
                raise InputError(
                    f"{obj['kind']}/{obj['metadata']['name']} is no Queue; expected queues and PriorityClasses only",
                    Where(file=str(path)),
                )
            of_kind[obj["kind"]].append(obj)
    return of_kind["Queue"], of_kind["PriorityClass"]


def one_queue(trace: Trace) -> Queues:
    """All jobs in one queue, whoever's they are."""
    return Queues([_queue(NOBODYS, -1.0)], dict.fromkeys(trace.teams, NOBODYS))


def _teams(trace: Trace) -> dict[str, str]:
    """Raises InputError where two teams would be one queue."""
    of_team: dict[str, str] = {}
    taken: dict[str, str] = {}
    for team in trace.teams:
        name = of_team[team] = queue_name(team)
        if taken.setdefault(name, team) != team:
            first = next(job for job in trace.jobs if job.team == team)
            raise InputError(
                f"the teams {taken[name]!r:.80} and {team!r:.80} would both have the queue {name}; expected names that differ",
                trace.where(first.line),
            )
    return of_team


def _with_quotas(trace: Trace, quotas: Mapping[str, float]) -> Queues:
    return Queues([_queue(name, quotas[name]) for name in sorted(quotas)], _teams(trace))


def _queue(name: str, quota: float) -> Object:
    gpu: dict[str, Any] = {**_BOUNDLESS, "quota": int(quota) if quota == int(quota) else quota}
    resources = {"gpu": gpu, "cpu": _BOUNDLESS, "memory": _BOUNDLESS}
    return {
        "apiVersion": api_version_of("Queue"),
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"resources": resources},
    }
