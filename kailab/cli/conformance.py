"""``conformance``: kailab held against recorded behaviour of a real KAI."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kailab.cli import terminal
from kailab.cli.options import (
    ComponentsOption,
    ContextOption,
    KaiCrdsOption,
    KaiOption,
    KubeconfigOption,
    KubernetesOption,
    OutputOption,
    TextOrJson,
)

if TYPE_CHECKING:
    from kailab.conformance.report import Report, Result

app = typer.Typer(
    help="Compare with recorded behaviour of a real KAI. Exit code 1 if anything differs.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Paths = Annotated[
    list[Path] | None, typer.Argument(help="Files or folders; default: the shared ones.", show_default=False)
]
Expression = Annotated[str, typer.Option("-k", help="Only those whose name matches: 'gang and not mig'.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Every difference, not the first alone.")]


@app.command()
def scenarios(
    paths: Paths = None,
    expression: Expression = "",
    scheduler: Annotated[
        str, typer.Option("--scheduler", help="What decides: kailab, kube-scheduler, or kai (a real one).")
    ] = "kailab",
    backend: Annotated[
        str, typer.Option("--backend", help="Where: embedded, controlplane, kind or kubeconfig.")
    ] = "embedded",
    labs: Annotated[
        int | None,
        typer.Option(
            "--labs",
            min=1,
            help="Backends controlplane, kind: labs side by side, each a cluster of its own.",
            show_default="1",
        ),
    ] = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    components: ComponentsOption = None,
    kubernetes: KubernetesOption = None,
    kai: KaiOption = None,
    kai_crds: KaiCrdsOption = None,
    output: OutputOption = TextOrJson.text,
) -> None:
    """Manifests in steps, and after each step the outcome that a real KAI showed."""
    from kailab.cluster.compatibility import check_lab
    from kailab.conformance.choosing import matching
    from kailab.conformance.live import run_live
    from kailab.conformance.report import Report
    from kailab.conformance.scenarios import read_scenarios, run_scenario
    from kailab.conformance.shared import shared_folder

    where = {
        "kubeconfig": kubeconfig, "context": context, "components": components, "kubernetes": kubernetes, "kai": kai,
        "kai_crds": kai_crds,
    }  # fmt: skip
    check_lab(backend, scheduler, {**where, "labs": labs})
    matches = matching(expression)
    chosen = [one for one in read_scenarios(paths or [shared_folder() / "scenarios"]) if matches(one["name"])]
    _need(chosen)
    report = Report("scenarios")
    results: Iterator[Result]
    if backend == "embedded":
        results = (run_scenario(scenario, scheduler) for scenario in chosen)
    else:
        results = run_live(chosen, scheduler, backend, labs or 1, where, terminal.notice)
    with terminal.progress_bars() as tell:
        for number, result in enumerate(results, 1):
            tell(result.id, number, len(chosen))
            report.results.append(result)
            if output is TextOrJson.text:
                _tell(result)
    _end(report, output, f"{report.passed} passed, {report.failed} failed")


@app.command()
def cases(
    paths: Paths = None,
    expression: Expression = "",
    suite: Annotated[str, typer.Option(help="Only suites that begin with this.")] = "",
    tag: Annotated[list[str] | None, typer.Option(help="Only cases with this tag; may be repeated.")] = None,
    level: Annotated[str, typer.Option(help="How strictly recorded-only cases are compared.")] = "nodes",
    verbose: Verbose = False,
    output: OutputOption = TextOrJson.text,
) -> None:
    """KAI's own scheduling cases, one session or several, decided by our engine."""
    from kailab.conformance.cases import run_cases
    from kailab.conformance.choosing import choose
    from kailab.conformance.expectations import LEVELS
    from kailab.conformance.shared import shared_folder
    from kailab.errors import InputError

    if level not in LEVELS:
        raise InputError(f"--level: {level!r} is none of: {', '.join(LEVELS)}")
    chosen = choose(paths or [shared_folder() / "conformance" / "cases"], suite, tag or (), expression)
    with terminal.progress_bars() as tell:
        report = run_cases(chosen, level, tell)
    _end(report, output, report.text(verbose))


