"""The output of a cycle: decisions and their reasons.

Each decision has a reason for people (``message``) and for programs (``code``, ``numbers``). Amounts in ``numbers`` are
in engine units unless the key says otherwise (``gpus`` are whole GPUs, float).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypedDict

import msgspec

from kailab.engine.snapshot.records import Amount, ZoneShare
from kailab.engine.working.queues import QueueResource

Action = Literal["allocate", "consolidation", "reclaim", "preempt", "stalegangeviction"]
"""The actions of a cycle."""


class PendingCode(StrEnum):
    """Why a PodGroup stays pending: KAI's code where KAI has one."""

    POD_SCHEDULING_ERRORS = "PodSchedulingErrors"
    NON_PREEMPTIBLE_OVER_QUOTA = "NonPreemptibleOverQuota"
    OVER_LIMIT = "OverLimit"
    QUEUE_DOES_NOT_EXIST = "QueueDoesNotExist"
    PREEMPTION_DELAY = "PreemptionDelayNotElapsed"
    UNSCHEDULABLE = "Unschedulable"  # KAI reports a text without a code
    NOT_READY = "NotReady"  # fewer pods than minMember exist
    RESERVED = "Reserved"  # kailab's own: nodes have room, but it is kept free for another job
    PIPELINED = "Pipelined"  # a place is promised; it becomes free once other tasks have left


class ScoreNumbers(TypedDict):
    """The weighted score of a waiting job and its parts, each as [value, weight]."""

    total: float
    priority: list[float]
    waiting: list[float]
    efficiency: list[float]
    fairness: list[float]


class PolicyNumbers(TypedDict):
    """The key that a user's policy gave to a waiting job."""

    name: str
    key: list[float]


class Numbers(TypedDict, total=False):
    """The numbers behind the reason of a waiting PodGroup. No other keys exist."""

    # a queue rule: ``allocated`` (for a quota: by non-preemptible work) at that moment
    resource: QueueResource
    requested: int
    allocated: int
    bound: float  # -1: unlimited
    allocated_text: str
    # no room for a gang
    placed: int  # pods that found room
    # too few pods
    pods: int
    minimum: int
    # a preemption delay
    until: float  # seconds since the epoch
    # nodes kept free, for this job or another one (``kept_for``: that job's PodGroup uid)
    kept_for: str
    kept_from: float  # seconds since the epoch
    # a configured order
    score: ScoreNumbers
    policy: PolicyNumbers
    aged_since: float  # seconds since the epoch


class TaskAmounts(msgspec.Struct, frozen=True, kw_only=True):
    """What one task counts for, in engine units: GPUs as queues count them, all other resources as nodes count them
    (MIG instances by resource name).
    """

    gpu: int = 0
    cpu: int = 0
    memory: int = 0
    extended: tuple[Amount, ...] = ()


class ServingPosition(msgspec.Struct, frozen=True, kw_only=True):
    """A job's position (from 1) among all waiting jobs.

    ``because``: the criterion that put it behind the job before it (``order_records.PROMISED``, a JobCriterion within
    one queue, else a QueueCriterion); "" for the first. ``refused``: the code of the queue rule that keeps it from
    starting regardless of free room; ``queue_context`` is the queue with that rule and ``numbers`` the amounts.
    """

    place: int
    podgroup: str
    queue: str
    because: str = ""
    refused: PendingCode | None = None
    queue_context: str = ""
    numbers: Numbers = {}


class LabelDemand(msgspec.Struct, frozen=True, kw_only=True):
    """GPUs that work of a queue holds or waits for, with the values of a node label that it can use: the GPU models.

    ``podgroup``: the UID of one that waits; "" for all running work of the queue with these ``values``. ``gpus``: milli-GPU
    in all; ``next``: what its next tasks want together.
    """

    queue: str
    podgroup: str = ""
    values: tuple[str, ...]
    gpus: int
    next: int = 0


