"""What a snapshot is made of: the typed facts about nodes, queues, pod groups and tasks that decisions need.

Units, everywhere in the engine: GPU in milli-GPU (1000 = one device), CPU in millicores, memory in bytes, GPU memory in
MiB, times in seconds since the epoch (float). ``UNLIMITED`` (-1) stands for no bound. Records are frozen: a
changed object is a new record.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Literal

import msgspec

from kailab.engine.snapshot.devices import DeviceId, DeviceRequests, any_devices
from kailab.model.device_selectors import Device

UNLIMITED = -1
"""No bound: of a quota or a limit."""
GPU = 1000
"""One device, in milli-GPU."""

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]


class Status(IntEnum):
    """State of a task. Source: KAI pod_status."""

    PENDING = 0
    GATED = 1  # has scheduling gates: never scheduled
    ALLOCATED = 2  # decided in this cycle, not yet carried out
    PIPELINED = 3  # promised a place that leaving tasks will free
    BINDING = 4  # bind issued
    BOUND = 5
    RUNNING = 6
    RELEASING = 7  # being deleted; holds its resources until gone
    STUCK_RELEASING = 8  # deletion takes too long: holds resources that nobody may wait for
    SUCCEEDED = 9
    FAILED = 10
    UNKNOWN = 11


class _Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """In JSON: what differs from the defaults, and nothing that is not known."""


class Requirement(_Record, frozen=True, kw_only=True):
    """One label requirement (``matchExpressions`` entry, or a nodeSelector pair as ``In``)."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()


class Taint(_Record, frozen=True, kw_only=True):
    """Keeps off a node whoever does not tolerate it."""

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
    """One term of preferred node affinity: nodes for which all of it holds are liked by its weight (1 to 100)."""

    weight: int
    requirements: tuple[Requirement, ...]
    fields: tuple[Requirement, ...] = ()


class NodeTerm(_Record, frozen=True, kw_only=True):
    """One nodeSelectorTerm: all its requirements hold. ``fields`` are matchFields (metadata.name)."""

    requirements: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


class PodTerm(_Record, frozen=True, kw_only=True):
    """A pod (anti-)affinity term: pods of ``namespaces`` matching ``requirements``, seen per ``topology_key``.

    ``weight`` 0: required.
    """

    topology_key: str
    requirements: tuple[Requirement, ...]
    namespaces: tuple[str, ...]
    weight: int = 0


class GpuRequest(_Record, frozen=True, kw_only=True):
    """What of GPUs one task wants. At most one of whole devices, a share of devices, memory, or MIG profiles.

    ``devices`` x ``portion`` milli-GPU each (1000: whole devices); or ``devices`` x ``memory_mib``; or MIG profiles.
    ``dra``: device class -> count wanted through resource claims.
    """

    devices: int = 0
    portion: int = GPU
    memory_mib: int = 0
    mig: tuple[tuple[str, int], ...] = ()
    dra: tuple[tuple[str, int], ...] = ()

    @property
    def shared(self) -> bool:
        """True for a share of a device (by fraction or by memory)."""
        return self.memory_mib > 0 or (self.devices > 0 and self.portion < GPU)


NO_GPU = GpuRequest()


Amount = tuple[str, int]  # resource name as nodes report it; CPU in millicores, memory in bytes, anything else in units


class ContainerRequest(_Record, frozen=True, kw_only=True):
    """What one container asks for, where NUMA alignment goes container by container. A ``sidecar`` is an init container
    that stays; plain ``init`` containers run one after another before the others."""

    amounts: tuple[Amount, ...] = ()
    stage: Literal["app", "sidecar", "init"] = "app"


class ZoneShare(_Record, frozen=True, kw_only=True):
    """What a task holds of one NUMA zone of its node."""

    zone: str
    amounts: tuple[Amount, ...] = ()


class NumaZone(_Record, frozen=True, kw_only=True):
    """One NUMA zone. Its name ends in its number, by which zones are ordered."""

    name: str
    allocatable: tuple[Amount, ...] = ()


class Numa(_Record, frozen=True, kw_only=True):
    """How the kubelet of a node aligns resources to NUMA zones (its Topology Manager policy and scope)."""

    policy: Literal["none", "best-effort", "restricted", "single-numa-node"] = "none"
    scope: Literal["container", "pod"] = "container"
    zones: tuple[NumaZone, ...] = ()


