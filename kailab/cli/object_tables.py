"""Tables of objects, the queue tree, and ``get --watch``. Each kind names its columns (``Kind.columns``); a kind without columns has NAME and AGE."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from kailab.cli import terminal
from kailab.cli.selection import kind_slash_name
from kailab.cli.table import format_age, render_table, table_widths
from kailab.cluster.backends import BACKENDS
from kailab.errors import InputError
from kailab.evidence.entries import PodRow
from kailab.evidence.shares import QueueAmounts
from kailab.lab import Lab, lab_files
from kailab.lab.picture import Picture
from kailab.model import labels
from kailab.model.kind import AGE, NAME, Column, field_of
from kailab.model.kinds import is_namespaced, part
from kailab.model.multimap import multimap
from kailab.model.objects import (
    ENDED_PHASES,
    Object,
    allocatable_of,
    has_condition,
    involved_of,
    labels_of,
    metadata_of,
    name_of,
    namespace_of,
    parent_of,
    share_of,
    shown_phase,
    spec_of,
    status_of,
)
from kailab.model.objects import full_name as full_name_of
from kailab.model.quantities import format_gpu, queue_gpu
from kailab.model.times import parse_time
from kailab.scheduler.reading.podgroups import subgroup_tree

FindObjects = Callable[[Lab], tuple[Any, list[tuple[str, list[Object]]]]]
"""Returns the targets of a query, and the objects of each kind."""
NONE = "<none>"
UNLIMITED = "unlimited"


class TableContext:
    """The lab's data for tables; values that several cells need are computed once."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.now = lab.now

    @cached_property
    def picture(self) -> Picture:
        return self.lab.picture()

    @cached_property
    def rows(self) -> dict[str, PodRow]:
        """Pod rows by ``namespace/name``."""
        return {row.name: row for row in self.picture.rows}

    @cached_property
    def on_node(self) -> dict[str, list[PodRow]]:
        """Node -> rows of the pods that hold resources on it."""
        return multimap((row.node, row) for row in self.picture.rows if row.holds)

    def queue_amounts(self, queue: str) -> QueueAmounts:
        return self.picture.shares[queue]


def columns_of(kind: str, wide: bool) -> list[Column]:
    """The columns of a kind's table, in order."""
    columns: tuple[Column, ...] = part(kind, "columns") or (NAME, AGE)
    return [column for column in columns if wide or not column.wide]


def column_cell(column: Column, view: TableContext, obj: Object) -> str:
    """The text of one object's cell."""
    if callable(column.cell):
        return column.cell(view, obj)
    value = field_of(obj, column.cell)
    if value is None or value == "":
        return column.default
    return age_since(view, str(value)) if column.date else str(value)


def age_since(view: TableContext, stamp: str | None) -> str:
    return format_age(view.now - parse_time(stamp)) if stamp else NONE


# --- pods ------------------------------------------------------------------------------------------------------------


def _row(view: TableContext, pod: Object) -> PodRow:
    return view.rows[full_name_of(pod)]


def _pod_ready(_: TableContext, pod: Object) -> str:
    ready = sum(bool(each.get("ready")) for each in status_of(pod).get("containerStatuses") or ())
    return f"{ready}/{len(pod['spec'].get('containers') or ())}"


def _pod_status(_: TableContext, pod: Object) -> str:
    phase = shown_phase(pod)
    if phase == "Pending" and pod["spec"].get("schedulingGates"):
        return "SchedulingGated"
    if phase == "Pending" and pod["spec"].get("nodeName"):
        return "ContainerCreating"
    return {"Succeeded": "Completed", "Failed": status_of(pod).get("reason") or "Error"}.get(phase, phase)


def _restarts(_: TableContext, pod: Object) -> str:
    return str(sum(each.get("restartCount", 0) for each in status_of(pod).get("containerStatuses") or ()))


# --- nodes -----------------------------------------------------------------------------------------------------------


def _allocatable(node: Object, name: str) -> str:
    return str(allocatable_of(node).get(name, "0"))


def _node_status(_: TableContext, node: Object) -> str:
    ready = "Ready" if has_condition(node, "Ready") else "NotReady"
    return f"{ready},SchedulingDisabled" if spec_of(node).get("unschedulable") else ready


def _node_gpus(view: TableContext, node: Object) -> str:
    used = view.picture.used.get(name_of(node), 0)
    return f"{format_gpu(used)}/{format_gpu(view.picture.accounts.offered(node))}"


def _node_pods(view: TableContext, node: Object) -> str:
    return str(len(view.on_node.get(name_of(node), ())))


def _taints(_: TableContext, node: Object) -> str:
    taints = spec_of(node).get("taints") or ()
    return ",".join(f"{t['key']}={t.get('value', '')}:{t.get('effect', '')}" for t in taints) or NONE


