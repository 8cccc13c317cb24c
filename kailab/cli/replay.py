"""``replay``: replay the jobs of a trace in virtual time on one fleet, or on several clusters (``--clusters``), and report waiting times. Optional
outputs: jobs, timeline, figure, metrics, evidence, and a resume file from which an interrupted replay continues (``--resume``).
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kailab.cli import configurations, options, replay_options, signals, terminal
from kailab.cli.options import TextOrJson
from kailab.cli.replay_options import ReplayOptions
from kailab.cli.table import format_float, format_span, render_table
from kailab.errors import InputError
from kailab.evidence.wording import count, elapsed

if TYPE_CHECKING:
    from kailab.evidence.recorder import Recorder
    from kailab.fleet.fleet import Fleet
    from kailab.replay.accounts import UnstartedJobs
    from kailab.replay.clusters.cluster_file import SiteDefaults
    from kailab.replay.clusters.figures import DispatchFigures
    from kailab.replay.clusters.journeys import DispatchedReplay
    from kailab.replay.costs import ReplayCost
    from kailab.replay.plan import ReplayPlan
    from kailab.replay.queues import TeamQueues
    from kailab.replay.resume_file import ResumeFile
    from kailab.replay.run import CompletedReplay
    from kailab.replay.summary import Distribution, Summary, SummaryRow
    from kailab.replay.trace import Trace


HEADERS = ("JOBS", "BEGAN", "ENDED", "WAITED", "P50", "P99", "TOOK", "SLOWDOWN", "EVICTED", "GPU-HOURS", "LOST")


def jobs_line(total: SummaryRow, in_trace: int) -> str:
    """The number of jobs; a replay that was cut off has fewer than the trace."""
    return count(total.jobs, "job") if total.jobs == in_trace else f"The first {total.jobs} of {in_trace} jobs"


def left_out_lines(left_out: Mapping[str, int]) -> Iterator[str]:
    """``left_out``: number of lines of the trace that are no jobs, by reason."""
    for reason, number in left_out.items():
        yield f"Left out: {count(number, 'line')}: {reason}"


def never_began_lines(unbegun: Sequence[UnstartedJobs], cluster: str = "") -> Iterator[str]:
    """``cluster``: the cluster, if there are several."""
    where = f" in {cluster}" if cluster else ""
    for jobs in unbegun:
        yield f"Never began{where}: {count(jobs.jobs, 'job')}, {jobs.reason}; {jobs.example}: {jobs.message}"


def row_cells(row: SummaryRow) -> list[str]:
    """The cells of a row: its name, then one per entry of ``HEADERS``."""

    def cell(spread: Distribution | None, pick: Callable[[Distribution], float], write: Callable[[float], str]) -> str:
        return "-" if spread is None else write(pick(spread))

    return [
        row.name,
        str(row.jobs),
        str(row.began),
        str(row.ended),
        cell(row.waited, lambda spread: spread.mean, format_span),
        cell(row.waited, lambda spread: spread.p50, format_span),
        cell(row.waited, lambda spread: spread.p99, format_span),
        cell(row.took, lambda spread: spread.mean, format_span),
        cell(row.slowdown, lambda spread: spread.mean, format_float),
        str(row.evictions),
        format_float(row.asked),
        format_float(row.lost),
    ]


class ReplayOutputs(NamedTuple):
    """Files that the command writes; None: not requested. ``every``: seconds between samples of ``series``, None for the default. ``others``: other
    files that the command reads or writes, by their names in messages."""

    jobs: Path | None
    timeline: Path | None
    plot: Path | None
    series: Path | None
    every: int | None
    others: Mapping[str, Path]

    def check(self, *, clusters: bool) -> None:
        """Check all files before the replay. ``clusters``: there are several clusters. Raises InputError."""
        from kailab.replay import plotting, tables

        for path in filter(None, (self.jobs, self.timeline)):
            tables.check_table_target(path)
        if self.plot is not None:
            plotting.check_figure_target(self.plot)
        if self.every is not None and self.series is None:
            raise InputError("--every: needs --series")
        if self.series is not None and not self.series.parent.is_dir():
            raise InputError(f"{self.series}: there is no folder {self.series.parent}")
        if self.series is not None and self.series.is_dir():
            raise InputError(f"{self.series}: is a folder; expected a file name")
        self._check_apart()
        for option, drawn in (("--plot", self.plot), ("--series", self.series)):
            if clusters and drawn is not None:
                raise InputError(
                    f"{option}: can't be used with --clusters; --timeline writes the GPUs of each cluster over time"
                )

    def _check_apart(self) -> None:
        """Check that all files differ. Raises InputError."""
        outputs = {"--jobs": self.jobs, "--timeline": self.timeline, "--plot": self.plot, "--series": self.series}
        # Unlike Path.resolve, realpath accepts a link to itself; opening such a file then reports it.
        names = {os.path.realpath(path): name for name, path in self.others.items()}
        for name, target in outputs.items():
            if target is None:
                continue
            other = names.setdefault(os.path.realpath(target), name)
            if other != name:
                raise InputError(f"{name} {target}: is the same file as {other}; expected another one")

    def write(self, completed: CompletedReplay) -> None:
        """Write the files, under marked names if the replay has faults. Raises InputError."""
        from kailab.evidence.run import write_file
        from kailab.replay import tables

        def target(path: Path) -> Path:
            return tables.marked(path, completed.faults)

        if self.jobs is not None:
            tables.write_table_file(target(self.jobs), tables.JOBS, tables.job_rows(completed))
        if self.timeline is not None:
            tables.write_table_file(target(self.timeline), tables.TIMELINE, tables.timeline_rows(completed))
        if self.plot is not None:
            from kailab.evidence.metrics import figures
            from kailab.replay import plotting

            figures.save_figure(plotting.figure_of(completed), target(self.plot))
        if self.series is not None and completed.meter is not None:
            from kailab.evidence.metrics import openmetrics

            text = openmetrics.render_series(completed.meter.series, completed.opened, completed.meter.every)
            write_file(target(self.series), text.encode())


def output_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of output files to a command, which gets them as ``files``."""

    @options.path_option("--jobs", help="Write a row per job to this file: .csv or .parquet.")
    @options.path_option("--timeline", help="Write the number of held GPUs over time to this file: .csv or .parquet.")
    @options.path_option("--plot", help="Draw use and waiting times into this file: .png, .svg or .pdf.")
    @options.path_option("--series", help="Write metrics over time to this file, as OpenMetrics text.")
    @options.text_option(
        "--every",
        help="With --series: interval between samples: 5m. Default: 1/300 of the time from the first to the last arrival.",
    )
    @functools.wraps(command)
    def with_files(
        *, jobs: Path | None, timeline: Path | None, plot: Path | None, series: Path | None, every: str, **given: Any
    ) -> None:
        seconds = replay_options.whole_seconds("--every", every)
        command(files=ReplayOutputs(jobs, timeline, plot, series, seconds, _other_files()), **given)

    return with_files


