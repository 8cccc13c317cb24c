"""The data of the viewer's page as JSON, for who writes it (``kailab.report``) and who shows it (``kailab/report/viewer``).

A page has one chunk ``page`` (a ``Page``), one for each lab (a ``LabForm``), and chunks of raw text. Large lists are columns: the
n-th value of each belongs to the n-th pod, node or decision. Pods, nodes, queues and PodGroups go by their place in their columns, -1
for none. A *moment* goes by its place too: what is said of moment m holds until a later moment says something else, so that only
what changed is there. Amounts of GPUs are milli-GPU, times ``t`` seconds of the lab's own clock since it opened.

Every fact has a *reference* to the raw text it is from: the number of an entry among all raw entries of the lab. ``Raw`` tells the file
in the evidence folder and the place there, and which chunk has the text.

Nothing here is reckoned: shares and amounts are the engine's records, counts are of entries.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kailab.engine.decisions import EvictionGround, QueueState
from kailab.engine.snapshot.records import Status
from kailab.evidence.entries import SourceLine

FORMAT = 1

NONE = -1

STATES = (
    "gone",
    "waits",
    "gated",
    "promised",
    "starts",
    "runs",
    "leaves",
    "succeeded",
    "failed",
    "unknown",
)
"""Of a pod; ``PodForm.state`` has places in this list."""

STATE_OF_STATUS = {
    Status.PENDING: "waits",
    Status.GATED: "gated",
    Status.ALLOCATED: "starts",
    Status.PIPELINED: "promised",
    Status.BINDING: "starts",
    Status.BOUND: "starts",
    Status.RUNNING: "runs",
    Status.RELEASING: "leaves",
    Status.STUCK_RELEASING: "leaves",
    Status.SUCCEEDED: "succeeded",
    Status.FAILED: "failed",
    Status.UNKNOWN: "unknown",
}
"""How the engine's records call it."""


class _Part(msgspec.Struct, kw_only=True):
    """Any of them."""


class RawIndex(_Part):
    """Where raw entries are. A part is a run of entries of one file: (file, place, first entry); the place is "line", or the path of a
    list in the file, of which entries are items. A chunk has its name and its first entry; where each has the same number of entries
    (``each``) it is called ``name.N``, and none is listed."""

    parts: list[tuple[str, str, int]] = []
    chunks: list[tuple[str, int]] = []
    entries: int = 0
    each: int = 0
    name: str = ""


class MomentForm(_Part):
    """``kind``: "cycle" (as a cycle found the cluster, and what it decided), "state" (as the cluster stood after a step) or "now" (as a
    lab that goes on stands: the last moment). ``counts``: decision -> entries of it. ``steps``: those done since the moment before, places
    in ``LabForm.steps``."""

    kind: str
    number: int
    t: float
    time: str
    counts: dict[str, int] = {}
    steps: list[int] = []
    ref: int = NONE


class StepForm(_Part):
    """``source``: from where, if a test did it."""

    t: float
    operation: str
    text: str
    ref: int
    source: SourceLine | None = None


class NodeForm(_Part):
    """``rack``: place in ``racks``. ``changes``: for each node [moment, milli-GPU (-1: gone), why it takes nothing new, reference]."""

    name: list[str] = []
    rack: list[int] = []
    changes: list[list[tuple[int, int, str, int]]] = []
    racks: list[str] = []
    by: str = ""


class QueueForm(_Part):
    """``changes``: for each queue [moment, its state as the engine has it (None: gone), reference, what it borrows of GPUs, CPU and
    memory]. Of a lab without cycles the state is what the objects say, in their words, and nothing is told of borrowing."""

    name: list[str] = []
    changes: list[list[tuple[int, QueueState | dict[str, Any] | None, int, list[int]]]] = []


class GroupForm(_Part):
    """PodGroups, and pods of none. ``counts``: for each [moment, then the number of its pods that wait (gated ones too), are promised
    a place, have one, leave]."""

    name: list[str] = []
    queue: list[int] = []
    workload: list[str] = []
    members: list[int] = []
    ref: list[int] = []
    counts: list[list[tuple[int, int, int, int, int]]] = []


class PodForm(_Part):
    """``first``: of each pod in the columns after it, and behind the last the end. ``shared``: place in ``sharing``, a group of pods on
    one device. ``before``, ``after``: references to the object, where it was there."""

    name: list[str] = []
    group: list[int] = []
    before: list[int] = []
    after: list[int] = []
    first: list[int] = []
    moment: list[int] = []
    state: list[int] = []
    node: list[int] = []
    milli: list[int] = []
    shared: list[int] = []
    ref: list[int] = []
    sharing: list[str] = []


