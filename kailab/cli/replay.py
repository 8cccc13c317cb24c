"""``replay``: replay the jobs of a trace in virtual time on one fleet, or on several clusters (``--clusters``), and report how long they waited. With files for jobs,
timeline, figure and metrics, evidence, and a file from which an interrupted replay continues (``--resume``).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kailab.cli import configurations, options, replay_options, terminal
from kailab.cli.options import TextOrJson

if TYPE_CHECKING:
    from kailab.evidence.recorder import Recorder
    from kailab.fleet import Fleet
    from kailab.replay.accounts import UnstartedJobs
    from kailab.replay.checkpoint import ReplayCheckpoint
    from kailab.replay.clusters.cluster_file import SiteDefaults
    from kailab.replay.clusters.figures import DispatchFigures
    from kailab.replay.clusters.journeys import DispatchedReplay
    from kailab.replay.costs import ReplayCost
    from kailab.replay.plan import ReplayPlan
    from kailab.replay.queues import TeamQueues
    from kailab.replay.run import CompletedReplay
    from kailab.replay.summary import Distribution, Summary, SummaryRow
    from kailab.replay.trace import Trace


HEADERS = ("JOBS", "BEGAN", "ENDED", "WAITED", "P50", "P99", "TOOK", "SLOWDOWN", "EVICTED", "GPU-HOURS", "LOST")


def jobs_line(total: SummaryRow, in_trace: int) -> str:
    """How many jobs it was; with a replay that was cut off not all of the trace."""
    from kailab.lab.wording import count

    return count(total.jobs, "job") if total.jobs == in_trace else f"The first {total.jobs} of {in_trace} jobs"


def left_out_lines(left_out: Mapping[str, int]) -> Iterator[str]:
    """``left_out``: lines of the trace that gave no job, by their reason."""
    from kailab.lab.wording import count

    for reason, number in left_out.items():
        yield f"Left out: {count(number, 'line')}: {reason}"


def never_began_lines(unbegun: Sequence[UnstartedJobs], cluster: str = "") -> Iterator[str]:
    """``cluster``: in which of several."""
    from kailab.lab.wording import count

    where = f" in {cluster}" if cluster else ""
    for one in unbegun:
        yield f"Never began{where}: {count(one.jobs, 'job')}, {one.reason}; {one.example}: {one.message}"


def row_cells(row: SummaryRow) -> list[str]:
    """Its name, and under each of ``HEADERS``."""
    from kailab.cli.table import format_span

    def cell(spread: Distribution | None, pick: Callable[[Distribution], float], write: Callable[[float], str]) -> str:
        return "-" if spread is None else write(pick(spread))

    return [
        row.name,
        str(row.jobs),
        str(row.began),
        str(row.ended),
        cell(row.waited, lambda one: one.mean, format_span),
        cell(row.waited, lambda one: one.p50, format_span),
        cell(row.waited, lambda one: one.p99, format_span),
        cell(row.took, lambda one: one.mean, format_span),
        cell(row.slowdown, lambda one: one.mean, lambda number: f"{number:.2f}"),
        str(row.evictions),
        f"{row.asked:.1f}",
        f"{row.lost:.1f}",
    ]


class ReplayOutputs(NamedTuple):
    """As far as asked for. ``every``: seconds between samples of ``series``, None if not said. ``others``: what else the command reads or writes, by how
    it is told."""

    jobs: Path | None
    timeline: Path | None
    plot: Path | None
    series: Path | None
    every: int | None
    others: Mapping[str, Path]

    def check(self, *, clusters: bool) -> None:
        """Before anything is replayed. ``clusters``: on several. Raises InputError."""
        from kailab.errors import InputError
        from kailab.replay import plotting, tables

        for path in filter(None, (self.jobs, self.timeline)):
            tables.check_target(path)
        if self.plot is not None:
            plotting.check_target(self.plot)
        if self.every is not None and self.series is None:
            raise InputError("--every: expected --series with it")
        if self.series is not None and not self.series.parent.is_dir():
            raise InputError(f"{self.series}: there is no folder {self.series.parent}")
        if self.series is not None and self.series.is_dir():
            raise InputError(f"{self.series}: it is a folder; expected a file's name")
        self._check_apart()
        for option, drawn in (("--plot", self.plot), ("--series", self.series)):
            if clusters and drawn is not None:
                raise InputError(f"{option}: not with --clusters; --timeline has what each cluster held over time")

    def _check_apart(self) -> None:
        """No file is written over another one."""
        from kailab.errors import InputError

        own = {"--jobs": self.jobs, "--timeline": self.timeline, "--plot": self.plot, "--series": self.series}
        taken = {path.resolve(): name for name, path in self.others.items()}
        for name, target in own.items():
            if target is None:
                continue
            other = taken.setdefault(target.resolve(), name)
            if other != name:
                raise InputError(f"{name} {target}: {other} is that file; expected another one")

    def write(self, done: CompletedReplay) -> None:
        """Raises InputError."""
        from kailab.evidence.metrics import figures, openmetrics
        from kailab.evidence.run import write_file
        from kailab.replay import plotting, tables

        if self.jobs is not None:
            tables.write(self.jobs, tables.JOBS, tables.job_rows(done))
        if self.timeline is not None:
            tables.write(self.timeline, tables.TIMELINE, tables.timeline_rows(done))
        if self.plot is not None:
            figures.save_figure(plotting.figure_of(done), self.plot)
        if self.series is not None and done.meter is not None:
            told = openmetrics.render_series(done.meter.series, done.opened, done.meter.every)
            write_file(self.series, told.encode())


def output_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say so, given to the command as ``files``."""

    @click.option("--jobs", type=options.PATH, help="Write a row for each job there: .csv or .parquet.")
    @click.option("--timeline", type=options.PATH, help="Write the GPUs held over time there: .csv or .parquet.")
    @click.option("--plot", type=options.PATH, help="Draw use and waits into a file: .png, .svg or .pdf.")
    @click.option("--series", type=options.PATH, help="Write metrics over time there, as OpenMetrics text.")
    @click.option(
        "--every",
        default="",
        show_default=False,
        help="With --series: so long between samples: 5m. Else a 300th of the time of arrivals.",
    )
    @functools.wraps(command)
    def with_files(
        *, jobs: Path | None, timeline: Path | None, plot: Path | None, series: Path | None, every: str, **given: Any
    ) -> None:
        seconds = replay_options.whole_seconds("--every", every)
        command(files=ReplayOutputs(jobs, timeline, plot, series, seconds, _other_files(given)), **given)

    return with_files