class Bind(msgspec.Struct, frozen=True, kw_only=True):
    """A task gets a place now. Tasks and PodGroups are named by UID, queues and nodes by name. ``amounts``: what the
    task counts for on its node.
    """

    task: str
    podgroup: str
    queue: str
    node: str
    gpu_groups: tuple[str, ...] = ()
    action: Action = "allocate"
    numa_zones: tuple[ZoneShare, ...] = ()  # predicted if the node's NUMA policy is known
    amounts: TaskAmounts = TaskAmounts()


class Pipeline(msgspec.Struct, frozen=True, kw_only=True):
    """A task is promised ``node`` and will be bound in a later cycle. ``moved``: the task is a victim with a new place.
    ``amounts``: what the task will count for there.
    """

    task: str
    podgroup: str
    queue: str
    node: str
    gpu_groups: tuple[str, ...] = ()
    action: Action = "allocate"
    moved: bool = False
    numa_zones: tuple[ZoneShare, ...] = ()
    amounts: TaskAmounts = TaskAmounts()


class QueueShare(msgspec.Struct, frozen=True, kw_only=True):
    """A queue's balance in one resource at one moment, in engine units. ``limit`` or ``quota`` -1: unlimited."""

    quota: int
    limit: int
    fair_share: float
    allocated: int
    requested: int
    non_preemptible: int = 0

    @property
    def borrowed(self) -> int:
        """What the queue holds beyond its quota."""
        return beyond_quota(self.allocated, self.quota)


def beyond_quota(allocated: int, quota: int) -> int:
    """The amount held beyond a quota; 0 if the quota is unlimited (-1)."""
    return 0 if quota < 0 else max(0, allocated - quota)


class HeldAmounts(msgspec.Struct, frozen=True, kw_only=True):
    """Amounts in engine units."""

    gpu: int
    cpu: int
    memory: int


class EvictionTotals(msgspec.Struct, frozen=True, kw_only=True):
    """What one evicting action took for one beneficiary in a cycle: ``asked`` is what the beneficiary is promised,
    ``lost`` what victims without a new place held, ``moved`` what victims with a new place held.
    """

    asked: HeldAmounts
    lost: HeldAmounts
    moved: HeldAmounts
    pods_lost: int
    pods_moved: int


class EvictionGround(msgspec.Struct, frozen=True, kw_only=True):
    """The rule that allowed an eviction.

    ``rule``: "fair share" or "quota" (reclaim: ``queue`` held more than that in ``resource``; here the fair share is
    never less than the quota), "priority" (preempt: ``priorities`` of victim and beneficiary), "move" (the victim had
    another place at that moment, so its queue lost nothing), "gang" (fewer pods of its gang run than the minimum).

    ``queue`` and ``beside`` are the victim's and the beneficiary's queues, or their ancestors at the level of the tree
    where the rule compares them; both are the same queue for a preemption. ``before`` and ``after``: what ``queue``
    holds of ``resource`` before and after the evictions for the beneficiary, in engine units. ``bound``: the quota or
    fair share that was compared.
    """

    rule: Literal["fair share", "quota", "priority", "move", "gang"]
    queue: str
    beside: str = ""
    resource: QueueResource | None = None
    bound: float = 0.0
    before: int = 0
    after: int = 0
    priorities: tuple[int, int] | None = None


class Reclaimer(msgspec.Struct, frozen=True, kw_only=True):
    """A queue that could reclaim from another. ``beside``: that other queue, or its ancestor that is a sibling of
    ``queue``. ``rule``: the basis of the claim. ``amount``: the most it could reclaim of ``resource`` (-1: its quota is
    unlimited). The resource is GPU, unless the queue waits for no GPUs or the other holds none.
    """

    queue: str
    beside: str
    rule: Literal["fair share", "quota"]
    amount: int
    resource: QueueResource = "GPU"