def _other_files() -> dict[str, Path]:
    """The files among the present command's parameters that are no outputs of these, by their names in messages."""
    from kailab.scheduler.settings.policies import names_policy_file

    files, context = {}, click.get_current_context()
    parameters = {name: value for name, value in context.params.items() if name not in ReplayOutputs._fields}
    for parameter in context.command.params:
        path = parameters.get(parameter.name or "")
        if parameter.name == "fleet" and path:  # a name, or a file
            path = Path(path)
        if isinstance(path, Path):
            files[parameter.opts[0] if isinstance(parameter, click.Option) else f"the {parameter.name}"] = path
    for name in (*parameters.get("policies", ()), parameters.get("dispatch", "")):
        if names_policy_file(name):
            files[f"the policy {name}"] = Path(name.rpartition(":")[0])
    return files


@contextmanager
def keep_resume_file(facts: Callable[[], Mapping[str, str]], file: Path | None) -> Iterator[ResumeFile | None]:
    """Yield the resume file ``file``, None without one. It is deleted if the block raises nothing. ``facts``: identifies the replay."""
    from kailab.replay.resume_file import ResumeFile

    if file is None:
        yield None
        return
    if not file.parent.is_dir():
        raise InputError(f"--resume {file}: there is no folder {file.parent}")
    with signals.defer_interrupts() as interrupted:
        resume_file = ResumeFile(file, facts(), interrupted)
        with resume_file.lock():
            try:
                yield resume_file
            except KeyboardInterrupt:
                if file.exists():
                    terminal.notice(f"the replay is saved in {file}; the same command continues it")
                raise
            resume_file.remove()