def _other_files(given: Mapping[str, Any]) -> dict[str, Path]:
    """What of a command's parameters is a file, by how it is told."""
    from kailab.scheduler.settings.policies import names_policy_file

    found = {}
    for parameter in click.get_current_context().command.params:
        path = given.get(parameter.name or "")
        if parameter.name == "fleet" and path:  # a name, or a file
            path = Path(path)
        if isinstance(path, Path):
            found[parameter.opts[0] if isinstance(parameter, click.Option) else f"the {parameter.name}"] = path
    for name in (*given.get("policies", ()), given.get("dispatch", "")):
        if names_policy_file(name):
            found[f"the policy {name}"] = Path(name.rpartition(":")[0])
    return found


@contextmanager
def keep_checkpoint(facts: Callable[[], Mapping[str, str]], file: Path | None) -> Iterator[ReplayCheckpoint | None]:
    """What keeps the replay in a file, if there is to be one, until the block ends well. ``facts``: what it is a replay of."""
    from kailab.cli import signals
    from kailab.errors import InputError
    from kailab.replay.checkpoint import ReplayCheckpoint

    if file is None:
        yield None
        return
    if not file.parent.is_dir():
        raise InputError(f"--resume {file}: there is no folder {file.parent}")
    with signals.defer_interrupts() as asked:
        keeper = ReplayCheckpoint(file, facts(), asked)
        with keeper.lock():
            try:
                yield keeper
            except KeyboardInterrupt:
                if file.exists():
                    terminal.notice(f"the replay is kept in {file}; the same command goes on from there")
                raise
            keeper.remove()


def write_evidence(recorders: Sequence[Recorder], trace: Trace, fleets: Sequence[Fleet], folder: Path) -> None:
    """Write it, and say where. Raises EvidenceError."""
    from kailab.replay import evidence

    run = evidence.write_evidence(recorders, trace, fleets, folder)
    terminal.notice(f"evidence: {run}; look at it: kailab report {run} --html FILE")


