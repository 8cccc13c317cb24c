"""An answer to "why": a verdict, one cause first, then what would let it run, each step with what was seen when it was tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from kailab.lab.wording import count, some


class Code(StrEnum):
    """The causes there are. A cause is what, taken away, lets the work run or brings up the next cause."""

    OTHER_SCHEDULER = "OtherScheduler"
    GROUPING_FAILED = "GroupingFailed"
    POD_GROUP_MISSING = "PodGroupMissing"
    QUEUE_LABEL_MISSING = "QueueLabelMissing"
    QUEUE_MISSING = "QueueMissing"
    QUEUE_NOT_LEAF = "QueueNotLeaf"
    QUEUE_PARENT_MISSING = "QueueParentMissing"
    QUEUE_HAS_NO_RESOURCES = "QueueHasNoResources"
    OVER_LIMIT = "OverLimit"
    NON_PREEMPTIBLE_OVER_QUOTA = "NonPreemptibleOverQuota"
    GANG_INCOMPLETE = "GangIncomplete"
    SCHEDULING_GATED = "SchedulingGated"
    SUSPENDED = "Suspended"
    FAILED = "Failed"
    NO_CONTROLLER = "NoController"
    PODS_NOT_CREATED = "PodsNotCreated"
    SELECTOR_MATCHES_NO_NODE = "SelectorMatchesNoNode"
    TAINT_NOT_TOLERATED = "TaintNotTolerated"
    NODES_CORDONED = "NodesCordoned"
    NOT_ENOUGH_GPUS = "NotEnoughGPUs"
    NOT_ENOUGH_RESOURCES = "NotEnoughResources"
    NOT_ENOUGH_CPU = "NotEnoughCPU"
    NOT_ENOUGH_MEMORY = "NotEnoughMemory"
    NO_POD_SLOTS = "NoPodSlots"
    FRAGMENTED = "Fragmented"
    LARGER_THAN_ANY_NODE = "LargerThanAnyNode"
    LARGER_THAN_THE_FLEET = "LargerThanTheFleet"
    GPU_SHARE_TOO_LARGE = "GPUShareTooLarge"
    GPU_MEMORY_UNKNOWN = "GPUMemoryUnknown"
    MIG_PROFILE_ABSENT = "MIGProfileAbsent"
    VOLUME_MISSING = "VolumeMissing"
    CLAIM_REFUSED = "ClaimRefused"
    TOPOLOGY_UNKNOWN = "TopologyUnknown"
    LARGER_THAN_ANY_DOMAIN = "LargerThanAnyDomain"
    NO_DOMAIN_FREE = "NoDomainFree"
    FAIR_SHARE_REACHED = "FairShareReached"
    NO_WEIGHT = "NoWeight"
    VICTIMS_PROTECTED = "VictimsProtected"
    VICTIMS_WITHIN_QUOTA = "VictimsWithinQuota"
    VICTIMS_NON_PREEMPTIBLE = "VictimsNonPreemptible"
    PREEMPTION_DELAY = "PreemptionDelay"
    BIND_REFUSED = "BindRefused"
    BIND_RETRIED = "BindRetried"
    STALE_GANG = "StaleGang"
    BEHIND_OTHERS = "BehindOthers"
    NODE_POOL_NOT_SERVED = "NodePoolNotServed"
    PRIORITY_CLASS_MISSING = "PriorityClassMissing"
    KEPT_APART = "KeptApart"
    EVICTED = "Evicted"
    BORROWING = "Borrowing"


LAST = frozenset({Code.PODS_NOT_CREATED, Code.OVER_LIMIT, Code.NOT_ENOUGH_GPUS, Code.NOT_ENOUGH_RESOURCES})
"""Causes that say least: the first only where no other explains why."""


class Ref(NamedTuple):
    """An object that a cause is about. ``namespace`` is empty for what has none."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True)
