"""The queues of a replay: one for each team of the trace, with quotas from a file, by each team's share, or without
quota."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kailab.cluster.base_objects import PRIORITY_CLASSES
from kailab.cluster.protocol import Object
from kailab.errors import InputError, InputErrors, Where
from kailab.fleet.fleet import Fleet
from kailab.lab import intake, unknown_fields
from kailab.lab.seen_names import describe_names
from kailab.model.kinds import api_version_of
from kailab.model.manifests import Manifests
from kailab.model.objects import name_of, parent_of, share_of
from kailab.model.queues import check_queue_tree, share
from kailab.replay.trace import Trace

NO_TEAM = "trace"
"""The queue of jobs for which the trace names no team."""
_ODD = re.compile(r"[^a-z0-9.-]+", re.ASCII)
_BOUNDLESS = share()


@dataclass(frozen=True)
class TeamQueues:
    """The queues of a replay.

    ``objects``: Queue objects, applied before the first job. ``of_team``: maps each team to its queue's name.
    ``classes``: PriorityClass objects in addition to the built-in ones.
    """

    objects: Sequence[Object]
    of_team: Mapping[str, str]
    classes: Sequence[Object] = ()
    warnings: Sequence[str] = ()
    """Warnings about the file: an unknown field, a quota that exceeds the parent's."""

    @property
    def names(self) -> list[str]:
        return sorted(set(self.of_team.values()))

    @property
    def leaves(self) -> list[str]:
        """All queues that may have work, sorted by name."""
        parents = {parent_of(obj) for obj in self.objects}
        return sorted(name for obj in self.objects if (name := name_of(obj)) not in parents)

    @property
    def class_names(self) -> list[str]:
        return [name_of(obj) for obj in self.classes]

    @property
    def quotas(self) -> dict[str, float]:
        """GPU quota of each team's queue; -1 means unlimited."""
        gpu_resources = {name_of(obj): share_of(obj) for obj in self.objects}
        return {name: float(gpu_resources[name].get("quota", 0)) for name in self.names}


def queue_name(team: str) -> str:
    """Turn a team's name into a valid Kubernetes name.

    >>> queue_name("6214e9"), queue_name("Vision & Speech"), queue_name("")
    ('6214e9', 'vision-speech', 'trace')
    """
    return _ODD.sub("-", team.lower()).strip("-.")[:63].strip("-.") or NO_TEAM


NO_QUOTA, BY_SHARE, ONE = "none", "by-share", "one"
MODES = (NO_QUOTA, BY_SHARE, ONE)


def queues_for(trace: Trace, gpus: int, how: str) -> TeamQueues:
    """Make the queues. ``how``: one of ``MODES``, or the path of a file of Queues. ``gpus``: GPUs of the fleet. Raises
    InputError."""
    if how == BY_SHARE:
        return by_share(trace, gpus)
    if how == ONE:
        return one_queue(trace)
    return without_quota(trace) if how == NO_QUOTA else from_file(trace, Path(how))


def without_quota(trace: Trace) -> TeamQueues:
    """A queue with quota 0 for each team: all teams have the same claim."""
    return _with_quotas(trace, dict.fromkeys(_teams(trace).values(), 0.0))


def by_share(trace: Trace, gpus: int) -> TeamQueues:
    """A queue for each team whose quota is the team's part of the GPU time that the trace demands.

    Quotas are rounded down to a thousandth of a GPU, so that their sum does not exceed ``gpus``.
    """
    of_team = _teams(trace)
    demand = dict.fromkeys(of_team.values(), 0)
    for job in trace.jobs:
        demand[of_team[job.team]] += job.demand
    total = sum(demand.values())
    return _with_quotas(
        trace,
        {name: (1000 * gpus * team_demand // total if total else 0) / 1000 for name, team_demand in demand.items()},
    )


def from_file(trace: Trace, path: Path) -> TeamQueues:
    """Read queues and PriorityClasses from a manifest file. Each team of the trace needs a leaf queue of its name.

    Raises InputError, InputErrors.
    """
    manifests = _read(path)
    queues = [manifest for manifest in manifests if manifest.kind == "Queue"]
    errors, notices = check_queue_tree(queues)
    names = {name_of(manifest.object) for manifest in queues}
    # A lab accepts a queue before its parent exists; in a replay the parent would never be created.
    for manifest in queues:
        parent = parent_of(manifest.object)
        if parent and parent not in names:
            text = f"no queue {parent!r:.80} in the file; {describe_names(names, parent)}"
            errors.append(InputError(text, manifest.where("spec.parentQueue")))
    if errors:
        raise InputErrors.of(errors)
    leaves = names - {parent_of(manifest.object) for manifest in queues}
    of_team = _teams(trace)
    if missing := sorted({name for name in of_team.values() if name not in leaves}):
        raise InputError(
            f"no leaf queue for the trace's teams {', '.join(missing)}; leaf queues of the file: {', '.join(sorted(leaves)) or 'none'}",
            Where(file=str(path)),
        )
    notices_and_warnings = [*manifests.notices, *notices, *unknown_fields.warn_unknown_fields(manifests)]
    classes = [manifest.object for manifest in manifests if manifest.kind == "PriorityClass"]
    return TeamQueues(
        [manifest.object for manifest in queues], of_team, classes, [str(manifest) for manifest in notices_and_warnings]
    )


def priorities_of(how: str | Path | None, fleet: Fleet) -> tuple[str, ...]:
    """Names of the PriorityClasses that jobs may use: built-in ones, the fleet's, and those in the file of queues.

    ``how``: as in ``queues_for``. Raises InputError.
    """
    own = (
        []
        if how is None or how in MODES
        else [entry.object for entry in _read(Path(how)) if entry.kind == "PriorityClass"]
    )
    return (*PRIORITY_CLASSES, *(name_of(entry) for entry in (*fleet.priority_classes, *own)))


def _read(path: Path) -> Manifests:
    """Read manifests of queues and PriorityClasses. Raises InputError, InputErrors."""
    manifests = intake.load_sources([path]).manifests
    for manifest in manifests:
        name = name_of(manifest.object)
        if manifest.kind not in ("Queue", "PriorityClass"):
            raise InputError(
                f"{manifest.kind}/{name}: expected only Queue and PriorityClass objects", manifest.where("")
            )
        value = PRIORITY_CLASSES.get(name) if manifest.kind == "PriorityClass" else None
        if value is not None and manifest.object.get("value") != value:
            raise InputError(
                f"every cluster has this PriorityClass with the value {value}; expected another name",
                manifest.where("value"),
            )
    return manifests


def one_queue(trace: Trace) -> TeamQueues:
    return TeamQueues([_queue(NO_TEAM, -1.0)], dict.fromkeys(trace.teams, NO_TEAM))


def _teams(trace: Trace) -> dict[str, str]:
    """Map each team to its queue's name. Raises InputError if two teams get the same queue."""
    of_team: dict[str, str] = {}
    taken: dict[str, str] = {}
    for team in trace.teams:
        name = of_team[team] = queue_name(team)
        if taken.setdefault(name, team) != team:
            first = next(job for job in trace.jobs if job.team == team)
            raise InputError(
                f"the teams {taken[name]!r:.80} and {team!r:.80} would share the queue {name}; expected team names that give different queue names",
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
