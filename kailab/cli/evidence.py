"""``evidence`` and ``report``: list, verify, compare and report the evidence of test runs; write the viewer page of a run, a trial, the lab or a
snapshot."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import click
from msgspec import to_builtins

from kailab.cli import labfile, options, terminal
from kailab.cli.error_messages import CommandGroup
from kailab.cli.options import TextOrJson
from kailab.cli.table import render_table
from kailab.errors import InputError
from kailab.evidence import store
from kailab.evidence.recorder import Recorder, write_test
from kailab.evidence.run import RunFolder
from kailab.evidence.store import export_run as write
from kailab.model.wording import count
from kailab.report import page, render


class WrittenPage(NamedTuple):
    """``what``: the subject of the page. ``size``: in bytes."""

    what: str
    size: int


def write_viewer_page(file: Path, run: str, against: str | None, state: Path | None, evidence: Path) -> WrittenPage:
    """``state``: the file of a lab, which is shown instead of a run. Raises InputError, StateError, EvidenceError."""
    # Checked first, so that a wrong file name is reported before anything is captured or opened.
    page.check_page_file(file)
    if state is not None:
        return _write_lab_page(file, state)
    if Path(run).is_file():
        if against is not None:
            raise InputError("--against compares two runs, and a snapshot is not a run; leave it out")
        return _write_snapshot_page(file, Path(run))
    if is_trial(Path(run)):
        if against is not None:
            raise InputError(
                "--against compares two runs; leave it out, because the page of a trial compares its contenders"
            )
        return _write_trial_page(file, Path(run))
    runs = [store.find_run(evidence, name) for name in (run, against) if name is not None]
    if len(runs) == 2 and runs[0].resolve() == runs[1].resolve():
        raise InputError(f"--against {against}: is the run itself; expected another run")
    return WrittenPage(" and ".join(f"run {path.name}" for path in runs), page.write_page(runs, file))


def is_trial(path: Path) -> bool:
    from kailab.trials.store import TRIAL

    return (path / TRIAL).is_file()


def _write_trial_page(file: Path, path: Path) -> WrittenPage:
    from kailab.trials import viewer_runs
    from kailab.trials.store import TrialFolder
    from kailab.trials.trial import read_outcome

    outcome = read_outcome(TrialFolder(path))
    return WrittenPage(f"trial {outcome.trial.name}", viewer_runs.write_trial_page(outcome, file))


def _write_lab_page(file: Path, state: Path) -> WrittenPage:
    from kailab.evidence.lab_record import LabRecord
    from kailab.lab import Lab
    from kailab.lab.capture import capture

    with tempfile.TemporaryDirectory() as folder:
        with labfile.lock_lab(state), Lab.resume(state, read_only=True) as lab:
            run = capture(lab, LabRecord(state), Path(folder))
        return WrittenPage(f"the lab of {state}", page.write_page([run], file, "lab", f"Lab {state.name}"))


def _write_snapshot_page(file: Path, path: Path) -> WrittenPage:
    """The first moment of the page is the snapshot as the engine reads it; the following ones are decisions of kailab's scheduler."""
    from kailab.snapshots import opening

    snapshot = opening.read_snapshot_source(path)
    recorder = Recorder()
    with opening.lab_of(snapshot.snapshot, [recorder]) as lab:
        lab.settle()
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder.begin(folder)
        run.write("snapshot", path.stem, lambda at: write_test(at, f"snapshot/{path.name}", [recorder], "opened"))
        run.finish()
        return WrittenPage(
            f"{snapshot.what} of {path}", page.write_page([run.path], file, "snapshot", f"Snapshot {path.name}")
        )


_run = click.argument("run", default="latest", help="A run's id, its folder, or latest.")


@click.group(cls=CommandGroup)
def group() -> None:
    """Show, verify, sign and compare the evidence of test runs; replay a run; capture the lab."""


@group.command("list")
@options.evidence
@options.output
def list_runs(evidence: Path, output: TextOrJson) -> None:
    """List the runs, oldest first."""
    runs = store.list_runs(evidence)
    if output is TextOrJson.json:
        data = [{"run": run.run, "path": str(run.path), "outcomes": run.outcomes, **_plain(run.facts)} for run in runs]
        terminal.say_json(data)
        return
    if not runs:
        terminal.notice(f"No runs in {evidence}")
        return
    rows = [
        (
            run.run,
            str(sum(run.outcomes.values())),
            *(str(run.outcomes.get(outcome, 0)) for outcome in ("passed", "failed", "error", "skipped")),
            "(did not finish)" if run.facts is None else run.facts.begun,
        )
        for run in runs
    ]
    terminal.say(render_table(("RUN", "TESTS", "PASSED", "FAILED", "ERRORS", "SKIPPED", "BEGUN"), rows))