class Cause:
    """``facts``: the numbers and names of the sentence, as plain values."""

    code: Code
    sentence: str
    objects: tuple[Ref, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = {"code": str(self.code), "sentence": self.sentence}
        if self.objects:
            found["objects"] = [
                {"kind": one.kind, **({"namespace": one.namespace} if one.namespace else {}), "name": one.name}
                for one in self.objects
            ]
        if self.facts:
            found["facts"] = dict(self.facts)
        return found


SHOWN = 3
"""Steps that are told where not all is asked for."""


class Verdict(StrEnum):
    """``never``: no going of other work and no passing of time lets it run. ``later``: one of them does. ``running``: what there is
    of it runs. ``gone``: pods of it were evicted, and it has not been whole since. ``failed``: it has ended so, and makes no pods any more."""

    NEVER = "never"
    LATER = "later"
    RUNNING = "running"
    GONE = "gone"
    FAILED = "failed"


@dataclass(frozen=True)
class Outcome:
    """What was seen where a step was tried. ``running``: pods of the subject; ``evicted``: names of the pods that have to go for it,
    each with its workload or queue. ``failed``: workloads that fail because of it, as a Job does beyond its backoffLimit, each with why."""

    running: int
    evicted: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    """Names of the pods that are placed elsewhere for it."""
    failed: tuple[str, ...] = ()
    """Workloads that fail by its evictions."""

    def said(self) -> str:
        found = f"tried on a copy: {count(self.running, 'pod')} of it {'runs' if self.running == 1 else 'run'}"
        if self.evicted:
            found += f"; evicted for it: {some(self.evicted)}"
        if self.failed:
            ended = "fails, so that all its pods end" if len(self.failed) == 1 else "fail, so that all their pods end"
            found += f"; by that {some(self.failed)} {ended}"
        return f"{found}; moved to other nodes for it: {some(self.moved)}" if self.moved else found


@dataclass(frozen=True)
class Step:
    """A change that lets the subject run. ``changes``: in order, in the forms of ``kailab.lab.change``. ``checked``: carried out on a
    copy of the lab, it did; ``outcome``: what was seen there."""

    do: str
    changes: tuple[Mapping[str, Any], ...] = ()
    checked: bool = False
    outcome: Outcome | None = None

    def data(self) -> dict[str, Any]:
        """For programs, without what evidence leaves out: ``changes`` has all of it."""
        from kailab.lab.redacted_changes import redacted_data

        found: dict[str, Any] = {"do": self.do, **redacted_data(self.changes), "checked": self.checked}
        if self.outcome is not None:
            outcome = self.outcome
            found["outcome"] = {
                "running": outcome.running,
                "evicted": list(outcome.evicted),
                "moved": list(outcome.moved),
            }
            if outcome.failed:
                found["outcome"]["failed"] = list(outcome.failed)
        return found

    def said(self) -> str:
        if self.outcome is not None and self.checked:
            return f"{self.do} ({self.outcome.said()})"
        return self.do if self.checked else f"{self.do} (not tried)"


@dataclass(frozen=True)
class Group:
    """Pods of the subject that wait for one reason. ``pods``: their names in full."""

    pods: tuple[str, ...]
    causes: tuple[Cause, ...]

    def data(self) -> dict[str, Any]:
        return {"pods": list(self.pods), "causes": [str(one.code) for one in self.causes]}


@dataclass(frozen=True)
class Answer:
    """``verdict``: None where nobody here can tell, under a scheduler that knows no queues. ``cause``: the first; None where nothing
    keeps it from running. ``more``: the other causes. ``groups``: those of its pods that wait, by cause. ``running`` and ``wanted``: pods.

    ``head``: what it is now, in a line. ``said``: the reason that the scheduler gave. ``told``: lines beyond the cause (what happened to
    it, who could take it). ``details``: what else the scheduler said, and who is ahead. ``facts``: what else programs may read."""

    kind: str
    namespace: str
    name: str
    verdict: Verdict | None
    cause: Cause | None = None
    more: tuple[Cause, ...] = ()
    steps: tuple[Step, ...] = ()
    groups: tuple[Group, ...] = ()
    running: int = 0
    wanted: int = 0
    head: str = ""
    said: str = ""
    told: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    def lines(self, everything: bool = False) -> list[str]:
        """For people. ``everything``: all causes, steps and details, else the first."""
        return list(_lines(self, everything))

    def data(self) -> dict[str, Any]:
        """For programs."""
        return {
            **self.facts,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "verdict": None if self.verdict is None else str(self.verdict),
            "cause": self.cause.data() if self.cause else None,
            "steps": [step.data() for step in self.steps],
            "more": [cause.data() for cause in self.more],
            "running": self.running,
            "wanted": self.wanted,
            "groups": [group.data() for group in self.groups],
            "lines": self.lines(everything=True),
        }

    def __str__(self) -> str:
        return "\n".join(self.lines(everything=True))

    def _repr_html_(self) -> str:
        from kailab.model import markup

        return markup.lines(self.lines(everything=True))

    def indented(self, by: str = "  ") -> str:
        """The short text with the first line outdented, for use inside a longer message."""
        first, *rest = self.lines()
        return "\n".join([by + first, *(by * 2 + line for line in rest)])


_VERDICTS: Mapping[Verdict, str] = {
    Verdict.NEVER: "Never: no going of other work and no waiting lets it run; something has to be changed.",
    Verdict.LATER: "Later: it runs once other work has gone, or time has passed.",
    Verdict.FAILED: "Failed: it has ended, and makes no pods any more.",
    Verdict.GONE: "Gone: pods of it were evicted, and it has not been whole since.",
}


def _lines(answer: Answer, everything: bool) -> Iterator[str]:
    yield answer.head
    if answer.verdict is not None and answer.verdict is not Verdict.RUNNING:
        yield _VERDICTS[answer.verdict]
    if answer.cause is not None:
        why = "" if answer.verdict is Verdict.RUNNING else "Why: "
        yield f"{why}{answer.cause.code}: {answer.cause.sentence}"
    elif answer.said:
        yield f"Why: {answer.said}"
    if len(answer.groups) > 1:
        yield from map(_group_line, answer.groups)
    yield from answer.told
    steps = answer.steps if everything else answer.steps[:SHOWN]
    for place, step in enumerate(steps):
        yield f"{'It would run' if place == 0 else 'Or'}: {step.said()}"
    if everything:
        for cause in answer.more:
            yield f"Also: {cause.code}: {cause.sentence}"
        # The scheduler's words last: the cause says the same in the words of whoever can change it.
        if answer.cause is not None and answer.said:
            yield f"The scheduler: {answer.said}"
        yield from answer.details


def _group_line(group: Group) -> str:
    why = f"{group.causes[0].code}: {group.causes[0].sentence}" if group.causes else "no cause is known"
    names = some([pod.partition("/")[2] for pod in group.pods])
    return f"{count(len(group.pods), 'pod')} ({names}) {'waits' if len(group.pods) == 1 else 'wait'}: {why}"


@dataclass(frozen=True)
class Explanation:
    """``lines[0]`` says what is; the rest why, what would change it, and who is ahead. ``more``: lines for whoever asks for all."""

    kind: str
    name: str
    lines: tuple[str, ...]
    data: dict[str, Any] = field(default_factory=dict)
    more: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def _repr_html_(self) -> str:
        from kailab.model import markup

        return markup.lines(self.lines)

    def indented(self, by: str = "  ") -> str:
        """The text with the first line outdented, for use inside a longer message."""
        first, *rest = self.lines
        return "\n".join([by + first, *(by * 2 + line for line in rest)])
