"""The cells of tables, and the tables of kinds that need more than fields of the object. Each kind names its own
(``Kind.columns``); one that names none has NAME and AGE."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from kailab.cli.table import age
from kailab.evidence.entries import PodRow
from kailab.evidence.shares import QueueStanding
from kailab.evidence.standing import phase
from kailab.lab import Lab
from kailab.lab.picture import Picture
from kailab.model import labels
from kailab.model.kind import AGE, NAME, Column, field_of
from kailab.model.kinds import part
from kailab.model.quantities import format_gpu, queue_gpu
from kailab.model.times import parse_time
from kailab.scheduler.reading.podgroups import subgroup_tree

Object = dict[str, Any]
NONE = "<none>"
UNLIMITED = "unlimited"


class View:
    """The lab as tables need it: what is asked for by several cells is worked out once."""

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
        """Node -> rows of the pods that hold it."""
        found: dict[str, list[PodRow]] = {}
        for row in self.picture.rows:
            if row.holds:
                found.setdefault(row.node, []).append(row)
        return found

    def standing(self, queue: str) -> QueueStanding:
        return self.picture.shares[queue]


def columns_of(kind: str, wide: bool) -> list[Column]:
    """The columns of a kind's table, in order."""
    columns: tuple[Column, ...] = part(kind, "columns") or (NAME, AGE)
    return [column for column in columns if wide or not column.wide]


def cell(column: Column, view: View, obj: Object) -> str:
    """The text of one object's cell."""
    if callable(column.cell):
        return column.cell(view, obj)
    value = field_of(obj, column.cell)
    if value is None or value == "":
        return column.default
    return since(view, str(value)) if column.date else str(value)


def since(view: View, stamp: str | None) -> str:
    return age(view.now - parse_time(stamp)) if stamp else NONE


def _status(obj: Object) -> Mapping[str, Any]:
    return obj.get("status") or {}


def _true(obj: Object, type: str) -> bool:
    return any(c.get("type") == type and c.get("status") == "True" for c in _status(obj).get("conditions") or ())


# --- pods ------------------------------------------------------------------------------------------------------------


