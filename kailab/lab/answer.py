"""The answer to "why": a verdict, causes (the first one first), and steps that would let the work run, each with its result on a fork.

``Answer`` is about pods, PodGroups, workloads and queues; ``Explanation`` is a plain list of lines with its data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from kailab.evidence.wording import count, elapsed, some
from kailab.model import markup
from kailab.model.times import spoken_duration


class CauseCode(StrEnum):
    """The codes of all causes. Removing a cause lets the work run or reveals the next cause. See ``kailab.explain.cause_kinds``."""

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
    RUNTIME_CLASS_MISSING = "RuntimeClassMissing"
    KEPT_APART = "KeptApart"
    EVICTED = "Evicted"
    BORROWING = "Borrowing"


class ObjectRef(NamedTuple):
    """An object that a cause is about. ``namespace`` is empty for a cluster-wide object."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True)
class Cause:
    """Why work does not run, or what threatens work that runs. ``facts``: the deciding numbers and names as plain values. ``numbers``: both
    sides of the failed comparison in engine units, if the rule compares amounts; the sentence is made from them."""

    code: CauseCode
    sentence: str
    objects: tuple[ObjectRef, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    numbers: Mapping[str, Any] = field(default_factory=dict)

    def data(self) -> dict[str, Any]:
        data: dict[str, Any] = {"code": str(self.code), "sentence": self.sentence}
        if self.objects:
            data["objects"] = [
                {"kind": ref.kind, **({"namespace": ref.namespace} if ref.namespace else {}), "name": ref.name}
                for ref in self.objects
            ]
        if self.facts:
            data["facts"] = dict(self.facts)
        if self.numbers:
            data["numbers"] = dict(self.numbers)
        return data


SHOWN_STEPS = 3
"""Steps in the short text."""
SHOWN_NAMES = 3
"""Names in a list of the short text."""
_COUNTED = re.compile(r" and \d+ more\b")


class Verdict(StrEnum):
    """The prospect of the work. ``never``: it can't run, even if other work ends and time passes. ``later``: it runs once other work has
    ended or time has passed. ``running``: all its existing pods run. ``gone``: some of its pods were evicted, and not all run again.
    ``failed``: it has failed and creates no more pods."""

    NEVER = "never"
    LATER = "later"
    RUNNING = "running"
    GONE = "gone"
    FAILED = "failed"


@dataclass(frozen=True)
class StepOutcome:
    """What happened on the fork on which a step was tried. ``running``: pods of the subject. ``waiting``: pods of a queue that still wait,
    if the step serves only a part of its work. ``evicted`` and ``moved``: full names of pods
    that lose their place for it, or that stop and get a place again, on another node or on the same. ``besides``: pods that lose their place
    meanwhile for other work or for none, and would keep it without the step. ``failed``: workloads that fail by the step and would not
    without it, with the reason, as a Job does beyond its backoffLimit."""

    running: int
    evicted: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    waiting: int = 0
    besides: tuple[str, ...] = ()

    def describe(self, everything: bool = False) -> str:
        """In words. ``everything``: with all names."""

        def named(names: tuple[str, ...]) -> str:
            return some(names, len(names) if everything else SHOWN_NAMES)

        text = f"tried on a copy: {count(self.running, 'pod')} of it {'runs' if self.running == 1 else 'run'}"
        if self.waiting:
            text += f", {self.waiting} still {'waits' if self.waiting == 1 else 'wait'}"
        if self.evicted:
            text += f"; evicted for it: {named(self.evicted)}"
        if self.besides:
            text += f"; evicted meanwhile, not for it: {named(self.besides)}"
        if self.failed:
            end = "fails, and all its pods end" if len(self.failed) == 1 else "fail, and all their pods end"
            text += f"; {named(self.failed)} then {end}"
        return f"{text}; stopped and placed again for it: {named(self.moved)}" if self.moved else text


@dataclass(frozen=True)
class Step:
    """A change that lets the subject run, or a part of a queue's work. ``do``: what to do, in words. ``changes``: in order, in the forms of ``kailab.lab.change``.
    ``checked``: the subject ran on a fork on which they were carried out, with this ``outcome``. ``unchecked``: why a step is proposed that
    was not checked. ``intent``: the words without the command, and without which objects are deleted and applied again."""

    do: str
    changes: tuple[Mapping[str, Any], ...] = ()
    checked: bool = False
    outcome: StepOutcome | None = None
    unchecked: str = "not tried"
    intent: str = ""

    def data(self) -> dict[str, Any]:
        """For programs, redacted as evidence is; ``changes`` is complete."""
        from kailab.lab.redacted_changes import redacted_data

        data: dict[str, Any] = {"do": self.do, **redacted_data(self.changes), "checked": self.checked}
        if not self.checked:
            data["unchecked"] = self.unchecked
        if self.outcome is not None:
            outcome = self.outcome
            data["outcome"] = {
                "running": outcome.running,
                "evicted": list(outcome.evicted),
                "moved": list(outcome.moved),
            }
            if outcome.failed:
                data["outcome"]["failed"] = list(outcome.failed)
            if outcome.besides:
                data["outcome"]["evicted_besides"] = list(outcome.besides)
            if outcome.waiting:
                data["outcome"]["waiting"] = outcome.waiting
        return data

    def describe(self, everything: bool = False) -> str:
        """What to do, with its result on a fork. ``everything``: with all names, also those that ``do`` only counts."""
        do = self.do
        if everything and _COUNTED.search(do):
            do = f"{do} These are: {', '.join(self._changed())}."
        if self.outcome is not None and self.checked:
            return f"{do} ({self.outcome.describe(everything)})"
        return do if self.checked else f"{do} ({self.unchecked})"

    def _changed(self) -> Sequence[str]:
        """All objects that it changes, as ``Kind name``."""
        names: dict[str, None] = {}
        for change in self.changes:
            named = [*change.get("apply", ()), *(change[form] for form in ("patch", "delete") if form in change)]
            names |= dict.fromkeys(f"{obj['kind']} {obj.get('name') or obj['metadata']['name']}" for obj in named)
        return list(names)


@dataclass(frozen=True)
class Forecast:
    """When the subject runs if nobody changes anything, from a copy of the lab that ran forward. ``seconds``: until the subject runs; None if it
    did not run within ``looked``, the seconds for which the copy ran. ``bound``: the most seconds for which the copy may run. ``running``: the
    number of running pods; ``known``: how many of them end at a known time. ``schedules``: the number of CronJobs that make Jobs.
    ``of_queue``: the subject is all work of a queue."""

    seconds: float | None
    looked: float
    bound: float
    known: int
    running: int
    schedules: int = 0
    of_queue: bool = False

    @property
    def sentence(self) -> str:
        """In words, with what it is based on."""
        basis = (
            f"{self.known} of {count(self.running, 'running pod')} {'ends' if self.known == 1 else 'end'} at a known time "
            "(kailab.dev/run-seconds, activeDeadlineSeconds)"
            if self.known
            else "no running pod ends at a known time (kailab.dev/run-seconds, activeDeadlineSeconds)"
        )
        if self.schedules:
            basis += f" and {count(self.schedules, 'CronJob')} {'follows its' if self.schedules == 1 else 'follow their'} schedule"
        if self.seconds is not None:
            when = spoken_duration(self.seconds)
            waits = f"all of its work runs after {when}" if self.of_queue else f"it waits for another {when}"
            return f"If nothing changes, {waits}: the lab was run forward on a copy, where {basis}."
        who = "Not all of its work runs" if self.of_queue else "It does not run"
        within = f"{who} within {spoken_duration(self.looked)} if nothing changes"
        if self.looked < self.bound:
            return f"{within}; the copy of the lab was run no further ahead (a longer --timeout looks further). There, {basis}."
        return f"{within}: the lab was run forward on a copy, where {basis}."

    def data(self) -> dict[str, Any]:
        return {
            "seconds": self.seconds,
            "looked_ahead": self.looked,
            "complete": self.seconds is not None or self.looked >= self.bound,
            "pods_with_known_end": self.known,
            "running_pods": self.running,
            "schedules": self.schedules,
        }


class IncompleteReason(StrEnum):
    """Why not all proposals were tried. ``trials``: the number of tries for one answer is used up."""

    TIMEOUT = "timeout"
    INTERRUPTED = "interrupted"
    TRIALS = "trials"


@dataclass(frozen=True)
class IncompleteSteps:
    """Why an answer lacks steps. ``tried``: the number of proposals that were tried; ``proposals``: the number known by then;
    a proposal may have several amounts. ``timeout``: in seconds; None: no limit. ``everything``: the answer was asked to try more."""

    reason: IncompleteReason
    tried: int = 0
    proposals: int = 0
    timeout: float | None = None
    everything: bool = False

    def data(self) -> dict[str, Any]:
        data: dict[str, Any] = {"reason": str(self.reason), "tried": self.tried, "proposals": self.proposals}
        return {**data, "timeout": self.timeout} if self.reason is IncompleteReason.TIMEOUT else data

    @property
    def sentence(self) -> str:
        """In words."""
        if self.proposals and self.tried >= self.proposals:
            proposals = "The 1 proposal was" if self.proposals == 1 else f"All {self.proposals} proposals were"
            what = f"{proposals} tried alone, but not every pair of changes"
        else:
            what = f"{self.tried} of {count(self.proposals, 'proposal')} {'was' if self.tried == 1 else 'were'} tried"
        match self.reason:
            case IncompleteReason.TIMEOUT:
                longer = elapsed(max(60.0, 3 * (self.timeout or 0)))
                return f"{what} within {elapsed(self.timeout or 0)} of processor time; --timeout {longer} tries more."
            case IncompleteReason.INTERRUPTED:
                return f"{what} before the interrupt."
            case IncompleteReason.TRIALS:
                return (
                    f"{what}: a lab of this size gets no more trials{'' if self.everything else '; --all tries more'}."
                )


@dataclass(frozen=True)
class CauseGroup:
    """Pods of the subject that wait for the same causes. ``pods``: their full names. Of a queue, also ``workloads``: their titles, and
    ``verdict``: of this group alone; None where all that waits has the verdict of the queue."""

    pods: tuple[str, ...]
    causes: tuple[Cause, ...]
    workloads: tuple[str, ...] = ()
    verdict: Verdict | None = None

    def data(self) -> dict[str, Any]:
        data: dict[str, Any] = {"pods": list(self.pods), "causes": [str(cause.code) for cause in self.causes]}
        if self.workloads:
            data["workloads"] = list(self.workloads)
        if self.verdict is not None:
            data["verdict"] = str(self.verdict)
        return data


@dataclass(frozen=True)
class Answer:
    """Why a subject is as it is.

    ``verdict``: None if it depends on a controller or scheduler that is not in the lab. ``cause``: the first cause; None if nothing keeps the
    subject from running. ``more``: the other causes. ``groups``: the waiting pods by cause. ``running`` and ``wanted``: numbers of pods.
    ``head``: the state in one line. ``scheduler_reason``: in its own words. ``notes``: further lines, such as evictions and the queues that could
    reclaim its quota. ``details``: lines of the full text only. ``facts``: further data for programs. ``incomplete``: the proposals that were
    not tried; None if the search for steps was completed or not needed. ``no_step``: a sentence if the search was completed and found no step that
    lets all of it run.
    ``forecast``: when the subject runs if nothing changes; None if it was not requested or can't be made.
    """

    kind: str
    namespace: str
    name: str
    verdict: Verdict | None
    cause: Cause | None = None
    more: tuple[Cause, ...] = ()
    steps: tuple[Step, ...] = ()
    groups: tuple[CauseGroup, ...] = ()
    running: int = 0
    wanted: int = 0
    head: str = ""
    scheduler_reason: str = ""
    notes: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    incomplete: IncompleteSteps | None = None
    no_step: str = ""
    forecast: Forecast | None = None

    def lines(self, everything: bool = False) -> list[str]:
        """For people. ``everything``: all causes, steps and details, not only the first."""
        return [
            *self.cause_lines(),
            *self.forecast_lines(),
            *self.step_lines(everything),
            *self.closing_lines(everything),
        ]

    def cause_lines(self) -> list[str]:
        """The lines before the forecast and the steps. The verdict depends on the forecast, see ``_later_sentence``."""
        return list(_cause_lines(self))

    def forecast_lines(self) -> list[str]:
        """When it runs, if the lab was run forward."""
        return [] if self.forecast is None else [self.forecast.sentence]

    def step_lines(self, everything: bool = False) -> list[str]:
        """A line for each step. ``everything``: not only the first steps."""
        lines = []
        lead = "To let it run" if self.steps_serve_all else "To let a part of it run"
        for step in self.steps if everything else self.steps[:SHOWN_STEPS]:
            # A step that is not checked corrects a name; the work may wait with the right one.
            lines.append(f"{lead if step.checked else 'To correct the name'}: {step.describe(everything)}")
            lead = "Or" if step.checked else lead
        return lines

    @property
    def steps_serve_all(self) -> bool:
        """Whether each step lets the whole subject run, not only a part of a queue's work."""
        return all(step.outcome is None or not step.outcome.waiting for step in self.steps)

    @property
    def search_note(self) -> str:
        """What the search for steps did not try, or that it found none that lets all of it run; empty if it found one."""
        return self.no_step if self.incomplete is None else self.incomplete.sentence

    def closing_lines(self, everything: bool = False) -> list[str]:
        """The lines after the steps: what was not tried, and the details."""
        return list(_closing_lines(self, everything))

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
            "steps_incomplete": None if self.incomplete is None else self.incomplete.data(),
            "forecast": None if self.forecast is None else self.forecast.data(),
            "more": [cause.data() for cause in self.more],
            "running": self.running,
            "wanted": self.wanted,
            "groups": [group.data() for group in self.groups],
            "lines": self.lines(everything=True),
        }

    def __str__(self) -> str:
        return "\n".join(self.lines(everything=True))

    def _repr_html_(self) -> str:
        return markup.lines(self.lines(everything=True))

    def indented(self, by: str = "  ") -> str:
        """The short text for use inside a longer message, its first line indented once and the others twice."""
        first, *others = self.lines()
        return "\n".join([by + first, *(by * 2 + line for line in others)])


