"""``replay``: the jobs of a trace in virtual time, and how long they waited."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kailab.cli import (
    configurations,
    options,
    replay_clusters,
    replay_evidence,
    replay_files,
    replay_kept,
    replay_options,
    terminal,
)
from kailab.cli.options import TextOrJson
from kailab.cli.replay_rows import HEADERS, cells, jobs_told, left_out_told, unbegun_told

if TYPE_CHECKING:
    from kailab.cli.replay_files import Files
    from kailab.evidence.recorder import Recorder
    from kailab.fleet import Fleet
    from kailab.replay.costing import ReplayCost
    from kailab.replay.keeping import Keeper
    from kailab.replay.queues import Queues
    from kailab.replay.replaying import Plan
    from kailab.replay.summary import Summary
    from kailab.replay.trace import Trace


@click.command()
@click.argument("trace", type=options.PATH)
@click.option(
    "--fleet", default="", show_default=False, help="The fleet: a name, a file, or openb's list of nodes (.csv)."
)
@click.option(
    "--clusters",
    "clusters_file",
    type=options.PATH,
    help="Several clusters instead, from that file (docs/clusters.md).",
)
@click.option(
    "--dispatch", default="", show_default=False, help="With --clusters: the dispatch policy instead of the file's."
)
@replay_options.of_replays
@click.option("--seed", type=click.IntRange(min=0), help="Of the policy random.")
@replay_files.of_files
@click.option(
    "--evidence",
    "evidence_folder",
    type=options.PATH,
    help="Write evidence there, as a test does: for kailab report and evidence.",
)
@click.option(
    "--resume",
    type=options.PATH,
    help="Keep it in this file as it goes on, each minute and at Ctrl-C; the same command goes on from there.",
)
@options.output
def replay(
    trace: Path,
    fleet: str,
    clusters_file: Path | None,
    dispatch: str,
    queues: Path | None,
    quota_by_share: bool,
    one_queue: bool,
    form: str,
    columns: str,
    skip_broken: bool,
    duration: str,
    checkpoint: str,
    arrivals_only: bool,
    config: Path | None,
    policies: tuple[str, ...],
    prices: Path | None,
    seed: int | None,
    files: Files,
    evidence_folder: Path | None,
    resume: Path | None,
    output: TextOrJson,
) -> None:
    """Replay the jobs of a trace in virtual time: as they arrived, in queues by their teams, on a fleet of fake GPUs, decided by the
    lab's own scheduler. Tells how long they waited, by queue and by size, and where the GPU time went. With --clusters over several."""
    from kailab.evidence.recorder import Recorder
    from kailab.model.prices import load_prices
    from kailab.replay import replaying
    from kailab.replay.clusters.reading import Otherwise
    from kailab.replay.fleets import replay_fleet
    from kailab.replay.keeping import facts
    from kailab.replay.policies import decided_by

    replay_options.check(queues, quota_by_share, one_queue, arrivals_only, checkpoint)
    lasting, interval = replay_options.seconds("--for", duration), replay_options.seconds("--checkpoint", checkpoint)
    files.check(clusters=clusters_file is not None)
    replay_options.check_clusters(clusters_file, fleet, dispatch)
    described = None if clusters_file else replay_fleet(fleet)
    read = _read(trace, form, columns, skip_broken, queues, described)
    if described is None:
        mode = replay_options.queues_mode(queues, quota_by_share, one_queue)
        otherwise = Otherwise(mode, config, policies, prices, seed, interval, arrivals_only, dispatch, skip_broken)
        written = files.jobs, files.timeline, evidence_folder
        replay_clusters.replay(clusters_file, read, otherwise, lasting, written, resume, output)
        return
    recorder = Recorder() if evidence_folder else None
    plan = replaying.Plan(
        trace=read,
        fleet=described,
        queues=_queues(read, described, queues, quota_by_share, one_queue),
        config=configurations.announced(decided_by(config, policies, read, described, seed)),
        lasting=lasting,
        checkpoint=interval,
        endless=arrivals_only,
        prices=None if prices is None else load_prices(prices),
        metered=None if files.series is None else files.every or 0,
        observers=(recorder,) if recorder else (),
    )
    with replay_kept.kept(lambda: facts(plan), resume) as keeper:
        _carry_out(plan, keeper, files, recorder, evidence_folder, output)


def _carry_out(
    plan: Plan,
    keeper: Keeper | None,
    files: Files,
    recorder: Recorder | None,
    folder: Path | None,
    output: TextOrJson,
) -> None:
    from kailab.replay import evidence, replaying
    from kailab.replay.summary import as_json, summary

    if folder:
        evidence.check(plan.trace, plan.lasting, folder)
    with terminal.progress_bars() as tell:
        done = replaying.replay(plan, tell, keeper)
    found = summary(done)
    # It is told even where what it is to be written to can't be: a disk that is full does not take weeks of a replay with it.
    try:
        if recorder and folder:
            replay_evidence.write([recorder], plan.trace, [plan.fleet], folder)
        files.write(done)
    finally:
        terminal.say(json.dumps(as_json(found), indent=2) if output is TextOrJson.json else "\n".join(_told(found)))