def replay_over_clusters(
    file: Path | None,
    trace: Trace,
    otherwise: SiteDefaults,
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
    from kailab.replay.clusters.cluster_file import dispatch_facts, read_sites
    from kailab.replay.clusters.figures import as_json, figures
    from kailab.replay.policies import RANDOM
    from kailab.replay.trace import describe_broken_lines
    from kailab.scheduler import SchedulerSettings

    assert file is not None, "one of a fleet and a file of clusters is given"
    jobs_file, timeline_file, folder = targets
    sites = read_sites(file, trace, otherwise)
    if otherwise.seed is not None and not sites.drawing:
        raise InputError(f"--seed is for the policy {RANDOM}; expected it in a cluster of {file}, or --policy {RANDOM}")
    trace = sites.trace
    for line in describe_broken_lines(trace):
        terminal.warn(line)
    # Clusters may share a file.
    for line in dict.fromkeys(line for site in sites.sites for line in site.queues.warnings):
        terminal.warn(line)
    for stranger in sites.strangers:
        terminal.warn(stranger)
    configurations.print_notices(
        site.plan.config for site in sites.sites if isinstance(site.plan.config, SchedulerSettings)
    )
    recorders = [Recorder(site.name) for site in sites.sites] if folder else []
    if folder:
        evidence.check_evidence(trace, lasting, folder)
        sites = sites.observed(recorders)
    with keep_checkpoint(lambda: dispatch_facts(sites, lasting), resume) as keeper:
        with terminal.progress_bars() as tell:
            done = dispatcher.dispatch(sites, lasting, tell, keeper)
        found = figures(done)
        # It is told even where what it is to be written to can't be.
        try:
            _write_tables(done, jobs_file, timeline_file)
            if folder:
                write_evidence(recorders, trace, [site.plan.fleet for site in sites.sites], folder)
        finally:
            terminal.say(
                json.dumps(as_json(found), indent=2)
                if output is TextOrJson.json
                else "\n".join(_clusters_summary_lines(found))
            )


def _write_tables(done: DispatchedReplay, jobs_file: Path | None, timeline_file: Path | None) -> None:
    from kailab.replay.clusters import journeys
    from kailab.replay.tables import write

    if jobs_file is not None:
        write(jobs_file, journeys.JOBS, journeys.job_rows(done))
    if timeline_file is not None:
        write(timeline_file, journeys.TIMELINE, journeys.timeline_rows(done))


def _clusters_summary_lines(found: DispatchFigures) -> Iterator[str]:
    from kailab.cli.table import render_table
    from kailab.lab.wording import elapsed

    yield from _clusters_head_lines(found, elapsed(found.seconds))
    money = [f"COST {found.currency}"] if found.currency else []
    waits = ["JOBS", "BEGAN", "ENDED", "WAITED", "P50", "P99"]
    yield ""
    yield render_table(
        ["CLUSTER", "GPUS", *waits, "CAME", "WENT", "HELD", "ALLOCATED", "MOVED IN", *money],
        [
            [
                one.name, str(one.gpus), *row_cells(one.row)[1:7], str(one.came), str(one.went), f"{one.held:.1f}", f"{one.allocated:.1%}", _format_bytes(one.bytes_in),
                *([_format_cost(one.cost)] if money else []),
            ]
            for one in found.clusters
        ],
    )  # fmt: skip
    yield ""
    yield render_table(
        ["QUEUE", "HOME", *waits, "AWAY", "AWAY HOURS", "HELD", "FAIR", "MOVED", *money],
        [
            [
                one.row.name, one.home or "-", *row_cells(one.row)[1:7], str(one.away), f"{one.away_hours:.1f}", f"{one.held:.1f}", f"{one.fair:.1f}", _format_bytes(one.moved),
                *([_format_cost(one.cost)] if money else []),
            ]
            for one in found.queues
        ],
    )  # fmt: skip
    yield ""
    yield render_table(["SIZE", *HEADERS], [row_cells(row) for row in (*found.sizes, found.total)])


def _clusters_head_lines(found: DispatchFigures, lab_time: str) -> Iterator[str]:
    from kailab.cli.table import format_span
    from kailab.lab.wording import count

    total = found.total
    jobs = jobs_line(total, found.in_trace)
    parameters = "".join(f", {name} {value}" for name, value in sorted(found.parameters.items()))
    yield (
        f"{jobs} of {found.trace} ({found.form}) over {count(len(found.clusters), 'cluster')} of {found.clusters_file}, {found.gpus} GPUs, dispatched by "
        f"{found.policy}{parameters}: {lab_time} of lab time"
    )
    yield from left_out_lines(found.left_out)
    yield (
        f"GPUs allocated: {found.allocated:.2%} of the time. {count(total.ended, 'job')} ended, {total.jobs - total.began} never began, "
        f"{count(total.evictions, 'pod')} evicted"
    )
    for one in found.clusters:
        yield from never_began_lines(one.unbegun, one.name)
    waiting = f", {found.with_dispatcher} never sent" if found.with_dispatcher else ""
    coming = f", {found.on_way} on their way" if found.on_way else ""
    back = f", {count(found.taken_back, 'time')} taken back from where they waited" if found.taken_back else ""
    yield f"Sent away from home: {count(found.away, 'job')}, {found.away_hours:.1f} GPU-hours{back}{waiting}{coming}. Mean latency to the cluster: {found.latency_ms:g} ms"
    if found.moved:
        yield f"Data moved: {_format_bytes(found.moved)}, for {found.move_cost:.2f} {found.currency}".rstrip()
    if found.cost is not None:
        done = "" if found.per_done is None else f"; {found.per_done:.2f} for each GPU-hour of work done"
        yield f"Cost: {found.cost:.2f} {found.currency} with the moving of data{done}"
    if found.missed is not None:
        yield f"The dispatcher's estimates of waits were wrong by {format_span(found.missed.mean)} in the mean, {format_span(found.missed.p99)} at the 99th percentile"
    if found.jain is not None:
        yield f"Fairness: Jain's index {found.jain:.4f} of GPU time held by fair share, queues over all clusters"


def _format_cost(amount: float | None) -> str:
    return "-" if amount is None else f"{amount:.2f}"


def _format_bytes(number: int) -> str:
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
@replay_options.replay_option_group
@click.option("--seed", type=click.IntRange(min=0), help="Of the policy random.")
@output_options
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
    files: ReplayOutputs,
    evidence_folder: Path | None,
    resume: Path | None,
    output: TextOrJson,
) -> None:
    """Replay the jobs of a trace in virtual time: as they arrived, in queues by their teams, on a fleet of fake GPUs, decided by the
    lab's own scheduler. Tells how long they waited, by queue and by size, and where the GPU time went. With --clusters over several."""
    from kailab.evidence.recorder import Recorder
    from kailab.model.prices import load_prices
    from kailab.replay.checkpoint import checkpoint_facts
    from kailab.replay.clusters.cluster_file import SiteDefaults
    from kailab.replay.fleets import replay_fleet
    from kailab.replay.plan import ReplayPlan
    from kailab.replay.policies import with_replay_policies

    replay_options.check_replay_options(queues, quota_by_share, one_queue, arrivals_only, checkpoint)
    lasting, interval = (
        replay_options.whole_seconds("--for", duration),
        replay_options.whole_seconds("--checkpoint", checkpoint),
    )
    files.check(clusters=clusters_file is not None)
    replay_options.check_clusters(clusters_file, fleet, dispatch)
    described = None if clusters_file else replay_fleet(fleet)
    read = _read_trace(trace, form, columns, skip_broken, queues, described)
    if described is None:
        mode = replay_options.queues_mode(queues, quota_by_share, one_queue)
        otherwise = SiteDefaults(mode, config, policies, prices, seed, interval, arrivals_only, dispatch, skip_broken)
        written = files.jobs, files.timeline, evidence_folder
        replay_over_clusters(clusters_file, read, otherwise, lasting, written, resume, output)
        return
    recorder = Recorder() if evidence_folder else None
    plan = ReplayPlan(
        trace=read,
        fleet=described,
        queues=_queues(read, described, queues, quota_by_share, one_queue),
        config=configurations.announce(with_replay_policies(config, policies, read, described, seed)),
        lasting=lasting,
        checkpoint=interval,
        endless=arrivals_only,
        prices=None if prices is None else load_prices(prices),
        metered=None if files.series is None else files.every or 0,
        observers=(recorder,) if recorder else (),
    )
    with keep_checkpoint(lambda: checkpoint_facts(plan), resume) as keeper:
        _carry_out(plan, keeper, files, recorder, evidence_folder, output)


