"""What evidence is made of: the type of every entry in its files, for those that write them and those that read them.

On disk an entry is JSON with its keys sorted (``kailab.evidence.canonical``). Amounts of GPUs are milli-GPU (1000 = one
device); ``t`` is seconds of the lab's own clock since it opened. A field with a default was added for some entries only and
is left out of the file where it has nothing to say.

To add a field: here, where it is filled in (``decision_log``, ``standing``, ``recorder``), and in evidence/README.md.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from kailab.cluster.writes import Subresource
from kailab.engine.config import EngineConfig
from kailab.engine.decisions import EvictionTotals, Ground, Numbers, QueueShare, TaskAmounts
from kailab.scheduler import UsageParams

FORMAT = 3
"""Of a test's folder. 1 had manifests byte for byte and neither settings, versions nor the fleet's definition; 2 had no
cycles, so that nothing of it can be decided again."""


class EvidenceEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Any of them."""


EntryType = TypeVar("EntryType", bound=EvidenceEntry)

# --- decisions --------------------------------------------------------------------------------------------------------


class PendingReason(EvidenceEntry, frozen=True, kw_only=True, omit_defaults=False):
    """Why a PodGroup waits. ``podgroup``, ``pods``: ``namespace/name``. ``reason``: the code, ``message``: the sentence.
    ``queue_context``: the queue whose quota or limit stopped it. ``tried``: evicting actions, each with its outcome. ``amounts``: what
    each of ``pods`` asks for. ``place``: when its turn is, from 1, where that was asked for; ``because``: what put it behind the
    one before it (``engine.decisions.Turn``)."""

    podgroup: str
    pods: tuple[str, ...]
    queue: str
    reason: str
    message: str
    numbers: Numbers = {}
    queue_context: str = ""
    fits: tuple[NodeFit, ...] = ()
    tried: tuple[tuple[str, str], ...] = ()
    amounts: tuple[TaskAmounts, ...] = ()
    place: int | None = None
    because: str = ""


class NodeFit(EvidenceEntry, frozen=True, kw_only=True):
    """Why a pod fits nowhere: of ``nodes``, so many by reason, most first."""

    pod: str
    nodes: int
    reasons: tuple[tuple[str, int], ...]


class PodEntry(EvidenceEntry, frozen=True, kw_only=True):
    """A decision about one pod. ``cycle`` counts from 1; ``time``: RFC 3339, on the lab's clock; ``app``: the pod's label."""

    cycle: int
    t: float
    time: str
    action: str
    pod: str
    app: str


class PodOnNode(PodEntry, frozen=True, kw_only=True):
    """One that has a node. ``amounts``: what the pod counts for there."""

    podgroup: str
    queue: str
    node: str
    amounts: TaskAmounts | None = None


class PodBound(PodOnNode, frozen=True, kw_only=True, tag_field="decision", tag="bind"):
    """A pod was given a node."""

    gpu_groups: tuple[str, ...] = ()
    owner: str = ""


class PodPromised(PodOnNode, frozen=True, kw_only=True, tag_field="decision", tag="pipeline"):
    """A pod was promised a place that leaving pods will free. ``moved``: it is a victim with a new place."""

    moved: bool
    reason: str


class ShareChange(EvidenceEntry, frozen=True, kw_only=True):
    """Where a queue stood in GPUs, before an eviction and after it."""

    before: QueueShare
    after: QueueShare


MOVING = "consolidation"
"""The action that evicts only what it has another place for: what it does is to move pods."""


class PodEvicted(PodOnNode, frozen=True, kw_only=True, omit_defaults=False, tag_field="decision", tag="evict"):
    """A pod was evicted for a PodGroup (``beneficiary``; empty: for nobody). ``taking``: what the action took in all for it.
    ``shares``: both queues' standing. ``owner``: the pod's controller as ``Kind/name``. ``ground``: what let it be taken."""

    owner: str
    beneficiary: str
    beneficiary_queue: str
    reason: str
    ground: Ground | None = None
    taking: EvictionTotals | None = None
    shares: dict[str, ShareChange] = {}

    @property
    def is_move(self) -> bool:
        """Whether it went to be placed elsewhere at once."""
        return self.action == MOVING


class GroupWaits(PendingReason, frozen=True, kw_only=True, tag_field="decision", tag="pending"):
    """A PodGroup stays pending, for another reason than in the cycle before."""

    cycle: int
    t: float
    time: str
    action: str


class WriteRefused(PodEntry, frozen=True, kw_only=True, tag_field="decision", tag="failure"):
    """A decision that the cluster did not carry out; it is tried again. ``verb``: bind or evict."""

    verb: str
    reason: str


Decision = PodBound | PodPromised | PodEvicted | GroupWaits | WriteRefused

# --- how the cluster stands -------------------------------------------------------------------------------------------


