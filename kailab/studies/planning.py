"""Turn the options of a run into a replay: trace, fleet, queues and policies.

``resample_trace`` makes other possible traces by a bootstrap over jobs within teams: arrivals stay, and each gets a
random job of the same team. So the demand of a team varies between seeds as it would between months. ``resample_blocks``
draws whole stretches of time instead, with all that coincides in them.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from kailab.errors import InputError
from kailab.fleet.fleet import Fleet
from kailab.fleet.sizing import Sizes
from kailab.lab.seen_names import describe_names
from kailab.model.multimap import multimap
from kailab.model.objects import name_of
from kailab.model.prices import Prices, load_prices
from kailab.model.queues import share
from kailab.model.times import DAY
from kailab.replay.clusters.cluster_file import SiteDefaults, read_sites
from kailab.replay.clusters.sites import ClusterSites
from kailab.replay.costs import gpus_by_model
from kailab.replay.estimates import with_estimates
from kailab.replay.failures import read_failures
from kailab.replay.fleets import counted_gpus, replay_fleet
from kailab.replay.plan import ReplayPlan
from kailab.replay.policies import choice_of, uses_random_numbers, with_replay_policies
from kailab.replay.queues import NO_QUOTA, TeamQueues, priorities_of, queues_for
from kailab.replay.services import read_services
from kailab.replay.speeds import read_speeds
from kailab.replay.trace import Trace, read_trace
from kailab.scheduler.settings.config_file import SchedulerSettings
from kailab.studies.study import StudyRun


def resample_trace(trace: Trace, seed: int) -> Trace:
    """Draw the jobs of each team again. Equal seeds give equal traces."""
    generator = random.Random(seed)
    of_team = multimap((job.team, job) for job in trace.jobs)
    jobs = []
    for job in trace.jobs:
        candidates = of_team[job.team]
        drawn = candidates[generator.randrange(len(candidates))]
        jobs.append(msgspec.structs.replace(drawn, name=job.name, arrival=job.arrival))
    return replace(trace, jobs=jobs)


def resample_blocks(trace: Trace, seed: int, block: int) -> Trace:
    """Draw the trace again in blocks of ``block`` seconds: each stretch of that length gets the arrivals of another one,
    which begins anywhere and goes on at the beginning where the trace ends. Bursts, times of the day (with blocks of whole
    days that begin at the same time) and coincidences between teams stay together within a block. Equal seeds give equal
    traces. Raises InputError if the trace is no longer than a block.

    Source: Politis and Romano, "A Circular Block-Resampling Procedure for Stationary Data", 1992; after Künsch, "The
    Jackknife and the Bootstrap for General Stationary Observations", Annals of Statistics 17(3), 1989.
    """
    first, last = trace.jobs[0].arrival, trace.jobs[-1].arrival
    span = last - first + 1
    if block >= span:
        raise InputError(f"block: {block} s; expected less than the time of arrivals, {span} s")
    generator = random.Random(seed)
    jobs = []
    arrivals = [job.arrival - first for job in trace.jobs]
    # Starts at whole days keep the time of the day, if blocks and trace are long enough for a choice.
    grain = int(DAY) if block % DAY == 0 and span >= 2 * DAY else 1
    for begin in range(0, span, block):
        length = min(block, span - begin)
        start = generator.randrange(max(1, span // grain)) * grain
        for low, high, shift in ((start, min(start + length, span), 0), (0, start + length - span, span)):
            for job in trace.jobs[bisect_left(arrivals, low) : bisect_left(arrivals, high)] if high > low else ():
                at = first + begin + job.arrival - first + shift - start
                jobs.append(msgspec.structs.replace(job, arrival=at))
    if not jobs:
        raise InputError(f"block: the stretches of {block} s that were drawn have no job; expected longer ones")
    return replace(trace, jobs=jobs)


def _resampled(trace: Trace, seed: int | None, options: Mapping[str, Any]) -> Trace:
    """The trace of a run: resampled by its seed, with the run times that its users announce."""
    if seed is not None:
        block = options.get("block")
        trace = resample_trace(trace, seed) if block is None else resample_blocks(trace, seed, block)
    return with_estimates(trace, options.get("estimates"), seed)


def plan_of(run: StudyRun) -> ReplayPlan:
    """The plan of a run on one fleet. Raises InputError."""
    options = run.options
    if "speeds" in options and options.get("arrivalsOnly"):
        raise InputError("speeds: has no effect with arrivalsOnly, because jobs never end; leave out one of them")
    fleet = sized_fleet(options)
    trace = trace_of(options)
    # Quotas by share follow the original trace: a team's quota does not depend on the resampled demand.
    queues = queues_for(trace, counted_gpus(fleet, trace), options.get("queues", NO_QUOTA))
    for field, name in (("quotas", "quota"), ("limits", "limit")):
        queues = _with(queues, name, options.get(field, {}), field)
    return ReplayPlan(
        trace=_resampled(trace, run.seed, options),
        fleet=fleet,
        queues=queues,
        config=_settings(run, trace, fleet),
        lasting=options.get("for"),
        checkpoint=options.get("checkpoint"),
        saving=options.get("checkpointCost", 0),
        restart=options.get("restart"),
        failures=() if "failures" not in options else read_failures(Path(options["failures"]), fleet),
        services=()
        if "services" not in options
        else read_services(Path(options["services"]), queues.leaves, queues.class_names),
        speeds=None if "speeds" not in options else read_speeds(Path(options["speeds"]), fleet, trace),
        endless=options.get("arrivalsOnly", False),
        prices=None if "prices" not in options else _prices(options["prices"], fleet),
    )


def sites_of(run: StudyRun) -> ClusterSites:
    """The sites of a run over several clusters. Raises InputError."""
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
        dispatch=dispatch_option
        if isinstance(dispatch_option := options.get("dispatch", ""), str)
        else choice_of(dispatch_option),
        skip_broken=options.get("skipBroken", False),
        saving=options.get("checkpointCost", 0),
        restart=options.get("restart"),
    )
    sites = read_sites(Path(options["clusters"]), trace, otherwise)
    resampled = _resampled(sites.trace, run.seed, options)
    if resampled is sites.trace:
        return sites
    resampled_sites = [replace(site, plan=replace(site.plan, trace=resampled)) for site in sites.sites]
    return replace(sites, trace=resampled, sites=resampled_sites)


def queues_and_prices(run: StudyRun) -> tuple[list[str], bool]:
    """The queue names of the run's teams, and whether anything has a price. Raises InputError for an invalid run."""
    if "clusters" in run.options:
        sites = sites_of(run).sites
        return sites[0].queues.names, any(site.prices is not None for site in sites)
    plan = plan_of(run)
    return plan.queues.names, plan.prices is not None


