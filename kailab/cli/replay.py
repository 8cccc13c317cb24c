"""``replay``: the jobs of a trace in virtual time, and how long they waited."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kailab.cli import options, replay_options, terminal
from kailab.cli.options import TextOrJson

if TYPE_CHECKING:
    from kailab.evidence.recorder import Recorder
    from kailab.fleet import Fleet
    from kailab.replay.costing import ReplayCost
    from kailab.replay.queues import Queues
    from kailab.replay.replaying import Plan, Replayed
    from kailab.replay.summary import Row, Spread, Summary
    from kailab.replay.trace import Trace


@click.command()
@click.argument("trace", type=options.PATH)
@click.option("--fleet", required=True, help="The fleet: a name, a file, or openb's list of nodes (.csv).")
@replay_options.of_replays
@click.option("--seed", type=int, help="Of the policy random.")
@click.option("--jobs", "jobs_file", type=options.PATH, help="Write a row for each job there: .csv or .parquet.")
@click.option(
    "--timeline", "timeline_file", type=options.PATH, help="Write the GPUs held over time there: .csv or .parquet."
)
@click.option(
    "--evidence",
    "evidence_folder",
    type=options.PATH,
    help="Write evidence there, as a test does: for kailab report and evidence.",
)
@options.output
def replay(
    trace: Path,
    fleet: str,
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
    jobs_file: Path | None,
    timeline_file: Path | None,
    evidence_folder: Path | None,
    output: TextOrJson,
) -> None:
    """Replay the jobs of a trace in virtual time: as they arrived, in queues by their teams, on a fleet of fake GPUs, decided by the
    lab's own scheduler. Tells how long they waited, by queue and by size, and where the GPU time went."""
    from kailab.evidence.recorder import Recorder
    from kailab.model.prices import load_prices
    from kailab.replay import evidence, replaying, tables
    from kailab.replay.fleets import replay_fleet
    from kailab.replay.policies import decided_by
    from kailab.replay.summary import as_json, summary
    from kailab.replay.trace import read_trace, told_broken

    replay_options.check(queues, quota_by_share, one_queue, arrivals_only, checkpoint)
    lasting, interval = replay_options.seconds("--for", duration), replay_options.seconds("--checkpoint", checkpoint)
    for path in filter(None, (jobs_file, timeline_file)):
        tables.check_target(path)
    described = replay_fleet(fleet)
    read = read_trace(trace, form, replay_options.declared(columns), skip_broken=skip_broken)
    for line in told_broken(read):
        terminal.warn(line)
    recorder = Recorder() if evidence_folder else None
    plan = replaying.Plan(
        trace=read,
        fleet=described,
        queues=_queues(read, described, queues, quota_by_share, one_queue),
        config=decided_by(config, policies, read, described, seed),
        lasting=lasting,
        checkpoint=interval,
        endless=arrivals_only,
        prices=None if prices is None else load_prices(prices),
        observers=(recorder,) if recorder else (),
    )
    if evidence_folder:
        evidence.check(plan, evidence_folder)
    with terminal.progress_bars() as tell:
        done = replaying.replay(plan, tell)
    _write_tables(done, jobs_file, timeline_file)
    if recorder and evidence_folder:
        _write_evidence(recorder, plan, evidence_folder)
    found = summary(done)
    terminal.say(json.dumps(as_json(found), indent=2) if output is TextOrJson.json else "\n".join(_told(found)))


def _write_tables(done: Replayed, jobs_file: Path | None, timeline_file: Path | None) -> None:
    from kailab.replay import tables

    if jobs_file is not None:
        tables.write(jobs_file, tables.JOBS, tables.job_rows(done))
    if timeline_file is not None:
        tables.write(timeline_file, tables.TIMELINE, tables.timeline_rows(done))


def _write_evidence(recorder: Recorder, plan: Plan, folder: Path) -> None:
    from kailab.replay import evidence

    run = evidence.write(recorder, plan, folder)
    terminal.notice(f"evidence: {run}; look at it: kailab report {run} --html FILE")


def _queues(trace: Trace, fleet: Fleet, file: Path | None, by_share: bool, one: bool) -> Queues:
    from kailab.replay.queues import from_file, queues_for

    if file is not None:
        return from_file(trace, file)
    return queues_for(trace, fleet.summary().gpus, replay_options.mode(by_share, one))


def _told(found: Summary) -> Iterator[str]:
    from kailab.cli.table import render
    from kailab.lab.wording import elapsed
    from kailab.replay.summary import gpu_hours

    total, sums = found.total, found.balance
    jobs = f"{total.jobs}" if total.jobs == found.in_trace else f"The first {total.jobs} of {found.in_trace}"
    yield f"{jobs} jobs of {found.trace} ({found.form}) on {found.fleet}, {found.gpus} GPUs: {elapsed(found.seconds)} of lab time"
    for reason, number in found.left_out.items():
        yield f"Left out: {number} lines: {reason}"
    yield (
        f"GPUs allocated: {found.allocated:.2%} of the time; until the last arrival {found.allocated_arriving:.2%}. "
        f"{total.ended} jobs ended, {total.jobs - total.began} never began, {total.evictions} pods evicted"
    )
    yield (
        f"GPU-hours: {gpu_hours(sums.submitted):.3f} submitted = {gpu_hours(sums.done):.3f} done + {gpu_hours(sums.to_run):.3f} to do by what runs "
        f"+ {gpu_hours(sums.to_wait):.3f} by what waits; {gpu_hours(sums.held):.3f} held = done + {gpu_hours(sums.lost):.3f} lost "
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
    headers = ["JOBS", "BEGAN", "ENDED", "WAITED", "P50", "P99", "TOOK", "SLOWDOWN", "EVICTED", "GPU-HOURS", "LOST"]
    fair = {queue.name: queue for queue in found.fairness.queues}
    rows = []
    for row in found.queues:
        own = fair.get(row.name)
        rows.append([*_row(row), *((f"{own.held:.1f}", f"{own.fair:.1f}", f"{own.short:.2f}") if own else "---")])
    yield ""
    yield render(["QUEUE", *headers, "HELD", "FAIR", "SHORT"], [*rows, [*_row(found.total), *"---"]])
    yield ""
    yield render(["SIZE", *headers], [_row(row) for row in (*found.sizes, found.total)])


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


def _row(row: Row) -> list[str]:
    from kailab.cli.table import age

    def cell(spread: Spread | None, pick: Callable[[Spread], float], write: Callable[[float], str]) -> str:
        return "-" if spread is None else write(pick(spread))

    return [
        row.name,
        str(row.jobs),
        str(row.began),
        str(row.ended),
        cell(row.waited, lambda one: one.mean, age),
        cell(row.waited, lambda one: one.p50, age),
        cell(row.waited, lambda one: one.p99, age),
        cell(row.took, lambda one: one.mean, age),
        cell(row.slowdown, lambda one: one.mean, lambda number: f"{number:.2f}"),
        str(row.evictions),
        f"{row.asked:.1f}",
        f"{row.lost:.1f}",
    ]