@group.command()
@click.option("--keep", type=click.IntRange(min=0), default=5, help="Number of the newest runs that stay.")
@options.evidence
def prune(keep: int, evidence: Path) -> None:
    """Remove old runs. Reference runs stay."""
    for run in store.prune_runs(evidence, keep):
        terminal.say(f"{run.path} removed")


@group.command()
@click.argument(
    "run", default="latest", metavar="[RUN]", help="A run's id, its folder, or latest; may be left out before a test."
)
@click.argument("test", default="", help="A test of the run: exercise/test.")
@options.evidence
@options.output
def show(run: str, test: str, evidence: Path, output: TextOrJson) -> None:
    """Show the tests of a run; or one test with its expectations, observations and timeline."""
    if test:
        path = store.find_run(evidence, run)
        test = store.find_test(path, test)
    else:
        path, test = store.find_run_or_test(evidence, run)
    if test:
        _show_test(path, test, output)
        return
    summary, tests = store.read_run(path)
    if output is TextOrJson.json:
        results = {item.name: _plain(item.result) for item in tests}
        data = {"path": str(path), **_plain(summary.facts), "results": results}
        terminal.say_json(data)
        return
    terminal.say(f"Run {summary.run} in {path}")
    rows = [
        (item.name, item.outcome, ", ".join(sorted({lab.scheduler for lab in item.labs.values()}))) for item in tests
    ]
    terminal.say("")
    terminal.say(render_table(("TEST", "OUTCOME", "SCHEDULER"), rows))


@group.command()
@_run
@options.path_option("--key", help="Also verify the signature by this public key (PEM).")
@options.evidence
def verify(run: str, key: Path | None, evidence: Path) -> None:
    """Verify the checksum of every file of a run, and with --key its signature. Exit code 1 if a file was changed or is missing, or
    if there is no valid signature by that key.

    Checksums reveal accidental changes, because anyone who can write the files can also write new checksums. A signature proves that the holder
    of the key had the run in its present state. It proves neither the time nor that the tested result is right.
    """
    path = store.find_run(evidence, run)
    problems = store.verify_evidence(path)
    if key is not None:
        # Imported by the commands that sign and verify, because signatures need an extra, and the other commands here do not.
        from kailab.evidence import signing

        problems += signing.check_signature(path, key)
    for problem in problems:
        terminal.say(str(problem))
    if problems:
        terminal.notice(f"{path}: {len(problems)} problem{'' if len(problems) == 1 else 's'}")
        raise click.exceptions.Exit(1)
    terminal.say(f"{path}: no file was changed")
    if key is not None:
        terminal.say(f"the signature by the key {signing.key_fingerprint(key)} is valid")
    elif store.is_signed(path):
        terminal.notice("The run is signed; --key verifies a signature.")


@group.command()
@click.argument("file", type=options.PATH, help="File for the private key; the public key goes to FILE.pub.")
def keygen(file: Path) -> None:
    """Generate a key pair for signing runs (Ed25519). Keep the private key secret; give the public key to those who verify."""
    from kailab.evidence import signing

    public = signing.generate_key(file)
    terminal.say(f"{file} (private), {public} (public)\nkey {signing.key_fingerprint(public)}")


@group.command()
@_run
@click.option("--key", type=options.PATH, required=True, help="Private Ed25519 key (PEM).")
@options.evidence
def sign(run: str, key: Path, evidence: Path) -> None:
    """Sign a run whose files are unchanged. The signature is a file in the run's folder; several keys may sign.

    It proves that the holder of the key had the run in its present state. It proves neither the time nor that the tested result is right.
    """
    from kailab.evidence import signing

    terminal.say(f"{signing.sign_run(store.find_run(evidence, run), key)}")


@group.command()
@_run
@click.argument("file", type=options.PATH, help="File to write (.tar.gz).")
@options.evidence
def export(run: str, file: Path, evidence: Path) -> None:
    """Export a run with its checksums and signatures as one file. Nothing is overwritten. `tar -xzf FILE` unpacks it."""
    path = store.find_run(evidence, run)
    terminal.say(f"{file}: {count(write(path, file), 'file')} of run {path.name}")


