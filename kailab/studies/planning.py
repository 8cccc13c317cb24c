"""Other traces that could have been: the same arrivals, and at each of them a job that the same team had at some time.

That is a bootstrap over jobs within teams. How much a team asks for in all differs from seed to seed as it would from month to month; when it asks
stays as it was.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from kailab.errors import InputError
from kailab.fleet import Fleet
from kailab.fleet.sizing import Sizes
from kailab.lab.seen_names import there_are
from kailab.model.prices import Prices, load_prices
from kailab.replay.clusters.cluster_file import SiteDefaults, read_sites
from kailab.replay.clusters.sites import ClusterSites
from kailab.replay.costs import gpus_by_model
from kailab.replay.fleets import replay_fleet
from kailab.replay.job import TraceJob
from kailab.replay.plan import ReplayPlan
from kailab.replay.policies import NamedPolicy, choice_of, uses_random_numbers, with_replay_policies
from kailab.replay.queues import NO_QUOTA, TeamQueues, priorities_of, queues_for
from kailab.replay.trace import Trace, read_trace
from kailab.scheduler import SchedulerSettings
from kailab.studies.study import StudyRun


def resample_trace(trace: Trace, seed: int) -> Trace:
    """The same seed gives the same trace."""
    chance = random.Random(seed)
    of_team: dict[str, list[TraceJob]] = {}
    for job in trace.jobs:
        of_team.setdefault(job.team, []).append(job)
    jobs = []
    for job in trace.jobs:
        those = of_team[job.team]
        drawn = those[chance.randrange(len(those))]
        jobs.append(msgspec.structs.replace(drawn, name=job.name, arrival=job.arrival))
    return replace(trace, jobs=jobs)


# The replay that the options of a run stand for.


def plan_of(run: StudyRun) -> ReplayPlan:
    """Raises InputError."""
    options = run.options
    fleet = fleet_of(options)
    trace = trace_of(options)
    # Quotas by share are those of the trace as it is: what a team is promised does not follow what it came to ask for.
    queues = queues_for(trace, fleet.summary().gpus, options.get("queues", NO_QUOTA))
    for field, name in (("quotas", "quota"), ("limits", "limit")):
        queues = _with(queues, name, options.get(field, {}), field)
    return ReplayPlan(
        trace=trace if run.seed is None else resample_trace(trace, run.seed),
        fleet=fleet,
        queues=queues,
        config=_settings(run, trace, fleet),
        lasting=options.get("for"),
        checkpoint=options.get("checkpoint"),
        endless=options.get("arrivalsOnly", False),
        prices=None if "prices" not in options else _prices(options["prices"], fleet),
    )


def sites_of(run: StudyRun) -> ClusterSites:
    """Of a run over several clusters. Raises InputError."""
    options = run.options
    trace = trace_of(options)
    otherwise = SiteDefaults(
        queues=options.get("queues", NO_QUOTA),
        config=None if "config" not in options else Path(options["config"]),
        policies=tuple(options.get("policies", ())),
        prices=None if "prices" not in options else Path(options["prices"]),
        seed=run.seed,
        checkpoint=options.get("checkpoint"),
        endless=options.get("arrivalsOnly", False),
        dispatch=told if isinstance(told := options.get("dispatch", ""), str) else choice_of(told),
        skip_broken=options.get("skipBroken", False),
    )
    found = read_sites(Path(options["clusters"]), trace, otherwise)
    if run.seed is None:
        return found
    other = resample_trace(found.trace, run.seed)
    sites = [replace(site, plan=replace(site.plan, trace=other)) for site in found.sites]
    return replace(found, trace=other, sites=sites)


def queues_and_prices(run: StudyRun) -> tuple[list[str], bool]:
    """The names of the queues of its teams, and whether anything has a price. Raises InputError where the run stands for no replay."""
    if "clusters" in run.options:
        sites = sites_of(run).sites
        return sites[0].queues.names, any(site.prices is not None for site in sites)
    plan = plan_of(run)
    return plan.queues.names, plan.prices is not None


def _settings(run: StudyRun, trace: Trace, fleet: Fleet) -> SchedulerSettings:
    policies = run.options.get("policies", ())
    config = run.options.get("config")
    # What the policies are told of the work is of the trace as it is, as quotas are.
    return with_replay_policies(
        None if config is None else Path(config), policies, trace, fleet, _seed_of(run, policies)
    )


def _seed_of(run: StudyRun, policies: Sequence[NamedPolicy]) -> int | None:
    return run.seed if uses_random_numbers(policies) else None


def trace_of(options: Mapping[str, Any]) -> Trace:
    """As it is, without a seed. Raises InputError."""
    return _trace(
        options["trace"],
        options.get("format", ""),
        tuple(sorted(options.get("columns", {}).items())),
        options.get("skipBroken", False),
        # Each cluster has queues of its own.
        None if "clusters" in options else _priorities(options.get("queues"), options["fleet"]),
    )


def fleet_of(options: Mapping[str, Any]) -> Fleet:
    """In the size that is asked for. Raises InputError."""
    sizes = sizes_of(options["fleet"])
    size = options.get("size")
    if size is None:
        return sizes.fleet
    if isinstance(size, Mapping):
        return sizes.of(sizes.nodes_for(size))
    return sizes.of(sizes.mixed_for(size))


@cache
def sizes_of(name_or_path: str) -> Sizes:
    """Raises InputError."""
    return Sizes(replay_fleet(name_or_path))


@cache
def _priorities(queues: str | None, fleet: str) -> tuple[str, ...]:
    """Runs of a study differ in much else."""
    return priorities_of(queues, sizes_of(fleet).fleet)


@cache
def _trace(
    path: str, form: str, columns: tuple[tuple[str, str], ...], skip_broken: bool, priorities: tuple[str, ...] | None
) -> Trace:
    return read_trace(Path(path), form, dict(columns), skip_broken=skip_broken, priorities=priorities)


def _prices(path: str, fleet: Fleet) -> Prices:
    found = load_prices(path)
    found.check(gpus_by_model(fleet))
    return found


def _with(queues: TeamQueues, part: str, told: Mapping[str, float], field: str) -> TeamQueues:
    """GPUs of some queues otherwise than they are."""
    if not told:
        return queues
    objects = {obj["metadata"]["name"]: deepcopy(obj) for obj in queues.objects}
    for name, gpus in told.items():
        if name not in objects:
            raise InputError(f"{field}: there is no queue {name!r:.80}; {there_are(objects, name)}")
        resources = objects[name]["spec"].setdefault("resources", {})
        resources.setdefault("gpu", {"quota": 0, "limit": -1, "overQuotaWeight": 1})[part] = gpus
    return replace(queues, objects=list(objects.values()))
