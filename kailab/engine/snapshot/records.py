"""The records of a snapshot: nodes, queues, PodGroups and tasks as decisions need them.

Units everywhere in the engine: GPU in milli-GPU (1000 = one device), CPU in millicores, memory in bytes, GPU memory in
MiB, times in seconds since the epoch (float). ``UNLIMITED`` (-1) stands for no bound. Records are frozen: a changed
object is a new record.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Literal

import msgspec

from kailab.engine.snapshot.counting import GPU as GPU
from kailab.engine.snapshot.counting import mig_gpus
from kailab.engine.snapshot.devices import DeviceId, DeviceRequests, any_devices
from kailab.engine.snapshot.gpu_requests import NO_GPU, GpuRequest
from kailab.model.device_selectors import Device

UNLIMITED = -1
"""No bound of a quota or limit."""

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]


class Status(IntEnum):
    """The state of a task. Source: KAI pod_status."""

    PENDING = 0
    GATED = 1  # has scheduling gates; never scheduled
    ALLOCATED = 2  # decided in this cycle, not yet carried out
    PIPELINED = 3  # promised a place that leaving tasks will free
    BINDING = 4  # bind issued
    BOUND = 5
    RUNNING = 6
    RELEASING = 7  # being deleted; holds its resources until gone
    STUCK_RELEASING = 8  # deletion takes too long; holds resources that no other task may wait for
    SUCCEEDED = 9
    FAILED = 10
    UNKNOWN = 11


class _Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """In JSON, fields with default values are omitted and unknown fields are rejected. A record never contains itself, so the
    garbage collector need not look at it."""


class Requirement(_Record, frozen=True, kw_only=True):
    """One label requirement (``matchExpressions`` entry, or a nodeSelector pair as ``In``)."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()


class Taint(_Record, frozen=True, kw_only=True):
    """Keeps tasks that do not tolerate it off a node."""

    key: str
    value: str = ""
    effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule"] = "NoSchedule"


class Toleration(_Record, frozen=True, kw_only=True):
    """An empty key with Exists tolerates everything; an empty effect matches all effects."""

    key: str = ""
    operator: Literal["Exists", "Equal"] = "Equal"
    value: str = ""
    effect: str = ""


class PreferredNodes(_Record, frozen=True, kw_only=True):
    """One term of preferred node affinity: nodes that meet all requirements score its weight (1 to 100)."""

    weight: int
    requirements: tuple[Requirement, ...]
    fields: tuple[Requirement, ...] = ()


class NodeTerm(_Record, frozen=True, kw_only=True):
    """One nodeSelectorTerm, met if all its requirements are. ``fields`` are matchFields (metadata.name)."""

    requirements: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


class PodTerm(_Record, frozen=True, kw_only=True):
    """A pod (anti-)affinity term: pods of ``namespaces`` that match ``requirements``, per ``topology_key``.

    ``weight`` 0: required.
    """

    topology_key: str
    requirements: tuple[Requirement, ...]
    namespaces: tuple[str, ...]
    weight: int = 0


Amount = tuple[str, int]  # resource name as nodes report it; CPU in millicores, memory in bytes, anything else in units


class ContainerRequest(_Record, frozen=True, kw_only=True):
    """The request of one container, for NUMA alignment by container. A ``sidecar`` is an init container that stays;
    plain ``init`` containers run one after another before the others.
    """

    amounts: tuple[Amount, ...] = ()
    stage: Literal["app", "sidecar", "init"] = "app"


class ZoneShare(_Record, frozen=True, kw_only=True):
    """What a task holds of one NUMA zone of its node."""

    zone: str
    amounts: tuple[Amount, ...] = ()


class NumaZone(_Record, frozen=True, kw_only=True):
    """One NUMA zone. Zones are ordered by the number at the end of their name."""

    name: str
    allocatable: tuple[Amount, ...] = ()


class Numa(_Record, frozen=True, kw_only=True):
    """How the kubelet of a node aligns resources to NUMA zones (its Topology Manager policy and scope)."""

    policy: Literal["none", "best-effort", "restricted", "single-numa-node"] = "none"
    scope: Literal["container", "pod"] = "container"
    zones: tuple[NumaZone, ...] = ()