@group.command()
@click.argument("first", help="A run's id or folder.")
@click.argument("second", default="latest", help="Another run's id or folder, or latest.")
@options.evidence
@options.output
def diff(first: str, second: str, evidence: Path, output: TextOrJson) -> None:
    """Compare two runs, without the times at which they ran. Exit code 1 if they differ."""
    from kailab.evidence.diff import compare_runs

    comparison = compare_runs(store.find_run(evidence, first), store.find_run(evidence, second))
    if output is TextOrJson.json:
        data = [_plain(difference) for difference in comparison.differences]
        terminal.say_json({"first": comparison.first, "second": comparison.second, "differences": data})
    else:
        for difference in comparison.differences:
            terminal.say(str(difference))
        if comparison.identical:
            terminal.say(f"{comparison.first} and {comparison.second} are identical")
    if not comparison.identical:
        raise click.exceptions.Exit(1)


@group.command()
@click.argument("folder", type=options.PATH, required=False, help="Folder of the runs; default: that of --evidence.")
@options.state
@options.evidence
def capture(folder: Path | None, state: Path, evidence: Path) -> None:
    """Write the evidence of the lab in the form of a test: all operations since `kailab up`, all decisions, and the present
    state. The lab stays up."""
    from kailab.evidence.lab_record import LabRecord
    from kailab.lab import Lab
    from kailab.lab.capture import capture as write

    with labfile.lock_lab(state), Lab.resume(state, read_only=True) as lab:
        path = write(lab, LabRecord(state), folder or evidence)
    terminal.say(str(path))
    terminal.notice(f"View it: kailab evidence show {path}; replay it: kailab evidence replay {path}")


@group.command()
@_run
@click.argument("test", default="", help="A test of the run: exercise/test.")
@options.evidence
@options.output
def replay(run: str, test: str, evidence: Path, output: TextOrJson) -> None:
    """Replay every scheduling cycle of a run from its folder and compare the decisions. Exit code 0 if all decisions are the
    same; otherwise 1, and the first difference is shown."""
    from kailab.evidence.replay import replay_run as decide_again

    path = store.find_run(evidence, run)
    result = decide_again(path, store.find_test(path, test) if test else "")
    for problem in result.problems:
        terminal.warn(f"changed since it was written: {problem}")
    if output is TextOrJson.json:
        terminal.say_json({"path": str(path), "same": result.same, **_plain(result)})
    else:
        for lab, why in result.passed_over.items():
            terminal.say(f"{lab}: nothing to replay: {why}")
        terminal.say(str(result))
    if not result.same:
        raise click.exceptions.Exit(1)


@click.command()
@click.argument(
    "run",
    required=False,
    help="A run's id, its folder, or latest; with --html also a trial's folder, or a snapshot's file.",
)
@options.text_option("--format", help="Format: text (the default) or markdown.")
@options.path_option("--html", help="Write an interactive page of the run as one self-contained file.")
@click.option("--against", help="With --html: another run to compare with.")
@options.path_option("--state", help="With --html: show the lab in this file instead of a run.")
@options.evidence
def report(
    run: str | None, format: str, html: Path | None, against: str | None, state: Path | None, evidence: Path
) -> None:
    """Report a run from its evidence: what was expected, what was observed, and why."""
    if html is None:
        for name, value in (("--against", against), ("--state", state)):
            if value is not None:
                raise InputError(f"{name} needs --html FILE")
        if run and is_trial(Path(run)):
            raise InputError(f"{run}: is a trial; use `kailab trial show {run}`, or --html FILE for a page")
        if run and Path(run).is_file():
            raise InputError(f"{run}: is a file, not a run; for a snapshot use --html FILE")
        terminal.say(render(store.find_run(evidence, run or store.LATEST), format or "text").rstrip("\n"))
        return
    if format:
        raise InputError("--format and --html can't be used together")
    if state is not None and (run or against):
        raise InputError("--state shows a lab and can't be used with a run")
    written = write_viewer_page(html, run or store.LATEST, against, state, evidence)
    terminal.say(f"{html}: {written.what}, {written.size / 1e6:.1f} MB")


def _plain(value: Any) -> dict[str, Any]:
    """Convert an entry to plain JSON values; None becomes {}."""
    return {} if value is None else to_builtins(value)


def _show_test(run: Path, name: str, output: TextOrJson) -> None:
    test = store.load_test(run, name)
    if output is TextOrJson.json:
        data = {"path": str(test.path), "result": _plain(test.result), "labs": _plain(test.labs)}
        terminal.say_json(data)
        return
    reason, source = test.result.reason, test.result.source
    terminal.say(f"{test.name}: {test.outcome}{f': {reason}' if reason else ''}\n{test.path}")
    if test.result.message:
        terminal.say(test.result.message)
    if source is not None:
        terminal.say(f"at {source.file}:{source.line}: {source.text}")
    for lab, facts in test.labs.items():
        terminal.say(f"\n{lab}: fleet {facts.fleet}, scheduler {facts.scheduler}")
        terminal.say(test.text(lab, "timeline.txt").rstrip("\n"))
