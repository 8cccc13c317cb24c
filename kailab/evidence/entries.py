"""The types of all entries in evidence, for code that writes them and code that reads them.

On disk an entry is JSON with sorted keys (``kailab.evidence.canonical``). Amounts of GPUs are milli-GPU (1000 = one device); ``t`` is seconds of the lab's clock since
it opened. A field with a default was added later and is left out of the file if it has its default.

To add a field: add it here, fill it in ``decision_log``, ``cluster_state`` or ``recorder``, and document it in evidence/README.md.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from kailab.cluster.writes import Subresource
from kailab.engine.config import EngineConfig
from kailab.engine.decisions import EvictionGround, EvictionTotals, ImitatedFaults, Numbers, QueueShare, TaskAmounts
from kailab.scheduler.usage import UsageParams

FORMAT = 3
"""The format number of a test's folder. Format 1 had unchanged manifests and neither settings, versions nor the fleet's definition; format 2 had no cycles, so it
can't be replayed."""


class EvidenceEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of all entries."""


EntryType = TypeVar("EntryType", bound=EvidenceEntry)

# --- decisions --------------------------------------------------------------------------------------------------------


class PendingReason(EvidenceEntry, frozen=True, kw_only=True, omit_defaults=False):
    """Why a PodGroup is pending. ``podgroup``, ``pods``: ``namespace/name``. ``reason``: the code; ``message``: the sentence. ``queue_context``: the queue whose quota or
    limit stopped it. ``tried``: actions that tried to evict for it, with their outcome. ``amounts``: the request of each pod. ``place``: its position in the
    serving order, from 1, if it was asked for; ``because``: why it is behind the one before it."""

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

    @property
    def text(self) -> str:
        """The code and the sentence in one line. The reason of an opened cluster may have no sentence."""
        message = " ".join(self.message.split())
        return f"{self.reason}: {message}" if message else self.reason


class NodeFit(EvidenceEntry, frozen=True, kw_only=True):
    """Why a pod fits on no node. ``nodes``: number of nodes. ``reasons``: (reason, number of nodes), most frequent first."""

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
    """A decision with a node. ``amounts``: the resources that the pod uses there. ``imitated``: the faults of KAI without
    which it would be another, where the scheduler imitates them."""

    podgroup: str
    queue: str
    node: str
    amounts: TaskAmounts | None = None
    imitated: ImitatedFaults | None = None


class PodBound(PodOnNode, frozen=True, kw_only=True, tag_field="decision", tag="bind"):
    """A pod was bound to a node."""

    gpu_groups: tuple[str, ...] = ()
    owner: str = ""


class PodPromised(PodOnNode, frozen=True, kw_only=True, tag_field="decision", tag="pipeline"):
    """A pod was promised (pipelined) a place that terminating pods will free. ``moved``: the pod is a victim with a new place."""

    moved: bool
    reason: str


class ShareChange(EvidenceEntry, frozen=True, kw_only=True):
    """A queue's GPUs before and after an eviction."""

    before: QueueShare
    after: QueueShare


MOVING = "consolidation"
"""The action that only evicts pods for which it has another place."""


class PodEvicted(PodOnNode, frozen=True, kw_only=True, omit_defaults=False, tag_field="decision", tag="evict"):
    """A pod was evicted for a PodGroup (``beneficiary``; empty: for none). ``taking``: all that the action evicted for it. ``shares``: the amounts of both queues.
    ``owner``: the pod's controller as ``Kind/name``. ``ground``: the rule that allowed the eviction."""

    owner: str
    beneficiary: str
    beneficiary_queue: str
    reason: str
    ground: EvictionGround | None = None
    taking: EvictionTotals | None = None
    shares: dict[str, ShareChange] = {}

    @property
    def is_move(self) -> bool:
        """True if the pod gets another place at once."""
        return self.action == MOVING


class GroupWaits(PendingReason, frozen=True, kw_only=True, tag_field="decision", tag="pending"):
    """A PodGroup is pending, for another reason than in the cycle before. ``imitated``: as in ``PodOnNode``."""

    cycle: int
    t: float
    time: str
    action: str
    imitated: ImitatedFaults | None = None


