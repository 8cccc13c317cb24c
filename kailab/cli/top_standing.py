"""How a lab stands, as a terminal shows it: GPUs of each node by queue, queues, what waits and why, events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from kailab.cli.columns import View
from kailab.cli.queue_tree import tree
from kailab.cluster.protocol import VirtualTime
from kailab.engine.snapshot.records import GPU
from kailab.errors import escaped
from kailab.lab.wording import count, elapsed, gpus
from kailab.model.times import format_time
from kailab.report.racks import Racks
from kailab.scheduler.reading.nodes import unavailable

if TYPE_CHECKING:
    from kailab.cluster.protocol import Object
    from kailab.evidence.entries import PodRow
    from kailab.lab import Lab
    from kailab.lab.picture import Picture

MOST_EVENTS = 60
FREE = "."


class NodeStanding(NamedTuple):
    """``cells``: for each GPU the queue that holds it, ``FREE`` for nobody; ``parts``: how many of them are held in part. ``closed``: why
    it takes nothing new."""

    name: str
    rack: str
    cells: tuple[str, ...]
    parts: int
    closed: str


@dataclass(frozen=True)
class Standing:
    """``waiting``: queue, PodGroups, reason, message; ``events``: time, reason, objects, message, the latest first."""

    title: str
    used: str
    racks_by: str
    nodes: Sequence[NodeStanding]
    leaves: Sequence[str]
    queues: Sequence[Sequence[str]]
    waiting: Sequence[Sequence[str]]
    events: Sequence[Sequence[str]]
    virtual: bool


def standing(lab: Lab) -> Standing:
    view, facts = View(lab), lab.facts()
    picture, queues = view.picture, lab.get("queues")
    nodes = lab.get("nodes")
    racks = Racks.of_nodes(nodes, lab.get("topologies"))
    parents = {queue["spec"].get("parentQueue") for queue in queues}
    used = gpus(sum(picture.used.values())).partition(" ")[0]
    found = Standing(
        title=f"Lab {lab.fleet}, scheduler {lab.scheduler}, backend {lab.backend}; {format_time(lab.now)}, {elapsed(lab.now - lab.opened)} old",
        used=f"{used} of {facts['gpus']} GPUs in use",
        racks_by=racks.by,
        nodes=[_node(node, racks, view.on_node.get(node["metadata"]["name"], []), picture) for node in nodes],
        leaves=[name for queue in queues if (name := queue["metadata"]["name"]) not in parents],
        queues=tree(view, queues),
        waiting=_waiting(view),
        events=_events(lab.get("events", namespace=None)),
        virtual=isinstance(lab.cluster, VirtualTime),
    )
    return Standing(**{name: _shown(value) for name, value in vars(found).items()})


def _shown(value: Any) -> Any:
    """With all texts as a terminal may show them, before the widths of columns are reckoned."""
    if isinstance(value, str):
        return escaped(value)
    if isinstance(value, NodeStanding):
        return NodeStanding(*map(_shown, value))
    if isinstance(value, list | tuple):
        return type(value)(map(_shown, value))
    return value


def _node(node: Object, racks: Racks, held: Sequence[PodRow], picture: Picture) -> NodeStanding:
    name = node["metadata"]["name"]
    cells: list[str] = []
    parts: Counter[str] = Counter()
    for row, amount in zip(held, picture.added(held), strict=True):
        cells += [row.queue] * (amount // GPU)
        parts[row.queue] += amount % GPU
    shared = -(-parts.total() // GPU)
    # Which pods share a device is not asked here: parts are shown as the devices that they fill together.
    cells += [max(parts, key=lambda queue: parts[queue])] * shared if shared else []
    whole = picture.accounts.offered(node) // GPU
    cells += [FREE] * (whole - len(cells))
    why = unavailable(node["spec"], node.get("status") or {})
    return NodeStanding(name, racks.of(name), tuple(cells), shared, why)


def _waiting(view: View) -> list[list[str]]:
    """Told once for each queue and reason."""
    found: dict[tuple[str, str], list[str]] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for entry in view.picture.waiting():
        key = (entry.queue, entry.reason)
        counts[key] += 1
        found.setdefault(
            key, [entry.queue or "none", "", entry.reason or "no reason yet", " ".join(entry.message.split())]
        )
    for key, row in found.items():
        row[1] = str(counts[key])
    return sorted(found.values())


def _events(events: Sequence[Object]) -> list[list[str]]:
    """The latest first; what happened to several at one time for one reason once, in the words that the first of them has."""
    latest = sorted(events, key=lambda event: event.get("lastTimestamp") or "", reverse=True)
    found: dict[tuple[str, str, str], list[Object]] = {}
    for event in latest:
        key = (event.get("lastTimestamp") or "", event.get("reason", ""), event["involvedObject"].get("kind", ""))
        found.setdefault(key, []).append(event)
    rows = []
    for (at, reason, kind), told in islice(found.items(), MOST_EVENTS):
        first = told[0]
        name = f"{kind.lower()}/{first['involvedObject'].get('name', '')}" if len(told) == 1 else count(len(told), kind)
        rows.append([at[11:19], reason, name, " ".join(first.get("message", "").split())])
    return rows