class PodRow(EvidenceEntry, frozen=True, kw_only=True):
    """One pod. ``milli_gpus``: what it counts for; ``holds``: whether it takes that on its node now. ``owner`` as
    ``Kind/name``; ``podgroup``: the bare name. ``reason`` and ``message`` while it waits."""

    name: str
    app: str
    owner: str
    phase: str
    node: str
    queue: str
    podgroup: str
    milli_gpus: int
    holds: bool
    reason: str = ""
    message: str = ""

    @property
    def group(self) -> str:
        """``namespace/name`` of its PodGroup; of a pod without one its own."""
        return f"{self.name.partition('/')[0]}/{self.podgroup}" if self.podgroup else self.name


class PodGroupRow(EvidenceEntry, frozen=True, kw_only=True):
    name: str
    queue: str
    min_member: int | None
    priority_class: str
    status: dict[str, Any]


class QueueRow(EvidenceEntry, frozen=True, kw_only=True):
    name: str
    parent: str
    status: dict[str, Any]


class NodeRow(EvidenceEntry, frozen=True, kw_only=True):
    """``unavailable``: why nothing new may go there; empty where it may, and in evidence of earlier versions."""

    name: str
    gpus: int
    milli_gpus_used: int
    unavailable: str = ""


class ClusterState(EvidenceEntry, frozen=True, kw_only=True):
    """All of a cluster at one moment, each list by name."""

    pods: tuple[PodRow, ...]
    podgroups: tuple[PodGroupRow, ...]
    queues: tuple[QueueRow, ...]
    nodes: tuple[NodeRow, ...]


# --- what was done, expected and told ---------------------------------------------------------------------------------


class SourceLine(EvidenceEntry, frozen=True, kw_only=True):
    """A line of a test, or of code that it calls: the innermost that is the user's own. ``file``: from pytest's rootdir, of a file outside
    of it the name. ``text``: the line, without what evidence leaves out; empty where it is very long."""

    file: str
    line: int
    text: str = ""


class RecordedStep(EvidenceEntry, frozen=True, kw_only=True):
    """Something was done to the lab; which of the fields from ``namespace`` on are there goes by the operation. ``source``: from where,
    if a test did it."""

    n: int
    t: float
    operation: str
    text: str
    namespace: str = ""
    manifests: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    objects: tuple[tuple[str, str, str], ...] = ()
    kind: str = ""
    name: str = ""
    replicas: int | None = None
    patch: dict[str, Any] | None = None
    subresource: Subresource = ""
    seconds: float | None = None
    source: SourceLine | None = None


class CheckedExpectation(EvidenceEntry, frozen=True, kw_only=True):
    """An expectation that was checked. ``source``: from where, if a test did it."""

    t: float
    subject: str
    expected: str
    seen: str
    held: bool
    source: SourceLine | None = None


class RecordedEvent(EvidenceEntry, frozen=True, kw_only=True):
    """A Kubernetes Event. ``object``: ``Kind namespace/name``."""

    type: str
    reason: str
    message: str
    object: str
    count: int
    first: str | None
    last: str | None


class TimelineEntry(EvidenceEntry, frozen=True, kw_only=True):
    """One line of the timeline. ``kind``: step, decision or expectation."""

    t: float
    kind: str
    text: str


# --- what a lab is, and how a test came out ---------------------------------------------------------------------------


class LabSettings(EvidenceEntry, frozen=True, kw_only=True, omit_defaults=False):
    engine: EngineConfig
    usage: UsageParams
    adopt_default_scheduler: bool


class LabFacts(EvidenceEntry, frozen=True, kw_only=True):
    """What a lab is made of, enough to open the same again. ``versions``: program -> version. ``devices``: the fleet's GPUs
    are there for claims. ``scheduler_kind``: of the scheduler under test, where it goes by a name of its own."""

    fleet: str
    backend: str
    scheduler: str
    nodes: int
    gpus: int
    settings: LabSettings
    versions: dict[str, str]
    devices: bool = False
    scheduler_kind: str = ""


class TestOutcome(EvidenceEntry, frozen=True, kw_only=True):
    """``outcome``: passed, failed, error (of a fixture), skipped, xfailed, xpassed or interrupted; of a lab that was captured: captured.
    ``message``: why it failed. ``reason``: why it was skipped, or expected to fail. ``labs``: its folders. ``cycles``: how many can be decided
    again. ``sentence``: the test's docstring, in one line. ``source``: the line at which it failed."""

    format: int
    test: str
    outcome: str
    message: str
    labs: tuple[str, ...]
    expectations: int
    expectations_failed: int
    decisions: int
    cycles: int = 0
    sentence: str = ""
    reason: str = ""
    source: SourceLine | None = None


class RanOn(EvidenceEntry, frozen=True, kw_only=True):
    """A combination that labs of a run had, and how many had it."""

    backend: str
    scheduler: str
    fleet: str
    versions: dict[str, str]
    labs: int


class RunFacts(EvidenceEntry, frozen=True, kw_only=True):
    """``run.json``: wall times, and what all tests share. ``sums``: the digest of the run's SHA256SUMS; ``digest``: of all
    the other fields."""

    run: str
    begun: str
    ended: str
    tests: int
    labs: tuple[RanOn, ...] = ()
    versions: dict[str, str] = {}
    settings: dict[str, Any] = {}
    sums: str = ""
    digest: str = ""
