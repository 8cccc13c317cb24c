"""What a cycle decided, and why: the engine's only output.

Each decision carries a reason that a person can read (``message``) and a program can match (``code``, ``numbers``).
Amounts in ``numbers`` are in the engine's units unless the key says otherwise (``gpus`` are whole GPUs, float).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypedDict

import msgspec

from kailab.engine.snapshot.records import Amount, ZoneShare
from kailab.engine.working.queues import QueueResource

Action = Literal["allocate", "consolidation", "reclaim", "preempt", "stalegangeviction"]
"""What a cycle does, one after the other."""


class PendingCode(StrEnum):
    """Why a PodGroup stays pending. KAI's code where KAI has one."""

    POD_SCHEDULING_ERRORS = "PodSchedulingErrors"
    NON_PREEMPTIBLE_OVER_QUOTA = "NonPreemptibleOverQuota"
    OVER_LIMIT = "OverLimit"
    QUEUE_DOES_NOT_EXIST = "QueueDoesNotExist"
    PREEMPTION_DELAY = "PreemptionDelayNotElapsed"
    UNSCHEDULABLE = "Unschedulable"  # KAI gives a text but no code of its own
    NOT_READY = "NotReady"  # fewer pods than minMember exist
    RESERVED = "Reserved"  # kailab's own: there is room, and it is kept free for another
    WAITING = "Pipelined"  # a place is promised; leaving tasks must go first


class ScoreNumbers(TypedDict):
    """The weighted score of a waiting job and its parts, each as [value, weight]."""

    total: float
    priority: list[float]
    waiting: list[float]
    efficiency: list[float]
    fairness: list[float]


class PolicyNumbers(TypedDict):
    """What a policy that another distribution brings said of a waiting job."""

    name: str
    key: list[float]


class Numbers(TypedDict, total=False):
    """What the reason of a waiting PodGroup is made of. The keys are all that there are."""

    # a queue rule that does not let it start; allocated (for a quota: by non-preemptible work) at that moment
    resource: QueueResource
    requested: int
    allocated: int
    bound: float  # -1: unlimited
    allocated_text: str
    # no room for a gang
    placed: int  # pods for which there was room
    # too few pods
    pods: int
    minimum: int
    # a delay of its preemption
    until: float  # seconds since the epoch
    # a place that is kept free: for itself, or for another (``kept_for``: its PodGroup's uid)
    kept_for: str
    kept_from: float  # seconds since the epoch
    # a configured order
    score: ScoreNumbers
    policy: PolicyNumbers
    aged_since: float  # seconds since the epoch


class TaskAmounts(msgspec.Struct, frozen=True, kw_only=True):
    """What one task counts for, in engine units: in GPUs as queues count them, and in every other resource as nodes do (MIG
    instances by their resource name)."""

    gpu: int = 0
    cpu: int = 0
    memory: int = 0
    extended: tuple[Amount, ...] = ()


class ServingPosition(msgspec.Struct, frozen=True, kw_only=True):
    """One job's place (from 1) among all that wait. ``because``: what put it behind the one before it (``turns.PROMISED``; a
    JobCriterion where both are of one queue, else a QueueCriterion); "" for the first. ``refused``: the code of the queue rule
    that does not let it start, however much room there is; ``queue_context`` the queue that has the rule, ``numbers`` what it is
    made of."""

    place: int
    podgroup: str
    queue: str
    because: str = ""
    refused: PendingCode | None = None
    queue_context: str = ""
    numbers: Numbers = {}


class Bind(msgspec.Struct, frozen=True, kw_only=True):
    """A task gets a place now. Tasks and PodGroups go by UID, queues and nodes by name. ``amounts``: what the task counts for on
    its node."""

    task: str
    podgroup: str
    queue: str
    node: str
    gpu_groups: tuple[str, ...] = ()
    action: Action = "allocate"
    numa_zones: tuple[ZoneShare, ...] = ()  # predicted, where the node's NUMA policy is known
    amounts: TaskAmounts = TaskAmounts()


class Pipeline(msgspec.Struct, frozen=True, kw_only=True):
    """The task is promised ``node``; it is bound in a later cycle. ``moved``: it is a victim with a new place. ``amounts``: what
    the task will count for there."""

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
    """A queue's standing in one resource at one moment. Amounts in engine units; ``limit``/``quota`` -1: unlimited."""

    quota: int
    limit: int
    fair_share: float
    allocated: int
    requested: int
    non_preemptible: int = 0

    @property
    def borrowed(self) -> int:
        """Held beyond the quota."""
        return beyond_quota(self.allocated, self.quota)


