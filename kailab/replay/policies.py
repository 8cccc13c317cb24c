"""The scheduler configuration of a replay: a configuration file, and policies named beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from kailab.engine.policies import contract
from kailab.engine.policies.settings import PolicyChoice
from kailab.engine.policies.switches import DEFAULT_PLUGINS
from kailab.errors import InputError, PolicyError
from kailab.fleet.fleet import Fleet
from kailab.policies.catalogue import SHIPPED
from kailab.policies.fragmentation import Fgd, TypicalWorkload, typical
from kailab.policies.placement import Random
from kailab.replay.manifests import pods_of
from kailab.replay.trace import Trace
from kailab.scheduler.settings.config_file import SchedulerSettings, settings_of
from kailab.scheduler.settings.policies import names_policy_file, policy_class

_FIELDS: tuple[tuple[type[contract.Policy], str], ...] = (
    (contract.JobOrder, "job_order_policy"),
    (contract.NodeScore, "node_score_policy"),
    (contract.VictimOrder, "victim_order_policy"),
    (contract.Reservation, "reservation_policy"),
    (contract.QueueShares, "queue_shares_policy"),
)
RANDOM = next(name for name, place in SHIPPED.items() if place.endswith(":Random"))
"""The policy that takes a seed."""
_BEFORE_SCORES = ("gpusharingorder", "resourcetype")
"""KAI's plugins whose scores outweigh a policy's: shares go to GPUs already shared, work without GPUs to nodes without
GPUs."""


NamedPolicy = str | Mapping[str, Any]
"""A policy: its name, or ``{policy: NAME, parameters: {...}}``."""


def choice_of(policy: NamedPolicy) -> PolicyChoice:
    """The policy's name and parameters, without the class that implements it.

    >>> choice_of("fifo").name, choice_of({"policy": "tiresias", "parameters": {"thresholds": [60]}}).parameters
    ('fifo', {'thresholds': [60]})
    """
    if isinstance(policy, str):
        return PolicyChoice(name=policy)
    return PolicyChoice(name=policy["policy"], parameters=policy.get("parameters", {}))


def uses_random_numbers(policies: Sequence[NamedPolicy]) -> bool:
    """True if one of the policies takes a seed: ``random`` without a seed of its own."""
    return any(choice_of(policy) == PolicyChoice(name=RANDOM) for policy in policies)


def files_of(config: Path) -> list[str]:
    """The files of the policies that a configuration names. Raises InputError."""
    engine = settings_of(config).engine
    choices = [choice for _, field in _FIELDS if (choice := getattr(engine, field)) is not None]
    return [choice.name.rpartition(":")[0] for choice in choices if names_policy_file(choice.name)]


def with_replay_policies(
    config: Path | None, policies: Sequence[NamedPolicy], trace: Trace, fleet: Fleet, seed: int | None = None
) -> SchedulerSettings:
    """Read a configuration and replace its policies by the named ones.

    A named node score is the only score: KAI's plugins of higher weight are turned off. FGD gets the trace's workload
    as a parameter. Raises InputError, ExtensionError.
    """
    settings = settings_of(config)
    engine = settings.engine
    seeded = False
    named: set[str] = set()
    for policy in policies:
        choice = choice_of(policy)
        name = choice.name
        implementation = policy_class(name)
        if issubclass(implementation, contract.Dispatch):
            raise InputError(
                f"policy {name!r} is a dispatch policy; expected it in --dispatch, or as dispatch in a file of clusters"
            )
        field = next(field for kind, field in _FIELDS if issubclass(implementation, kind))
        if field in named:
            raise InputError(
                f"policy {name!r} is of the same kind as another named policy; expected one policy of each kind"
            )
        named.add(field)
        parameters: dict[str, Any] = {}
        if issubclass(implementation, Fgd):
            parameters = {"workload": msgspec.to_builtins(workload_mix(trace, fleet))}
        elif implementation is Random and seed is not None:
            parameters, seeded = {"seed": seed}, True
        chosen = PolicyChoice(name=name, parameters={**parameters, **choice.parameters})
        try:
            contract.make_policy(chosen, implementation)
        except PolicyError as error:
            raise InputError(str(error)) from None
        engine = structs.replace(engine, **{field: chosen})
        if issubclass(implementation, contract.JobOrder):
            engine = structs.replace(engine, weighted_order=None)
        if issubclass(implementation, contract.NodeScore):
            plugins = tuple(name for name in engine.plugins or DEFAULT_PLUGINS if name not in _BEFORE_SCORES)
            engine = structs.replace(engine, plugins=plugins, prefer_shared_devices=False)
    if seed is not None and not seeded:
        raise InputError(f"--seed applies only to the policy {RANDOM}; expected --policy {RANDOM}")
    return structs.replace(settings, engine=engine)


def workload_mix(trace: Trace, fleet: Fleet) -> tuple[TypicalWorkload, ...]:
    """The kinds of pods that make up 95 % of the trace's pods without MIG instances."""
    pods = []
    largest = fleet.largest_node  # iterates over all pools
    for job in trace.jobs:
        if job.mig:
            continue  # instances are no part of a free device
        count = pods_of(job, largest)
        pods += [(job.cpu_millis, job.gpus // count, job.share, tuple(sorted(job.models)))] * count
    return typical(pods) if pods else ()
