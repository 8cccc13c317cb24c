"""``timeline``: the events of a subject, in the lab or in the evidence of a test."""

from __future__ import annotations

from pathlib import Path

import click

from kailab.cli import labfile, options, terminal
from kailab.cli.options import TextOrJson
from kailab.errors import InputError

LAB = "lab"


@click.command()
@click.argument("words", nargs=-1, metavar="[lab|RUN|RUN/TEST] [KIND NAME]", help="The lab or a test, and the subject.")
@options.namespace
@options.output
@options.state
@options.evidence
def timeline(words: tuple[str, ...], namespace: str, output: TextOrJson, state: Path, evidence: Path) -> None:
    """List what happened to a pod, a podgroup, a queue or a workload: created, pending and why, bound, evicted and for whom, ended.

    The source is the lab that is up, or the evidence of a test: RUN/TEST, a test of the latest run, or a run with one test. Without
    KIND NAME, the timeline covers all pods.
    """
    from kailab.cli.selection import parse_targets
    from kailab.evidence.subject_timeline import subject_timeline

    source, subject = _split(words)
    targets = parse_targets(subject) if subject else []
    if len(targets) > 1 or any(len(target.names) != 1 for target in targets):
        raise InputError("expected one subject: KIND NAME or KIND/NAME")
    history = labfile.read_history(state) if source == LAB else labfile.history_in(evidence, source)
    result = (
        subject_timeline(history, targets[0].kind, targets[0].names[0], namespace)
        if targets
        else subject_timeline(history)
    )
    if output is TextOrJson.json:
        terminal.say_json(result.data())
    else:
        terminal.say("\n".join(result.lines()))


def _split(words: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Split into source and subject: the first word is the source unless it is a kind."""
    from kailab.model.kinds import resolve

    if not words:
        return LAB, ()
    try:
        resolve(words[0].partition("/")[0])
    except InputError:
        return words[0], words[1:]
    return LAB, words