_VERDICTS: Mapping[Verdict, str] = {
    Verdict.NEVER: "Cannot run: neither more time nor other work ending would help; something has to change.",
    Verdict.FAILED: "Failed: it has ended and creates no more pods.",
    Verdict.GONE: "Evicted: some of its pods were evicted, and not all of them run again.",
}


def _cause_lines(answer: Answer) -> Iterator[str]:
    yield answer.head
    if answer.verdict is Verdict.LATER:
        yield _later_sentence(answer)
    elif answer.verdict is not None and answer.verdict is not Verdict.RUNNING:
        yield _VERDICTS[answer.verdict]
    if answer.cause is not None:
        why = "" if answer.verdict is Verdict.RUNNING else "Why: "
        yield f"{why}{answer.cause.code}: {answer.cause.sentence}"
    elif answer.scheduler_reason:
        yield f"Why: {answer.scheduler_reason}"
    # The eviction says why it does not run any more, not why it waits now; groups have their causes in their own lines.
    for cause in _present_causes(answer):
        yield f"It waits now: {cause.code}: {cause.sentence}"
    if len(answer.groups) > 1:
        yield from map(_group_line, answer.groups)
    yield from answer.notes


def _later_sentence(answer: Answer) -> str:
    """The verdict of work that would run without other work. It promises nothing that the forecast denies."""
    never = [title for group in answer.groups if group.verdict is Verdict.NEVER for title in group.workloads]
    if never:
        return (
            f"{some(never)} cannot run: neither more time nor other work ending would help; something has to change. "
            "The other work that waits would run if work in its way ended, or after some time."
        )
    known = answer.forecast
    if known is None:
        return "Would run if other work ended, or after some time; it is not known whether that happens if nothing changes."
    if known.seconds is not None:
        return f"Can run later: {'all of it' if known.of_queue else 'it'} runs after {spoken_duration(known.seconds)} if nothing changes."
    who = "Not all of it runs" if known.of_queue else "Does not run"
    return (
        f"{who} by itself: nothing that is known lets it run within {spoken_duration(known.looked)}. "
        "Other work has to end, or something has to change."
    )