def _carry_out(
    plan: ReplayPlan,
    keeper: ReplayCheckpoint | None,
    files: ReplayOutputs,
    recorder: Recorder | None,
    folder: Path | None,
    output: TextOrJson,
) -> None:
    from kailab.replay import evidence, run
    from kailab.replay.summary import as_json, summarise

    if folder:
        evidence.check_evidence(plan.trace, plan.lasting, folder)
    with terminal.progress_bars() as tell:
        done = run.replay(plan, tell, keeper)
    found = summarise(done)
    # It is told even where what it is to be written to can't be: a disk that is full does not take weeks of a replay with it.
    try:
        if recorder and folder:
            write_evidence([recorder], plan.trace, [plan.fleet], folder)
        files.write(done)
    finally:
        terminal.say(
            json.dumps(as_json(found), indent=2) if output is TextOrJson.json else "\n".join(_summary_lines(found))
        )


def _read_trace(
    trace: Path, form: str, columns: str, skip_broken: bool, queues: Path | None, fleet: Fleet | None
) -> Trace:
    """``fleet``: None where each cluster has its own, and queues of its own."""
    from kailab.replay.queues import priorities_of
    from kailab.replay.trace import describe_broken_lines, read_trace

    known = None if fleet is None else priorities_of(queues, fleet)
    read = read_trace(trace, form, replay_options.parse_columns(columns), skip_broken=skip_broken, priorities=known)
    # Over clusters more lines may turn out to be broken: all are told then.
    if fleet is not None:
        for line in describe_broken_lines(read):
            terminal.warn(line)
    return read


