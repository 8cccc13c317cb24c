"""``timeline``: what happened to something, in the lab or in the evidence of a test."""

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
@click.argument("words", nargs=-1, metavar="[lab|RUN|RUN/TEST] [KIND NAME]", help="Where, and what.")
@options.namespace
@options.output
@options.state
@options.evidence
def timeline(words: tuple[str, ...], namespace: str, output: TextOrJson, state: Path, evidence: Path) -> None:
    """Say what happened to a pod, a podgroup, a queue or a workload: created, waited and why, bound, evicted and for whom, ended.

    Of the lab that is up, or of a test from its evidence alone: RUN/TEST, a test of the latest run, or a run with one test. Without
    KIND NAME of all pods.
    """
    from kailab.cli.selection import parse_targets
    from kailab.errors import InputError
    from kailab.evidence.subject_timeline import subject_timeline

    where, what = _split(words)
    found = parse_targets(what) if what else []
    if len(found) > 1 or any(len(one.names) != 1 for one in found):
        raise InputError("say one subject: KIND NAME or KIND/NAME")
    history = _of_lab(state) if where == LAB else _of_evidence(evidence, where)
    told = (
        subject_timeline(history, found[0].kind, found[0].names[0], namespace) if found else subject_timeline(history)
    )
    if output is TextOrJson.json:
        terminal.say(json.dumps(told.data(), indent=2))
    else:
        terminal.say("\n".join(told.lines()))


def _split(words: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Where, and what: the first word is a place unless it is a kind."""
    from kailab.errors import InputError
    from kailab.model.kinds import resolve

    if not words:
        return LAB, ()
    try:
        resolve(words[0].partition("/")[0])
    except InputError:
        return words[0], words[1:]
    return LAB, words


def _of_lab(state: Path) -> LabHistory:
    from kailab.evidence.history import LabHistory
    from kailab.evidence.lab_record import LabRecord
    from kailab.lab.capture import make_recorder

    with labfile.read_lab(state) as lab:
        return LabHistory.of_recording(make_recorder(lab, LabRecord(state).whole()).recording)


def _of_evidence(evidence: Path, where: str) -> LabHistory:
    from kailab.evidence.history import LabHistory
    from kailab.evidence.store import find_lab

    return LabHistory.of_test(*find_lab(evidence, where))