class Evict(msgspec.Struct, frozen=True, kw_only=True):
    """A task is evicted for ``beneficiary`` (a PodGroup uid; "" for a stale gang).

    ``shares``: queue -> GPU balance (before, after), for both queues. ``taking``: totals of all victims of this action
    for the same beneficiary (None for a stale gang). ``amounts``: what the task held. ``ground``: the rule that allowed
    it.
    """

    task: str
    podgroup: str
    queue: str
    node: str
    action: Action
    beneficiary: str = ""
    beneficiary_queue: str = ""
    message: str = ""
    shares: dict[str, tuple[QueueShare, QueueShare]] = {}
    taking: EvictionTotals | None = None
    amounts: TaskAmounts = TaskAmounts()
    ground: EvictionGround | None = None


class TaskFit(msgspec.Struct, frozen=True, kw_only=True):
    """Why a task fits nowhere: pairs of reason and number of nodes, most nodes first."""

    task: str
    nodes: int
    reasons: tuple[tuple[str, int], ...] = ()


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """A PodGroup with tasks that got no place in this cycle.

    ``queue_context``: the queue whose quota or limit stopped it. ``tried``: the evicting actions tried for it, each
    with its outcome in words. ``amounts``: what each of ``tasks`` asks for, in the same order. ``turn``: its serving
    position at the end of the cycle if ``EngineConfig.tell_turns`` is set and it could run in its queue.
    """

    podgroup: str
    queue: str
    code: PendingCode
    message: str
    tasks: tuple[str, ...] = ()
    fits: tuple[TaskFit, ...] = ()
    queue_context: str = ""
    numbers: Numbers = {}
    tried: tuple[tuple[Action, str], ...] = ()
    amounts: tuple[TaskAmounts, ...] = ()
    turn: ServingPosition | None = None


class ReservedPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes kept free for a PodGroup that found no room (``EngineConfig.reservation_policy``). ``at``: the earliest
    moment (seconds since the epoch) at which it fits according to expected run times. ``nodes``: the node of each of
    its tasks. ``gpu``: in all, in milli-GPU.
    """

    podgroup: str
    queue: str
    at: float
    nodes: tuple[str, ...]
    gpu: int


class QueueState(msgspec.Struct, frozen=True, kw_only=True):
    """A queue's balance at the start of a cycle, in all three resources."""

    name: str
    parent: str
    priority: int
    gpu: QueueShare
    cpu: QueueShare
    memory: QueueShare


class ImitatedFaults(msgspec.Struct, frozen=True, kw_only=True):
    """Imitated faults of KAI without which a decision would be another. ``numbers``: as in docs/conformance.md; none if
    it is the order of equally full devices. ``together``: all of them are needed; otherwise each alone suffices.
    """

    numbers: tuple[int, ...]
    together: bool = False


class Decisions(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one cycle. Lists are in the order decided.

    ``wake_at``: the earliest time at which another cycle could decide differently although nothing else changed (a
    delay or protection ends); None: never. ``started``: PodGroups that went from nothing allocated to allocated.
    ``robbed``: pairs of PodGroups (uids): one that lost tasks, or a promise of this cycle, and the one that gained from it
    ("" if a stale gang was evicted). ``heirs``: PodGroups (uid) that the next cycle serves first (``EngineConfig.promised``),
    because room was made for them. ``again``: the cycle changes nothing, but a job's room was given to another job, and
    every later cycle would do the same unless the heirs go first; so repeat the cycle at once. ``kept``: nodes kept
    free, in serving order. ``imitated``: PodGroup (uid) -> the imitated faults of KAI on which the
    decisions about it rest (``cycle.name_faults``).
    """

    now: float
    binds: tuple[Bind, ...] = ()
    pipelines: tuple[Pipeline, ...] = ()
    evictions: tuple[Evict, ...] = ()
    pending: tuple[Pending, ...] = ()
    stale: tuple[str, ...] = ()  # uids of PodGroups that are stale now
    queues: tuple[QueueState, ...] = ()
    started: tuple[str, ...] = ()
    robbed: tuple[tuple[str, str], ...] = ()
    heirs: tuple[str, ...] = ()
    again: bool = False
    kept: tuple[ReservedPlace, ...] = ()
    imitated: dict[str, ImitatedFaults] = {}
    wake_at: float | None = None

    @property
    def changed(self) -> bool:
        """True if carrying this out changes the cluster."""
        return bool(self.binds or self.evictions)