def _queues(trace: Trace, fleet: Fleet, file: Path | None, by_share: bool, one: bool) -> TeamQueues:
    from kailab.replay.queues import from_file, queues_for

    if file is not None:
        found = from_file(trace, file)
        for line in found.warnings:
            terminal.warn(line)
        return found
    return queues_for(trace, fleet.summary().gpus, replay_options.quota_mode(by_share, one))


def _summary_lines(found: Summary) -> Iterator[str]:
    from kailab.cli.table import render_table
    from kailab.lab.wording import count, elapsed
    from kailab.replay.summary import gpu_hours

    total, sums = found.total, found.balance
    jobs = jobs_line(total, found.in_trace)
    yield f"{jobs} of {found.trace} ({found.form}) on {found.fleet}, {found.gpus} GPUs: {elapsed(found.seconds)} of lab time"
    yield from left_out_lines(found.left_out)
    yield (
        f"GPUs allocated: {found.allocated:.2%} of the time; until the last arrival {found.allocated_arriving:.2%}. "
        f"{count(total.ended, 'job')} ended, {total.jobs - total.began} never began, {count(total.evictions, 'pod')} evicted"
    )
    yield from never_began_lines(found.unbegun)
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
        yield from _cost_lines(found.costs)
    fair = {queue.name: queue for queue in found.fairness.queues}
    rows = []
    for row in found.queues:
        own = fair.get(row.name)
        rows.append([*row_cells(row), *((f"{own.held:.1f}", f"{own.fair:.1f}", f"{own.short:.2f}") if own else "---")])
    yield ""
    yield render_table(["QUEUE", *HEADERS, "HELD", "FAIR", "SHORT"], [*rows, [*row_cells(found.total), *"---"]])
    yield ""
    yield render_table(["SIZE", *HEADERS], [row_cells(row) for row in (*found.sizes, found.total)])


def _cost_lines(costs: ReplayCost) -> Iterator[str]:
    from kailab.cli.table import render_table

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
    yield render_table(["MODEL", "GPUS", "HOURS HELD", "IDLE", f"COST {costs.currency}", "KWH"], rows)
    yield ""
    yield render_table(
        ["QUEUE", "HOURS HELD", f"COST {costs.currency}"],
        [[one.name, f"{one.used:.1f}", f"{one.cost:.2f}"] for one in costs.queues],
    )
