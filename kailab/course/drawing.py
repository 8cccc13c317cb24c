"""Drawings for a lesson's slides: the tree of queues, and the GPUs of each node with the queue that holds them.

Lengths are units of an SVG view box.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil

from kailab.cluster.protocol import Object
from kailab.engine.decisions import QueueState
from kailab.engine.snapshot.records import GPU, UNLIMITED
from kailab.lab import Lab
from kailab.lab.picture import Picture
from kailab.model.labels import GPU_RESOURCE
from kailab.model.multimap import multimap
from kailab.model.objects import allocatable_of, is_ready, spec_of

COLOURS = 10
"""Number of the colours ``queue-0`` and so on in the style sheet; further queues repeat them."""
OUTSIDE = "no queue"
_BOX, _ROW, _GAP = 190, 62, 24
_CELL, _LINE, _NAMES = 26, 34, 150
_MOST_ROWS = 16
"""Nodes below each other; more get further columns."""


@dataclass(frozen=True)
class QueueBox:
    """A queue of the tree. ``parent``: the middle of its parent's lower edge, or None. ``colour``: -1 for a queue that
    has queues below it."""

    name: str
    amounts: str
    x: int
    y: int
    colour: int
    parent: tuple[int, int] | None


@dataclass(frozen=True)
class QueueTreeDrawing:
    boxes: tuple[QueueBox, ...]
    width: int
    height: int
    box: tuple[int, int] = (_BOX, _ROW)


@dataclass(frozen=True)
class HeldPart:
    """What one pod holds of a node's GPUs."""

    queue: str
    x: float
    width: float
    colour: int


@dataclass(frozen=True)
class DrawnNode:
    """A node: ``gpus`` that it has, and what pods hold of them. ``x``: where its name ends and its GPUs begin.
    ``note``: why it takes no pods, or empty."""

    name: str
    x: int
    y: int
    gpus: int
    held: tuple[HeldPart, ...]
    note: str


@dataclass(frozen=True)
class GpuMap:
    """``legend``: queue, colour and GPUs held of each queue that holds some. ``waiting``: pending pods, as text."""

    nodes: tuple[DrawnNode, ...]
    legend: tuple[tuple[str, int, str], ...]
    waiting: str
    width: int
    height: int
    cell: int = _CELL


@dataclass(frozen=True)
class LabDrawing:
    tree: QueueTreeDrawing
    gpus: GpuMap


def draw(lab: Lab) -> LabDrawing:
    picture = lab.picture()
    queues = {queue.name: queue for queue in picture.present.queues}
    colours = _colours(queues)
    return LabDrawing(_tree(queues, colours), _map(picture, colours))


def _colours(queues: Mapping[str, QueueState]) -> dict[str, int]:
    """Leaf queue -> its colour, in the order of names: a queue keeps its colour from slide to slide."""
    parents = {queue.parent for queue in queues.values()}
    leaves = sorted(name for name in queues if name not in parents)
    return {name: place % COLOURS for place, name in enumerate(leaves)}


def _tree(queues: Mapping[str, QueueState], colours: Mapping[str, int]) -> QueueTreeDrawing:
    boxes: list[QueueBox] = []
    below = multimap((queue.parent if queue.parent in queues else "", queue.name) for queue in queues.values())

    def place(name: str, left: int, depth: int) -> int:
        """Place a queue and those below it; returns the right edge. A parent stands above the middle of its children."""
        right = left
        for child in sorted(below.get(name, ())):
            right = place(child, right if right == left else right + _GAP, depth + 1)
        right = max(right, left + _BOX)
        x, y = (left + right - _BOX) // 2, depth * (_ROW + 2 * _GAP)
        boxes.append(QueueBox(name, _amounts(queues[name]), x, y, colours.get(name, -1), None))
        return right

    width = 0
    for root in sorted(below.get("", ())):
        width = place(root, width + _GAP if width else 0, 0)
    at = {box.name: box for box in boxes}
    joined = tuple(
        QueueBox(box.name, box.amounts, box.x, box.y, box.colour, _foot(at.get(queues[box.name].parent)))
        for box in boxes
    )
    return QueueTreeDrawing(joined, width, max((box.y for box in boxes), default=0) + _ROW)


def _foot(box: QueueBox | None) -> tuple[int, int] | None:
    return None if box is None else (box.x + _BOX // 2, box.y + _ROW)


def _amounts(queue: QueueState) -> str:
    limit = "no limit" if queue.gpu.limit == UNLIMITED else f"limit {_number(queue.gpu.limit)}"
    return f"quota {_number(queue.gpu.quota)}, {limit}"


def _number(milli: float) -> str:
    return "unlimited" if milli == UNLIMITED else f"{milli / GPU:g}"


def _map(picture: Picture, colours: Mapping[str, int]) -> GpuMap:
    held: dict[str, list[tuple[str, int]]] = {}
    waiting: dict[str, int] = {}
    for row in picture.rows:
        queue = row.queue or OUTSIDE
        if row.node and row.milli_gpus and row.phase in ("Running", "Pending"):
            held.setdefault(row.node, []).append((queue, row.milli_gpus))
        elif row.phase == "Pending" and not row.node:
            waiting[queue] = waiting.get(queue, 0) + 1
    nodes = picture.nodes
    gpus = {name: int(allocatable_of(node).get(GPU_RESOURCE, 0) or 0) for name, node in nodes.items()}
    parts = {name: tuple(_parts(held.get(name, ()), colours)) for name in nodes}
    # Work of another scheduler may hold more than a node has.
    widest = max(
        (max(gpus[name], *(ceil(part.x + part.width) for part in parts[name]), 0) for name in nodes), default=0
    )
    columns = ceil(len(nodes) / _MOST_ROWS) or 1
    height = ceil(len(nodes) / columns)
    column = _NAMES + widest * _CELL
    rows = tuple(
        DrawnNode(name, place // height * column + _NAMES, place % height * _LINE, gpus[name], parts[name], _note(node))
        for place, (name, node) in enumerate(nodes.items())
    )
    totals: dict[str, int] = {}
    for pods in held.values():
        for queue, milli in pods:
            totals[queue] = totals.get(queue, 0) + milli
    legend = tuple((queue, colours.get(queue, -1), _number(totals[queue])) for queue in sorted(totals))
    words = ", ".join(f"{queue} {count} {'pod' if count == 1 else 'pods'}" for queue, count in sorted(waiting.items()))
    return GpuMap(rows, legend, words, columns * column, height * _LINE)


def _note(node: Object) -> str:
    if not is_ready(node, unreported=True):
        return "not ready"
    return "cordoned" if spec_of(node).get("unschedulable") else ""


def _parts(pods: Iterable[tuple[str, int]], colours: Mapping[str, int]) -> Iterable[HeldPart]:
    """The pods of a node side by side, those of a queue together."""
    x = 0.0
    for queue, milli in sorted(pods):
        width = milli / GPU
        yield HeldPart(queue, x, width, colours.get(queue, -1))
        x += width
