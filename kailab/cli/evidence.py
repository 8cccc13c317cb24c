"""``evidence``: what test runs left behind, shown, checked and compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from kailab.cli import terminal
from kailab.cli.options import EvidenceOption, OutputOption, TextOrJson

app = typer.Typer(help="The evidence that test runs leave.", no_args_is_help=True, rich_markup_mode=None)
ROOT = Path("evidence")
RunArgument = Annotated[str, typer.Argument(help="A run's id, its folder, or latest.")]


@app.command("list")
def list_runs(evidence: EvidenceOption = ROOT, output: OutputOption = TextOrJson.text) -> None:
    """The runs there are, oldest first."""
    from kailab.cli.table import render
    from kailab.evidence import store

    found = store.runs(evidence)
    if output is TextOrJson.json:
        data = [{"run": run.run, "path": str(run.path), "outcomes": run.outcomes, **run.facts} for run in found]
        terminal.say(json.dumps(data, indent=2))
        return
    if not found:
        terminal.notice(f"No runs in {evidence}")
        return
    rows = [
        (
            run.run,
            str(sum(run.outcomes.values())),
            str(run.outcomes.get("passed", 0)),
            str(run.outcomes.get("failed", 0)),
            str(run.facts.get("begun", "")) if run.finished else "(did not finish)",
        )
        for run in found
    ]
    terminal.say(render(("RUN", "TESTS", "PASSED", "FAILED", "BEGUN"), rows))


@app.command()
def prune(
    keep: Annotated[int, typer.Option("--keep", min=0, help="How many of the newest runs stay.")] = 5,
    evidence: EvidenceOption = ROOT,
) -> None:
    """Remove old runs; reference runs stay."""
    from kailab.evidence import store

    for run in store.prune(evidence, keep):
        terminal.say(f"{run.path} removed")


@app.command()
def show(
    run: Annotated[
        str, typer.Argument(metavar="[RUN]", help="A run's id, its folder, or latest; may be left out before a test.")
    ] = "latest",
    test: Annotated[str, typer.Argument(help="One test of it: exercise/test.", show_default=False)] = "",
    evidence: EvidenceOption = ROOT,
    output: OutputOption = TextOrJson.text,
) -> None:
    """The tests of a run; or of one test what was expected, what was seen, and what happened when."""
    from kailab.cli.table import render
    from kailab.evidence import store

    if test:
        path = store.find(evidence, run)
        test = store.find_test(path, test)
    else:
        path, test = store.find_run_or_test(evidence, run)
    if test:
        _show_test(path, test, output)
        return
    summary, tests = store.show(path)
    if output is TextOrJson.json:
        data = {"path": str(path), **summary.facts, "results": {one.name: one.result for one in tests}}
        terminal.say(json.dumps(data, indent=2))
        return
    terminal.say(f"Run {summary.run} in {path}")
    rows = [(one.name, one.outcome, ", ".join(sorted({_scheduler(lab) for lab in one.labs.values()}))) for one in tests]
    terminal.say("")
    terminal.say(render(("TEST", "OUTCOME", "SCHEDULER"), rows))


@app.command()
def verify(run: RunArgument = "latest", evidence: EvidenceOption = ROOT) -> None:
    """Check that a run is what was written: every file by its checksum. Exit code 1 if it is not."""
    from kailab.evidence import store

    path = store.find(evidence, run)
    problems = store.verify(path)
    for problem in problems:
        terminal.say(str(problem))
    if problems:
        terminal.notice(f"{path}: {len(problems)} problems")
        raise typer.Exit(1)
    terminal.say(f"{path}: all is as it was written")


@app.command()
def diff(
    first: Annotated[str, typer.Argument(help="A run's id or folder.", show_default=False)],
    second: Annotated[str, typer.Argument(help="Another one, or latest.")] = "latest",
    evidence: EvidenceOption = ROOT,
    output: OutputOption = TextOrJson.text,
) -> None:
    """Where two runs differ, the times of the runs aside. Exit code 1 if they do."""
    from kailab.evidence import store
    from kailab.evidence.diff import diff as compare

    found = compare(store.find(evidence, first), store.find(evidence, second))
    if output is TextOrJson.json:
        data = [{name: getattr(one, name) for name in one.__dataclass_fields__} for one in found.differences]
        terminal.say(json.dumps({"first": found.first, "second": found.second, "differences": data}, indent=2))
    else:
        for one in found.differences:
            terminal.say(str(one))
        if found.identical:
            terminal.say(f"{found.first} and {found.second} are identical")
    if not found.identical:
        raise typer.Exit(1)


def report(
    run: RunArgument = "latest",
    format: Annotated[str, typer.Option("--format", help="text or markdown.")] = "text",
    evidence: EvidenceOption = ROOT,
) -> None:
    """Tell a run: what was expected, what was seen, and why. All of it from its evidence."""
    from kailab.evidence import store
    from kailab.report import render

    terminal.say(render(store.find(evidence, run), format).rstrip("\n"))


def _scheduler(lab: dict[str, Any]) -> str:
    return str(lab.get("scheduler", ""))


def _show_test(run: Path, name: str, output: TextOrJson) -> None:
    from kailab.evidence import store

    test = store.load_test(run, name)
    if output is TextOrJson.json:
        terminal.say(json.dumps({"path": str(test.path), "result": test.result, "labs": test.labs}, indent=2))
        return
    terminal.say(f"{test.name}: {test.outcome}\n{test.path}")
    if message := test.result.get("message"):
        terminal.say(str(message))
    for lab, facts in test.labs.items():
        terminal.say(f"\n{lab}: fleet {facts.get('fleet')}, scheduler {facts.get('scheduler')}")
        terminal.say(str(test.read(lab, "timeline.txt")).rstrip("\n"))
