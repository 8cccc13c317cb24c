"""``explain``: why something waits, what would let it run, and whose GPUs a queue lives on."""

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
@click.option(
    "--nodes", is_flag=True, help="What each node says to its pods: that it takes them, or the rule that refuses."
)
@click.option(
    "--all", "all_of_it", is_flag=True, help="Everything known, not only a screen of it; in a large lab more is tried."
)
@click.option(
    "--evidence", "past", default="", metavar="RUN/TEST", show_default=False, help="Of a test, from its evidence alone."
)
@options.output
@options.state
def explain(
    what: tuple[str, ...], namespace: str, nodes: bool, all_of_it: bool, past: str, output: TextOrJson, state: Path
) -> None:
    """Say why a pod, a podgroup or a workload (job NAME, deployment NAME ...) does not run and what would let it run; what runs, on
    whose quota; what was evicted, for whom; what a queue holds, borrows and lends.

    What would help is tried on a copy of the lab, which stays as it is. With --evidence it is told what was decided and why, by
    someone who was not there; nothing is tried."""
    if nodes:
        if past:
            raise click.UsageError("--nodes asks the nodes of a lab as they are; it can't be used with --evidence")
        _say_nodes(what, namespace, all_of_it, output, state)
        return
    found = _explain_evidence(what, namespace, past) if past else _explain_lab(what, namespace, all_of_it, state)
    if output is TextOrJson.json:
        _say_data([answer.data() for answer in found])
    else:
        terminal.say("\n\n".join("\n".join(answer.lines(all_of_it)) for answer in found))


def _explain_lab(what: tuple[str, ...], namespace: str, everything: bool, state: Path) -> list[Answer]:
    with labfile.read_lab(state) as lab:
        if len(what) == 1:
            _check_no_bare_name(lab, what[0], namespace)
        asked = _named(what, lab.cluster.kinds())
        return [
            lab.explain(kind, complete_name(lab, kind, name, namespace), namespace, everything=everything)
            for kind, name in asked
        ]


def _explain_evidence(what: tuple[str, ...], namespace: str, past: str) -> list[Answer]:
    """``past``: as `kailab timeline` takes it; runs are those below the folder that KAILAB_EVIDENCE names."""
    from kailab.evidence.history import LabHistory
    from kailab.evidence.store import find_lab
    from kailab.explain.evidence_answers import explain_evidence

    root = Path(os.environ.get("KAILAB_EVIDENCE") or options.EVIDENCE)
    history = LabHistory.of_test(*find_lab(root, past))
    return [explain_evidence(history, kind, name, namespace) for kind, name in _named(what)]


def _named(what: tuple[str, ...], others: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Kinds and names. Raises InputError."""
    from kailab.cli.selection import parse_targets
    from kailab.errors import InputError

    for kind, names in parse_targets(what, others):
        if not names:
            raise InputError(f"say which {kind}: `kailab explain {what[0]} NAME`")
        yield from ((kind, name) for name in names)


def _say_nodes(what: tuple[str, ...], namespace: str, everything: bool, output: TextOrJson, state: Path) -> None:
    from kailab.cli.table import render_table
    from kailab.explain.node_answers import HEADERS, about_nodes

    with labfile.read_lab(state) as lab:
        if len(what) == 1:
            _check_no_bare_name(lab, what[0], namespace)
        named = ((lab.kind(kind), name) for kind, name in _named(what, lab.cluster.kinds()))
        asked = [(kind, complete_name(lab, kind, name, namespace)) for kind, name in named]
        found = [(kind, name, about_nodes(lab, kind, name, namespace)) for kind, name in asked]
    if output is TextOrJson.json:
        _say_data(
            [
                {"kind": kind, "namespace": namespace, "name": name, "groups": [one.data() for one in groups]}
                for kind, name, groups in found
            ]
        )
        return
    tables = [
        "\n".join((*one.head(), render_table(HEADERS, list(one.rows(everything)))))
        for _, _, groups in found
        for one in groups
    ]
    terminal.say("\n\n".join(tables))


def _say_data(data: list[dict[str, Any]]) -> None:
    terminal.say(json.dumps(data[0] if len(data) == 1 else data, indent=2))


def _check_no_bare_name(lab: Lab, word: str, namespace: str) -> None:
    """Raises InputError for the name of something in the lab without its kind, saying what to type."""
    from kailab.cli.selection import resource_name
    from kailab.errors import InputError, NotFound
    from kailab.model.kinds import is_namespaced, resolve

    try:
        resolve(word, lab.cluster.kinds())
    except InputError:
        pass
    else:
        return
    named = []
    for kind in (kind for kind in lab.cluster.kinds() if is_namespaced(kind) or kind == "Queue"):
        try:
            lab.cluster.get(kind, word, namespace if is_namespaced(kind) else None)
        except NotFound:
            continue
        named.append(f"`kailab explain {resource_name(kind).partition('.')[0]} {word}`")
    if named:
        raise InputError(f"{word!r} is a name without a kind; did you mean {' or '.join(named)}?")