def report_evidence(recorders: Sequence[Recorder], trace: Trace, fleets: Sequence[Fleet], folder: Path) -> None:
    """Write the evidence of a replay and report its folder. Raises EvidenceError."""
    from kailab.replay import evidence

    run = evidence.write_evidence(recorders, trace, fleets, folder)
    terminal.notice(f"evidence: {run}; view it: kailab report {run} --html FILE")


def replay_over_clusters(
    file: Path | None,
    trace: Trace,
    defaults: SiteDefaults,
    limit: int | None,
    targets: tuple[Path | None, Path | None, Path | None],
    resume: Path | None,
    output: TextOrJson,
    *,
    estimated: bool,
) -> None:
    """Run a replay over several clusters and print its results. ``targets``: files for jobs and timeline, and a folder for evidence. ``resume``: the
    checkpoint file. ``estimated``: run times were estimated by the seed."""
    from msgspec import to_builtins

    from kailab.evidence.recorder import Recorder
    from kailab.replay import evidence
    from kailab.replay.accounts import raise_faults
    from kailab.replay.clusters import dispatcher
    from kailab.replay.clusters.cluster_file import dispatch_facts, read_sites
    from kailab.replay.clusters.figures import figures
    from kailab.replay.policies import RANDOM
    from kailab.replay.trace import describe_broken_lines
    from kailab.scheduler.settings.config_file import SchedulerSettings

    assert file is not None, "one of a fleet and a file of clusters is given"
    jobs_file, timeline_file, folder = targets
    sites = read_sites(file, trace, defaults)
    if defaults.seed is not None and not sites.drawing and not estimated:
        raise InputError(
            f"--seed applies to the policy {RANDOM}; expected it in a cluster of {file}, or --policy {RANDOM}"
        )
    trace = sites.trace
    for line in describe_broken_lines(trace):
        terminal.warn(line)
    # Clusters may share a file.
    for line in dict.fromkeys(line for site in sites.sites for line in site.queues.warnings):
        terminal.warn(line)
    for warning in sites.warnings:
        terminal.warn(warning)
    configurations.print_notices(
        site.plan.config for site in sites.sites if isinstance(site.plan.config, SchedulerSettings)
    )
    recorders = [Recorder(site.name) for site in sites.sites] if folder else []
    if folder:
        evidence.check_evidence(trace, limit, folder)
        sites = sites.observed(recorders)
    with keep_resume_file(lambda: dispatch_facts(sites, limit), resume) as resume_file:
        with terminal.progress_bars() as tell:
            replayed = dispatcher.dispatch(sites, limit, tell, resume_file)
        results = figures(replayed)
        # The results are printed even if a file can't be written.
        try:
            _write_tables(replayed, jobs_file, timeline_file)
            if folder:
                report_evidence(recorders, trace, [site.plan.fleet for site in sites.sites], folder)
        finally:
            terminal.say(
                json.dumps(to_builtins(results), indent=2)
                if output is TextOrJson.json
                else "\n".join(_clusters_summary_lines(results))
            )
        raise_faults(results.faults)


def _write_tables(done: DispatchedReplay, jobs_file: Path | None, timeline_file: Path | None) -> None:
    from kailab.replay.clusters import journeys
    from kailab.replay.tables import marked, write_table_file

    if jobs_file is not None:
        write_table_file(marked(jobs_file, done.faults), journeys.JOBS, journeys.dispatched_job_rows(done))
    if timeline_file is not None:
        write_table_file(marked(timeline_file, done.faults), journeys.TIMELINE, journeys.cluster_timeline_rows(done))


