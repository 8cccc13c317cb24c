"""``events``: the events of the lab by workload."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kailab.cli import labfile, options, terminal
from kailab.cli.options import TextOrJson, parse_span
from kailab.cli.table import format_age, render_table
from kailab.errors import InputError
from kailab.model.objects import Object, involved_of

if TYPE_CHECKING:
    from kailab.evidence.history import LabHistory

SHOWN = 20
"""Workloads in the table unless ``--all`` is given."""
MOST_LETTERS = 160
"""Of a message, unless ``--all`` is given."""


@click.command()
@click.argument("words", nargs=-1, metavar="[KIND NAME]", help="Only events of this workload, pod or podgroup.")
@options.text_option("--since", help="Only events of this last span of lab time: 30m, 1h, 2d.")
@options.text_option("--types", help="Only events of this type: Normal or Warning.")
@options.flag("--all", "everything", help="Show all workloads and whole messages.")
@options.namespace
@options.all_namespaces
@options.output
@options.state
def events(
    words: tuple[str, ...],
    since: str,
    types: str,
    everything: bool,
    namespace: str,
    all_namespaces: bool,
    output: TextOrJson,
    state: Path,
) -> None:
    """List the events of the lab by workload, the latest first: one row for each workload and reason, with the number of events and objects,
    and the latest message."""
    from kailab.cli.selection import parse_subject
    from kailab.evidence.workload_events import workload_events

    target = parse_subject(words)
    if types not in ("", "Normal", "Warning"):
        raise InputError(f"--types: expected Normal or Warning, not {types!r:.40}")
    span = parse_span("--since", since)
    with labfile.read_lab(state) as lab:
        history, now = labfile.history_of(state, lab), lab.now
        found = lab.get("events", namespace=None if all_namespaces or target else namespace)
        kind, name = (lab.kind(target.kind), target.names[0]) if target else ("", "")
        if target:
            found = _about(found, history, kind, name, namespace)
            if not found:
                # Raises NotFound for a name that does not exist.
                lab.get(kind, name, namespace)
    if types:
        found = [event for event in found if event.get("type") == types]
    result = workload_events(history, found, float("-inf") if span is None else now - span)
    if output is TextOrJson.json:
        terminal.say_json({"workloads": [group.data() for group in result]})
        return
    if not result:
        terminal.notice("No events found.")
        return
    rows = []
    shown = result if everything else result[:SHOWN]
    for group in shown:
        for place, row in enumerate(group.rows):
            message = (
                row.message if everything or len(row.message) <= MOST_LETTERS else f"{row.message[:MOST_LETTERS]}..."
            )
            cells = (format_age(now - row.last), row.type, row.reason, str(row.count), str(len(row.objects)), message)
            rows.append((group.workload if not place else "", *cells))
    terminal.say(render_table(("WORKLOAD", "LAST SEEN", "TYPE", "REASON", "EVENTS", "OBJECTS", "LATEST MESSAGE"), rows))
    if len(shown) < len(result):
        terminal.notice(f"{len(result) - len(shown)} more workloads have events: --all shows them")


def _about(events: Sequence[Object], history: LabHistory, kind: str, name: str, namespace: str) -> list[Object]:
    """The events about a subject, its pods and their PodGroups."""
    from kailab.evidence.subject_timeline import subject_pods

    belongs = subject_pods(history, kind, name, namespace)
    pods = [pod for pod in history.pods.values() if belongs(pod)]
    about = {(kind, f"{namespace}/{name}"), (kind, f"/{name}")}
    about |= {("Pod", pod.name) for pod in pods} | {("PodGroup", pod.podgroup) for pod in pods}
    about |= {
        (owner.partition("/")[0], f"{pod.namespace}/{owner.partition('/')[2]}")
        for pod in pods
        for owner in pod.owners[:-1]
    }
    return [event for event in events if _involved(event) in about]


def _involved(event: Object) -> tuple[str, str]:
    involved = involved_of(event)
    return str(involved.get("kind") or ""), f"{involved.get('namespace') or ''}/{involved.get('name') or ''}"