class WaitForm(_Part):
    """A PodGroup that waits from moment ``begins`` until before ``ends`` (-1: to the end), for one reason."""

    group: int
    begins: int
    ends: int
    code: str
    message: str
    ref: int
    queue_context: str = ""
    fits: list[tuple[str, int, list[tuple[str, int]]]] = []
    tried: list[tuple[str, str]] = []
    numbers: dict[str, Any] = {}
    place: int | None = None
    because: str = ""


class EvictionForm(_Part):
    """``decision``: its place in the columns of decisions. The rest is as ``PodEvicted`` of the evidence has it."""

    decision: int
    beneficiary: int
    beneficiary_name: str
    beneficiary_queue: int
    reason: str
    ground: EvictionGround | None
    taking: dict[str, Any] | None
    shares: dict[str, Any]


class DecisionForm(_Part):
    """Entries of decisions.jsonl in its order. ``kind``: place in ``kinds``; ``action``: in ``actions``."""

    kinds: list[str] = []
    actions: list[str] = []
    moment: list[int] = []
    kind: list[int] = []
    action: list[int] = []
    pod: list[int] = []
    group: list[int] = []
    node: list[int] = []
    ref0: int = 0
    evictions: list[EvictionForm] = []


class LabForm(_Part):
    """One lab. ``events``: the object of each Kubernetes Event, whose first one has the reference ``events_ref0``."""

    name: str
    facts: Any
    facts_ref: int
    moments: list[MomentForm] = []
    steps: list[StepForm] = []
    nodes: NodeForm = msgspec.field(default_factory=NodeForm)
    queues: QueueForm = msgspec.field(default_factory=QueueForm)
    groups: GroupForm = msgspec.field(default_factory=GroupForm)
    pods: PodForm = msgspec.field(default_factory=PodForm)
    waits: list[WaitForm] = []
    decisions: DecisionForm = msgspec.field(default_factory=DecisionForm)
    events: list[str] = []
    events_ref0: int = NONE
    states: tuple[str, ...] = STATES
    raw: RawIndex = msgspec.field(default_factory=RawIndex)


class ChangedPlaces(_Part):
    """What of a column, or of several that belong together, is another: ``places`` have what stands there now, and there are ``count`` of
    them; those from there on are no more."""

    count: int
    places: list[int]


class SomeMoments(ChangedPlaces):
    values: list[MomentForm]


class SomeWaits(ChangedPlaces):
    values: list[WaitForm]


class SomeNodes(ChangedPlaces):
    values: NodeForm


class SomeQueues(ChangedPlaces):
    values: QueueForm


class SomeGroups(ChangedPlaces):
    values: GroupForm


class SomePods(ChangedPlaces):
    values: PodForm


class Increment(_Part):
    """What makes of the ``LabForm`` of a lab the one of the same lab later. ``steps``, ``decisions``, ``events``, ``parts``: what comes
    behind those that there were; places in ``kinds``, ``actions``, ``racks`` and ``sharing`` are those of all. ``events_gone``: so many
    at the beginning are no more."""

    moments: SomeMoments
    steps: list[StepForm]
    nodes: SomeNodes
    queues: SomeQueues
    groups: SomeGroups
    pods: SomePods
    waits: SomeWaits
    decisions: DecisionForm
    events: list[str]
    events_gone: int
    parts: list[tuple[str, str, int]]


class ExpectedForm(_Part):
    """``moment``: of the lab, the one that shows it as it was then. ``source``: from where, if a test expected it."""

    t: float
    moment: int
    subject: str
    expected: str
    seen: str
    held: bool
    lab: str
    line: int
    ref: int
    source: SourceLine | None = None


class LabRef(_Part):
    """``chunk``: of the page, with its ``LabForm``."""

    name: str
    fleet: str
    scheduler: str
    backend: str
    nodes: int
    gpus: int
    chunk: str


class TestForm(_Part):
    """``sentence``: the test's docstring. ``reason``: why it was skipped, or expected to fail. ``source``: the line at which it failed.
    ``differs``: of a trial, each way in which it came out otherwise than under the reference."""

    __test__ = False

    name: str
    outcome: str
    message: str
    sentence: str
    cycles: int
    decisions: int
    expectations: list[ExpectedForm]
    labs: list[LabRef]
    reason: str = ""
    source: SourceLine | None = None
    differs: list[str] = []


class RunForm(_Part):
    """``facts``: run.json, None of a run that did not finish. ``problems``: how the folder is not what was written. ``about``: of a
    trial's contender what it is; it has no run.json of its own."""

    run: str
    facts: dict[str, Any] | None
    outcomes: dict[str, int]
    problems: list[str]
    tests: list[TestForm]
    about: str = ""


class Page(_Part):
    """``kind``: "run", "lab", "snapshot" or "trial". Two runs where they are to be compared; of a trial one for each contender."""

    format: int
    kailab: str
    kind: str
    title: str
    runs: list[RunForm]
