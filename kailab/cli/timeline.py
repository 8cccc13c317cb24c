"""``timeline``: the events of a subject, in the lab or in the evidence of a test."""

from __future__ import annotations

from pathlib import Path

import click

from kailab.cli import labfile, options, terminal
from kailab.cli.options import TextOrJson, parse_span
from kailab.errors import InputError

LAB = "lab"


@click.command()
@click.argument("words", nargs=-1, metavar="[lab|RUN|RUN/TEST] [KIND NAME]", help="The lab or a test, and the subject.")
@options.text_option("--since", help="Only what happened in this last span of lab time: 30m, 1h, 2d.")
@options.flag(
    "--evictions",
    help="Show who displaced whom: evictions by workload, and the chains that they form. Moves are no evictions.",
)
@options.namespace
@options.output
@options.state
@options.evidence
def timeline(
    words: tuple[str, ...],
    since: str,
    evictions: bool,
    namespace: str,
    output: TextOrJson,
    state: Path,
    evidence: Path,
) -> None:
    """List what happened to a pod, a podgroup, a queue or a workload: created, pending and why, bound, evicted and for whom, ended.

    The source is the lab that is up, or the evidence of a test: RUN/TEST, a test of the latest run, or a run with one test. Without
    KIND NAME, the timeline covers all pods.
    """
    from kailab.cli.selection import parse_subject
    from kailab.evidence.eviction_chains import EvictionHistory, eviction_history, latest_moment
    from kailab.evidence.subject_timeline import SubjectTimeline, subject_pods, subject_timeline

    source, subject = _split(words)
    target = parse_subject(subject)
    span = parse_span("--since", since)
    if source == LAB:
        with labfile.read_lab(state) as lab:
            history, now = labfile.history_of(state, lab), lab.now - lab.opened
    else:
        history = labfile.history_in(evidence, source)
        now = latest_moment(history)
    start = 0.0 if span is None else max(0.0, now - span)
    kind, name = (target.kind, target.names[0]) if target else ("", "")
    result: EvictionHistory | SubjectTimeline = subject_timeline(history, kind, name, namespace, start)
    if evictions:
        result = eviction_history(history, start, subject_pods(history, kind, name, namespace))
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
