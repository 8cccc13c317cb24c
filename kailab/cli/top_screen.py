"""The screen of ``top``: the lab's GPUs by node and queue, queues, pending work and events, in sections that share the height of the
terminal. Workloads, queues and nodes have a section each in which a row can be selected, to act on it."""

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
from kailab.cli.table import natural_order
from kailab.cli.top_actions import RowSubject, actions_of
from kailab.cluster.protocol import Object, VirtualTime
from kailab.engine.snapshot.records import GPU
from kailab.errors import escaped
from kailab.evidence.entries import PodRow
from kailab.evidence.wording import count, elapsed, gpu_amount
from kailab.lab.picture import Picture
from kailab.model.kinds import KINDS
from kailab.model.multimap import multimap
from kailab.model.objects import involved_of, name_of, parent_of, spec_of
from kailab.model.times import format_time
from kailab.report.racks import RackMap
from kailab.scheduler.reading.nodes import unavailable
from kailab.whatif.outcome import Outcome, Workload, WorkloadOwners

if TYPE_CHECKING:
    from kailab.lab import Lab


MOST_EVENTS = 60
FREE = "."


class NodeOverview(NamedTuple):
    """``cells``: the queue that holds each GPU, or ``FREE``; ``parts``: number of GPUs that are held in part. ``closed``: why the node takes no
    new pods."""

    name: str
    rack: str
    cells: tuple[str, ...]
    parts: int
    closed: str


class SubjectRow(NamedTuple):
    """A row that can be selected. The last of ``cells`` gets the remaining width."""

    subject: RowSubject
    cells: Sequence[str]


@dataclass(frozen=True)
class LabOverview:
    """``waiting``: queue, PodGroups, reason, message; ``events``: time, reason, objects, message, the latest first; ``workloads``: work
    that waits first."""

    title: str
    used: str
    racks_by: str
    nodes: Sequence[NodeOverview]
    leaves: Sequence[str]
    queues: Sequence[Sequence[str]]
    waiting: Sequence[Sequence[str]]
    events: Sequence[Sequence[str]]
    workloads: Sequence[SubjectRow]
    node_rows: Sequence[SubjectRow]
    virtual: bool

    def subjects(self, section: int | None) -> Sequence[RowSubject]:
        """What the rows of a section are about; none for a section whose rows are not selected."""
        if section == SECTIONS.index("Workloads"):
            return [row.subject for row in self.workloads]
        if section == SECTIONS.index("Nodes"):
            return [row.subject for row in self.node_rows]
        return ()


def read_overview(lab: Lab) -> LabOverview:
    view, facts = TableContext(lab), lab.facts()
    picture, queues = view.picture, lab.get("queues")
    nodes = sorted(lab.get("nodes"), key=lambda node: natural_order(name_of(node)))
    racks = RackMap.of_nodes(nodes, lab.get("topologies"))
    parents = {parent_of(queue) for queue in queues}
    used = gpu_amount(sum(picture.used.values()))
    overview = LabOverview(
        title=f"Lab {lab.fleet}, scheduler {lab.scheduler}, backend {lab.backend}; {format_time(lab.now)}, {elapsed(lab.now - lab.opened)} old",
        used=f"{used} of {count(facts['gpus'], 'GPU')} in use{_by_model(picture)}",
        racks_by=racks.by,
        nodes=[_read_node(node, racks, view.on_node.get(name_of(node), []), picture) for node in nodes],
        leaves=[name for queue in queues if (name := name_of(queue)) not in parents],
        queues=queue_tree(view, queues),
        waiting=_waiting(view),
        events=_events(lab.get("events", namespace=None)),
        workloads=_workloads(lab, picture),
        node_rows=[_node_row(node, racks, picture) for node in nodes],
        virtual=isinstance(lab.cluster, VirtualTime),
    )
    return LabOverview(**{name: _escape_texts(value) for name, value in vars(overview).items()})


