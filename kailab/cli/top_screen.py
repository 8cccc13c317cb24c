"""The screen of ``top``: the lab's GPUs by node and queue, queues, pending work and events, in sections that share the height of the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from kailab.cli.object_tables import QUEUE_TREE_HEADERS, TableContext, queue_tree
from kailab.cluster.protocol import VirtualTime
from kailab.engine.snapshot.records import GPU
from kailab.errors import escaped
from kailab.lab.wording import count, elapsed, gpus
from kailab.model.objects import parent_of
from kailab.model.times import format_time
from kailab.report.racks import RackMap
from kailab.scheduler.reading.nodes import unavailable

if TYPE_CHECKING:
    from kailab.cluster.protocol import Object
    from kailab.evidence.entries import PodRow
    from kailab.lab import Lab
    from kailab.lab.picture import Picture


MOST_EVENTS = 60
FREE = "."


class NodeOverview(NamedTuple):
    """``cells``: for each GPU the queue that holds it, ``FREE`` for nobody; ``parts``: how many of them are held in part. ``closed``: why
    it takes nothing new."""

    name: str
    rack: str
    cells: tuple[str, ...]
    parts: int
    closed: str


@dataclass(frozen=True)
class LabOverview:
    """``waiting``: queue, PodGroups, reason, message; ``events``: time, reason, objects, message, the latest first."""

    title: str
    used: str
    racks_by: str
    nodes: Sequence[NodeOverview]
    leaves: Sequence[str]
    queues: Sequence[Sequence[str]]
    waiting: Sequence[Sequence[str]]
    events: Sequence[Sequence[str]]
    virtual: bool


def read_overview(lab: Lab) -> LabOverview:
    view, facts = TableContext(lab), lab.facts()
    picture, queues = view.picture, lab.get("queues")
    nodes = lab.get("nodes")
    racks = RackMap.of_nodes(nodes, lab.get("topologies"))
    parents = {parent_of(queue) for queue in queues}
    used = gpus(sum(picture.used.values())).partition(" ")[0]
    found = LabOverview(
        title=f"Lab {lab.fleet}, scheduler {lab.scheduler}, backend {lab.backend}; {format_time(lab.now)}, {elapsed(lab.now - lab.opened)} old",
        used=f"{used} of {facts['gpus']} GPUs in use",
        racks_by=racks.by,
        nodes=[_read_node(node, racks, view.on_node.get(node["metadata"]["name"], []), picture) for node in nodes],
        leaves=[name for queue in queues if (name := queue["metadata"]["name"]) not in parents],
        queues=queue_tree(view, queues),
        waiting=_waiting(view),
        events=_events(lab.get("events", namespace=None)),
        virtual=isinstance(lab.cluster, VirtualTime),
    )
    return LabOverview(**{name: _escape_texts(value) for name, value in vars(found).items()})


def _escape_texts(value: Any) -> Any:
    """With all texts as a terminal may show them, before the widths of columns are reckoned."""
    if isinstance(value, str):
        return escaped(value)
    if isinstance(value, NodeOverview):
        return NodeOverview(*map(_escape_texts, value))
    if isinstance(value, list | tuple):
        return type(value)(map(_escape_texts, value))
    return value


def _read_node(node: Object, racks: RackMap, held: Sequence[PodRow], picture: Picture) -> NodeOverview:
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
    return NodeOverview(name, racks.of(name), tuple(cells), shared, why)


def _waiting(view: TableContext) -> list[list[str]]:
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


SECTIONS = ("Fleet", "Queues", "Waiting", "Events")
COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "red", "bright_cyan", "bright_yellow", "bright_green")
_KEYS = "1 fleet  2 queues  3 waiting  4 events  0 all  up/down scroll  q quit"
_GAP = "  "
_WIDEST = 30
"""Of a column that others stand behind."""


@dataclass(frozen=True)
class OverviewScreen:
    """``section``: place in ``SECTIONS`` of the only one shown, None for all; ``first``: line of it that is at the top. ``height``: lines
    there are, 0 for as many as it takes."""

    standing: LabOverview
    height: int = 0
    section: int | None = None
    first: int = 0
    trouble: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self._lines(options.max_width)

    def _lines(self, width: int) -> Iterator[Text]:
        standing = self.standing
        yield _cut(Text.assemble((standing.title, "bold"), f"; {standing.used}"), width)
        if self.trouble:
            yield _cut(Text(self.trouble, "red"), width)
        sections = [(name, _section(standing, name, width)) for name in SECTIONS]
        if self.section is not None:
            sections = [sections[self.section]]
        lines = [len(content) + 1 for _, content in sections]
        room = self.height - (3 if self.trouble else 2) if self.height else sum(lines)
        for (name, content), most in zip(sections, share_lines(room, lines), strict=True):
            yield from _fitted(name, content, most, self.first if self.section is not None else 0, width)
        if self.height:
            yield _cut(Text(_KEYS, "dim"), width)


def share_lines(room: int, wanted: Sequence[int]) -> list[int]:
    """Lines for each: all that it wants where there is room; else nobody more than it wants, and those who want more the same.

    >>> shared(20, [3, 4]), shared(20, [3, 30, 30]), shared(5, [4, 4])
    ([3, 4], [3, 8, 9], [2, 3])
    """
    given = [0] * len(wanted)
    left = max(0, room)
    for number, place in enumerate(sorted(range(len(wanted)), key=lambda place: wanted[place])):
        given[place] = min(wanted[place], left // (len(wanted) - number))
        left -= given[place]
    return given


def last_top_line(standing: LabOverview, section: int, width: int, height: int) -> int:
    """The last line of a section that can be at the top."""
    return max(0, len(_section(standing, SECTIONS[section], width)) - max(1, height - 4))


def _fitted(name: str, content: Sequence[Text], most: int, first: int, width: int) -> Iterator[Text]:
    if most < 1:
        return
    title = Text(name, "bold underline")
    shown = content[first : first + most - 1]
    hidden = len(content) - len(shown)
    if hidden:
        title.append(f"  lines {first + 1} to {first + len(shown)} of {len(content)}", "dim")
    yield _cut(title, width)
    yield from (_cut(line.copy(), width) for line in shown)


def _section(standing: LabOverview, name: str, width: int) -> list[Text]:
    if name == "Fleet":
        return list(_fleet(standing, width))
    if name == "Queues":
        return _table(QUEUE_TREE_HEADERS, standing.queues, width, "No queues.")
    if name == "Waiting":
        return _table(("QUEUE", "PODGROUPS", "REASON", "IN WORDS"), standing.waiting, width, "Nothing waits.")
    return _table(("TIME", "REASON", "OBJECTS", "MESSAGE"), standing.events, width, "No events.")


def _fleet(standing: LabOverview, width: int) -> Iterator[Text]:
    """Nodes beside each other, rack by rack; a letter for each GPU that is held, small where it is held in part."""
    letters = {queue: _letter(place) for place, queue in enumerate(standing.leaves)}
    styles = {queue: f"black on {COLOURS[place % len(COLOURS)]}" for place, queue in enumerate(standing.leaves)}
    used = Counter(queue for node in standing.nodes for queue in node.cells)
    legend = Text("by " + standing.racks_by + ":")
    for queue in standing.leaves:
        if used[queue]:
            legend.append("  ").append(letters[queue], styles[queue]).append(f" {queue} {used[queue]}")
    legend.append(f"  {FREE} free {used[FREE]}")
    yield legend
    nodes = sorted(standing.nodes, key=lambda node: node.rack)
    for rack, there in groupby(nodes, key=lambda node: node.rack):
        line = Text().append(f"{rack}:", "dim")
        for node in there:
            drawn = _draw_node(node, letters, styles)
            if cell_len(line.plain) + cell_len(drawn.plain) + 2 > width:
                yield line
                line = Text(" " * (cell_len(rack) + 1))
            line = line.append("  ").append_text(drawn)
        yield line


def _draw_node(node: NodeOverview, letters: dict[str, str], styles: dict[str, str]) -> Text:
    text = Text(f"{node.name} ")
    whole = len([cell for cell in node.cells if cell != FREE]) - node.parts
    for place, queue in enumerate(node.cells):
        letter = letters.get(queue, FREE if queue == FREE else "?")
        part = queue != FREE and place >= whole
        text.append(letter.lower() if part else letter, styles.get(queue, "dim"))
    if node.closed:
        text.append(f" ({node.closed})", "yellow")
    return text


def _letter(place: int) -> str:
    return ascii_uppercase[place % 26] if place < 26 else _letter(place // 26 - 1) + ascii_uppercase[place % 26]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int, nothing: str) -> list[Text]:
    """The last column gets what the others leave."""
    if not rows:
        return [Text(nothing, "dim")]
    widths = [min(_WIDEST, max(cell_len(row[place]) for row in (heads, *rows))) for place in range(len(heads))]
    gap = _GAP
    if width < sum(widths) + len(_GAP) * (len(widths) - 1) <= width + len(widths) - 1:
        gap = " "  # closer together rather than cut
    lines = []
    for number, row in enumerate((heads, *rows)):
        told = Text(style="dim" if not number else "")
        for cell, wide in zip(row[:-1], widths, strict=False):
            # set_cell_size would cut without a sign of it.
            shown = Text(cell)
            shown.truncate(wide, overflow="ellipsis", pad=True)
            told.append_text(shown).append(gap)
        lines.append(told.append(row[-1]))
    return lines


def _cut(line: Text, width: int) -> Text:
    line.no_wrap = True
    line.truncate(width, overflow="ellipsis")
    return line
