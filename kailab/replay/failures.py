"""Failures and repairs of nodes, from a file with the columns ``node``, ``at`` and ``seconds``.

A failure ends all pods of each job that has one on the node: a distributed job can't go on without a part of itself.
Source: Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", USENIX ATC 2019,
section 4, for the failures of Philly's jobs.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kailab.errors import InputError, Where
from kailab.fleet import Fleet
from kailab.lab.seen_names import describe_names
from kailab.model.objects import name_of
from kailab.replay.readers import lines
from kailab.replay.readers.lines import BrokenLine, LineFields

COLUMNS = ("node", "at", "seconds")


class NodeFailure(NamedTuple):
    """A node that fails ``at`` (seconds after the first arrival) and is repaired ``seconds`` later."""

    node: str
    at: int
    seconds: int


def read_failures(path: Path, fleet: Fleet) -> tuple[NodeFailure, ...]:
    """Read the file, in order of time. Raises InputError for a line that can't be read, a node that the fleet does not have,
    and a failure of a node that has already failed."""
    header = lines.read_header(path)
    if missing := [name for name in COLUMNS if name not in header]:
        raise InputError(
            f"no column {', '.join(missing)}; expected failures of nodes with {', '.join(COLUMNS)}",
            Where(file=str(path), line=1),
        )
    nodes = {name_of(node) for node in fleet.nodes()}
    found: list[tuple[NodeFailure, Where]] = []
    for line, values in lines.read_rows(path):
        where = Where(file=str(path), line=line)
        if isinstance(values, str):
            raise InputError(values, where)
        fields = LineFields(values)
        try:
            failure = NodeFailure(fields.text("node"), fields.whole("at"), fields.whole("seconds", least=1))
        except BrokenLine as error:
            raise InputError(str(error), where) from None
        if failure.node not in nodes:
            raise InputError(f"no node {failure.node!r:.80}; {describe_names(nodes, failure.node)}", where)
        found.append((failure, where))
    found.sort(key=lambda item: item[0].at)
    until: dict[str, int] = {}
    for failure, where in found:
        if failure.at <= until.get(failure.node, -1):
            raise InputError(
                f"{failure.node} fails at {failure.at}, before its repair at {until[failure.node]}; expected it to work until it fails",
                where,
            )
        until[failure.node] = failure.at + failure.seconds
    return tuple(failure for failure, _ in found)
