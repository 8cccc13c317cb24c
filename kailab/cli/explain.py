"""``explain``: why work is pending, what would let it run, and what a queue holds, borrows and lends."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kailab.cli import completion, labfile, options, terminal
from kailab.cli.options import TextOrJson
from kailab.cli.selection import complete_name

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
@click.option("--nodes", is_flag=True, help="Show for each node whether it fits the pods, or which rule refuses them.")
@click.option(
    "--all",
    "all_of_it",
    is_flag=True,
    help="Show the whole answer instead of a screen; try more proposals in a large lab.",
)
@click.option(
    "--no-steps",
    is_flag=True,
    help="Only say why; do not try what would let it run, which takes minutes in a large lab.",
)
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
    past: str,
    output: TextOrJson,
    state: Path,
) -> None:
    """Explain why a pod, a podgroup or a workload (job NAME, deployment NAME ...) is pending and what would let it run; on whose quota
    running work runs; for which work pods were evicted; what a queue holds, borrows and lends.

    Every proposed step is tried on a copy of the lab; the lab does not change. With --evidence the answer reports recorded decisions and
    their reasons; nothing is tried."""
    if no_steps and (nodes or past):
        raise click.UsageError(
            f"--no-steps can't be used with {'--nodes' if nodes else '--evidence'}, which tries no steps"
        )
    if nodes:
        if past:
            raise click.UsageError("--nodes shows the present nodes of a lab; it can't be used with --evidence")
        _print_nodes(what, namespace, all_of_it, output, state)
        return
    answers = (
        _explain_evidence(what, namespace, past)
        if past
        else _explain_lab(what, namespace, all_of_it, not no_steps, state)
    )
    if output is TextOrJson.json:
        _print_data([answer.data() for answer in answers])
    else:
        terminal.say("\n\n".join("\n".join(answer.lines(all_of_it)) for answer in answers))


def _explain_lab(what: tuple[str, ...], namespace: str, everything: bool, tried: bool, state: Path) -> list[Answer]:
    with labfile.read_lab(state) as lab:
        if len(what) == 1:
            _check_no_bare_name(lab, what[0], namespace)
        return [
            lab.explain(kind, complete_name(lab, kind, name, namespace), namespace, everything=everything, tried=tried)
            for kind, name in _parse_subjects(what, lab.cluster.kinds())
        ]


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
    from kailab.cli.selection import parse_targets
    from kailab.errors import InputError

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


def _print_data(data: list[dict[str, Any]]) -> None:
    terminal.say(json.dumps(data[0] if len(data) == 1 else data, indent=2))


def _check_no_bare_name(lab: Lab, word: str, namespace: str) -> None:
    """Raises InputError, with the command to type, if ``word`` is no kind but the name of an object in the lab."""
    from kailab.cli.selection import resource_name
    from kailab.errors import InputError, NotFound
    from kailab.model.kinds import is_namespaced, resolve

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