# --- queues and pod groups -------------------------------------------------------------------------------------------


def format_gpus(milli: float) -> str:
    """Format milli-GPU as a number of GPUs.

    >>> format_gpus(2500), format_gpus(8000), format_gpus(-1)
    ('2.5', '8', 'unlimited')
    """
    return UNLIMITED if milli == -1 else format_gpu(round(milli))


def _queue_resource(field: str) -> Callable[[TableContext, Object], str]:
    def cell(_: TableContext, queue: Object) -> str:
        return format_gpus(queue_gpu(share_of(queue).get(field, 0)))

    return cell


def _queue_amount(field: str) -> Callable[[TableContext, Object], str]:
    def cell(view: TableContext, queue: Object) -> str:
        value = getattr(view.queue_amounts(name_of(queue)), field)
        return NONE if value is None else format_gpus(value)

    return cell


def _weight(_: TableContext, queue: Object) -> str:
    return f"{share_of(queue).get('overQuotaWeight', 0):g}"


def _group_pods(view: TableContext, group: Object) -> Sequence[PodRow]:
    return view.picture.by_group.get(full_name_of(group), ())


def _minimum(group: Object) -> int:
    """The minimum number of pods, in all subgroups together."""
    return max(1, subgroup_tree(spec_of(group), {}).least)


def _group_phase(view: TableContext, group: Object) -> str:
    """Completed or Failed if all its pods have ended; Running if its minimum runs; else Pending."""
    phases = [row.phase for row in _group_pods(view, group)]
    if phases and all(phase in ENDED_PHASES for phase in phases):
        return "Failed" if "Failed" in phases else "Completed"
    return "Running" if phases.count("Running") >= _minimum(group) else "Pending"


def _group_running(view: TableContext, group: Object) -> str:
    pods = [row for row in _group_pods(view, group) if row.phase not in ENDED_PHASES]
    return f"{sum(row.phase == 'Running' for row in pods)}/{len(pods)}"


def _group_reason(view: TableContext, group: Object) -> str:
    entry = view.picture.pending.get(full_name_of(group))
    return entry.reason if entry else ""


def _group_place(view: TableContext, group: Object) -> str:
    """The position of a pending PodGroup in the order in which the scheduler tries them. Empty if its queue's limits keep it out."""
    if full_name_of(group) not in view.picture.pending:
        return ""
    turn = view.picture.turns.get(full_name_of(group))
    return "" if turn is None else str(turn.place)


# --- workloads and the rest ------------------------------------------------------------------------------------------


def _job_status(_: TableContext, job: Object) -> str:
    return next((type for type in ("Complete", "Failed", "Suspended") if has_condition(job, type)), "Running")


def _completions(_: TableContext, job: Object) -> str:
    completions = job["spec"].get("completions") or job["spec"].get("parallelism") or 1
    return f"{status_of(job).get('succeeded') or 0}/{completions}"


def _duration(view: TableContext, job: Object) -> str:
    begun, ended = status_of(job).get("startTime"), status_of(job).get("completionTime")
    if not begun:
        return ""
    return format_age((parse_time(ended) if ended else view.now) - parse_time(begun))


def _replicas(_: TableContext, obj: Object) -> str:
    return f"{status_of(obj).get('readyReplicas') or 0}/{obj['spec'].get('replicas', 1)}"


def _last_seen(view: TableContext, event: Object) -> str:
    return age_since(view, event.get("lastTimestamp") or metadata_of(event).get("creationTimestamp"))


def _involved(_: TableContext, event: Object) -> str:
    involved = involved_of(event)
    return f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"


def _levels(_: TableContext, topology: Object) -> str:
    return ",".join(str(level.get("nodeLabel", level)) for level in topology["spec"].get("levels") or ()) or NONE


