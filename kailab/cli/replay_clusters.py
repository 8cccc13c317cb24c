"""``replay --clusters``: the jobs of a trace over several clusters, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kailab.cli import configurations, replay_evidence, replay_kept, terminal
from kailab.cli.options import TextOrJson
from kailab.cli.replay_rows import HEADERS, cells, jobs_told, left_out_told, unbegun_told

if TYPE_CHECKING:
    from kailab.replay.clusters.figures import Figures
    from kailab.replay.clusters.journeys import Dispatched
    from kailab.replay.clusters.reading import Otherwise
    from kailab.replay.trace import Trace


def replay(
    file: Path | None,
    trace: Trace,
    otherwise: Otherwise,
    lasting: int | None,
    targets: tuple[Path | None, Path | None, Path | None],
    resume: Path | None,
    output: TextOrJson,
) -> None:
    """Carry it out and tell it. ``targets``: files for jobs and timeline, and a folder for evidence. ``resume``: a file that it is kept in."""
    from kailab.errors import InputError
    from kailab.evidence.recorder import Recorder
    from kailab.replay import evidence
    from kailab.replay.clusters import dispatcher
    from kailab.replay.clusters.figures import as_json, figures
    from kailab.replay.clusters.keeping import facts
    from kailab.replay.clusters.reading import read_sites
    from kailab.replay.policies import RANDOM
    from kailab.replay.trace import told_broken
    from kailab.scheduler import SchedulerSettings

    assert file is not None, "one of a fleet and a file of clusters is given"
    jobs_file, timeline_file, folder = targets
    sites = read_sites(file, trace, otherwise)
    if otherwise.seed is not None and not sites.drawing:
        raise InputError(f"--seed is for the policy {RANDOM}; expected it in a cluster of {file}, or --policy {RANDOM}")
    trace = sites.trace
    for line in told_broken(trace):
        terminal.warn(line)
    # Clusters may share a file.
    for line in dict.fromkeys(line for site in sites.sites for line in site.queues.warnings):
        terminal.warn(line)
    for stranger in sites.strangers:
        terminal.warn(stranger)
    configurations.tell(site.plan.config for site in sites.sites if isinstance(site.plan.config, SchedulerSettings))
    recorders = [Recorder(site.name) for site in sites.sites] if folder else []
    if folder:
        evidence.check(trace, lasting, folder)
        sites = sites.observed(recorders)
    with replay_kept.kept(lambda: facts(sites, lasting), resume) as keeper:
        with terminal.progress_bars() as tell:
            done = dispatcher.dispatch(sites, lasting, tell, keeper)
        found = figures(done)
        # It is told even where what it is to be written to can't be.
        try:
            _write_tables(done, jobs_file, timeline_file)
            if folder:
                replay_evidence.write(recorders, trace, [site.plan.fleet for site in sites.sites], folder)
        finally:
            terminal.say(json.dumps(as_json(found), indent=2) if output is TextOrJson.json else "\n".join(_told(found)))


def _write_tables(done: Dispatched, jobs_file: Path | None, timeline_file: Path | None) -> None:
    from kailab.replay.clusters import tables
    from kailab.replay.tables import write

    if jobs_file is not None:
        write(jobs_file, tables.JOBS, tables.job_rows(done))
    if timeline_file is not None:
        write(timeline_file, tables.TIMELINE, tables.timeline_rows(done))


def _told(found: Figures) -> Iterator[str]:
    from kailab.cli.table import render
    from kailab.lab.wording import elapsed

    yield from _whole(found, elapsed(found.seconds))
    money = [f"COST {found.currency}"] if found.currency else []
    waits = ["JOBS", "BEGAN", "ENDED", "WAITED", "P50", "P99"]
    yield ""
    yield render(
        ["CLUSTER", "GPUS", *waits, "CAME", "WENT", "HELD", "ALLOCATED", "MOVED IN", *money],
        [
            [
                one.name, str(one.gpus), *cells(one.row)[1:7], str(one.came), str(one.went), f"{one.held:.1f}", f"{one.allocated:.1%}", _bytes(one.bytes_in),
                *([_cost(one.cost)] if money else []),
            ]
            for one in found.clusters
        ],
    )  # fmt: skip
    yield ""
    yield render(
        ["QUEUE", "HOME", *waits, "AWAY", "AWAY HOURS", "HELD", "FAIR", "MOVED", *money],
        [
            [
                one.row.name, one.home or "-", *cells(one.row)[1:7], str(one.away), f"{one.away_hours:.1f}", f"{one.held:.1f}", f"{one.fair:.1f}", _bytes(one.moved),
                *([_cost(one.cost)] if money else []),
            ]
            for one in found.queues
        ],
    )  # fmt: skip
    yield ""
    yield render(["SIZE", *HEADERS], [cells(row) for row in (*found.sizes, found.total)])


def _whole(found: Figures, lab_time: str) -> Iterator[str]:
    from kailab.cli.table import span
    from kailab.lab.wording import count

    total = found.total
    jobs = jobs_told(total, found.in_trace)
    parameters = "".join(f", {name} {value}" for name, value in sorted(found.parameters.items()))
    yield (
        f"{jobs} of {found.trace} ({found.form}) over {count(len(found.clusters), 'cluster')} of {found.clusters_file}, {found.gpus} GPUs, dispatched by "
        f"{found.policy}{parameters}: {lab_time} of lab time"
    )
    yield from left_out_told(found.left_out)
    yield (
        f"GPUs allocated: {found.allocated:.2%} of the time. {count(total.ended, 'job')} ended, {total.jobs - total.began} never began, "
        f"{count(total.evictions, 'pod')} evicted"
    )
    for one in found.clusters:
        yield from unbegun_told(one.unbegun, one.name)
    waiting = f", {found.with_dispatcher} never sent" if found.with_dispatcher else ""
    coming = f", {found.on_way} on their way" if found.on_way else ""
    back = f", {count(found.taken_back, 'time')} taken back from where they waited" if found.taken_back else ""
    yield f"Sent away from home: {count(found.away, 'job')}, {found.away_hours:.1f} GPU-hours{back}{waiting}{coming}. Mean latency to the cluster: {found.latency_ms:g} ms"
    if found.moved:
        yield f"Data moved: {_bytes(found.moved)}, for {found.move_cost:.2f} {found.currency}".rstrip()
    if found.cost is not None:
        done = "" if found.per_done is None else f"; {found.per_done:.2f} for each GPU-hour of work done"
        yield f"Cost: {found.cost:.2f} {found.currency} with the moving of data{done}"
    if found.missed is not None:
        yield f"The dispatcher's estimates of waits were wrong by {span(found.missed.mean)} in the mean, {span(found.missed.p99)} at the 99th percentile"
    if found.jain is not None:
        yield f"Fairness: Jain's index {found.jain:.4f} of GPU time held by fair share, queues over all clusters"


def _cost(amount: float | None) -> str:
    return "-" if amount is None else f"{amount:.2f}"


def _bytes(number: int) -> str:
    """In decimal units, as networks and their prices have it.

    >>> _bytes(0), _bytes(1_500_000_000), _bytes(2 * 2**40)
    ('0', '1.5 GB', '2.2 TB')
    """
    if not number:
        return "0"
    size, unit = float(number), 0
    units = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
    while size >= 1000 and unit < len(units) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.3g} {units[unit]}"
