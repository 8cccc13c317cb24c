"""``timeline``: the events of a subject, in the lab or in the evidence of a test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kailab.cli import labfile, options, terminal
from kailab.cli.options import TextOrJson

if TYPE_CHECKING:
    from kailab.evidence.history import LabHistory

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
    from kailab.errors import InputError
    from kailab.evidence.subject_timeline import subject_timeline

    source, subject = _split(words)
    targets = parse_targets(subject) if subject else []
    if len(targets) > 1 or any(len(target.names) != 1 for target in targets):
        raise InputError("expected one subject: KIND NAME or KIND/NAME")
    history = _read_lab(state) if source == LAB else _read_evidence(evidence, source)
    result = (
        subject_timeline(history, targets[0].kind, targets[0].names[0], namespace)
        if targets
        else subject_timeline(history)
    )
    if output is TextOrJson.json:
        terminal.say(json.dumps(result.data(), indent=2))
    else:
        terminal.say("\n".join(result.lines()))


def _split(words: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Split into source and subject: the first word is the source unless it is a kind."""
    from kailab.errors import InputError
    from kailab.model.kinds import resolve

    if not words:
        return LAB, ()
    try:
        resolve(words[0].partition("/")[0])
    except InputError:
        return words[0], words[1:]
    return LAB, words


def _read_lab(state: Path) -> LabHistory:
    from kailab.evidence.history import LabHistory
    from kailab.evidence.lab_record import LabRecord
    from kailab.lab.capture import make_recorder

    with labfile.read_lab(state) as lab:
        return LabHistory.of_recording(make_recorder(lab, LabRecord(state).whole()).recording)


def _read_evidence(evidence: Path, source: str) -> LabHistory:
    from kailab.evidence.store import find_lab

    test, lab = find_lab(evidence, source)
    return test.history(lab)
