"""``explain``: why work is pending, what would let it run, and what a queue holds, borrows and lends."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kailab.cli import completion, labfile, options, terminal
from kailab.cli.options import TextOrJson
from kailab.cli.selection import complete_name, parse_targets, resource_name
from kailab.cli.signals import interrupts
from kailab.errors import InputError, NotFound
from kailab.model.kinds import is_namespaced, resolve

if TYPE_CHECKING:
    from kailab.lab import Answer, Lab


@click.command()
@click.argument(
    "what",
    nargs=-1,
    required=True,
    shell_complete=completion.objects,
    help="pod NAME, podgroup NAME, queue NAME or a workload",
)
@options.namespace
@options.flag("--nodes", help="Show for each node whether it fits the pods, or which rule refuses them.")
@options.flag(
    "--all", "all_of_it", help="Show the whole answer instead of a screen; try more proposals in a large lab."
)
@options.no_steps
@options.flag("--safe", help="Try no step that raises a priority, or that withdraws or ends the work of others.")
@options.timeout
@click.option(
    "--evidence", "past", default="", metavar="RUN/TEST", show_default=False, help="Explain a test from its evidence."
)
@options.output
@options.state
def explain(
    what: tuple[str, ...],
    namespace: str,
    nodes: bool,
    all_of_it: bool,
    no_steps: bool,
    safe: bool,
    timeout: str,
    past: str,
    output: TextOrJson,
    state: Path,
) -> None:
    """Explain why a pod, a podgroup or a workload (job NAME, deployment NAME ...) is pending and what would let it run. The answer
    about running work has the queues whose quota it uses; about evicted work, the work that took its place; about a queue, what it holds,
    borrows and lends.

    Every proposed step is tried on a copy of the lab, unless it says that it was not; the lab does not change. The cause is printed
    first, then each step that works. Ctrl-C ends the trials and keeps the steps found so far. With --evidence the answer reports recorded
    decisions and their reasons; nothing is tried."""
    limit = options.parse_limit("--timeout", timeout)
    if safe and (no_steps or nodes or past):
        option = "--no-steps" if no_steps else "--nodes" if nodes else "--evidence"
        raise click.UsageError(f"--safe can't be used with {option}, which tries no steps")
    if no_steps and (nodes or past):
        raise click.UsageError(
            f"--no-steps can't be used with {'--nodes' if nodes else '--evidence'}, which tries no steps"
        )
    if options.is_given("timeout"):
        for option, given in (("--no-steps", no_steps), ("--nodes", nodes), ("--evidence", past)):
            if given:
                raise click.UsageError(f"--timeout can't be used with {option}, which tries no steps")
    if nodes:
        if past:
            raise click.UsageError("--nodes shows the present nodes of a lab; it can't be used with --evidence")
        _print_nodes(what, namespace, all_of_it, output, state)
        return
    if past:
        answers = _explain_evidence(what, namespace, past)
        if output is TextOrJson.json:
            _print_data([answer.data() for answer in answers])
        else:
            terminal.say("\n\n".join("\n".join(answer.lines(all_of_it)) for answer in answers))
        return
    _explain_lab(what, namespace, all_of_it, limit if not no_steps else None, safe, output, state)


def _explain_lab(
    what: tuple[str, ...],
    namespace: str,
    everything: bool,
    limit: float | None,
    safe: bool,
    output: TextOrJson,
    state: Path,
) -> None:
    """Print the answers, each as it grows. ``limit``: seconds for the steps of each; None: no steps. ``safe``: only safe steps."""
    answers: list[Answer] = []
    with labfile.read_lab(state) as lab, terminal.progress_line() as progress:
        if len(what) == 1:
            _check_no_bare_name(lab, what[0], namespace)
        subjects = list(_parse_subjects(what, lab.cluster.kinds()))
        for kind, name in subjects:
            subject = lab.kind(kind), complete_name(lab, kind, name, namespace), namespace
            printer = None if output is TextOrJson.json else _GrowingText(everything, progress, first=not answers)
            answer = _grown_answer(lab, subject, everything, limit, safe, progress, printer)
            answers.append(answer)
            if _was_interrupted(answer):
                break
    if output is TextOrJson.json:
        data = [answer.data() for answer in answers]
        _print_data(data, several=len(subjects) > 1)
    # What was found is kept, and the command ends as every interrupted one does.
    if any(map(_was_interrupted, answers)):
        raise KeyboardInterrupt


def _was_interrupted(answer: Answer) -> bool:
    return answer.incomplete is not None and answer.incomplete.reason == "interrupted"


def _grown_answer(
    lab: Lab,
    subject: tuple[str, str, str],
    everything: bool,
    limit: float | None,
    safe: bool,
    progress: terminal.ProgressLine,
    printer: _GrowingText | None,
) -> Answer:
    from kailab.explain.questions import growing_answer
    from kailab.explain.step_budget import StepBudget
    from kailab.lab.answer import SHOWN_STEPS, IncompleteReason, IncompleteSteps

    def report(tried: int, known: int, proposal: str) -> None:
        # No proposals are known while the copy of the forecast runs.
        progress.show(f"trying step {min(tried + 1, known)} of {known}: {proposal}" if known else proposal)

    budget = StepBudget(limit, interrupted=lambda: interrupts.came, on_progress=report, safe=safe)
    kind, name, namespace = subject
    answer: Answer | None = None
    try:
        for answer in growing_answer(
            lab, kind, name, namespace, tried=limit is not None, everything=everything, budget=budget
        ):
            if printer is not None:
                printer.add(answer)
                # No later step comes before these, and no more are shown.
                if not everything and len(answer.steps) >= SHOWN_STEPS:
                    break
    except (KeyboardInterrupt, Exception) as error:
        # Python may turn the interrupt into another error, see ``Interrupts``.
        if answer is None or not (isinstance(error, KeyboardInterrupt) or interrupts.came):
            raise
        incomplete = IncompleteSteps(IncompleteReason.INTERRUPTED, budget.tried, budget.known)
        answer = replace(answer, incomplete=incomplete)
    assert answer is not None
    if printer is not None:
        printer.close(answer)
    return answer


class _GrowingText:
    """Prints the lines of an answer as soon as they are known. ``first``: no answer was printed before it."""

    def __init__(self, everything: bool, progress: terminal.ProgressLine, *, first: bool) -> None:
        self._everything = everything
        self._progress = progress
        self._printed = -1
        self._first = first

    def add(self, answer: Answer) -> None:
        """Print what an answer has more than the one before it."""
        steps = answer.step_lines(self._everything)
        if self._printed < 0:
            self._say([*(() if self._first else ("",)), *answer.cause_lines(), *answer.forecast_lines()])
            self._printed = 0
        self._say(steps[self._printed :])
        self._printed = len(steps)

    def close(self, answer: Answer) -> None:
        """Print the lines after the steps."""
        self._say(answer.closing_lines(self._everything))

    def _say(self, lines: Sequence[str]) -> None:
        if lines:
            self._progress.clear()
            terminal.say("\n".join(lines))


def _explain_evidence(what: tuple[str, ...], namespace: str, past: str) -> list[Answer]:
    """``past``: a run or test, as for `kailab timeline`, in the folder that KAILAB_EVIDENCE names."""
    from kailab.evidence.store import find_lab
    from kailab.explain.evidence_answers import explain_evidence

    root = Path(os.environ.get("KAILAB_EVIDENCE") or options.EVIDENCE)
    test, lab = find_lab(root, past)
    history = test.history(lab)
    return [explain_evidence(history, kind, name, namespace) for kind, name in _parse_subjects(what)]


def _parse_subjects(what: tuple[str, ...], others: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield the kind and the name of each subject. Raises InputError."""
    for kind, names in parse_targets(what, others):
        if not names:
            raise InputError(f"no {kind} is named; expected `kailab explain {what[0]} NAME`")
        yield from ((kind, name) for name in names)