POD = (
    NAME,
    Column("READY", _pod_ready),
    Column("STATUS", _pod_status),
    Column("RESTARTS", _restarts),
    AGE,
    Column("NODE", lambda view, pod: _row(view, pod).node or NONE, wide=True),
    Column("GPUS", lambda view, pod: format_gpus(_row(view, pod).milli_gpus), wide=True),
    Column("QUEUE", lambda view, pod: _row(view, pod).queue or NONE, wide=True),
    Column("PODGROUP", lambda view, pod: _row(view, pod).podgroup or NONE, wide=True),
)
NODE = (
    NAME,
    Column("STATUS", _node_status),
    Column("GPUS", _node_gpus),
    Column("MODEL", lambda _, node: labels.gpu_model(labels_of(node)) or NONE),
    Column("PODS", _node_pods),
    AGE,
    Column("CPU", lambda _, node: _allocatable(node, "cpu"), wide=True),
    Column("MEMORY", lambda _, node: _allocatable(node, "memory"), wide=True),
    Column("TAINTS", _taints, wide=True),
)
QUEUE = (
    NAME,
    Column("PARENT", lambda _, queue: parent_of(queue)),
    Column("QUOTA", _queue_resource("quota")),
    Column("LIMIT", _queue_resource("limit")),
    Column("ALLOCATED", _queue_amount("allocated")),
    Column("REQUESTED", _queue_amount("requested")),
    Column("FAIR-SHARE", _queue_amount("fair_share")),
    AGE,
    Column("WEIGHT", _weight, wide=True),
    Column("PRIORITY", "spec.priority", wide=True, default="100"),
    Column("NON-PREEMPTIBLE", _queue_amount("non_preemptible"), wide=True),
)
POD_GROUP = (
    NAME,
    Column("PHASE", _group_phase),
    Column("QUEUE", lambda _, group: spec_of(group).get("queue") or NONE),
    Column("MIN", lambda _, group: str(_minimum(group))),
    Column("RUNNING", _group_running),
    Column("REASON", _group_reason),
    Column("PLACE", _group_place),
    AGE,
    Column("PRIORITY", lambda _, group: spec_of(group).get("priorityClassName") or NONE, wide=True),
    Column("PREEMPTIBILITY", lambda _, group: spec_of(group).get("preemptibility") or "", wide=True),
)
JOB = (
    NAME,
    Column("STATUS", _job_status),
    Column("COMPLETIONS", _completions),
    Column("DURATION", _duration),
    AGE,
)
CRON_JOB = (
    NAME,
    Column("SCHEDULE", "spec.schedule"),
    Column("SUSPEND", "spec.suspend", default="False"),
    Column("ACTIVE", lambda _, cron: str(len(status_of(cron).get("active") or ()))),
    Column("LAST SCHEDULE", lambda view, cron: age_since(view, status_of(cron).get("lastScheduleTime"))),
    AGE,
)
DEPLOYMENT = (
    NAME,
    Column("READY", _replicas),
    Column("UP-TO-DATE", "status.updatedReplicas", default="0"),
    Column("AVAILABLE", "status.availableReplicas", default="0"),
    AGE,
)
STATEFUL_SET = (NAME, Column("READY", _replicas), AGE)
PRIORITY_CLASS = (
    NAME,
    Column("VALUE", "value", default="0"),
    Column("GLOBAL-DEFAULT", lambda _, obj: str(bool(obj.get("globalDefault"))).lower()),
    AGE,
)
TOPOLOGY = (NAME, Column("LEVELS", _levels), AGE)
EVENT = (
    Column("LAST SEEN", _last_seen),
    Column("TYPE", lambda _, event: event.get("type") or ""),
    Column("REASON", lambda _, event: event.get("reason") or ""),
    Column("OBJECT", _involved),
    Column("COUNT", lambda _, event: str(event.get("count") or 1), wide=True),
    Column("MESSAGE", lambda _, event: event.get("message") or ""),
)


class TableOptions(NamedTuple):
    """Options of tables. ``labels``: a column for each of these labels; ``all_labels``: a column with all labels."""

    wide: bool = False
    namespaces: bool = False
    labels: tuple[str, ...] = ()
    all_labels: bool = False
    no_headers: bool = False


def object_table(
    view: TableContext, kind: str, objects: Sequence[Object], options: TableOptions, several: bool = False
) -> tuple[list[str], list[list[str]]]:
    """Return headers and rows. ``several``: names are prefixed with their kind, because other tables are printed too."""
    columns = columns_of(kind, options.wide)
    headers = [column.header for column in columns]
    rows = [[column_cell(column, view, obj) for column in columns] for obj in objects]
    if several and "NAME" in headers:
        at = headers.index("NAME")
        for row in rows:
            row[at] = kind_slash_name(kind, row[at])
    labels = [labels_of(obj) for obj in objects]
    for label in options.labels:
        headers.append(label.rpartition("/")[2].upper())
        for row, labels_of_object in zip(rows, labels, strict=True):
            row.append(labels_of_object.get(label, ""))
    if options.all_labels:
        headers.append("LABELS")
        for row, labels_of_object in zip(rows, labels, strict=True):
            row.append(",".join(f"{key}={value}" for key, value in sorted(labels_of_object.items())) or NONE)
    if options.namespaces and is_namespaced(kind):
        headers = ["NAMESPACE", *headers]
        rows = [[namespace_of(obj), *row] for obj, row in zip(objects, rows, strict=True)]
    return headers, rows


QUEUE_TREE_HEADERS = ["NAME", "QUOTA", "LIMIT", "FAIR-SHARE", "ALLOCATED", "BORROWED", "WAITING", "STANDS"]


