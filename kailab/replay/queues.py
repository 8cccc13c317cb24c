"""Whose jobs go to which queue: a queue for each team of a trace, with quotas from a file, from each team's share, or without."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kailab.cluster.base_objects import PRIORITY_CLASSES
from kailab.cluster.protocol import Object
from kailab.errors import InputError, InputErrors, Where
from kailab.fleet import Fleet
from kailab.lab.seen_names import there_are
from kailab.model.kinds import api_version_of
from kailab.model.manifests import Manifests
from kailab.model.queues import check_queue_tree
from kailab.replay.trace import Trace

NO_TEAM = "trace"
"""The queue of jobs for which the trace names no team."""
_ODD = re.compile(r"[^a-z0-9.-]+", re.ASCII)
_BOUNDLESS = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


@dataclass(frozen=True)
class TeamQueues:
    """``objects``: queues, to be applied before the first job comes, as ``classes``, PriorityClasses beside those that there are. ``of_team``: team ->
    name of its queue."""

    objects: Sequence[Object]
    of_team: Mapping[str, str]
    classes: Sequence[Object] = ()
    warnings: Sequence[str] = ()
    """About what the file says: a field that there is not, a quota beyond the parent's."""

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
    return _ODD.sub("-", team.lower()).strip("-.")[:63].strip("-.") or NO_TEAM


NO_QUOTA, BY_SHARE, ONE = "none", "by-share", "one"
MODES = (NO_QUOTA, BY_SHARE, ONE)


def queues_for(trace: Trace, gpus: int, how: str) -> TeamQueues:
    """``how``: one of ``MODES``, else the path of a file of Queues. ``gpus``: of the fleet. Raises InputError."""
    if how == BY_SHARE:
        return by_share(trace, gpus)
    if how == ONE:
        return one_queue(trace)
    return without_quota(trace) if how == NO_QUOTA else from_file(trace, Path(how))


def without_quota(trace: Trace) -> TeamQueues:
    """A queue for each team, which owes its GPUs to nobody: all share alike."""
    return _with_quotas(trace, dict.fromkeys(_teams(trace).values(), 0.0))


def by_share(trace: Trace, gpus: int) -> TeamQueues:
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


def from_file(trace: Trace, path: Path) -> TeamQueues:
    """The queues and PriorityClasses of a file of manifests; each team of the trace has a leaf of its name there. Raises InputError, InputErrors."""
    from kailab.lab import unknown_fields

    manifests = _read(path)
    queues = [one for one in manifests if one.kind == "Queue"]
    errors, notices = check_queue_tree(queues)
    names = {one.object["metadata"]["name"] for one in queues}
    # In a lab such a queue waits for somebody to make its parent; in a replay nobody does.
    for one in queues:
        parent = one.object["spec"].get("parentQueue")
        if parent and parent not in names:
            text = f"there is no queue {parent!r:.80}; expected one of the file: {there_are(names, parent)}"
            errors.append(InputError(text, one.where("spec.parentQueue")))
    if errors:
        raise InputErrors.of(errors)
    leaves = names - {one.object["spec"].get("parentQueue") for one in queues}
    of_team = _teams(trace)
    if missing := sorted({name for name in of_team.values() if name not in leaves}):
        raise InputError(
            f"no queue for the trace's {', '.join(missing)}; it has: {', '.join(sorted(leaves)) or 'none without queues below'}",
            Where(file=str(path)),
        )
    told = [*manifests.notices, *notices, *unknown_fields.warn_unknown_fields(manifests)]
    classes = [one.object for one in manifests if one.kind == "PriorityClass"]
    return TeamQueues([one.object for one in queues], of_team, classes, [str(one) for one in told])


def priorities_of(how: str | Path | None, fleet: Fleet) -> tuple[str, ...]:
    """Names of the PriorityClasses that jobs may have: those of every cluster, of the fleet and of the file of queues. ``how``: as ``queues_for``
    takes it. Raises InputError."""
    own = [] if how is None or how in MODES else [one.object for one in _read(Path(how)) if one.kind == "PriorityClass"]
    return (*PRIORITY_CLASSES, *(one["metadata"]["name"] for one in (*fleet.priority_classes, *own)))


def _read(path: Path) -> Manifests:
    """Of queues and PriorityClasses. Raises InputError, InputErrors."""
    from kailab.lab import intake

    manifests = intake.read([path]).manifests
    for one in manifests:
        name = one.object["metadata"]["name"]
        if one.kind not in ("Queue", "PriorityClass"):
            raise InputError(f"{one.kind}/{name} is no Queue; expected queues and PriorityClasses only", one.where(""))
        value = PRIORITY_CLASSES.get(name) if one.kind == "PriorityClass" else None
        if value is not None and one.object.get("value") != value:
            raise InputError(
                f"every cluster has this class, with the value {value}; expected another name", one.where("value")
            )
    return manifests


def one_queue(trace: Trace) -> TeamQueues:
    """All jobs in one queue, whoever's they are."""
    return TeamQueues([_queue(NO_TEAM, -1.0)], dict.fromkeys(trace.teams, NO_TEAM))


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


def _with_quotas(trace: Trace, quotas: Mapping[str, float]) -> TeamQueues:
    return TeamQueues([_queue(name, quotas[name]) for name in sorted(quotas)], _teams(trace))


def _queue(name: str, quota: float) -> Object:
    gpu: dict[str, Any] = {**_BOUNDLESS, "quota": int(quota) if quota == int(quota) else quota}
    resources = {"gpu": gpu, "cpu": _BOUNDLESS, "memory": _BOUNDLESS}
    return {
        "apiVersion": api_version_of("Queue"),
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"resources": resources},
    }