def beyond_quota(allocated: int, quota: int) -> int:
    """What is held beyond a quota; nothing of an unlimited one (-1)."""
    return 0 if quota < 0 else max(0, allocated - quota)


class HeldAmounts(msgspec.Struct, frozen=True, kw_only=True):
    """Amounts in engine units."""

    gpu: int
    cpu: int
    memory: int


class EvictionTotals(msgspec.Struct, frozen=True, kw_only=True):
    """What one evicting action took for one beneficiary in a cycle: ``asked`` is what it is promised, ``lost`` what victims
    without a new place held, ``moved`` what those held that are evicted only to be placed elsewhere."""

    asked: HeldAmounts
    lost: HeldAmounts
    moved: HeldAmounts
    pods_lost: int
    pods_moved: int


class EvictionGround(msgspec.Struct, frozen=True, kw_only=True):
    """What made an eviction lawful. ``rule``: "fair share" or "quota" (reclaim: ``queue`` held more than that, in ``resource``; the
    fair share is never less than the quota here);
    "priority" (preempt: ``priorities`` of the victim and the beneficiary); "move" (it had another place when that was decided, so its
    queue lost nothing); "gang" (fewer of its gang run than must).

    ``queue`` and ``beside`` are the victim's and the beneficiary's queue, or their ancestors, at the level of the tree where
    they were compared; the same queue for a preemption. ``before`` and ``after``: what ``queue`` holds of ``resource`` without the
    evictions made for the beneficiary and with them, in engine units; ``bound``: what it was held against.
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
    """A queue that could reclaim something of another. ``beside``: that other, or the ancestor of it that is a sibling of ``queue``.
    ``rule``: what it has a claim by; ``amount``: up to how much of ``resource`` (-1: its quota is unlimited). That is GPUs, but what
    it waits for where that is no GPUs, or the other holds none."""

    queue: str
    beside: str
    rule: Literal["fair share", "quota"]
    amount: int
    resource: QueueResource = "GPU"


class Evict(msgspec.Struct, frozen=True, kw_only=True):
    """``beneficiary`` is the PodGroup uid for which the victim goes ("" for a stale gang).

    ``shares``: queue -> GPU standing (before, after), for both queues. ``taking``: of all victims of this action for the same
    beneficiary (None for a stale gang). ``amounts``: what the task held. ``ground``: what let it be taken.
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
    """Why a task fits nowhere: reason text -> number of nodes, most nodes first."""

    task: str
    nodes: int
    reasons: tuple[tuple[str, int], ...] = ()


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """A PodGroup with tasks that got no place in this cycle.

    ``queue_context``: the queue whose quota or limit stopped it, where one did. ``tried``: the evicting actions that were
    tried for it, each with the outcome in words. ``amounts``: what each of ``tasks`` asks for, in the same order. ``turn``: its place
    among those that wait as the cycle ends, where ``EngineConfig.tell_turns`` asks for it; None too for one that could not run in
    its queue.
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


class KeptPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A place that is kept free for a PodGroup that found no room (``EngineConfig.reservation_policy``). ``at``: the earliest moment, in seconds since the
    epoch, at which it fits by the run times that are told. ``nodes``: where its tasks then go, each as often as it takes tasks. ``gpu``: in all, in milli-GPU."""

    podgroup: str
    queue: str
    at: float
    nodes: tuple[str, ...]
    gpu: int


class QueueState(msgspec.Struct, frozen=True, kw_only=True):
    """Where a queue stands at the start of a cycle, all three resources."""

    name: str
    parent: str
    priority: int
    gpu: QueueShare
    cpu: QueueShare
    memory: QueueShare


class Decisions(msgspec.Struct, frozen=True, kw_only=True):
    """One cycle. Lists are in the order decided. ``wake_at``: the earliest time at which, with nothing else changed,
    another cycle could decide differently (a delay or protection runs out); None: never.
    ``started``: PodGroups that went from nothing allocated to allocated. ``robbed``: PodGroups (by uid) that lost tasks, or
    a promise made in this very cycle, and the one that got them (""  for a stale gang). ``heirs``: PodGroups (by uid) that the
    next cycle is to serve first (``EngineConfig.promised``): room was made for them. ``again``: nothing changes, but room was given
    and taken for another, and would be in every cycle to come unless the heirs go first; so decide once more at once. ``kept``: places that are
    kept free, in the order of turns."""

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
    kept: tuple[KeptPlace, ...] = ()
    wake_at: float | None = None

    @property
    def changed(self) -> bool:
        """True if carrying this out changes the cluster."""
        return bool(self.binds or self.evictions)
