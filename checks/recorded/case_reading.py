"""Reads recorded scheduling cases (JSON) as engine records: one ``RecordedCase`` from each entry of a case file.

Units are converted: devices to milli-GPU, MB of queue memory to bytes, ages in seconds to times before ``NOW``.
``RecordedCase.notes`` describes what the engine's records cannot express.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from checks.case_input import NOW, PLACED, CaseInput
from checks.cluster_changes import ClusterChange
from checks.recorded_files import read_json
from kailab.engine.config import EngineConfig
from kailab.engine.snapshot.devices import any_devices
from kailab.engine.snapshot.gpu_requests import NO_GPU, ClaimedGpus, GpuFraction, GpuMemory, GpuRequest, MigInstances
from kailab.engine.snapshot.records import (
    GPU,
    NO_SHARE,
    Constraint,
    Node,
    NodeTerm,
    Numa,
    NumaZone,
    PodGroup,
    PodSet,
    PodTerm,
    Queue,
    Requirement,
    ResourceClaim,
    ResourceShare,
    Shape,
    Status,
    SubGroup,
    Task,
    Topology,
)
from kailab.errors import InputError, Where
from kailab.model import labels
from kailab.model.device_selectors import Device
from kailab.scheduler.reading.numa import zones_held

NODE_NAME_LABEL = "kai.scheduler/type"

STATUSES = {
    "Pending": Status.PENDING,
    "Gated": Status.GATED,
    "Allocated": Status.ALLOCATED,
    "Pipelined": Status.PIPELINED,
    "Binding": Status.BINDING,
    "Bound": Status.BOUND,
    "Running": Status.RUNNING,
    "Releasing": Status.RELEASING,
    "StuckInReleasing": Status.STUCK_RELEASING,
    "Succeeded": Status.SUCCEEDED,
    "Failed": Status.FAILED,
    "Unknown": Status.UNKNOWN,
}
NAMES = {status: name for name, status in STATUSES.items()}


class RecordedOutcome(NamedTuple):
    """A state that KAI reached. ``tasks``: by uid. ``running``: running tasks by job. ``gpus``: GPUs by queue, if
    recorded.
    """

    tasks: Mapping[str, Mapping[str, Any]]
    running: Mapping[str, int]
    gpus: Mapping[str, float]


class RecordedCase(CaseInput, frozen=True, kw_only=True):
    """A cluster before the first action, its configuration, what changes between cycles (``changes``), and (in ``raw``)
    the expected outcome. Each change has the number of cycles before it.
    """

    id: str
    suite: str
    tags: tuple[str, ...]
    unsupported: tuple[str, ...]
    integration: bool
    rounds_until_match: int
    rounds_after_match: int
    changes: tuple[tuple[int, ClusterChange], ...] = ()
    raw: dict[str, Any]
    notes: tuple[str, ...] = ()

    @property
    def recorded_only(self) -> bool:
        """True if the case asserts nothing and is compared with what KAI did."""
        return self.raw.get("compare") == "kai_actual"

    @property
    def outcomes(self) -> tuple[RecordedOutcome, ...]:
        """What KAI did: one outcome, and those of other runs if it decided in several ways."""
        if "kai_actual" not in self.raw:
            return ()
        summary = self.raw.get("kai_summary") or {}
        running, gpus = (summary.get(key) or {} for key in ("running_tasks_by_job", "gpus_allocated_by_queue"))
        first = RecordedOutcome(_recorded_tasks(self.raw["kai_actual"]), running, gpus)
        return (first, *map(_other_outcome, self.raw.get("kai_other_outcomes") or ()))

    @property
    def invariants_only(self) -> bool:
        """True if no outcome was recorded, so that only the invariants of decisions are checked."""
        return self.raw.get("compare") == "invariants"


def read_cases(paths: Iterable[Path]) -> Iterator[RecordedCase]:
    """The cases of the given files, and of all ``*.json`` below the given folders, in order of path. Raises InputError."""
    for path in paths:
        files = sorted(path.rglob("*.json")) if path.is_dir() else [path]
        for file in files:
            entries = read_json(file)
            if not isinstance(entries, list) or not all(isinstance(e, dict) and "jobs" in e for e in entries):
                raise InputError("expected a list of scheduling cases", Where(file=str(file)))
            for entry in entries:
                try:
                    case = build_case(entry)
                except (AttributeError, IndexError, KeyError, TypeError, ValueError, StopIteration) as error:
                    problem = f"{entry.get('id', 'a case')}: not a scheduling case ({type(error).__name__}: {error})"
                    raise InputError(problem, Where(file=str(file))) from None
                yield case


def build_case(raw: dict[str, Any]) -> RecordedCase:
    notes: list[str] = []
    legacy_nodes = {
        task.get("node")
        for job in raw["jobs"]
        for task in job["tasks"]
        if task.get("legacy_mig") and STATUSES[task["state"]] in PLACED
    }
    dra = raw.get("dra") or {}
    slices: dict[str, int] = {}
    for piece in dra.get("resource_slices") or ():
        slices[piece["node_name"]] = slices.get(piece["node_name"], 0) + piece["device_count"]
    nodes = [_node(node, node["name"] in legacy_nodes, slices.get(node["name"], 0)) for node in raw["nodes"]]
    shapes: dict[Shape, Shape] = {}
    podgroups, tasks = [], []
    for job in raw["jobs"]:
        podgroups.append(_podgroup(job))
        for task in job["tasks"]:
            tasks.append(_task(task, job, shapes))
    for outcome in raw.get("kai_other_outcomes") or ():
        _other_outcome(outcome)  # raises here, and not in the comparison, for an outcome that cannot be read
    return RecordedCase(
        id=raw["id"],
        suite=raw["suite"],
        tags=tuple(raw["tags"]),
        unsupported=(*raw["unsupported"], *_moved_while_leaving(raw), *_claimed_beyond_the_node(raw)),
        integration=raw["mode"] == "integration",
        rounds_until_match=raw["rounds_until_match"] or 0,
        rounds_after_match=raw["rounds_after_match"] or 0,
        changes=tuple(_change(change, raw, nodes) for change in raw.get("changes") or ()),
        config=_config(raw, notes),
        nodes=tuple(nodes),
        queues=tuple(_queue(queue) for queue in raw["queues"]),
        claims=tuple(_claims(raw)),
        topologies=tuple(Topology(name=t["name"], levels=tuple(t["levels"])) for t in raw.get("topologies") or ()),
        podgroups=tuple(podgroups),
        tasks=tuple(tasks),
        deleted_for_good=frozenset(job["name"] for job in raw["jobs"] if job.get("delete_in_test")),
        raw=raw,
        notes=tuple(notes),
    )


def _other_outcome(outcome: dict[str, Any]) -> RecordedOutcome:
    running = {
        name: sum(task["status"] == "Running" for task in job["tasks"].values())
        for name, job in outcome["jobs"].items()
    }
    return RecordedOutcome(_recorded_tasks(outcome), running, {})


def _recorded_tasks(outcome: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {uid: task for job in outcome["jobs"].values() for uid, task in job["tasks"].items()}


def _change(raw: dict[str, Any], case: dict[str, Any], nodes: list[Node]) -> tuple[int, ClusterChange]:
    by_name = {node.name: node for node in nodes}
    change = ClusterChange(
        ended=tuple(raw.get("ended") or ()),
        deleted=tuple(raw.get("deleted") or ()),
        gone=tuple(raw.get("gone") or ()),
        back=tuple(by_name[name] for name in raw.get("back") or ()),
        queues=tuple(_queue(queue) for queue in raw.get("queues") or ()),
    )
    unknown = (
        {*change.ended, *change.deleted} - {job["name"] for job in case["jobs"]}
        | set(change.gone) - by_name.keys()
        | {queue.name for queue in change.queues} - {queue["name"] for queue in case["queues"]}
    )
    if unknown:
        raise ValueError(f"a change names {', '.join(sorted(unknown))}, which the case does not have")
    cycle, last = raw["before_cycle"], (case["rounds_until_match"] or 0) + (case["rounds_after_match"] or 0)
    if not 0 <= cycle < last:
        raise ValueError(f"before_cycle of a change is {cycle!r}, and must be a number from 0 to {last - 1}")
    return cycle, change


def _config(raw: dict[str, Any], notes: list[str]) -> EngineConfig:
    config = raw["config"]
    placement = {"gpu": "binpack", "cpu": "binpack"}
    sharing: Literal["binpack", "spread"] = "binpack"
    prefer_shared = True
    if isinstance(config["plugins"], list):
        named = {plugin["name"]: plugin.get("arguments") or {} for plugin in config["plugins"]}
        placement |= {k: v for k, v in named.get("nodeplacement", {}).items() if k in placement}
        sharing = "spread" if "gpuspread" in named else "binpack"
        prefer_shared = "gpusharingorder" in named
        notes.append("only these plugins were on: " + ", ".join(named))
    params = config.get("scheduler_params") or {}
    return EngineConfig(
        actions=tuple(raw["actions"]),
        gpu_placement=placement["gpu"],  # type: ignore[arg-type]
        cpu_placement=placement["cpu"],  # type: ignore[arg-type]
        gpu_sharing=sharing,
        prefer_shared_devices=prefer_shared,
        max_consolidation_victims=int(params.get("max_number_consolidation_preemptees", -1)),
        allow_consolidating_reclaim=bool(params.get("allow_consolidating_reclaim", True)),
        use_signatures=bool(params.get("use_scheduling_signatures", False)),
        staleness_grace=float(params.get("global_default_staleness_grace_period_s", 0)),
        predicates=bool(config["predicates_plugin_enabled"]),
    )


def _numa(raw: dict[str, Any] | None) -> Numa | None:
    if not raw:
        return None
    names = {"cpu_millis": "cpu", "memory_bytes": "memory", "gpus": labels.GPU_RESOURCE}
    zones = tuple(
        NumaZone(
            name=zone["id"], allocatable=tuple(sorted((names.get(k, k), v) for k, v in zone["allocatable"].items()))
        )
        for zone in raw["zones"]
    )
    return Numa(policy=raw["policy"], scope=raw["scope"], zones=zones)


def _moved_while_leaving(raw: dict[str, Any]) -> list[str]:
    """The pods that the recording lets leave a GPU or node on which they never ran.

    KAI's test runner keeps the last place in the session of a pod of a deleted job. If the pod was moved and then evicted
    in one cycle, that is a place that it was only promised. A real pod leaves the place where it runs.
    """
    faults: dict[str, None] = {}
    held: dict[str, tuple[str, list[str]]] = {}
    for job in raw["jobs"]:
        for task in job["tasks"] if job.get("delete_in_test") else ():
            if task["state"] == "Running":
                held[task["uid"]] = task["node"], task.get("gpu_groups") or []
    for after in raw.get("kai_rounds") or ():
        for uid in held.keys() & after["tasks"].keys():
            task = after["tasks"][uid]
            place = task.get("node") or "", task.get("gpu_groups") or []
            if task["status"] in ("Running", "Binding"):
                held[uid] = place
            elif task["status"] == "Releasing" and (
                place[0] != held[uid][0] or (place[1] and held[uid][1] and place[1] != held[uid][1])
            ):
                faults[f"the recording lets {uid} leave a place on which it never ran"] = None
    return list(faults)


def _claimed_beyond_the_node(raw: dict[str, Any]) -> list[str]:
    """The nodes on which the recording runs pods with claims of more devices than there are.

    KAI's test runner keeps the claim of a promised pod allocated until the next cycle, also if another claim has the
    same device. In a cluster a claim is allocated when its pod is bound, and two claims get two devices.
    """
    objects = raw.get("dra") or {}
    counts = {(claim["namespace"], claim["name"]): claim["count"] for claim in objects.get("resource_claims") or ()}
    if not counts:
        return []
    wanted = {
        task["uid"]: {
            (job["namespace"], name)
            for name in (
                *(task.get("resource_claim_names") or ()),
                *(task.get("resource_claim_templates") or {}).values(),
            )
        }
        for job in raw["jobs"]
        for task in job["tasks"]
    }
    devices: Counter[str] = Counter()
    for part in objects.get("resource_slices") or ():
        devices[part["node_name"]] += part["device_count"]
    held: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for job in raw["kai_actual"]["jobs"].values() if raw.get("kai_actual") else ():
        for uid, task in job["tasks"].items():
            if task["status"] == "Running":
                held[task["node"]] |= wanted[uid]
    return [
        f"the recording runs pods with claims of more devices than {node} has"
        for node, claims in held.items()
        if sum(counts[claim] for claim in claims & counts.keys()) > devices[node]
    ]


def _claims(raw: dict[str, Any]) -> list[ResourceClaim]:
    named = {
        (job["namespace"], name)
        for job in raw["jobs"]
        for task in job["tasks"]
        for name in task.get("resource_claim_names") or ()
    }
    claims = []
    for claim in (raw.get("dra") or {}).get("resource_claims") or ():
        gpu = "gpu" in claim["device_class_name"].lower()
        status = claim.get("status") or {}
        shared = gpu and (claim["namespace"], claim["name"]) in named
        claims.append(
            ResourceClaim(
                name=f"{claim['namespace']}/{claim['name']}",
                requests=any_devices(claim["count"]),
                allocated=status.get("allocation") is not None,
                gpus=claim["count"] if gpu else 0,
                reserved=tuple(consumer["uid"] for consumer in status.get("reservedFor") or ()),
                queue=(claim.get("labels") or {}).get(labels.QUEUE, "") if shared else None,
            )
        )
    return claims


def _node(raw: dict[str, Any], legacy_mig: bool, devices: int) -> Node:
    allocatable = raw["allocatable"]
    known = {"cpu_millis", "memory_bytes", "gpus", "pods"}
    # KAI refuses new MIG work on a node that runs a task of unknown profile; a mirror would report no instances there.
    extended = [] if legacy_mig else sorted((k, v) for k, v in allocatable.items() if k not in known)
    return Node(
        name=raw["name"],
        cpu=allocatable["cpu_millis"],
        memory=allocatable["memory_bytes"],
        gpus=round(allocatable.get("gpus", 0) * GPU),
        pods=allocatable["pods"],
        extended=tuple(extended),
        gpu_memory_mib=raw["gpu_memory_mib"] if raw["gpu_memory_synced"] else 0,
        labels=tuple(sorted(raw["labels"].items())),
        mig=raw["labels"].get("node-role.kubernetes.io/mig-enabled") == "true",
        numa=_numa(raw.get("numa")),
        devices=tuple(Device("recorded", raw["name"], f"device-{number}") for number in range(devices)),
    )


def _share(raw: dict[str, Any], unit: int) -> ResourceShare:
    def amount(value: float) -> int:
        return -1 if value < 0 else round(value * unit)

    return ResourceShare(quota=amount(raw["quota"]), limit=amount(raw["limit"]), weight=float(raw["over_quota_weight"]))


def _queue(raw: dict[str, Any]) -> Queue:
    resources = {} if raw.get("resources_unset") else raw["resources"]

    def share(resource: str, unit: int) -> ResourceShare:
        return _share(resources[resource], unit) if resource in resources else NO_SHARE

    return Queue(
        name=raw["name"],
        parent=raw["parent"],
        priority=raw["priority"],
        created=NOW - 1000 + raw["creation_order"],
        uid=raw["name"],
        gpu=share("gpu", GPU),
        cpu=share("cpu", 1),
        memory=share("memory", 1_000_000),
        reclaim_min_runtime=raw.get("reclaim_min_runtime_s"),
        preempt_min_runtime=raw.get("preempt_min_runtime_s"),
    )


def _constraint(raw: dict[str, Any] | None) -> Constraint | None:
    if not raw:
        return None
    return Constraint(
        topology=raw.get("topology", ""),
        required=raw.get("required_level", ""),
        preferred=raw.get("preferred_level", ""),
    )


def _subgroup(raw: dict[str, Any]) -> SubGroup:
    return SubGroup(
        name=raw.get("name", ""),
        groups=tuple(_subgroup(group) for group in raw.get("sub_groups") or ()),
        podsets=tuple(
            PodSet(
                name=podset["name"],
                min_available=podset["min_available"],
                constraint=_constraint(podset.get("topology_constraint")),
            )
            for podset in raw.get("pod_sets") or ()
        ),
        min_members=raw.get("min_sub_group"),
        constraint=_constraint(raw.get("topology_constraint")),
    )


def _podgroup(raw: dict[str, Any]) -> PodGroup:
    def before(key: str) -> float | None:
        return NOW - raw[key] if raw.get(key) is not None else None

    return PodGroup(
        uid=raw["name"],
        name=raw["name"],
        namespace=raw["namespace"],
        queue=raw["queue"],
        priority=raw["priority"],
        preemptible=raw["preemptible"],
        created=NOW - raw["created_seconds_ago"],
        root=_subgroup(raw["root_sub_group_set"]),
        last_start=before("last_start_seconds_ago"),
        stale_since=before("stale_since_seconds_ago"),
        staleness_grace=raw.get("staleness_grace_period_s"),
        preemption_delay=float(raw.get("preemption_delay_s") or 0),
    )


def _gpu(raw: dict[str, Any] | None) -> GpuRequest:
    if not raw:
        return NO_GPU
    if raw.get("mig"):
        return MigInstances(profiles=tuple(sorted(raw["mig"].items())))
    if raw.get("dra"):
        return ClaimedGpus(claimed=tuple(sorted(raw["dra"].items())))
    portion = raw.get("portion", 0)
    if portion:
        return GpuFraction.of(raw["devices"], round(portion * GPU))
    if raw.get("memory_mib"):
        return GpuMemory(devices=raw["devices"], memory_mib=raw["memory_mib"])
    return NO_GPU


def _pod_terms(raw: dict[str, Any] | None, key: str, namespace: str) -> tuple[PodTerm, ...]:
    if not raw or not raw.get(key):
        return ()
    wanted = tuple(Requirement(key=k, operator="In", values=(v,)) for k, v in sorted(raw["labels"].items()))
    return (PodTerm(topology_key=raw[key], requirements=wanted, namespaces=(namespace,)),)


def _blocked(raw: dict[str, Any]) -> tuple[str, ...]:
    """Why no node can take the task, from facts outside of the engine's records."""
    why = [f'persistentvolumeclaim "{name}" not found' for name in raw.get("pvc_names") or ()]
    if raw.get("legacy_mig"):
        why.append("a MIG profile that is known by annotation only can't be scheduled")
    return tuple(why)