def unreliable_mark(faults: Sequence[str]) -> Iterator[str]:
    """The mark above figures that are not to be relied on."""
    for fault in faults:
        yield f"INVALID, the replay does not balance: {fault}"
    if faults:
        yield "The figures below are for finding the defect; files are marked .unbalanced"


def _clusters_summary_lines(results: DispatchFigures) -> Iterator[str]:
    yield from unreliable_mark(results.faults)
    yield from _clusters_head_lines(results, elapsed(results.seconds))
    money = [f"COST {results.currency}"] if results.currency else []
    waits = ["JOBS", "BEGAN", "ENDED", "WAITED", "P50", "P99"]
    yield ""
    yield render_table(
        ["CLUSTER", "GPUS", *waits, "CAME", "WENT", "HELD", "ALLOCATED", "MOVED IN", *money],
        [
            [
                item.name, str(item.gpus), *row_cells(item.row)[1:7], str(item.came), str(item.went), format_float(item.held), f"{item.allocated:.2%}", _format_bytes(item.bytes_in),
                *([_format_cost(item.cost)] if money else []),
            ]
            for item in results.clusters
        ],
    )  # fmt: skip
    yield ""
    yield render_table(
        ["QUEUE", "HOME", *waits, "AWAY", "AWAY HOURS", "HELD", "FAIR", "MOVED", *money],
        [
            [
                item.row.name, item.home or "-", *row_cells(item.row)[1:7], str(item.away), format_float(item.away_hours), format_float(item.held), format_float(item.fair), _format_bytes(item.moved),
                *([_format_cost(item.cost)] if money else []),
            ]
            for item in results.queues
        ],
    )  # fmt: skip
    yield ""
    yield render_table(["SIZE", *HEADERS], [row_cells(row) for row in (*results.sizes, results.total)])


def _clusters_head_lines(results: DispatchFigures, lab_time: str) -> Iterator[str]:
    total = results.total
    jobs = jobs_line(total, results.in_trace)
    parameters = "".join(f", {name} {value}" for name, value in sorted(results.parameters.items()))
    yield (
        f"{jobs} of {results.trace} ({results.form}) over {count(len(results.clusters), 'cluster')} of {results.clusters_file}, {results.gpus} GPUs, dispatched by "
        f"{results.policy}{parameters}: {lab_time} of lab time"
    )
    yield from left_out_lines(results.left_out)
    yield (
        f"GPUs allocated: {results.allocated:.2%} of the time. {count(total.ended, 'job')} ended, {total.jobs - total.began} never began, "
        f"{count(total.evictions, 'pod')} evicted"
    )
    for cluster in results.clusters:
        yield from never_began_lines(cluster.unbegun, cluster.name)
    waiting = f", {results.with_dispatcher} never sent" if results.with_dispatcher else ""
    on_way = f", {results.on_way} on their way" if results.on_way else ""
    taken_back = (
        f", {count(results.taken_back, 'time')} taken back from where they waited" if results.taken_back else ""
    )
    yield f"Sent away from home: {count(results.away, 'job')}, {results.away_hours:.1f} GPU-hours{taken_back}{waiting}{on_way}. Mean latency to the cluster: {results.latency_ms:g} ms"
    if results.moved:
        yield f"Data moved: {_format_bytes(results.moved)}, for {results.move_cost:.2f} {results.currency}".rstrip()
    if results.cost is not None:
        done = "" if results.per_done is None else f"; {results.per_done:.2f} for each GPU-hour of work done"
        yield f"Cost: {results.cost:.2f} {results.currency} with the moving of data{done}"
    if results.missed is not None:
        yield f"The dispatcher's estimates of waits were wrong by {format_span(results.missed.mean)} in the mean, {format_span(results.missed.p99)} at the 99th percentile"
    if results.jain is not None:
        yield f"Fairness: Jain's index {results.jain:.4f} of GPU time held by fair share, queues over all clusters"


def _format_cost(amount: float | None) -> str:
    return "-" if amount is None else f"{amount:.2f}"