def _print_nodes(what: tuple[str, ...], namespace: str, everything: bool, output: TextOrJson, state: Path) -> None:
    from kailab.cli.table import render_table
    from kailab.explain.node_answers import HEADERS, about_nodes

    with labfile.read_lab(state) as lab:
        if len(what) == 1:
            _check_no_bare_name(lab, what[0], namespace)
        parsed = ((lab.kind(kind), name) for kind, name in _parse_subjects(what, lab.cluster.kinds()))
        subjects = [(kind, complete_name(lab, kind, name, namespace)) for kind, name in parsed]
        answers = [(kind, name, about_nodes(lab, kind, name, namespace)) for kind, name in subjects]
    if output is TextOrJson.json:
        _print_data(
            [
                {"kind": kind, "namespace": namespace, "name": name, "groups": [group.data() for group in groups]}
                for kind, name, groups in answers
            ]
        )
        return
    tables = [
        "\n".join((*group.head(), render_table(HEADERS, list(group.rows(everything)))))
        for _, _, groups in answers
        for group in groups
    ]
    terminal.say("\n\n".join(tables))


def _print_data(data: list[dict[str, Any]], *, several: bool | None = None) -> None:
    """``several``: as a list; None: as a list if there are several."""
    whole = len(data) > 1 if several is None else several
    terminal.say(json.dumps(data if whole else data[0], indent=2))


def _check_no_bare_name(lab: Lab, word: str, namespace: str) -> None:
    """Raises InputError, with the command to type, if ``word`` is no kind but the name of an object in the lab."""
    try:
        resolve(word, lab.cluster.kinds())
    except InputError:
        pass
    else:
        return
    commands = []
    for kind in (kind for kind in lab.cluster.kinds() if is_namespaced(kind) or kind == "Queue"):
        try:
            lab.cluster.get(kind, word, namespace if is_namespaced(kind) else None)
        except NotFound:
            continue
        commands.append(f"`kailab explain {resource_name(kind).partition('.')[0]} {word}`")
    if commands:
        raise InputError(f"{word!r} is a name without a kind; did you mean {' or '.join(commands)}?")