def _settings(run: StudyRun, trace: Trace, fleet: Fleet) -> SchedulerSettings:
    policies = run.options.get("policies", ())
    config = run.options.get("config")
    seed = run.seed if uses_random_numbers(policies) else None
    # Parameters derived from the workload follow the original trace, as quotas do.
    return with_replay_policies(None if config is None else Path(config), policies, trace, fleet, seed)


def trace_of(options: Mapping[str, Any]) -> Trace:
    """The trace without resampling. Raises InputError."""
    return _trace(
        options["trace"],
        options.get("format", ""),
        tuple(sorted(options.get("columns", {}).items())),
        options.get("skipBroken", False),
        # Each cluster has its own queues, which are checked there.
        None if "clusters" in options else _priorities(options.get("queues"), options["fleet"]),
        options.get("arrivalsOnly", False),
    )


def sized_fleet(options: Mapping[str, Any]) -> Fleet:
    """The fleet in the requested size. Raises InputError."""
    sizes = sizes_of(options["fleet"])
    size = options.get("size")
    if size is None:
        return sizes.fleet
    if isinstance(size, Mapping):
        return sizes.of(sizes.nodes_for(size))
    return sizes.of(sizes.mixed_for(size))


@cache
def sizes_of(name_or_path: str) -> Sizes:
    """The fleet and its possible sizes, cached. Raises InputError."""
    return Sizes(replay_fleet(name_or_path))


@cache
def _priorities(queues: str | None, fleet: str) -> tuple[str, ...]:
    return priorities_of(queues, sizes_of(fleet).fleet)


@cache
def _trace(
    path: str,
    form: str,
    columns: tuple[tuple[str, str], ...],
    skip_broken: bool,
    priorities: tuple[str, ...] | None,
    arrivals_only: bool,
) -> Trace:
    return read_trace(
        Path(path), form, dict(columns), skip_broken=skip_broken, priorities=priorities, arrivals_only=arrivals_only
    )


def _prices(path: str, fleet: Fleet) -> Prices:
    prices = load_prices(path)
    prices.check(gpus_by_model(fleet))
    return prices


def _with(queues: TeamQueues, part: str, gpus_by_queue: Mapping[str, float], field: str) -> TeamQueues:
    """Replace the ``part`` (quota or limit) of some queues."""
    if not gpus_by_queue:
        return queues
    objects = {name_of(obj): deepcopy(obj) for obj in queues.objects}
    for name, gpus in gpus_by_queue.items():
        if name not in objects:
            raise InputError(f"{field}: no queue {name!r:.80}; {describe_names(objects, name)}")
        resources = objects[name]["spec"].setdefault("resources", {})
        resources.setdefault("gpu", share(quota=0))[part] = gpus
    return replace(queues, objects=list(objects.values()))
