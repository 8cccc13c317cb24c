"""An answer to "why": a verdict, one cause first, then what would let it run, each step with what was seen when it was tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from kailab.lab.explain.cause import Cause
from kailab.lab.wording import count, some

SHOWN = 3
"""Steps that are told where not all is asked for."""


class Verdict(StrEnum):
    """``never``: no going of other work and no passing of time lets it run. ``later``: one of them does. ``running``: what there is
    of it runs. ``gone``: pods of it were evicted, and it has not been whole since."""

    NEVER = "never"
    LATER = "later"
    RUNNING = "running"
    GONE = "gone"


@dataclass(frozen=True)
class Outcome:
    """What was seen where a step was tried. ``running``: pods of the subject; ``evicted``: names of the pods that have to go for it,
    each with its workload or queue."""

    running: int
    evicted: tuple[str, ...] = ()

    def said(self) -> str:
        found = f"tried on a copy: {count(self.running, 'pod')} of it run"
        return f"{found}; evicted for it: {some(self.evicted)}" if self.evicted else found


@dataclass(frozen=True)
class Step:
    """A change that lets the subject run. ``changes``: in order, in the forms of ``kailab.lab.change``. ``checked``: carried out on a
    copy of the lab, it did; ``outcome``: what was seen there."""

    do: str
    changes: tuple[Mapping[str, Any], ...] = ()
    checked: bool = False
    outcome: Outcome | None = None

    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = {"do": self.do, "changes": [dict(one) for one in self.changes], "checked": self.checked}
        if self.outcome is not None:
            found["outcome"] = {"running": self.outcome.running, "evicted": list(self.outcome.evicted)}
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
    """``cause``: the first; None where nothing keeps it from running. ``more``: the other causes. ``groups``: those of its pods that
    wait, by cause. ``running`` and ``wanted``: pods. ``told``: lines beyond the cause (where it is, who could take it). ``facts``: what
    else programs may read."""

    kind: str
    namespace: str
    name: str
    verdict: Verdict
    cause: Cause | None = None
    more: tuple[Cause, ...] = ()
    steps: tuple[Step, ...] = ()
    groups: tuple[Group, ...] = ()
    running: int = 0
    wanted: int = 0
    told: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    @property
    def waiting(self) -> int:
        return sum(len(group.pods) for group in self.groups)

    def lines(self, everything: bool = False) -> list[str]:
        """For people. ``everything``: all causes and steps, else the first."""
        return list(_lines(self, everything))

    def data(self) -> dict[str, Any]:
        """For programs."""
        return {
            **self.facts,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "verdict": str(self.verdict),
            "cause": self.cause.data() if self.cause else None,
            "steps": [step.data() for step in self.steps],
            "more": [cause.data() for cause in self.more],
            "running": self.running,
            "wanted": self.wanted,
            "groups": [group.data() for group in self.groups],
            "lines": self.lines(everything=True),
        }

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def indented(self, by: str = "  ") -> str:
        """The text with the first line outdented, for use inside a longer message."""
        first, *rest = self.lines()
        return "\n".join([by + first, *(by * 2 + line for line in rest)])


_VERDICTS: Mapping[Verdict, str] = {
    Verdict.NEVER: "does not run, and no waiting helps",
    Verdict.LATER: "does not run yet",
    Verdict.RUNNING: "runs",
    Verdict.GONE: "was evicted, and is not whole since",
}


def _lines(answer: Answer, everything: bool) -> Iterator[str]:
    yield f"{answer.title}: {answer.verdict}: it {_VERDICTS[answer.verdict]}{_pods(answer)}."
    if answer.cause is not None:
        yield f"{answer.cause.code}: {answer.cause.sentence}"
    yield from answer.told
    if len(answer.groups) > 1:
        for group in answer.groups:
            codes = ", ".join(str(one.code) for one in group.causes[:1]) or "no cause known"
            yield f"{count(len(group.pods), 'pod')} wait: {codes}: {some([_bare(pod) for pod in group.pods])}."
    steps = answer.steps if everything else answer.steps[:SHOWN]
    for place, step in enumerate(steps):
        yield f"{'It would run: ' if place == 0 else 'Or: '}{step.said()}"
    if everything:
        for cause in answer.more:
            yield f"Also: {cause.code}: {cause.sentence}"


def _pods(answer: Answer) -> str:
    if answer.kind == "Pod" or not (answer.running or answer.waiting):
        return ""
    told = [f"{answer.running} run" if answer.running else "", f"{answer.waiting} wait" if answer.waiting else ""]
    wanted = f" of {count(answer.wanted, 'pod')}" if answer.wanted else ""
    return f" ({', '.join(filter(None, told))}{wanted})"


def _bare(pod: str) -> str:
    return pod.partition("/")[2] or pod