def _format_bytes(number: int) -> str:
    """Format a number of bytes in decimal units, as networks and their prices use.

    >>> _format_bytes(0), _format_bytes(1_500_000_000), _format_bytes(2 * 2**40)
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
@options.text_option("--fleet", help="Fleet: a name, a file, or openb's list of nodes (.csv).")
@options.path_option(
    "--clusters", "clusters_file", help="Replay over the clusters of this file instead of one fleet (docs/clusters.md)."
)
@options.text_option("--dispatch", help="With --clusters: dispatch policy that replaces that of the file.")
@replay_options.replay_option_group
@options.path_option("--failures", help="Nodes that fail and are repaired: a CSV file with node, at and seconds.")
@options.path_option("--speeds", help="Speeds of jobs by GPU model and spread: a CSV file with model, nodes and speed.")
@options.path_option(
    "--services",
    help="Inference services whose number of replicas follows the time of day: a CSV file (docs/replay.md).",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    help="Seed of the random numbers of --estimates and of the policy named random.",
)
@output_options
@options.path_option(
    "--evidence",
    "evidence_folder",
    help="Write evidence to this folder, as a test does, for `kailab report` and `kailab evidence`.",
)
@options.path_option(
    "--resume", help="Save the replay to this file each minute and at Ctrl-C; the same command continues it."
)
@options.output
def replay(
    trace: Path,
    fleet: str,
    clusters_file: Path | None,
    dispatch: str,
    chosen: ReplayOptions,
    failures: Path | None,
    speeds: Path | None,
    services: Path | None,
    seed: int | None,
    files: ReplayOutputs,
    evidence_folder: Path | None,
    resume: Path | None,
    output: TextOrJson,
) -> None:
    """Replay the jobs of a trace in virtual time: at their arrival times, in a queue per team, on a fleet of fake GPUs, with kailab's
    scheduler. The report has waiting times by queue and by job size, and the use of the GPU time. With --clusters, jobs are dispatched to
    several clusters."""
    from kailab.evidence.recorder import Recorder
    from kailab.model.prices import load_prices
    from kailab.replay.clusters.cluster_file import SiteDefaults
    from kailab.replay.estimates import with_estimates
    from kailab.replay.failures import read_failures
    from kailab.replay.fleets import replay_fleet
    from kailab.replay.plan import ReplayPlan
    from kailab.replay.policies import uses_random_numbers, with_replay_policies
    from kailab.replay.resume_file import resume_facts
    from kailab.replay.services import beyond_quotas, read_services
    from kailab.replay.speeds import read_speeds

    chosen.check()
    seconds = chosen.seconds()
    limit, interval = seconds.get("for"), seconds.get("checkpoint")
    save_seconds, restart_seconds = seconds.get("checkpointCost", 0), seconds.get("restart")
    files.check(clusters=clusters_file is not None)
    replay_options.check_clusters(clusters_file, fleet, dispatch)
    if services is not None and clusters_file is not None:
        raise InputError("--services: can't be used with --clusters; expected --fleet")
    if speeds is not None and (clusters_file is not None or chosen.arrivals_only):
        other = (
            "--clusters, whose dispatcher estimates ends" if clusters_file else "--arrivals-only, where jobs never end"
        )
        raise InputError(f"--speeds: can't be used with {other}; leave out one of them")
    if clusters_file is not None and failures is not None:
        raise InputError("--failures: can't be used with --clusters, whose nodes may share names; expected --fleet")
    fleet_described = None if clusters_file else replay_fleet(fleet)
    trace_jobs = with_estimates(_read_trace(trace, chosen, fleet_described), chosen.estimates, seed)
    # Estimates are drawn by the seed too, so it needs no policy that takes one.
    for_policies = seed if chosen.estimates is None or uses_random_numbers(chosen.policies) else None
    if fleet_described is None:
        defaults = SiteDefaults(
            chosen.queues_mode, chosen.config, chosen.policies, chosen.prices, seed, interval, chosen.arrivals_only, dispatch, chosen.skip_broken,
            save_seconds, restart_seconds,
        )  # fmt: skip
        written = files.jobs, files.timeline, evidence_folder
        replay_over_clusters(
            clusters_file, trace_jobs, defaults, limit, written, resume, output, estimated=chosen.estimates is not None
        )
        return
    recorder = Recorder() if evidence_folder else None
    team_queues = _queues(trace_jobs, fleet_described, chosen)
    served = () if services is None else read_services(services, team_queues.leaves, team_queues.class_names)
    for line in beyond_quotas(served, team_queues):
        terminal.warn(line)
    plan = ReplayPlan(
        trace=trace_jobs,
        fleet=fleet_described,
        queues=team_queues,
        config=configurations.announce(
            with_replay_policies(chosen.config, chosen.policies, trace_jobs, fleet_described, for_policies)
        ),
        lasting=limit,
        checkpoint=interval,
        saving=save_seconds,
        restart=restart_seconds,
        failures=() if failures is None else read_failures(failures, fleet_described),
        speeds=None if speeds is None else read_speeds(speeds, fleet_described, trace_jobs),
        services=served,
        endless=chosen.arrivals_only,
        prices=None if chosen.prices is None else load_prices(chosen.prices),
        metered=None if files.series is None else files.every or 0,
        observers=(recorder,) if recorder else (),
    )
    with keep_resume_file(lambda: resume_facts(plan), resume) as saved:
        _run(plan, saved, files, recorder, evidence_folder, output)


def _run(
    plan: ReplayPlan,
    resume_file: ResumeFile | None,
    files: ReplayOutputs,
    recorder: Recorder | None,
    folder: Path | None,
    output: TextOrJson,
) -> None:
    from msgspec import to_builtins

    from kailab.replay import evidence, run
    from kailab.replay.accounts import raise_faults
    from kailab.replay.summary import summarise

    if folder:
        evidence.check_evidence(plan.trace, plan.lasting, folder)
    with terminal.progress_bars() as tell:
        completed = run.replay(plan, tell, resume_file)
    summary = summarise(completed)
    # The results are printed even if a file can't be written: a full disk must not lose a long replay.
    try:
        if recorder and folder:
            report_evidence([recorder], plan.trace, [plan.fleet], folder)
        files.write(completed)
    finally:
        terminal.say(
            json.dumps(to_builtins(summary), indent=2)
            if output is TextOrJson.json
            else "\n".join(_summary_lines(summary))
        )
    raise_faults(summary.faults)


def _read_trace(trace: Path, chosen: ReplayOptions, fleet: Fleet | None) -> Trace:
    """``fleet``: None if each cluster has its own fleet and queues."""
    from kailab.replay.queues import priorities_of
    from kailab.replay.trace import describe_broken_lines, read_trace

    jobs = read_trace(
        trace,
        chosen.form,
        replay_options.parse_columns(chosen.columns),
        skip_broken=chosen.skip_broken,
        priorities=None if fleet is None else priorities_of(chosen.queues, fleet),
        arrivals_only=chosen.arrivals_only,
    )
    # With clusters, more lines may turn out to be broken later; all are reported then.
    if fleet is not None:
        for line in describe_broken_lines(jobs):
            terminal.warn(line)
    return jobs


def _queues(trace: Trace, fleet: Fleet, chosen: ReplayOptions) -> TeamQueues:
    from kailab.replay.fleets import counted_gpus
    from kailab.replay.queues import from_file, queues_for

    if chosen.queues is None:
        return queues_for(trace, counted_gpus(fleet, trace), chosen.queues_mode)
    queues = from_file(trace, chosen.queues)
    for line in queues.warnings:
        terminal.warn(line)
    return queues


def _summary_lines(summary: Summary) -> Iterator[str]:
    from kailab.replay.summary import gpu_hours

    total, sums = summary.total, summary.balance
    yield from unreliable_mark(summary.faults)
    jobs = jobs_line(total, summary.in_trace)
    yield f"{jobs} of {summary.trace} ({summary.form}) on {summary.fleet}, {count(summary.gpus, 'GPU')}: {elapsed(summary.seconds)} of lab time"
    yield from left_out_lines(summary.left_out)
    yield (
        f"GPUs allocated: {summary.allocated:.2%} of the time; until the last arrival {summary.allocated_arriving:.2%}. "
        f"{count(total.ended, 'job')} ended, {total.jobs - total.began} never began, {count(total.evictions, 'pod')} evicted"
    )
    if summary.failed_nodes:
        yield f"Nodes failed {count(summary.failed_nodes, 'time')} and ended {count(summary.failed_pods, 'pod')} of these"
    if summary.attempts:
        yield f"{count(summary.attempts, 'pod')} ended with an attempt that failed in the trace; the job then waited anew"
    yield from never_began_lines(summary.unbegun)
    asked = f"{gpu_hours(sums.done):.3f} done, of work without an end"
    if not sums.endless:
        asked = (
            f"{gpu_hours(sums.submitted):.3f} submitted = {gpu_hours(sums.done):.3f} done + {gpu_hours(sums.to_run):.3f} to do by what runs "
            f"+ {gpu_hours(sums.to_wait):.3f} by what waits"
        )
    yield (
        f"GPU-hours: {asked}; {gpu_hours(sums.held):.3f} held = done + {gpu_hours(sums.lost):.3f} lost "
        f"+ {gpu_hours(sums.overhead):.3f} starting and leaving"
        + (f" + {gpu_hours(sums.slower):.3f} slower than in the trace" if sums.slower > 0 else "")
        + (f" - {gpu_hours(-sums.slower):.3f} faster than in the trace" if sums.slower < 0 else "")
    )
    for service in summary.services:
        part = service.served / service.wanted if service.wanted else 1.0
        yield f"Service {service.name}: {service.served:.1f} of {service.wanted:.1f} wanted replica-hours served ({part:.2%})"
    if total.evictions:
        lost = ", ".join(f"{hours:.3f} ({name})" for name, hours in summary.lost_with_checkpoints.items())
        yield f"Goodput: {summary.goodput:.2%} of the GPU time held. Lost with work saved so often: {lost}"
    if summary.fairness.jain is not None:
        yield f"Fairness: Jain's index {summary.fairness.jain:.4f} of GPU time held by fair share"
    if summary.fragmentation is not None:
        parts = summary.fragmentation
        yield f"Fragmentation (FGD's): {parts.of_all:.2%} of all GPUs, {parts.of_free:.2%} of the free ones; at the end {parts.last_of_all:.2%}"
    if summary.costs is not None:
        yield from _cost_lines(summary.costs)
    fair = {queue.name: queue for queue in summary.fairness.queues}
    rows = []
    for row in summary.queues:
        share = fair.get(row.name)
        rows.append([*row_cells(row), *(map(format_float, (share.held, share.fair, share.short)) if share else "---")])
    yield ""
    yield render_table(["QUEUE", *HEADERS, "HELD", "FAIR", "SHORT"], [*rows, [*row_cells(summary.total), *"---"]])
    yield ""
    yield render_table(["SIZE", *HEADERS], [row_cells(row) for row in (*summary.sizes, summary.total)])


def _cost_lines(costs: ReplayCost) -> Iterator[str]:
    done = "" if costs.per_done is None else f"; {costs.per_done:.2f} for each GPU-hour of work done"
    energy = "unknown, because the prices give no power" if costs.kwh is None else f"{format_float(costs.kwh)} kWh"
    yield f"Cost: {costs.cost:.2f} {costs.currency}, {costs.idle_cost:.2f} of it for GPUs that nobody held{done}. Energy: {energy}"
    rows = [
        [
            item.model or "-",
            str(item.gpus),
            format_float(item.used),
            format_float(item.idle),
            f"{item.cost:.2f}",
            "-" if item.kwh is None else format_float(item.kwh),
        ]
        for item in costs.models
    ]
    yield ""
    yield render_table(["MODEL", "GPUS", "HOURS HELD", "IDLE", f"COST {costs.currency}", "KWH"], rows)
    yield ""
    yield render_table(
        ["QUEUE", "HOURS HELD", f"COST {costs.currency}"],
        [[item.name, format_float(item.used), f"{item.cost:.2f}"] for item in costs.queues],
    )
