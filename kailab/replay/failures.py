"""Failures and repairs of nodes, from a file with the columns ``node``, ``at`` and ``seconds``.

A failure ends all pods of each job that has one on the node: a distributed job can't go on without a part of itself.
Source: Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", USENIX ATC 2019,
section 4, for the failures of Philly's jobs.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kailab.errors import InputError, Where
from kailab.fleet.fleet import Fleet
from kailab.lab.seen_names import describe_names
from kailab.model.objects import name_of
from kailab.replay.readers.lines import LineFields, read_table

COLUMNS = ("node", "at", "seconds")


class NodeFailure(NamedTuple):
    """A node that fails ``at`` (seconds after the first arrival) and is repaired ``seconds`` later."""

    node: str
    at: int
    seconds: int


def read_failures(path: Path, fleet: Fleet) -> tuple[NodeFailure, ...]:
    """Read the file, in order of time. Raises InputError for a line that can't be read, a node that the fleet does not have,
    and a failure of a node that has already failed."""
    nodes = {name_of(node) for node in fleet.nodes()}
    found: list[tuple[NodeFailure, Where]] = []
    for where, failure in read_table(path, COLUMNS, "failures of nodes", _failure):
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


def _failure(fields: LineFields) -> NodeFailure:
    return NodeFailure(fields.text("node"), fields.whole("at"), fields.whole("seconds", least=1))