def _row(view: View, pod: Object) -> PodRow:
    return view.rows[f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"]


def _pod_ready(_: View, pod: Object) -> str:
    ready = sum(bool(each.get("ready")) for each in _status(pod).get("containerStatuses") or ())
    return f"{ready}/{len(pod['spec'].get('containers') or ())}"


def _pod_status(_: View, pod: Object) -> str:
    told = phase(pod)
    if told == "Pending" and pod["spec"].get("schedulingGates"):
        return "SchedulingGated"
    if told == "Pending" and pod["spec"].get("nodeName"):
        return "ContainerCreating"
    return {"Succeeded": "Completed", "Failed": _status(pod).get("reason") or "Error"}.get(told, told)


def _restarts(_: View, pod: Object) -> str:
    return str(sum(each.get("restartCount", 0) for each in _status(pod).get("containerStatuses") or ()))


# --- nodes -----------------------------------------------------------------------------------------------------------


def _allocatable(node: Object, name: str) -> str:
    return str((_status(node).get("allocatable") or {}).get(name, "0"))


def _node_status(_: View, node: Object) -> str:
    told = "Ready" if _true(node, "Ready") else "NotReady"
    return f"{told},SchedulingDisabled" if node.get("spec", {}).get("unschedulable") else told


def _node_gpus(view: View, node: Object) -> str:
    used = view.picture.used.get(node["metadata"]["name"], 0)
    return f"{format_gpu(used)}/{format_gpu(view.picture.accounts.offered(node))}"


def _node_pods(view: View, node: Object) -> str:
    return str(len(view.on_node.get(node["metadata"]["name"], ())))


def _taints(_: View, node: Object) -> str:
    taints = (node.get("spec") or {}).get("taints") or ()
    return ",".join(f"{t['key']}={t.get('value', '')}:{t.get('effect', '')}" for t in taints) or NONE


# --- queues and pod groups -------------------------------------------------------------------------------------------


def gpus(milli: float) -> str:
    """Milli-GPU as a number of GPUs.

    >>> gpus(2500), gpus(8000), gpus(-1)
    ('2.5', '8', 'unlimited')
    """
    return UNLIMITED if milli == -1 else format_gpu(round(milli))


def _queue_resource(field: str) -> Callable[[View, Object], str]:
    def cell(_: View, queue: Object) -> str:
        own = ((queue["spec"].get("resources") or {}).get("gpu") or {}).get(field, 0)
        return gpus(queue_gpu(own))

    return cell


def _standing(field: str) -> Callable[[View, Object], str]:
    def cell(view: View, queue: Object) -> str:
        value = getattr(view.standing(queue["metadata"]["name"]), field)
        return NONE if value is None else gpus(value)

    return cell


def _weight(_: View, queue: Object) -> str:
    return f"{((queue['spec'].get('resources') or {}).get('gpu') or {}).get('overQuotaWeight', 0):g}"


def _group_key(group: Object) -> str:
    return f"{group['metadata'].get('namespace', '')}/{group['metadata']['name']}"


def _group_pods(view: View, group: Object) -> Sequence[PodRow]:
    return view.picture.by_group.get(_group_key(group), ())


def _minimum(group: Object) -> int:
    """Pods that it needs, in all of its subgroups."""
    return max(1, subgroup_tree(group["spec"], {}).least)


def _group_phase(view: View, group: Object) -> str:
    """Running with its minimum on nodes; Completed when no pod of it is left to run; else Pending."""
    told = [row.phase for row in _group_pods(view, group)]
    if told and all(each in ("Succeeded", "Failed") for each in told):
        return "Failed" if "Failed" in told else "Completed"
    return "Running" if told.count("Running") >= _minimum(group) else "Pending"


def _group_running(view: View, group: Object) -> str:
    pods = [row for row in _group_pods(view, group) if row.phase not in ("Succeeded", "Failed")]
    return f"{sum(row.phase == 'Running' for row in pods)}/{len(pods)}"


def _group_reason(view: View, group: Object) -> str:
    entry = view.picture.pending.get(_group_key(group))
    return entry.reason if entry else ""


# --- workloads and the rest ------------------------------------------------------------------------------------------


def _job_status(_: View, job: Object) -> str:
    for type, told in (("Complete", "Complete"), ("Failed", "Failed"), ("Suspended", "Suspended")):
        if _true(job, type):
            return told
    return "Running"


def _completions(_: View, job: Object) -> str:
    wanted = job["spec"].get("completions") or job["spec"].get("parallelism") or 1
    return f"{_status(job).get('succeeded') or 0}/{wanted}"


def _duration(view: View, job: Object) -> str:
    begun, ended = _status(job).get("startTime"), _status(job).get("completionTime")
    if not begun:
        return ""
    return age((parse_time(ended) if ended else view.now) - parse_time(begun))


def _replicas(_: View, obj: Object) -> str:
    return f"{_status(obj).get('readyReplicas') or 0}/{obj['spec'].get('replicas', 1)}"


def _last_seen(view: View, event: Object) -> str:
    return since(view, event.get("lastTimestamp") or event["metadata"].get("creationTimestamp"))


def _involved(_: View, event: Object) -> str:
    about = event.get("involvedObject") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _levels(_: View, topology: Object) -> str:
    return ",".join(str(level.get("nodeLabel", level)) for level in topology["spec"].get("levels") or ()) or NONE


POD = (
    NAME,
    Column("READY", _pod_ready),
    Column("STATUS", _pod_status),
    Column("RESTARTS", _restarts),
    AGE,
    Column("NODE", lambda view, pod: _row(view, pod).node or NONE, wide=True),
    Column("GPUS", lambda view, pod: gpus(_row(view, pod).milli_gpus), wide=True),
    Column("QUEUE", lambda view, pod: _row(view, pod).queue or NONE, wide=True),
    Column("PODGROUP", lambda view, pod: _row(view, pod).podgroup or NONE, wide=True),
)
NODE = (
    NAME,
    Column("STATUS", _node_status),
    Column("GPUS", _node_gpus),
    Column("MODEL", lambda _, node: labels.gpu_model(node["metadata"].get("labels") or {}) or NONE),
    Column("PODS", _node_pods),
    AGE,
    Column("CPU", lambda _, node: _allocatable(node, "cpu"), wide=True),
    Column("MEMORY", lambda _, node: _allocatable(node, "memory"), wide=True),
    Column("TAINTS", _taints, wide=True),
)
QUEUE = (
    NAME,
    Column("PARENT", lambda _, queue: queue["spec"].get("parentQueue") or ""),
    Column("QUOTA", _queue_resource("quota")),
    Column("LIMIT", _queue_resource("limit")),
    Column("ALLOCATED", _standing("allocated")),
    Column("REQUESTED", _standing("requested")),
    Column("FAIR-SHARE", _standing("fair_share")),
    AGE,
    Column("WEIGHT", _weight, wide=True),
    Column("PRIORITY", "spec.priority", wide=True, default="100"),
    Column("NON-PREEMPTIBLE", _standing("non_preemptible"), wide=True),
)
POD_GROUP = (
    NAME,
    Column("PHASE", _group_phase),
    Column("QUEUE", lambda _, group: group["spec"].get("queue") or NONE),
    Column("MIN", lambda _, group: str(_minimum(group))),
    Column("RUNNING", _group_running),
    Column("REASON", _group_reason),
    AGE,
    Column("PRIORITY", lambda _, group: group["spec"].get("priorityClassName") or NONE, wide=True),
    Column("PREEMPTIBILITY", lambda _, group: group["spec"].get("preemptibility") or "", wide=True),
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
    Column("ACTIVE", lambda _, cron: str(len(_status(cron).get("active") or ()))),
    Column("LAST SCHEDULE", lambda view, cron: since(view, _status(cron).get("lastScheduleTime"))),
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