def _read(trace: Path, form: str, columns: str, skip_broken: bool, queues: Path | None, fleet: Fleet | None) -> Trace:
    """``fleet``: None where each cluster has its own, and queues of its own."""
    from kailab.replay.queues import priorities_of
    from kailab.replay.trace import read_trace, told_broken

    known = None if fleet is None else priorities_of(queues, fleet)
    read = read_trace(trace, form, replay_options.declared(columns), skip_broken=skip_broken, priorities=known)
    # Over clusters more lines may turn out to be broken: all are told then.
    if fleet is not None:
        for line in told_broken(read):
            terminal.warn(line)
    return read


def _queues(trace: Trace, fleet: Fleet, file: Path | None, by_share: bool, one: bool) -> Queues:
    from kailab.replay.queues import from_file, queues_for

    if file is not None:
        found = from_file(trace, file)
        for line in found.warnings:
            terminal.warn(line)
        return found
    return queues_for(trace, fleet.summary().gpus, replay_options.mode(by_share, one))


def _told(found: Summary) -> Iterator[str]:
    from kailab.cli.table import render
    from kailab.lab.wording import count, elapsed
    from kailab.replay.summary import gpu_hours

    total, sums = found.total, found.balance
    jobs = jobs_told(total, found.in_trace)
    yield f"{jobs} of {found.trace} ({found.form}) on {found.fleet}, {found.gpus} GPUs: {elapsed(found.seconds)} of lab time"
    yield from left_out_told(found.left_out)
    yield (
        f"GPUs allocated: {found.allocated:.2%} of the time; until the last arrival {found.allocated_arriving:.2%}. "
        f"{count(total.ended, 'job')} ended, {total.jobs - total.began} never began, {count(total.evictions, 'pod')} evicted"
    )
    yield from unbegun_told(found.unbegun)
    asked = f"{gpu_hours(sums.done):.3f} done, of work without an end"
    if not sums.endless:
        asked = (
            f"{gpu_hours(sums.submitted):.3f} submitted = {gpu_hours(sums.done):.3f} done + {gpu_hours(sums.to_run):.3f} to do by what runs "
            f"+ {gpu_hours(sums.to_wait):.3f} by what waits"
        )
    yield (
        f"GPU-hours: {asked}; {gpu_hours(sums.held):.3f} held = done + {gpu_hours(sums.lost):.3f} lost "
        f"+ {gpu_hours(sums.overhead):.3f} starting and leaving"
    )
    if total.evictions:
        lost = ", ".join(f"{hours:.3f} ({name})" for name, hours in found.lost_with_checkpoints.items())
        yield f"Goodput: {found.goodput:.2%} of the GPU time held. Lost with work saved so often: {lost}"
    if found.fairness.jain is not None:
        yield f"Fairness: Jain's index {found.fairness.jain:.4f} of GPU time held by fair share"
    if found.fragmentation is not None:
        parts = found.fragmentation
        yield f"Fragmentation (FGD's): {parts.of_all:.2%} of all GPUs, {parts.of_free:.2%} of the free ones; at the end {parts.last_of_all:.2%}"
    if found.costs is not None:
        yield from _costs(found.costs)
    fair = {queue.name: queue for queue in found.fairness.queues}
    rows = []
    for row in found.queues:
        own = fair.get(row.name)
        rows.append([*cells(row), *((f"{own.held:.1f}", f"{own.fair:.1f}", f"{own.short:.2f}") if own else "---")])
    yield ""
    yield render(["QUEUE", *HEADERS, "HELD", "FAIR", "SHORT"], [*rows, [*cells(found.total), *"---"]])
    yield ""
    yield render(["SIZE", *HEADERS], [cells(row) for row in (*found.sizes, found.total)])


def _costs(costs: ReplayCost) -> Iterator[str]:
    from kailab.cli.table import render

    done = "" if costs.per_done is None else f"; {costs.per_done:.2f} for each GPU-hour of work done"
    energy = "not known: a power is not told" if costs.kwh is None else f"{costs.kwh:.1f} kWh"
    yield f"Cost: {costs.cost:.2f} {costs.currency}, {costs.idle_cost:.2f} of it for GPUs that nobody held{done}. Energy: {energy}"
    rows = [
        [
            one.model or "-",
            str(one.gpus),
            f"{one.used:.1f}",
            f"{one.idle:.1f}",
            f"{one.cost:.2f}",
            "-" if one.kwh is None else f"{one.kwh:.1f}",
        ]
        for one in costs.models
    ]
    yield ""
    yield render(["MODEL", "GPUS", "HOURS HELD", "IDLE", f"COST {costs.currency}", "KWH"], rows)
    yield ""
    yield render(
        ["QUEUE", "HOURS HELD", f"COST {costs.currency}"],
        [[one.name, f"{one.used:.1f}", f"{one.cost:.2f}"] for one in costs.queues],
    )