class WriteRefused(PodEntry, frozen=True, kw_only=True, tag_field="decision", tag="failure"):
    """A bind or eviction that the cluster refused; it is tried again. ``verb``: bind or evict."""

    verb: str
    reason: str


Decision = PodBound | PodPromised | PodEvicted | GroupWaits | WriteRefused

# --- the state of a cluster -------------------------------------------------------------------------------------------


class PodRow(EvidenceEntry, frozen=True, kw_only=True):
    """One pod. ``milli_gpus``: its GPUs; ``holds``: it uses them on its node now. ``owner``: ``Kind/name``. ``podgroup``: the name without namespace. ``reason`` and
    ``message``: while it is pending."""

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
        """``namespace/name`` of the pod's PodGroup; of the pod itself without one."""
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
    """``unavailable``: why the node takes no new pods; empty if it does, and in evidence of earlier versions."""

    name: str
    gpus: int
    milli_gpus_used: int
    unavailable: str = ""


class ClusterState(EvidenceEntry, frozen=True, kw_only=True):
    """The state of a cluster at one moment; each list is sorted by name."""

    pods: tuple[PodRow, ...]
    podgroups: tuple[PodGroupRow, ...]
    queues: tuple[QueueRow, ...]
    nodes: tuple[NodeRow, ...]


# --- steps, expectations and timeline -------------------------------------------------------------------------------


class SourceLine(EvidenceEntry, frozen=True, kw_only=True):
    """A line of a test or of the user's code that it calls: the innermost one. ``file``: relative to pytest's rootdir, or the name of a file outside it. ``text``: the
    line without what evidence leaves out; empty if it is very long."""

    file: str
    line: int
    text: str = ""


class RecordedStep(EvidenceEntry, frozen=True, kw_only=True):
    """An operation on the lab. The fields from ``namespace`` on depend on the operation. ``source``: the line of the test that called it."""

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

    @property
    def title(self) -> str:
        return f"{self.operation} {self.text}".rstrip()


class CheckedExpectation(EvidenceEntry, frozen=True, kw_only=True):
    """An expectation that was checked. ``source``: the line of the test that stated it."""

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
    """One line of the timeline. ``kind``: step, warning (of the step before it), decision or expectation."""

    t: float
    kind: str
    text: str


# --- facts of labs, tests and runs ------------------------------------------------------------------------------------


class LabSettings(EvidenceEntry, frozen=True, kw_only=True, omit_defaults=False):
    engine: EngineConfig
    usage: UsageParams
    adopt_default_scheduler: bool


class LabFacts(EvidenceEntry, frozen=True, kw_only=True):
    """The facts with which the same lab can be opened again. ``versions``: program -> version. ``devices``: the fleet's GPUs are published for resource claims.
    ``scheduler_kind``: the kind of the scheduler under test if it has a name of its own."""

    fleet: str
    backend: str
    scheduler: str
    nodes: int
    gpus: int
    settings: LabSettings
    versions: dict[str, str]
    devices: bool = False
    scheduler_kind: str = ""


class OutcomeEntry(EvidenceEntry, frozen=True, kw_only=True):
    """``outcome``: passed, failed, error (of a fixture), skipped, xfailed, xpassed or interrupted; captured for a captured lab. ``message``: why the test failed.
    ``reason``: why it was skipped or expected to fail. ``labs``: its folders. ``cycles``: number of cycles that can be replayed. ``sentence``: the test's
    docstring on one line. ``source``: the line at which it failed."""

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
    """A combination of facts, and the number of the run's labs that had it."""

    backend: str
    scheduler: str
    fleet: str
    versions: dict[str, str]
    labs: int


class RunFacts(EvidenceEntry, frozen=True, kw_only=True):
    """``run.json``: wall times and facts common to all tests. ``sums``: the digest of the run's SHA256SUMS. ``digest``: the digest of all other fields."""

    run: str
    begun: str
    ended: str
    tests: int
    labs: tuple[RanOn, ...] = ()
    versions: dict[str, str] = {}
    settings: dict[str, Any] = {}
    sums: str = ""
    digest: str = ""