def _closing_lines(answer: Answer, everything: bool) -> Iterator[str]:
    if answer.search_note:
        yield answer.search_note
    if everything:
        for cause in answer.more[len(_present_causes(answer)) :]:
            yield f"Also: {cause.code}: {cause.sentence}"
        # The scheduler's words come last: the cause already names what can be changed.
        if answer.cause is not None and answer.scheduler_reason:
            yield f"The scheduler: {answer.scheduler_reason}"
        yield from answer.details


def _present_causes(answer: Answer) -> Sequence[Cause]:
    """The first cause for which evicted work waits now."""
    return answer.more[:1] if answer.verdict is Verdict.GONE and len(answer.groups) <= 1 else ()


def _group_line(group: CauseGroup) -> str:
    why = f"{group.causes[0].code}: {group.causes[0].sentence}" if group.causes else "no cause is known"
    names = some([pod.partition("/")[2] for pod in group.pods])
    return f"{count(len(group.pods), 'pod')}{f' of {some(group.workloads)}' if group.workloads else ''} ({names}) {'waits' if len(group.pods) == 1 else 'wait'}: {why}"


@dataclass(frozen=True)
class Explanation:
    """Lines about an object, with their data. ``lines[0]``: its state. ``more``: lines of the full text only."""

    kind: str
    name: str
    lines: tuple[str, ...]
    data: dict[str, Any] = field(default_factory=dict)
    more: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def _repr_html_(self) -> str:
        return markup.lines(self.lines)

    def indented(self, by: str = "  ") -> str:
        """See ``Answer.indented``."""
        first, *others = self.lines
        return "\n".join([by + first, *(by * 2 + line for line in others)])