@app.command()
def fairshare(
    file: Annotated[Path | None, typer.Argument(help="Default: the shared one.", show_default=False)] = None,
    verbose: Verbose = False,
    output: OutputOption = TextOrJson.text,
) -> None:
    """Recorded divisions of a cluster among queues."""
    from kailab.conformance.fairshare import run_file
    from kailab.conformance.shared import shared_folder

    report, unwired = run_file(file or shared_folder() / "conformance" / "fairshare.json")
    for kind, count in sorted(unwired.items()):
        terminal.notice(f"not compared: {kind} ({count} cases)")
    _end(report, output, report.text(verbose))


@app.command()
def grouping(
    file: Annotated[Path | None, typer.Argument(help="Default: the shared one.", show_default=False)] = None,
    verbose: Verbose = False,
    output: OutputOption = TextOrJson.text,
) -> None:
    """Pods of all kinds of owners, and the PodGroups that KAI makes of them."""
    from kailab.conformance.grouping import run_file
    from kailab.conformance.shared import shared_folder

    report = run_file(file or shared_folder() / "conformance" / "podgrouper.json")
    _end(report, output, report.text(verbose))


@app.command()
def fuzz(
    cases: Annotated[int, typer.Option(min=1, help="How many clusters.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the first; the next has the next number.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Processes that share the work.")] = 1,
    out: Annotated[
        Path | None, typer.Option(help="Write the shrunk failures there, as a case file.", show_default=False)
    ] = None,
    verbose: Verbose = False,
    output: OutputOption = TextOrJson.text,
) -> None:
    """Random small clusters against what must hold of any decisions.

    A failure is shrunk to the smallest cluster that fails in the same way and printed as manifests.
    """
    from kailab.conformance.casefile import write_cases
    from kailab.conformance.fuzz import run_seeds, shrink_failures

    with terminal.progress_bars() as tell:
        report = run_seeds(range(seed, seed + cases), workers, tell)
    with terminal.waiting("shrinking what failed"):
        shrunk = shrink_failures(report)
    if out and shrunk:
        write_cases(out, [one.case() for one in shrunk])
        terminal.notice(f"written to {out}; run it with: kailab conformance cases {out}")
    if output is TextOrJson.text:
        for one in shrunk:
            terminal.say(one.manifest())
    _end(report, output, report.text(verbose))


@app.command()
def walk(
    walks: Annotated[int, typer.Option(min=1, help="How many walks.")] = 20,
    steps: Annotated[int, typer.Option(min=1, help="Steps of each.")] = 40,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the first; the next has the next number.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Processes that share the work.")] = 1,
    verbose: Verbose = False,
    output: OutputOption = TextOrJson.text,
) -> None:
    """Random steps of people in labs (apply, delete, scale, cordon ...) against what must hold at rest.

    A walk that fails is told by the fewest steps that fail in the same way.
    """
    from kailab.conformance.walk import run_seeds

    with terminal.progress_bars() as tell:
        report = run_seeds(range(seed, seed + walks), steps, workers, tell)
    _end(report, output, report.text(verbose))


@app.command()
def odd(
    cases: Annotated[int, typer.Option(min=1, help="How many manifests.")] = 500,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the first; the next has the next number.")] = 0,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="As many as this time allows, instead.", show_default=False)
    ] = None,
    verbose: Verbose = False,
    output: OutputOption = TextOrJson.text,
) -> None:
    """Manifests with odd values against a whole lab: each is refused in words, or the lab settles."""
    from kailab.conformance.odd_manifests import MANY, run_seeds

    most = cases if minutes is None else MANY
    with terminal.progress_bars() as tell:
        report = run_seeds(range(seed, seed + most), minutes, tell)
    _end(report, output, report.text(verbose))


def _need(chosen: Iterable[object]) -> None:
    from kailab.errors import InputError

    if not chosen:
        raise InputError("nothing matches")


def _tell(result: Result) -> None:
    """A line for what agrees; for what differs the differences spelt out."""
    notes = f" ({'; '.join(result.notes)})" if result.notes else ""
    terminal.say(f"{'agrees ' if result.passed else 'DIFFERS'} {result.id}{notes}")
    for difference in result.differences:
        terminal.say(f"        {difference}")


def _end(report: Report, output: TextOrJson, text: str) -> None:
    terminal.say(report.as_json() if output is TextOrJson.json else text)
    if report.failed:
        raise typer.Exit(1)
