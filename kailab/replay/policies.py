"""How is decided in a replay: a scheduler configuration, and policies named beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from kailab.engine.policies.contract import (
    Dispatch,
    JobOrder,
    NodeScore,
    Policy,
    QueueShares,
    Reservation,
    VictimOrder,
    make_policy,
)
from kailab.engine.policies.settings import PolicyChoice
from kailab.engine.policies.switches import DEFAULT_PLUGINS
from kailab.errors import InputError, PolicyError
from kailab.fleet import Fleet
from kailab.policies.catalogue import SHIPPED
from kailab.policies.fragmentation import Fgd, TypicalWorkload, typical
from kailab.policies.placement import Random
from kailab.replay.manifests import pods_of
from kailab.replay.trace import Trace
from kailab.scheduler import SchedulerSettings, settings_of
from kailab.scheduler.settings.policies import names_policy_file, policy_class

_FIELDS: tuple[tuple[type[Policy], str], ...] = (
    (JobOrder, "job_order_policy"),
    (NodeScore, "node_score_policy"),
    (VictimOrder, "victim_order_policy"),
    (Reservation, "reservation_policy"),
    (QueueShares, "queue_shares_policy"),
)
RANDOM = next(name for name, place in SHIPPED.items() if place.endswith(":Random"))
"""The policy that a seed is for."""
_BEFORE_SCORES = ("gpusharingorder", "resourcetype")
"""KAI's plugins whose scores outdo a policy's: shares to GPUs that are shared already, work without GPUs to nodes without."""


NamedPolicy = str | Mapping[str, Any]
"""A policy: its name, or ``{policy: NAME, parameters: {...}}``."""


def choice_of(told: NamedPolicy) -> PolicyChoice:
    """Without what brought it.

    >>> choice_of("fifo").name, choice_of({"policy": "tiresias", "parameters": {"thresholds": [60]}}).parameters
    ('fifo', {'thresholds': [60]})
    """
    if isinstance(told, str):
        return PolicyChoice(name=told)
    return PolicyChoice(name=told["policy"], parameters=told.get("parameters", {}))


def uses_random_numbers(policies: Sequence[NamedPolicy]) -> bool:
    """Whether a seed is for one of them: for ``random``, unless it has one of its own."""
    return any(choice_of(one) == PolicyChoice(name=RANDOM) for one in policies)


def files_of(config: Path) -> list[str]:
    """The files of the policies that a configuration names. Raises InputError."""
    engine = settings_of(config).engine
    choices = [choice for _, field in _FIELDS if (choice := getattr(engine, field)) is not None]
    return [choice.name.rpartition(":")[0] for choice in choices if names_policy_file(choice.name)]


def with_replay_policies(
    config: Path | None, policies: Sequence[NamedPolicy], trace: Trace, fleet: Fleet, seed: int | None = None
) -> SchedulerSettings:
    """The configuration of a file, with policies by their names in the place of what it says. A score of nodes by name is alone in what it says: KAI's
    preferences above it are off. FGD is told what pods the trace has. Raises InputError, ExtensionError."""
    settings = settings_of(config)
    engine = settings.engine
    seeded = False
    named: set[str] = set()
    for one in policies:
        choice = choice_of(one)
        name = choice.name
        found = policy_class(name)
        if issubclass(found, Dispatch):
            raise InputError(
                f"policy {name!r} sends jobs to clusters; expected it as --dispatch, or as dispatch in a file of clusters"
            )
        field = next(field for kind, field in _FIELDS if issubclass(found, kind))
        if field in named:
            raise InputError(f"policy {name!r} decides what another one named decides; expected one of a kind")
        named.add(field)
        parameters: dict[str, Any] = {}
        if issubclass(found, Fgd):
            parameters = {"workload": msgspec.to_builtins(workload(trace, fleet))}
        elif found is Random and seed is not None:
            parameters, seeded = {"seed": seed}, True
        chosen = PolicyChoice(name=name, parameters={**parameters, **choice.parameters})
        try:
            make_policy(chosen, found)
        except PolicyError as error:
            raise InputError(str(error)) from None
        engine = structs.replace(engine, **{field: chosen})
        if issubclass(found, JobOrder):
            engine = structs.replace(engine, weighted_order=None)
        if issubclass(found, NodeScore):
            plugins = tuple(one for one in engine.plugins or DEFAULT_PLUGINS if one not in _BEFORE_SCORES)
            engine = structs.replace(engine, plugins=plugins, prefer_shared_devices=False)
    if seed is not None and not seeded:
        raise InputError(f"--seed is for the policy {RANDOM}; expected --policy {RANDOM}")
    return structs.replace(settings, engine=engine)


def workload(trace: Trace, fleet: Fleet) -> tuple[TypicalWorkload, ...]:
    """The sorts of pods that make up 95 % of a trace's."""
    pods = []
    largest = fleet.largest_node  # a look at every pool
    for job in trace.jobs:
        count = pods_of(job, largest)
        pods += [(job.cpu_millis, job.gpus // count, job.share, tuple(sorted(job.models)))] * count
    return typical(pods)
