"""Replay a part of a trace over several clusters under each dispatch policy, and on one cluster with all GPUs.

python -m benchmarks.dispatch philly.csv --clusters examples/clusters/philly.yaml --after 56d --for 4d"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

from kailab.cli.table import format_age, render_table
from kailab.engine.policies.contract import Dispatch
from kailab.engine.policies.settings import PolicyChoice
from kailab.fleet.fleet import Fleet
from kailab.model.times import duration_seconds
from kailab.policies.catalogue import SHIPPED, shipped
from kailab.replay.accounts import raise_faults
from kailab.replay.clusters.cluster_file import SiteDefaults, read_sites
from kailab.replay.clusters.dispatcher import dispatch
from kailab.replay.clusters.figures import figures
from kailab.replay.clusters.sites import ClusterSites, DispatchSettings
from kailab.replay.plan import ReplayPlan
from kailab.replay.queues import BY_SHARE, queues_for
from kailab.replay.run import replay
from kailab.replay.summary import WaitTimes, summarise
from kailab.replay.trace import Trace, read_trace

POLICIES = tuple(name for name in SHIPPED if issubclass(shipped(name) or object, Dispatch))


def part_of(trace: Trace, after: int, lasting: int) -> Trace:
    """The jobs that arrive from ``after`` seconds after the first job on, for ``lasting`` seconds."""
    begin = trace.jobs[0].arrival + after
    return replace(trace, jobs=[job for job in trace.jobs if begin <= job.arrival < begin + lasting])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--clusters", type=Path, required=True)
    parser.add_argument("--after", default="0s")
    parser.add_argument("--for", dest="lasting", default="4d")
    parser.add_argument("--policy", action="append", metavar="NAME[:PARAMETER=NUMBER,...]")
    parser.add_argument("--again", default="")
    options = parser.parse_args()
    trace = part_of(
        read_trace(options.trace), *(int(duration_seconds(t, days=True)) for t in (options.after, options.lasting))
    )
    sites = read_sites(options.clusters, trace, SiteDefaults(queues=BY_SHARE))
    again = int(duration_seconds(options.again, days=True)) if options.again else None
    print(f"{len(trace.jobs)} jobs", flush=True)
    rows = [_together(trace, sites)]
    for name in options.policy or POLICIES:
        rows.append(_dispatched(replace(sites, dispatching=DispatchSettings(policy=_choice(name), again=again)), name))
        print(*rows[-1], flush=True)
    headers = (
        "DISPATCHED BY",
        "ENDED",
        "MEAN WAIT",
        "P50",
        "P99",
        "ALLOCATED",
        "AWAY",
        "MOVED TB",
        "COST",
        "ESTIMATE OFF",
        "CPU S",
    )
    print(render_table(headers, rows))


def _choice(text: str) -> PolicyChoice:
    """Parse NAME or NAME:PARAMETER=NUMBER,..."""
    name, _, parameters = text.partition(":")
    return PolicyChoice(
        name=name,
        parameters={
            key: float(value) for key, _, value in (part.partition("=") for part in parameters.split(",") if part)
        },
    )


def _dispatched(sites: ClusterSites, name: str) -> list[str]:
    begun = time.process_time()
    results = figures(dispatch(sites, None))
    raise_faults(results.faults)
    took = time.process_time() - begun
    off = "-" if results.missed is None else format_age(results.missed.mean)
    cost = "-" if results.cost is None else f"{results.cost:.0f}"
    return [
        name, str(results.total.ended), *_waits(results.total.waits), f"{results.allocated:.1%}", str(results.away), f"{results.moved / 1e12:.1f}", cost, off, f"{took:.0f}",
    ]  # fmt: skip


def _together(trace: Trace, sites: ClusterSites) -> list[str]:
    """Replay on all nodes in one cluster, for comparison."""
    pools = tuple(
        replace(pool, name=f"{site.name}-{pool.name}") for site in sites.sites for pool in site.plan.fleet.pools
    )
    fleet = Fleet(name="all", pools=pools)
    begun = time.process_time()
    results = summarise(
        replay(ReplayPlan(trace=trace, fleet=fleet, queues=queues_for(trace, fleet.summary().gpus, BY_SHARE)))
    )
    raise_faults(results.faults)
    took = time.process_time() - begun
    return [
        "(one cluster)",
        str(results.total.ended),
        *_waits(results.total.waits),
        f"{results.allocated:.1%}",
        "-",
        "-",
        "-",
        "-",
        f"{took:.0f}",
    ]


def _waits(waits: WaitTimes | None) -> list[str]:
    if waits is None:
        return ["-"] * 3
    return ["never" if seconds is None else format_age(seconds) for seconds in (waits.mean, waits.p50, waits.p99)]


if __name__ == "__main__":
    main()