def _task(
    raw: dict[str, Any],
    job: dict[str, Any],
    shapes: dict[Shape, Shape],
) -> Task:
    request = raw["request"]
    known = {"cpu_millis", "memory_bytes", "gpus", "pods"}
    extended = sorted((k, v) for k, v in request.items() if k not in known and not k.startswith(labels.MIG_PREFIX))
    affinity = raw.get("pod_affinity")
    namespace = job["namespace"]
    names = raw.get("node_affinity_names") or ()
    claimed = [
        *(raw.get("resource_claim_names") or ()),
        *(raw.get("resource_claim_templates") or {}).values(),
    ]
    status = STATUSES[raw["state"]]
    shape = Shape(
        cpu=request.get("cpu_millis", 0),
        memory=request.get("memory_bytes", 0),
        gpu=_gpu(raw["gpu"]),
        extended=tuple(extended),
        terms=(
            (NodeTerm(requirements=(Requirement(key=NODE_NAME_LABEL, operator="In", values=tuple(names)),)),)
            if names
            else ()
        ),
        affinity=_pod_terms(affinity, "affinity_topology_key", namespace),
        anti_affinity=_pod_terms(affinity, "anti_affinity_topology_key", namespace),
        labels=tuple(sorted(affinity["labels"].items())) if affinity else (),
        namespace=namespace if affinity else "",
        claims=tuple(f"{namespace}/{name}" for name in claimed),
        guaranteed=raw.get("qos_class") == "Guaranteed",
        blocked=_blocked(raw) if status == Status.PENDING else (),
    )
    shape = shapes.setdefault(shape, shape)
    placed = status in PLACED
    accepted = _gpu(raw.get("accepted")) if placed and raw.get("accepted") else shape.gpu
    return Task(
        uid=raw["uid"],
        name=raw["uid"],
        namespace=namespace,
        podgroup=job["name"],
        shape=shape,
        status=status,
        subgroup=raw["sub_group"],
        node=raw.get("node", ""),
        gpu_groups=tuple(raw.get("gpu_groups") or ()) if placed else (),
        priority=raw.get("task_priority"),
        accepted=accepted if accepted != shape.gpu else None,
        numa_zones=zones_held((raw.get("pod") or {}).get("annotations") or {}) if placed else (),
    )