def queue_tree(view: TableContext, queues: Sequence[Object]) -> list[list[str]]:
    """Rows with GPUs, each queue below its parent. The amounts of a parent are those of the queues below it."""
    names = {name_of(queue) for queue in queues}
    below: dict[str, list[str]] = {}
    for name in sorted(names):
        parent = view.queue_amounts(name).parent
        # A queue whose parent is not among these queues is a root of the tree.
        below.setdefault(parent if parent in names else "", []).append(name)
    return [_tree_row(label, view.queue_amounts(name)) for label, name in _tree_labels(below, "", "")]


def _tree_labels(below: dict[str, list[str]], parent: str, stem: str) -> Iterator[tuple[str, str]]:
    """Yield (the name with its branch of the tree, the name)."""
    children = below.get(parent, [])
    for number, name in enumerate(children):
        last = number == len(children) - 1
        if not parent:
            yield name, name
            yield from _tree_labels(below, name, "")
        else:
            yield f"{stem}{'└─ ' if last else '├─ '}{name}", name
            yield from _tree_labels(below, name, stem + ("   " if last else "│  "))


def _tree_row(drawn: str, queue: QueueAmounts) -> list[str]:
    fair = "" if queue.fair_share is None else format_gpus(queue.fair_share)
    return [
        drawn,
        format_gpus(queue.quota),
        format_gpus(queue.limit),
        fair,
        format_gpus(queue.allocated),
        format_gpus(queue.borrowed) if queue.borrowed else "",
        format_gpus(queue.waiting) if queue.waiting else "",
        _queue_state(queue),
    ]


def _queue_state(queue: QueueAmounts) -> str:
    """The queue's state in a word; starving: it has waiting work and holds less than its fair share."""
    if queue.starving:
        return "starving"
    if queue.borrowed:
        return "borrowing"
    return "waiting" if queue.waiting else ""


MODEL_HEADERS = ["MODEL", "NODES", "GPUS", "IN-USE", "FREE", "CLOSED", "WAITING-FOR-IT"]


def model_rows(picture: Picture) -> list[list[str]]:
    """Rows with GPUs by model. CLOSED: free on nodes that take no new pods. WAITING-FOR-IT: wanted by waiting work that takes no other model."""
    only: dict[str, int] = {}
    for demand in picture.model_demands:
        if demand.podgroup and len(demand.values) == 1:
            only[demand.values[0]] = only.get(demand.values[0], 0) + demand.gpus
    return [
        [
            use.title,
            str(use.nodes),
            *(format_gpus(milli) for milli in (use.gpus, use.used, use.free, use.closed, only.get(use.model, 0))),
        ]
        for use in picture.models.values()
    ]


PAUSE_SECONDS = 1.0
_TIMES = ("AGE", "DURATION", "LAST SEEN", "LAST SCHEDULE")  # these grow without a change


class WatchedTable(NamedTuple):
    """The table at one moment. ``rows``: by (namespace, name)."""

    headers: list[str]
    rows: dict[tuple[str, str], list[str]]
    embedded: bool

    def stable_cells(self, key: tuple[str, str]) -> list[str] | None:
        """The cells of a row without ages, which change all the time."""
        row = self.rows.get(key)
        if row is None:
            return None
        return [cell for header, cell in zip(self.headers, row, strict=True) if header not in _TIMES]


def watch_objects(state: Path, find: FindObjects, options: TableOptions) -> None:
    """Print the table, then every row that is new or changed and every object that is deleted, until the lab is down or the user presses
    Ctrl-C. Raises InputError if the objects are of several kinds."""
    stamp, table = lab_files.stamp(state), _read_table(state, find, options)
    widths = table_widths(table.headers, list(table.rows.values()))
    terminal.say(render_table(table.headers, list(table.rows.values()), no_headers=options.no_headers))
    while True:
        time.sleep(PAUSE_SECONDS)
        now = lab_files.stamp(state)
        if now is None:
            terminal.notice(f"{state}: the lab is down")
            return
        # A lab on an API server changes without a change of its file.
        if now == stamp and table.embedded:
            continue
        stamp, before = now, table
        table = _read_table(state, find, options)
        changed = [row for key, row in table.rows.items() if table.stable_cells(key) != before.stable_cells(key)]
        if changed:
            terminal.say(render_table(table.headers, changed, no_headers=True, at_least=widths))
        for namespace, name in before.rows.keys() - table.rows.keys():
            terminal.say(f"{namespace}/{name} deleted" if namespace else f"{name} deleted")


def _read_table(state: Path, find: FindObjects, options: TableOptions) -> WatchedTable:
    with lab_files.open_read_only(state, again=True) as lab:
        _, result = find(lab)
        if len(result) != 1:
            raise InputError("--watch shows one kind at a time; expected a single kind")
        kind, objects = result[0]
        headers, rows = object_table(TableContext(lab), kind, objects, options)
        keys = [(namespace_of(obj), name_of(obj)) for obj in objects]
        return WatchedTable(headers, dict(zip(keys, rows, strict=True)), not BACKENDS[lab.backend].api_server)
