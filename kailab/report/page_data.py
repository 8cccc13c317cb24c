"""The JSON data of the viewer's page, shared by ``kailab.report``, which writes it, and ``kailab/report/viewer``, which
shows it.

A page has one chunk ``page`` (a ``Page``), one for each lab (a ``LabForm``), and chunks of raw text. Large lists are
columns: the n-th value of each belongs to the n-th pod, node or decision. Pods, nodes, queues, PodGroups and *moments*
are identified by their index in their columns; -1 means none. A value recorded for a moment is valid until a later
moment records another, so only changes are stored. Amounts of GPUs are milli-GPU; times ``t`` are seconds of the lab's
clock since it opened.

Each fact has a *reference* to its raw text: the number of an entry among all raw entries of the lab. ``RawIndex`` maps
it to the file and position in the evidence folder, and to the chunk with the text.

Nothing here is computed: shares and amounts are the engine's records, and counts are numbers of entries.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from kailab.engine.decisions import EvictionGround, QueueState
from kailab.engine.snapshot.records import Status
from kailab.evidence.entries import SourceLine

Values = TypeVar("Values")

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
"""States of a pod; ``PodForm.state`` has indices of this list."""

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
"""The states of the engine's statuses."""


class _Part(msgspec.Struct, kw_only=True):
    """Base of all parts of the data."""


class RawIndex(_Part):
    """Where raw entries are.

    A part is a run of entries of one file: (file, place, first entry). The place is "line", or the path of a list in
    the file whose items are the entries. A chunk is (name, first entry). If each chunk has the same number of entries
    (``each``), it is named ``name.N`` and no chunk is listed.
    """

    parts: list[tuple[str, str, int]] = []
    chunks: list[tuple[str, int]] = []
    entries: int = 0
    each: int = 0
    name: str = ""


class MomentForm(_Part):
    """A moment.

    ``kind``: "cycle" (the cluster at a cycle, and its decisions), "state" (the cluster after a step) or "now" (the
    present state of a running lab, the last moment). ``counts``: number of entries by decision. ``steps``: indices in
    ``LabForm.steps`` of steps since the previous moment.
    """

    kind: str
    number: int
    t: float
    time: str
    counts: dict[str, int] = {}
    steps: list[int] = []
    ref: int = NONE


class StepForm(_Part):
    """``source``: the test line that did it, if any."""

    t: float
    operation: str
    text: str
    ref: int
    source: SourceLine | None = None


class NodeForm(_Part):
    """``rack``: index in ``racks``; ``model``: index in ``models``, the GPU models ("": the node does not name it). ``changes``: for each node [moment, milli-GPU (-1: gone), why it accepts nothing
    new, reference]."""

    name: list[str] = []
    rack: list[int] = []
    changes: list[list[tuple[int, int, str, int]]] = []
    racks: list[str] = []
    model: list[int] = []
    models: list[str] = []
    by: str = ""


class QueueForm(_Part):
    """``changes``: for each queue [moment, the engine's state (None: gone), reference, borrowed GPUs, CPU and memory].
    For a lab without cycles the state has the words of the object, and borrowing is unknown."""

    name: list[str] = []
    changes: list[list[tuple[int, QueueState | dict[str, Any] | None, int, list[int]]]] = []


class GroupForm(_Part):
    """PodGroups, and pods without one. ``counts``: for each [moment, numbers of its pods that wait (or are gated), are
    promised a place, have one, leave]."""

    name: list[str] = []
    queue: list[int] = []
    workload: list[str] = []
    members: list[int] = []
    ref: list[int] = []
    counts: list[list[tuple[int, int, int, int, int]]] = []


class PodForm(_Part):
    """``first``: index of each pod's first entry in the columns after it, and the total at the end. ``shared``: index
    in ``sharing``, groups of pods on one device. ``before``, ``after``: references to the object if it existed."""

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
    """A PodGroup that waits for one reason, from moment ``begins`` until before ``ends`` (-1: to the end)."""

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
    """``decision``: its index in the columns of decisions. The other fields are those of ``PodEvicted`` in the
    evidence."""

    decision: int
    beneficiary: int
    beneficiary_name: str
    beneficiary_queue: int
    reason: str
    ground: EvictionGround | None
    taking: dict[str, Any] | None
    shares: dict[str, Any]


class DecisionForm(_Part):
    """Entries of decisions.jsonl in order. ``kind``: index in ``kinds``; ``action``: index in ``actions``."""

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
    """One lab. ``events``: the object of each Kubernetes Event; the first has the reference ``events_ref0``."""

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


class ChangedPlaces(_Part, Generic[Values]):
    """Changed items of one column or of columns that belong together. ``places``: indices of items with new values.
    ``count``: new length; items beyond are removed."""

    count: int
    places: list[int]
    values: Values


class Increment(_Part):
    """The changes from a ``LabForm`` to a later one of the same lab.

    ``steps``, ``decisions``, ``events``, ``parts``: additions at the end; ``kinds``, ``actions``, ``racks`` and
    ``sharing`` are complete. ``events_gone``: number of events removed at the beginning.
    """

    moments: ChangedPlaces[list[MomentForm]]
    steps: list[StepForm]
    nodes: ChangedPlaces[NodeForm]
    queues: ChangedPlaces[QueueForm]
    groups: ChangedPlaces[GroupForm]
    pods: ChangedPlaces[PodForm]
    waits: ChangedPlaces[list[WaitForm]]
    decisions: DecisionForm
    events: list[str]
    events_gone: int
    parts: list[tuple[str, str, int]]


class ExpectedForm(_Part):
    """``moment``: the one that shows the lab as it was then. ``source``: the test line with the expectation, if any."""

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
    """``chunk``: the chunk with its ``LabForm``."""

    name: str
    fleet: str
    scheduler: str
    backend: str
    nodes: int
    gpus: int
    chunk: str


class WarningForm(_Part):
    """A warning about an operation's input. ``step``: the operation."""

    lab: str
    t: float
    step: str
    text: str


class TestForm(_Part):
    """``sentence``: the test's docstring. ``reason``: why it was skipped or expected to fail. ``source``: the line at
    which it failed. ``differs``: in a trial, the differences from the reference."""

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
    warnings: list[WarningForm] = []


class RunForm(_Part):
    """``facts``: run.json, None for a run that did not finish. ``problems``: damage to the folder. ``about``:
    description of a trial's contender, which has no run.json."""

    run: str
    facts: dict[str, Any] | None
    outcomes: dict[str, int]
    problems: list[str]
    tests: list[TestForm]
    about: str = ""


class Page(_Part):
    """``kind``: "run", "lab", "snapshot" or "trial". ``runs``: two to compare, or one for each contender of a trial."""

    format: int
    kailab: str
    kind: str
    title: str
    runs: list[RunForm]