class Shape(_Record, frozen=True, kw_only=True):
    """All properties of a task that decide where it may go. Tasks with equal shapes share one instance (intern them),
    because the engine fits and scores once per shape.

    ``extended``: other node resources, name -> units. ``blocked``: why no node at all can take it (a missing volume, a
    missing config map), one sentence each. ``terms``: required node affinity, of which one term suffices; empty: no
    restriction. ``selector``: the nodeSelector, all of which must hold.
    """

    cpu: int = 0
    memory: int = 0
    gpu: GpuRequest = NO_GPU
    extended: tuple[tuple[str, int], ...] = ()
    selector: tuple[Requirement, ...] = ()
    terms: tuple[NodeTerm, ...] = ()
    preferred: tuple[PreferredNodes, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()  # the pod's labels, set only if pod terms may select them
    namespace: str = ""  # set under the same condition
    ports: tuple[tuple[str, str, int], ...] = ()  # (host IP, protocol, host port)
    claims: tuple[str, ...] = ()  # names of resource claims "namespace/name"
    guaranteed: bool = False  # QoS class Guaranteed (NUMA alignment)
    containers: tuple[ContainerRequest, ...] = ()  # for NUMA alignment; empty: one container that asks for everything
    blocked: tuple[str, ...] = ()


class Task(_Record, frozen=True, kw_only=True):
    """One pod. ``node`` is set if the pod holds or is promised a place.

    ``gpu_groups``: for a task with a share, the group ids of its physical GPUs, one per device. ``accepted``: what a
    placed task holds if that differs from its request. ``expected_seconds``: its expected run time, for policies.
    ``ran_seconds``: for how long the pods that it replaces ran, for policies.
    """

    uid: str
    name: str
    namespace: str
    podgroup: str  # uid of its PodGroup
    shape: Shape
    status: Status = Status.PENDING
    subgroup: str = ""
    node: str = ""
    gpu_groups: tuple[str, ...] = ()
    priority: int | None = None  # label kai.scheduler/task-priority
    pod_priority: tuple[str, int | None] = (
        "",
        None,
    )  # the pod's own priority class and value; the PodGroup's are decisive
    created: float = 0.0
    nominated_node: str = ""
    accepted: GpuRequest | None = None
    numa_zones: tuple[ZoneShare, ...] = ()  # what it holds of its node's NUMA zones, if known
    expected_seconds: float | None = None
    ran_seconds: float = 0.0


class ResourceClaim(_Record, frozen=True, kw_only=True):
    """A DRA claim. All tasks that name it share its devices and therefore its node.

    ``requests``: the devices it wants; ``gpus``: how many of them are GPUs. ``allocated``: its devices are chosen:
    ``held`` are those of its own, on ``node`` ("": the allocation names none). ``reserved``: UIDs of the pods it is
    reserved for. ``queue``: the queue label that a GPU claim named directly by pods must carry ("": no label); None if
    the rule does not apply (no GPUs, or made from a template for one pod).
    """

    name: str  # "namespace/name"
    requests: DeviceRequests = any_devices(1)
    allocated: bool = False
    held: tuple[DeviceId, ...] = ()
    node: str = ""
    gpus: int = 0
    reserved: tuple[str, ...] = ()
    queue: str | None = None


CORDONED = "node is unschedulable"
NOT_READY = "node has NotReady condition"
"""Why a node takes nothing new, in KAI's words."""


UNREPORTED_CAPACITY = {"ephemeral-storage": 2**49}
"""Resources that every kubelet reports. A node that does not report one, as a node of a fleet, is assumed to have more
than any pod wants.
"""


class Node(_Record, frozen=True, kw_only=True):
    """A node. ``gpus``: allocatable whole devices, as milli-GPU. ``extended``: all other allocatable resources, in
    units (MIG profiles by resource name). ``unavailable``: why nothing new may go here (not ready, cordoned); empty:
    available.
    """

    name: str
    cpu: int = 0
    memory: int = 0
    gpus: int = 0
    pods: int = 110
    extended: tuple[tuple[str, int], ...] = ()
    gpu_memory_mib: int = 0
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    unavailable: str = ""
    mig: bool = False  # its devices are split by MIG; whole devices and shares are not available
    numa: Numa | None = None
    claimed_gpus: bool = False  # its GPUs are for claims; shares of them are not available
    devices: tuple[Device, ...] | None = None  # from its ResourceSlices, for claims; None: unknown and not checked

    @property
    def offered_gpus(self) -> int:
        """Milli-GPU of the node, MIG instances included."""
        return self.gpus + sum(mig_gpus(name) * count for name, count in self.extended)


class ResourceShare(_Record, frozen=True, kw_only=True):
    """One resource of a queue, in engine units (milli-GPU, millicores, bytes). ``weight`` is the over-quota weight."""

    quota: int = 0
    limit: int = 0
    weight: float = 0.0


NO_SHARE = ResourceShare()


class Queue(_Record, frozen=True, kw_only=True):
    """A node of the queue tree, identified by name. A queue without resources has zeros throughout. ``kailab.model.queues`` says what a new
    field of KAI's Queue takes. During a cycle it is read from ``WQueue.record``.
    """

    name: str
    parent: str = ""
    priority: int = 100
    created: float = 0.0
    uid: str = ""
    gpu: ResourceShare = NO_SHARE
    cpu: ResourceShare = NO_SHARE
    memory: ResourceShare = NO_SHARE
    reclaim_min_runtime: float | None = None  # None: inherited
    preempt_min_runtime: float | None = None


class Constraint(_Record, frozen=True, kw_only=True):
    """The topology that a group wants: levels of the named Topology, given as node label keys."""

    topology: str
    required: str = ""
    preferred: str = ""


class PodSet(_Record, frozen=True, kw_only=True):
    """A leaf of the subgroup tree, named by its tasks. ``min_available`` of them run together or none."""

    name: str
    min_available: int = 1
    constraint: Constraint | None = None


class SubGroup(_Record, frozen=True, kw_only=True):
    """An inner node of the subgroup tree. ``min_members``: how many direct members must be satisfied (None: all)."""

    name: str = ""
    groups: tuple[SubGroup, ...] = ()
    podsets: tuple[PodSet, ...] = ()
    min_members: int | None = None
    constraint: Constraint | None = None

    @property
    def least(self) -> int:
        """The fewest pods that satisfy the group."""
        each = sorted([*(podset.min_available for podset in self.podsets), *(group.least for group in self.groups)])
        return sum(each if self.min_members is None else each[: self.min_members])


DEFAULT_PODSET = "default"


class PodGroup(_Record, frozen=True, kw_only=True):
    """One workload. A plain gang has one PodSet ``default`` at the root.

    ``last_start``: when it last went from nothing to running. ``stale_since``: when a running gang fell below its
    minimum. ``staleness_grace`` None: the configured default; negative: never evicted for being stale.
    """

    uid: str
    name: str
    namespace: str
    queue: str
    priority: int = 50
    preemptible: bool = True
    created: float = 0.0
    root: SubGroup = SubGroup(podsets=(PodSet(name=DEFAULT_PODSET),))
    last_start: float | None = None
    last_evicted: float | None = None
    stale_since: float | None = None
    staleness_grace: float | None = None
    preemption_delay: float = 0.0


class Topology(_Record, frozen=True, kw_only=True):
    """A topology: node label keys of its levels, widest first."""

    name: str
    levels: tuple[str, ...]


def _flags(*statuses: Status) -> tuple[bool, ...]:
    return tuple(status in statuses for status in Status)


# Sets of states as tuples of flags indexed by Status, because each cycle looks them up for every task. KAI's names
# (pod_status), in this order: IsActiveUsedStatus, IsActiveAllocatedStatus, IsAliveStatus, AllocatedStatus. A promise
# counts for the gang, but for its queue only during a cycle.
_PLACED = (Status.ALLOCATED, Status.PIPELINED, Status.BINDING, Status.BOUND, Status.RUNNING)
ON_NODE = _flags(*_PLACED, Status.RELEASING, Status.STUCK_RELEASING)  # holds or is promised resources
LEAVING = _flags(Status.RELEASING, Status.STUCK_RELEASING)
ACTIVE = _flags(*_PLACED)  # counts for its gang
ALIVE = _flags(*_PLACED, Status.PENDING, Status.GATED)
ALLOCATED = _flags(Status.ALLOCATED, Status.BINDING, Status.BOUND, Status.RUNNING)  # counts for its queue