def _by_model(picture: Picture) -> str:
    """``: H100 16 of 16, A100 3 of 8`` in a lab with several models."""
    uses = picture.models.values()
    each = [f"{use.title} {gpu_amount(use.used)} of {gpu_amount(use.gpus)}" for use in uses]
    return f": {', '.join(each)}" if len(each) > 1 else ""


def _escape_texts(value: Any) -> Any:
    """Escape all texts before the widths of columns are computed."""
    if isinstance(value, str):
        return escaped(value)
    if isinstance(value, RowSubject):
        return value
    if isinstance(value, NodeOverview | SubjectRow):
        return type(value)(*map(_escape_texts, value))
    if isinstance(value, list | tuple):
        return type(value)(map(_escape_texts, value))
    return value


def _read_node(node: Object, racks: RackMap, pods: Sequence[PodRow], picture: Picture) -> NodeOverview:
    name = name_of(node)
    cells: list[str] = []
    parts: Counter[str] = Counter()
    for row, amount in zip(pods, picture.added(pods), strict=True):
        cells += [row.queue] * (amount // GPU)
        parts[row.queue] += amount % GPU
    shared = -(-parts.total() // GPU)
    # It is not known which pods share a device: parts are shown as the number of devices that they fill together.
    cells += [max(parts, key=lambda queue: parts[queue])] * shared if shared else []
    whole = picture.accounts.offered(node) // GPU
    cells += [FREE] * (whole - len(cells))
    why = unavailable(spec_of(node), node.get("status") or {})
    return NodeOverview(name, racks.of(name), tuple(cells), shared, why)


def _workloads(lab: Lab, picture: Picture) -> list[SubjectRow]:
    """Those with waiting pods come first."""
    reasons: dict[Workload, str] = {}
    owners, owner = WorkloadOwners(lab), {row.name: row.owner for row in picture.rows}
    for entry in picture.waiting():
        for pod in entry.pods:
            reasons.setdefault(owners.of(pod, owner.get(pod, "")), entry.reason or picture.no_reason(pod))
    rows = []
    for workload, amounts in Outcome.of(lab).workloads.items():
        kind = KINDS.get(workload.kind)
        subject = RowSubject(
            workload.kind, workload.name, workload.namespace, scalable=kind is not None and kind.scalable
        )
        refused = f"{amounts.refused} refused by the API server" if amounts.refused else ""
        cells = [
            f"{workload.kind.partition('.')[0]}/{workload.name}", workload.namespace, amounts.queue or "none",
            str(amounts.running), str(amounts.waiting), reasons.get(workload, refused),
        ]  # fmt: skip
        rows.append((not (amounts.waiting or amounts.refused), SubjectRow(subject, cells)))
    return [row for _, row in sorted(rows, key=lambda each: each[0])]


def _node_row(node: Object, racks: RackMap, picture: Picture) -> SubjectRow:
    name, spec = name_of(node), spec_of(node)
    offered = picture.accounts.offered(node)
    cells = [
        name, racks.of(name), gpu_amount(picture.used.get(name, 0)), gpu_amount(offered),
        unavailable(spec, node.get("status") or {}),
    ]  # fmt: skip
    return SubjectRow(RowSubject("Node", name, closed=bool(spec.get("unschedulable"))), cells)


def _waiting(view: TableContext) -> list[list[str]]:
    """One row per queue and reason."""
    rows: dict[tuple[str, str], list[str]] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for entry in view.picture.waiting():
        reason = entry.reason or view.picture.no_reason(entry.pods[0])
        key = (entry.queue, reason)
        counts[key] += 1
        rows.setdefault(key, [entry.queue or "none", "", reason, " ".join(entry.message.split())])
    for key, row in rows.items():
        row[1] = str(counts[key])
    return sorted(rows.values())


def _events(events: Sequence[Object]) -> list[list[str]]:
    """The latest events first. Events of one time, reason and kind become one row with the message of the first."""
    latest = sorted(events, key=lambda event: event.get("lastTimestamp") or "", reverse=True)
    grouped = multimap(
        ((event.get("lastTimestamp") or "", event.get("reason", ""), involved_of(event).get("kind", "")), event)
        for event in latest
    )
    rows = []
    for (at, reason, kind), same in islice(grouped.items(), MOST_EVENTS):
        first = same[0]
        name = f"{kind.lower()}/{involved_of(first).get('name', '')}" if len(same) == 1 else count(len(same), kind)
        rows.append([at[11:19], reason, name, " ".join(first.get("message", "").split())])
    return rows


SECTIONS = ("Fleet", "Queues", "Waiting", "Events", "Workloads", "Nodes")
OVERVIEW = SECTIONS[:4]
"""The sections that are shown together. The others list every object, so each is shown alone."""
COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "red", "bright_cyan", "bright_yellow", "bright_green")
_KEYS = "1 fleet  2 queues  3 waiting  4 events  5 workloads  6 nodes  0 all  up/down scroll  q quit"
_ROW_KEYS = "up/down select  0 all  q quit"
_GAP = "  "
_WIDEST = 30
"""Width limit of all columns but the last."""


@dataclass(frozen=True)
class OverviewScreen:
    """``section``: index in ``SECTIONS`` of the only one shown, None for the overview; ``first``: its line at the top; ``selected``: the
    index of its selected row. ``height``: available lines, 0 for no limit."""

    overview: LabOverview
    height: int = 0
    section: int | None = None
    first: int = 0
    selected: int | None = None
    trouble: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self._lines(options.max_width)

    def _lines(self, width: int) -> Iterator[Text]:
        overview = self.overview
        yield _cut(Text.assemble((overview.title, "bold"), f"; {overview.used}"), width)
        if self.trouble:
            yield _cut(Text(self.trouble, "red"), width)
        names = OVERVIEW if self.section is None else (SECTIONS[self.section],)
        sections = [(name, _section(overview, name, width)) for name in names]
        if self.selected is not None:
            sections[0][1][self.selected + 1].stylize("reverse")
        lines = [len(content) + 1 for _, content in sections]
        room = self.height - (3 if self.trouble else 2) if self.height else sum(lines)
        for (name, content), most in zip(sections, divide_lines(room, lines), strict=True):
            yield from _fitted(name, content, most, self.first if self.section is not None else 0, width)
        if self.height:
            yield _cut(Text(self._keys(), "dim"), width)

    def _keys(self) -> str:
        if self.selected is None:
            return _KEYS
        subject = self.overview.subjects(self.section)[self.selected]
        return "  ".join([*(f"{key} {word}" for key, word in actions_of(subject)), _ROW_KEYS])


def divide_lines(room: int, wanted: Sequence[int]) -> list[int]:
    """Share the lines among sections: each gets at most what it wants, and sections that want more get equal shares.

    >>> divide_lines(20, [3, 4]), divide_lines(20, [3, 30, 30]), divide_lines(5, [4, 4])
    ([3, 4], [3, 8, 9], [2, 3])
    """
    shares = [0] * len(wanted)
    remaining = max(0, room)
    for number, index in enumerate(sorted(range(len(wanted)), key=lambda index: wanted[index])):
        shares[index] = min(wanted[index], remaining // (len(wanted) - number))
        remaining -= shares[index]
    return shares


def last_top_line(overview: LabOverview, section: int, width: int, height: int) -> int:
    """The last line of a section that may be its first shown line."""
    return max(0, len(_section(overview, SECTIONS[section], width)) - lines_of_section(height))


def lines_of_section(height: int) -> int:
    """How many lines of a section that is shown alone are visible."""
    return max(1, height - 4)


def _fitted(name: str, content: Sequence[Text], most: int, first: int, width: int) -> Iterator[Text]:
    if most < 1:
        return
    title = Text(name, "bold underline")
    visible = content[first : first + most - 1]
    hidden = len(content) - len(visible)
    if hidden:
        title.append(f"  lines {first + 1} to {first + len(visible)} of {len(content)}", "dim")
    yield _cut(title, width)
    yield from (_cut(line.copy(), width) for line in visible)


def _section(overview: LabOverview, name: str, width: int) -> list[Text]:
    if name == "Fleet":
        return list(_fleet(overview, width))
    if name == "Queues":
        return _table(QUEUE_TREE_HEADERS, overview.queues, width, "No queues.")
    if name == "Waiting":
        return _table(("QUEUE", "PODGROUPS", "REASON", "IN WORDS"), overview.waiting, width, "Nothing waits.")
    if name == "Events":
        return _table(("TIME", "REASON", "OBJECTS", "MESSAGE"), overview.events, width, "No events.")
    if name == "Workloads":
        heads: Sequence[str] = ("WORKLOAD", "NAMESPACE", "QUEUE", "RUNNING", "WAITING", "REASON")
        return _table(heads, [row.cells for row in overview.workloads], width, "No workloads.")
    heads = ("NODE", "RACK", "USED", "GPUS", "NEW PODS")
    return _table(heads, [row.cells for row in overview.node_rows], width, "No nodes.")


def _fleet(overview: LabOverview, width: int) -> Iterator[Text]:
    """The nodes by rack, with one letter per held GPU: upper case if it is held whole, lower case if in part."""
    letters = {queue: _letter(index) for index, queue in enumerate(overview.leaves)}
    styles = {queue: f"black on {COLOURS[index % len(COLOURS)]}" for index, queue in enumerate(overview.leaves)}
    used = Counter(queue for node in overview.nodes for queue in node.cells)
    legend = Text("by " + overview.racks_by + ":")
    for queue in overview.leaves:
        if used[queue]:
            legend.append("  ").append(letters[queue], styles[queue]).append(f" {queue} {used[queue]}")
    legend.append(f"  {FREE} free {used[FREE]}")
    yield legend
    nodes = sorted(overview.nodes, key=lambda node: natural_order(node.rack))
    for rack, nodes_of_rack in groupby(nodes, key=lambda node: node.rack):
        line = Text().append(f"{rack}:", "dim")
        for node in nodes_of_rack:
            drawn = _draw_node(node, letters, styles)
            if cell_len(line.plain) + cell_len(drawn.plain) + 2 > width:
                yield line
                line = Text(" " * (cell_len(rack) + 1))
            line = line.append("  ").append_text(drawn)
        yield line


def _draw_node(node: NodeOverview, letters: dict[str, str], styles: dict[str, str]) -> Text:
    text = Text(f"{node.name} ")
    whole = len([cell for cell in node.cells if cell != FREE]) - node.parts
    for index, queue in enumerate(node.cells):
        letter = letters.get(queue, FREE if queue == FREE else "?")
        part = queue != FREE and index >= whole
        text.append(letter.lower() if part else letter, styles.get(queue, "dim"))
    if node.closed:
        text.append(f" ({node.closed})", "yellow")
    return text


def _letter(index: int) -> str:
    return ascii_uppercase[index % 26] if index < 26 else _letter(index // 26 - 1) + ascii_uppercase[index % 26]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int, placeholder: str) -> list[Text]:
    """The last column gets the remaining width."""
    if not rows:
        return [Text(placeholder, "dim")]
    widths = [min(_WIDEST, max(cell_len(row[index]) for row in (heads, *rows))) for index in range(len(heads))]
    gap = _GAP
    if width < sum(widths) + len(_GAP) * (len(widths) - 1) <= width + len(widths) - 1:
        gap = " "  # narrow gaps are better than cut cells
    lines = []
    for number, row in enumerate((heads, *rows)):
        line = Text(style="dim" if not number else "")
        for cell, wide in zip(row[:-1], widths, strict=False):
            # set_cell_size would cut without an ellipsis.
            text = Text(cell)
            text.truncate(wide, overflow="ellipsis", pad=True)
            line.append_text(text).append(gap)
        lines.append(line.append(row[-1]))
    return lines


def _cut(line: Text, width: int) -> Text:
    line.no_wrap = True
    line.truncate(width, overflow="ellipsis")
    return line
