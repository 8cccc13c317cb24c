"""The command line of `python -m checks`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kailab.cli import options, signals, terminal
from kailab.cli.error_messages import ReportingGroup
from kailab.cli.options import TextOrJson

if TYPE_CHECKING:
    from checks.report import Report, Result


_paths = click.argument("paths", type=options.PATH, nargs=-1, help="Files or folders; default: those in KAILAB_SHARED.")
_expression = click.option(
    "-k", "expression", default="", help="Only cases whose name matches, as in pytest: 'gang and not mig'."
)
_verbose = click.option("--verbose", "-v", is_flag=True, help="Show every difference, not only the first.")
_file = click.argument("file", type=options.PATH, required=False, help="The file; default: the one in KAILAB_SHARED.")
CLUSTERS = 100
"""The default number of clusters of a hunt."""

_seed = click.option("--seed", type=click.IntRange(min=0), default=0, help="The first seed; each further one adds 1.")
_areas = click.option(
    "--area",
    "areas",
    multiple=True,
    help="The area that clusters are drawn from; may be repeated.",
    show_default="small",
)
_workers = click.option("--workers", type=click.IntRange(min=1), default=1, help="Processes that share the work.")


@click.group(
    "checks", cls=ReportingGroup, context_settings={"help_option_names": ["-h", "--help"], "show_default": True}
)
def app() -> None:
    """Compare kailab's decisions with those of KAI and of other schedulers, and with invariants. Exit code 1 if
    anything differs.
    """


def main() -> None:
    """The entry point of `python -m checks`."""
    app(prog_name="python -m checks")


@app.command()
@_paths
@_expression
@options.scheduler
@click.option(
    "--backend", default="embedded", help="The backend: embedded, controlplane, kind, vcluster or kubeconfig."
)
@click.option(
    "--labs",
    type=click.IntRange(min=1),
    show_default="1",
    help="Parallel labs, each with its own cluster (backends controlplane, kind).",
)
@options.where
@options.output
def scenarios(
    paths: tuple[Path, ...],
    expression: str,
    scheduler: str,
    backend: str,
    labs: int | None,
    kubeconfig: Path | None,
    context: str | None,
    components: Path | None,
    kubernetes: str | None,
    kai: Path | None,
    kai_crds: Path | None,
    output: TextOrJson,
) -> None:
    """Run manifests in steps and compare each step with the outcome of a real KAI."""
    from checks.recorded.live_clusters import run_live
    from checks.recorded.scenarios import read_scenarios, run_recorded_scenario
    from checks.recorded.selection import matching
    from checks.recorded_files import shared_folder
    from checks.report import Report
    from kailab.undertest.selection import check_lab

    where = {
        "kubeconfig": kubeconfig, "context": context, "components": components, "kubernetes": kubernetes, "kai": kai,
        "kai_crds": kai_crds,
    }  # fmt: skip
    check_lab(backend, scheduler, {**where, "labs": labs})
    matches = matching(expression)
    available = read_scenarios(paths or [shared_folder() / "scenarios"])
    chosen = [scenario for scenario in available if matches(scenario.name)]
    _require_any(chosen)
    report = Report("scenarios")
    results: Iterator[Result]
    if backend == "embedded":
        results = (run_recorded_scenario(scenario, scheduler) for scenario in chosen)
    else:
        results = run_live(chosen, scheduler, backend, labs or 1, where, terminal.notice)
    with terminal.progress_bars() as tell:
        for number, result in enumerate(results, 1):
            tell(result.id, number, len(chosen))
            report.results.append(result)
            if output is TextOrJson.text:
                _print_result(result)
    _finish(report, output, f"{report.passed} passed, {report.failed} failed")


@app.command()
@_paths
@_expression
@click.option("--suite", default="", help="Only suites that begin with this.")
@click.option("--tag", multiple=True, help="Only cases with this tag; may be repeated.")
@click.option("--level", default="nodes", help="Random cases: compare by queues, status, nodes, rounds or operations.")
@click.option("--loading", is_flag=True, help="Only compare the loaded cases with KAI's initial state; decide nothing.")
@click.option("--imitate-faults", is_flag=True, help="Decide as KAI does even where it breaks its own rules.")
@click.option(
    "--name-faults", is_flag=True, help="Decide both ways, and name the faults of KAI behind each difference."
)
@click.option("--by", "groupings", default="area", help="Count agreement by area, by size, or by both: area,size.")
@_verbose
@options.output
def cases(
    paths: tuple[Path, ...],
    expression: str,
    suite: str,
    tag: tuple[str, ...],
    level: str,
    loading: bool,
    imitate_faults: bool,
    name_faults: bool,
    groupings: str,
    verbose: bool,
    output: TextOrJson,
) -> None:
    """Run KAI's own scheduling cases, of one or several sessions, on kailab's engine.

    For random cases with an area (a tag area-*) the report tells in how many of them the status and the node agree.
    """
    from checks.recorded.cases import check_loading, run_cases
    from checks.recorded.expectations import LEVELS
    from checks.recorded.selection import choose
    from checks.recorded_files import shared_folder
    from checks.report import GROUPINGS
    from kailab.errors import InputError

    if level not in LEVELS:
        raise InputError(f"--level: {level!r} is none of: {', '.join(LEVELS)}")
    by = tuple(name for name in GROUPINGS if name in groupings.split(","))
    if set(groupings.split(",")) != set(by):
        raise InputError(f"--by: {groupings!r} is none of: area, size, area,size")
    if sum((loading, imitate_faults, name_faults)) > 1:
        raise InputError("--loading, --imitate-faults and --name-faults: expected one of them at most")
    chosen = choose(paths or [shared_folder() / "conformance" / "cases"], suite, tag or (), expression)
    with terminal.progress_bars() as tell:
        report = check_loading(chosen) if loading else run_cases(chosen, level, tell, imitate_faults, name_faults, by)
    _finish(report, output, report.text(verbose))


@app.command()
@_paths
@_expression
@click.option("--backend", default="controlplane", help="The backend to compare the embedded lab with.")
@click.option("--drawn", type=click.IntRange(min=0), default=0, help="Also offer this many drawn objects to both.")
@_seed
@click.option(
    "--scheduler", default="kailab", help="The scheduler of both labs; kailab+kube-scheduler also places other work."
)
@click.option("--out", type=options.PATH, help="Write each result to this file as it comes, one JSON object per line.")
@options.kubeconfig
@options.context
@options.components
@options.kubernetes
@options.operators
@_verbose
@options.output
def manifests(
    paths: tuple[Path, ...],
    expression: str,
    backend: str,
    drawn: int,
    seed: int,
    scheduler: str,
    out: Path | None,
    verbose: bool,
    output: TextOrJson,
    **place: Any,
) -> None:
    """Apply manifests to an embedded lab and to a real API server, and compare what comes of them.

    A file or a folder is a case. Compared are which objects are accepted, the pods by phase, the nodes of pods that choose one, what admission
    writes, the objects that controllers make, and the status of quotas and queues. A difference passes if `apply` names it in the embedded
    lab, or if it is in the list of accepted ones.
    """
    from checks.manifests.judge import judge_cases, judge_drawn
    from checks.manifests.manifest_case import read_cases
    from checks.recorded.selection import matching
    from checks.recorded_files import shared_folder
    from checks.report import Report
    from kailab.operators import choose_operators

    where = {option: value for option, value in place.items() if value is not None}
    if named := where.pop("operators"):
        where["operators"] = ",".join(choose_operators(",".join(named)))
    matches = matching(expression)
    report = Report("manifests")
    with terminal.progress_bars() as tell, ExitStack() as stack:
        if paths or not drawn:
            chosen = [case for case in read_cases(paths or [shared_folder() / "real"]) if matches(case.id)]
            _require_any(chosen)
            stream = stack.enter_context(out.open("w", encoding="utf-8")) if out else None

            def take(result: Result) -> None:
                if stream:
                    print(json.dumps(result.as_dict()), file=stream, flush=True)

            report.results += judge_cases(chosen, backend, where, tell, terminal.notice, scheduler, take).results
        if drawn:
            report.results += judge_drawn(range(seed, seed + drawn), backend, where, tell, terminal.notice).results
    _finish(report, output, report.text(verbose))


@app.command()
@_file
@_verbose
@options.output
def fairshare(file: Path | None, verbose: bool, output: TextOrJson) -> None:
    """Compare recorded divisions of a cluster among queues."""
    from checks.recorded.fairshare import run_file
    from checks.recorded_files import shared_folder

    report, unwired = run_file(file or shared_folder() / "conformance" / "fairshare.json")
    for kind, count in sorted(unwired.items()):
        terminal.notice(f"not compared: {kind} ({count} cases)")
    _finish(report, output, report.text(verbose))


@app.command()
@_file
@_verbose
@options.output
def grouping(file: Path | None, verbose: bool, output: TextOrJson) -> None:
    """Compare the PodGroups that KAI made for pods of all kinds of owners."""
    from checks.recorded.grouping import run_file
    from checks.recorded_files import shared_folder

    report = run_file(file or shared_folder() / "conformance" / "podgrouper.json")
    _finish(report, output, report.text(verbose))


@app.command()
@click.option("--cases", type=click.IntRange(min=1), default=200, help="Number of clusters, in each area.")
@_seed
@_workers
@_areas
@click.option(
    "--changes",
    type=click.IntRange(min=0),
    default=0,
    help="How often each settled cluster is changed (jobs end, nodes go ...), to settle again.",
)
@click.option("--out", type=options.PATH, help="Write the shrunk failures to this case file.")
@_verbose
@options.output
def fuzz(
    cases: int,
    seed: int,
    workers: int,
    areas: tuple[str, ...],
    changes: int,
    out: Path | None,
    verbose: bool,
    output: TextOrJson,
) -> None:
    """Check random clusters against the invariants of decisions.

    A failing cluster is shrunk to the smallest one that fails in the same way, and printed as manifests.
    """
    from checks.fuzzing.areas import SMALL, check_area
    from checks.fuzzing.fuzz import run_seeds, shrink_failures
    from checks.recorded.case_writing import write_cases

    for area in areas:
        check_area(area)

    with terminal.progress_bars() as tell:
        report = run_seeds(range(seed, seed + cases), workers, tell, areas or (SMALL,), changes)
    with terminal.spinner("shrinking failures"):
        shrunk = shrink_failures(report)
    if out and shrunk:
        write_cases(out, [failure.case() for failure in shrunk])
        terminal.notice(f"written to {out}; run it with: python -m checks cases {out}")
    if output is TextOrJson.text:
        for failure in shrunk:
            terminal.say(failure.manifest())
    _finish(report, output, report.text(verbose))


@app.command("both-ways")
@click.option("--cases", type=click.IntRange(min=1), default=200, help="Number of clusters, in each area.")
@_seed
@_areas
@click.option("--changes", type=click.IntRange(min=0), default=5, help="How often each settled cluster is changed.")
@_verbose
@options.output
def both_ways(cases: int, seed: int, areas: tuple[str, ...], changes: int, verbose: bool, output: TextOrJson) -> None:
    """Decide each cycle of random clusters twice: trying every waiting job, and leaving out what surely does nothing."""
    from checks.fuzzing.areas import SMALL, check_area
    from checks.fuzzing.both_ways import run_seeds_both_ways

    for area in areas:
        check_area(area)
    with terminal.progress_bars() as tell:
        report = run_seeds_both_ways(range(seed, seed + cases), areas or (SMALL,), changes, tell)
    _finish(report, output, report.text(verbose))


@app.command()
@click.option("--cases", type=click.IntRange(min=1), default=20, help="Number of clusters, in each area.")
@_seed
@_areas
@click.option("--cycles", type=click.IntRange(min=1), default=3, help="Cycles until the outcome of a case counts.")
@click.option(
    "--changes",
    type=click.IntRange(min=0),
    default=0,
    help="How often each cluster is changed between cycles (a job ends or is deleted, a node goes or comes back, a queue gets another quota). "
    "As many cycles (--cycles) follow each change.",
)
@click.option("--out", type=options.PATH, required=True, help="The folder for the case files, one for each area.")
def draw(cases: int, seed: int, areas: tuple[str, ...], cycles: int, changes: int, out: Path) -> None:
    """Write random clusters as case files, for a scheduler that decides them outside of kailab.

    The cases have no outcome. `checks cases` checks the invariants of those, and compares the outcome of each case
    that has one (`compare`: `kai_actual`).
    """
    from checks.fuzzing.areas import SMALL, check_area
    from checks.fuzzing.fuzz import drawn_case
    from checks.recorded.case_writing import write_cases

    for area in areas:
        check_area(area)
    for area in areas or (SMALL,):
        file = out / f"{area}.json"
        write_cases(file, [drawn_case(number, area, cycles, changes) for number in range(seed, seed + cases)])
        terminal.say(f"{file}: {cases} cases")


@app.command()
@click.option("--walks", type=click.IntRange(min=1), default=20, help="Number of walks.")
@click.option("--steps", type=click.IntRange(min=1), default=40, help="Steps of each walk.")
@_seed
@_workers
@_verbose
@options.output
def walk(walks: int, steps: int, seed: int, workers: int, verbose: bool, output: TextOrJson) -> None:
    """Take random user steps in labs (apply, delete, scale, cordon ...) and check the invariants after each.

    A failing walk is reported with the fewest steps that fail in the same way.
    """
    from checks.fuzzing.walk import run_seeds

    with terminal.progress_bars() as tell:
        report = run_seeds(range(seed, seed + walks), steps, workers, tell)
    _finish(report, output, report.text(verbose))


@app.command()
@click.option("--cases", type=click.IntRange(min=1), default=500, help="Number of manifests.")
@_seed
@click.option("--minutes", type=options.FiniteFloatRange(min=0), help="Run for this long instead of a number of cases.")
@click.option(
    "--drawn", is_flag=True, help="Add fields of the kinds' definitions to sound manifests, instead of damaging them."
)
@click.option("--show", is_flag=True, help="Only print the first manifest.")
@_verbose
@options.output
def odd(
    cases: int, seed: int, minutes: float | None, drawn: bool, show: bool, verbose: bool, output: TextOrJson
) -> None:
    """Apply manifests with odd values to a lab: each must be refused with an error, or the lab must settle."""
    from checks.fuzzing.odd_manifests import MANY, OddCase, run_seeds

    if show:
        terminal.say(OddCase(seed, drawn).manifest())
        return
    most = cases if minutes is None else MANY
    with terminal.progress_bars() as tell:
        report = run_seeds(range(seed, seed + most), minutes, tell, drawn)
    _finish(report, output, report.text(verbose))


@app.command()
@click.option("--cases", type=click.IntRange(min=1), default=100, help="Number of situations.")
@_seed
@click.option("--case", type=click.IntRange(min=0), help="Only the situation of this seed.")
@click.option(
    "--budget",
    type=options.FiniteFloatRange(min=0),
    metavar="SECONDS",
    help="Start no further situation after this time.",
)
@click.option(
    "--at-least",
    type=options.FiniteFloatRange(0, 100),
    default=99.5,
    help="The percentage of right answers below which the check fails.",
)
@click.option("--shrink", type=click.IntRange(min=0), default=1, help="How many failures are cut down and shown.")
@click.option(
    "--steps", is_flag=True, help="Also judge the steps, by their words and their outcome; takes several times as long."
)
@click.option(
    "--area",
    default="mistakes",
    show_default=True,
    help="Where situations are drawn from: mistakes, platform-small, platform or platform-large.",
)
@_workers
@options.output
def explain(
    cases: int,
    seed: int,
    case: int | None,
    budget: float | None,
    at_least: float,
    shrink: int,
    steps: bool,
    area: str,
    workers: int,
    output: TextOrJson,
) -> None:
    """Verify what `kailab explain` says about all waiting workloads in random situations.

    Each cause is removed in the manifests, and each verdict is tried on the emptied lab. Exit code 1 if fewer answers
    than --at-least are right.
    """
    from checks.explaining.run import AREAS, run_seeds
    from checks.explaining.shrinking import shrink_seed
    from kailab.cluster.unreadable_objects import STRICT
    from kailab.errors import InputError

    os.environ[STRICT] = (
        "1"  # a cause that its numbers contradict is a wrong answer, also in the processes of --workers
    )

    if area not in AREAS:
        raise InputError(f"--area: {area!r} is none of: {', '.join(AREAS)}")

    seeds = range(seed, seed + cases) if case is None else range(case, case + 1)
    with terminal.progress_bars() as tell:
        findings = run_seeds(seeds, workers, budget, tell, steps=steps, area=area)
    if output is TextOrJson.json:
        terminal.say(findings.as_json())
    else:
        for number, judged in findings.failures_by_variety()[:shrink]:
            with terminal.spinner(f"cutting down case {number}"):
                smallest = shrink_seed(number, judged, area)
            terminal.say(f"---\n{smallest.as_yaml()}")
        terminal.say(findings.text())
    if findings.share < at_least or any(result.broken for result in findings.results):
        raise click.exceptions.Exit(1)


@app.command()
@click.option("--against", required=True, help="The other scheduler: kai=DIR, kai, kailab@FILE ...")
@click.option("--clusters", type=click.IntRange(min=1), help="Number of clusters.", show_default=str(CLUSTERS))
@click.option("--for", "duration", help="Run for this long instead: 30m, 4h. The last cluster is completed.")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="The first seed; each further one adds 1.")
@click.option("--isolation", default="controlplane", help="The backend for the other scheduler.")
@click.option("--area", default="", help="The area that clusters are drawn from.", show_default="small")
@click.option("--nodes", default="", help="Number of nodes of a cluster of an area: 16-24.", show_default="the area's")
@click.option(
    "--changes",
    type=click.IntRange(min=0),
    default=0,
    help="Changes of each cluster after its work has arrived: work ends, nodes go ...",
)
@click.option(
    "--compare",
    "kinds",
    multiple=True,
    help="What counts as a difference: outcome, queues, evictions, lowest, placement. May be repeated.",
    show_default="outcome and queues",
)
@click.option(
    "--again", type=click.IntRange(min=0), default=2, help="How often the other scheduler decides a difference again."
)
@click.option("--tries", type=click.IntRange(min=0), default=40, help="Attempts to cut down a difference.")
@click.option("--name", default="", help="The name of the hunt and of its folder.", show_default="SCHEDULER-BACKEND")
@click.option("--anew", is_flag=True, help="First decide the clusters again that differed.")
@click.option("--baseline", type=options.PATH, help="A file of accepted differences, each with its reason.")
@click.option(
    "--hunts",
    "root",
    type=options.PATH,
    default=Path("hunts"),
    envvar="KAILAB_HUNTS",
    show_envvar=True,
    help="The folder of all hunts.",
)
@options.kubeconfig
@options.context
@options.components
@options.kubernetes
@options.output
def hunt(
    against: str,
    clusters: int | None,
    duration: str | None,
    seed: int,
    isolation: str,
    area: str,
    nodes: str,
    changes: int,
    kinds: tuple[str, ...],
    again: int,
    tries: int,
    name: str,
    anew: bool,
    baseline: Path | None,
    root: Path,
    output: TextOrJson,
    **place: Any,
) -> None:
    """Look for clusters that kailab and another scheduler decide differently.

    Random clusters are decided by both. A difference that is not due to chance is cut down to the smallest scenario
    that still differs, and kept with the evidence of both sides. A repeated command continues the hunt. Exit code 1 if
    anything differs that is not accepted.
    """
    from checks.hunting.hunt import carry_out, forget_differing, make_hunt, seeds_from
    from checks.hunting.result import HuntResult
    from checks.hunting.store import HuntFolder
    from kailab.errors import InputError
    from kailab.model.times import duration_seconds
    from kailab.trials.baseline import AcceptedBaseline, read_baseline

    if clusters is not None and duration is not None:
        raise InputError("--clusters and --for: expected one of them")
    until = None if duration is None else time.monotonic() + duration_seconds(duration, days=True)
    accepted = read_baseline(baseline) if baseline is not None else AcceptedBaseline()
    where = {option: value for option, value in place.items() if value is not None}
    wanted = make_hunt(against, isolation, kinds, again, tries, name, where, area, nodes, changes)
    folder = HuntFolder(root / wanted.name)
    seeds = seeds_from(seed, None if duration is not None else clusters or CLUSTERS)
    with signals.terminate_in_order(), folder.locked(), terminal.progress_bars() as tell:
        folder.begin(wanted)
        if anew and (number := forget_differing(folder)):
            terminal.notice(f"{number} clusters are decided again")
        carry_out(wanted, folder, seeds, until, where, tell, terminal.notice)
        result = HuntResult(wanted, folder, folder.decided(), accepted)
    if output is TextOrJson.json:
        terminal.say(json.dumps(result.as_data(), indent=2))
    else:
        terminal.say("\n".join(result.lines()))
    if not result.same:
        raise click.exceptions.Exit(1)


def _require_any(chosen: Iterable[object]) -> None:
    from kailab.errors import InputError

    if not chosen:
        raise InputError("nothing matches")


def _print_result(result: Result) -> None:
    """Print one line for a result, and one for each difference."""
    notes = f" ({'; '.join(result.notes)})" if result.notes else ""
    terminal.say(f"{'agrees ' if result.passed else 'DIFFERS'} {result.id}{notes}")
    for difference in result.differences:
        terminal.say(f"        {difference}")


def _finish(report: Report, output: TextOrJson, text: str) -> None:
    terminal.say(report.as_json() if output is TextOrJson.json else text)
    if report.failed:
        raise click.exceptions.Exit(1)