class Shape(_Record, frozen=True, kw_only=True):
    """All about a task that decides where it may go. Tasks with equal shapes share one instance (intern them):
    the engine fits and scores once per shape.

    ``extended``: other resources of nodes, name -> units. ``blocked``: why no node at all can take it (a missing volume,
    a missing config map): one sentence each. ``terms``: required node affinity, any one of them suffices; empty: no
    restriction. The nodeSelector is ``selector``, all of it holds.
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
    labels: tuple[tuple[str, str], ...] = ()  # the pod's own, only where someone's pod terms may look at them
    namespace: str = ""  # likewise
    ports: tuple[tuple[str, str, int], ...] = ()  # (host IP, protocol, host port)
    claims: tuple[str, ...] = ()  # names of resource claims "namespace/name"
    guaranteed: bool = False  # QoS class Guaranteed (NUMA alignment)
    containers: tuple[ContainerRequest, ...] = ()  # for NUMA alignment; empty: one container that asks for everything
    blocked: tuple[str, ...] = ()


class Task(_Record, frozen=True, kw_only=True):
    """One pod. ``node`` is set where it holds or is promised a place.

    ``gpu_groups``: the shared physical GPUs it sits on, by group id (one per device), for tasks with a share.
    ``accepted``: what a placed task holds where that differs from what it asked for. ``expected_seconds``: how long it is said to
    run, for policies that ask.
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
    )  # the pod's own class and its value; the PodGroup's are what counts
    created: float = 0.0
    nominated_node: str = ""
    accepted: GpuRequest | None = None
    numa_zones: tuple[ZoneShare, ...] = ()  # what it holds of its node's NUMA zones, as far as known
    expected_seconds: float | None = None


class ResourceClaim(_Record, frozen=True, kw_only=True):
    """A DRA claim. Every task that names it shares its devices, and so its node.

    ``requests``: what it wants, ``gpus``: how many of that are GPUs. ``allocated``: its devices are chosen: ``held``, as far as
    they are its own, on ``node`` ("": the allocation does not say). ``reserved``: UIDs of the pods it is reserved for.
    ``queue``: a GPU claim that pods name directly must carry their queue's name as a label; this is that label ("": it has
    none), and None where the rule does not apply (no GPUs, or made from a template for one pod).
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
"""What every kubelet tells of its node. Where a node does not, as those of a fleet, it is not known: more than any pod wants."""


class Node(_Record, frozen=True, kw_only=True):
    """``gpus``: whole devices allocatable, as milli-GPU. ``extended``: every other allocatable resource, in units
    (MIG profiles by their resource name). ``unavailable``: why nothing new may go here (not ready, cordoned);
    empty: available."""

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
    mig: bool = False  # its devices are split: whole devices and shares can't be had
    numa: Numa | None = None
    claimed_gpus: bool = False  # GPUs of it are for claims: nobody can have a part of one there
    devices: tuple[Device, ...] | None = None  # of its ResourceSlices, to serve claims; None: not known, not checked


class Share(_Record, frozen=True, kw_only=True):
    """One resource of a queue, in engine units (milli-GPU, millicores, bytes); ``weight`` is the over-quota weight."""

    quota: int = 0
    limit: int = 0
    weight: float = 0.0


NO_SHARE = Share()


class Queue(_Record, frozen=True, kw_only=True):
    """A node of the queue tree. The name is its identity. A queue without resources has zeros throughout."""

    name: str
    parent: str = ""
    priority: int = 100
    created: float = 0.0
    uid: str = ""
    gpu: Share = NO_SHARE
    cpu: Share = NO_SHARE
    memory: Share = NO_SHARE
    reclaim_min_runtime: float | None = None  # None: inherited
    preempt_min_runtime: float | None = None


class Constraint(_Record, frozen=True, kw_only=True):
    """Topology wanted by a group: names of node labels that are levels of the named Topology."""

    topology: str
    required: str = ""
    preferred: str = ""


class PodSet(_Record, frozen=True, kw_only=True):
    """A leaf of the subgroup tree: tasks name it. ``min_available`` of them run together or none."""

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
        """The fewest pods with which it is satisfied."""
        each = sorted([*(podset.min_available for podset in self.podsets), *(group.least for group in self.groups)])
        return sum(each if self.min_members is None else each[: self.min_members])


DEFAULT_PODSET = "default"


class PodGroup(_Record, frozen=True, kw_only=True):
    """One workload to the scheduler. A plain gang has one PodSet ``default`` at the root.

    ``last_start``: when it last went from nothing to running. ``stale_since``: when a running gang fell below its
    minimum. ``staleness_grace`` None: the configured default; negative: never evicted for it.
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
    """Levels, widest first, as node label keys."""

    name: str
    levels: tuple[str, ...]


# What the states of a task stand for: sets of them, told apart by what counts for whom.
#
# Source: KAI pod_status. Sets are tuples of flags indexed by Status: the lookup is made for every task of every cycle.


def _flags(*statuses: Status) -> tuple[bool, ...]:
    return tuple(status in statuses for status in Status)


# KAI's sets in this order: IsActiveUsedStatus, IsActiveAllocatedStatus, IsAliveStatus, AllocatedStatus. A promise
# counts for the gang, but for its queue only while a cycle is at work.
_PLACED = (Status.ALLOCATED, Status.PIPELINED, Status.BINDING, Status.BOUND, Status.RUNNING)
ON_NODE = _flags(*_PLACED, Status.RELEASING, Status.STUCK_RELEASING)  # holds or is promised resources
ACTIVE = _flags(*_PLACED)  # counts for its gang
ALIVE = _flags(*_PLACED, Status.PENDING, Status.GATED)
ALLOCATED = _flags(Status.ALLOCATED, Status.BINDING, Status.BOUND, Status.RUNNING)  # counts for its queue
