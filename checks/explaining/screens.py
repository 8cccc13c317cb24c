"""Whether all screens say the same of one moment: the answers about a workload, its PodGroup, one of its pods and its
queue, the reasons that tables, ``apply``, timeline and page show, the audit, and the text of a failing test.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from checks.explaining.workloads import AppliedWorkload
from kailab.advice.audit import Audit, audit
from kailab.advice.findings import FindingCode
from kailab.cluster.protocol import Object
from kailab.errors import ExpectationFailed, KailabError
from kailab.evidence.entries import PendingReason
from kailab.explain.questions import ask
from kailab.lab.answer import Answer, Cause, CauseCode, Verdict
from kailab.lab.expectations import expect
from kailab.lab.lab import Lab
from kailab.lab.picture import Picture
from kailab.model import labels

_BY_REASON: Mapping[str, tuple[CauseCode, ...]] = {
    "OverLimit": (CauseCode.OVER_LIMIT, CauseCode.QUEUE_HAS_NO_RESOURCES),
    "NonPreemptibleOverQuota": (CauseCode.NON_PREEMPTIBLE_OVER_QUOTA, CauseCode.QUEUE_HAS_NO_RESOURCES),
    "QueueDoesNotExist": (
        CauseCode.QUEUE_MISSING, CauseCode.QUEUE_LABEL_MISSING, CauseCode.QUEUE_PARENT_MISSING, CauseCode.QUEUE_NOT_LEAF,
    ),
}  # fmt: skip
"""The causes for which the scheduler gives a reason of its own."""
_RULES = {CauseCode.OVER_LIMIT: "OverLimit", CauseCode.NON_PREEMPTIBLE_OVER_QUOTA: "NonPreemptibleOverQuota"}


@dataclass(frozen=True)
class Screens:
    """The screens of a lab at one moment; the lab is not changed."""

    lab: Lab

    @cached_property
    def picture(self) -> Picture:
        return self.lab.picture()

    @cached_property
    def audit(self) -> Audit:
        return audit(self.lab, self.picture)

    @cached_property
    def _queue_answers(self) -> dict[str, Answer]:
        return {}

    def of_queue(self, name: str) -> Answer:
        if name not in self._queue_answers:
            self._queue_answers[name] = ask(self.lab, "Queue", name, tried=False)
        return self._queue_answers[name]

    def disagreements(self, work: AppliedWorkload, answer: Answer) -> Iterator[str]:
        """Where another screen says something else than the answer about a workload."""
        waiting = [pod for pod in work.pods(self.lab) if not pod["spec"].get("nodeName")]
        codes = _codes_of_pods(answer)
        for pod in waiting[:1]:
            yield from self._pod(work, pod, codes)
            yield from self._queue(pod, codes)
        for name in sorted({_group(pod) for pod in waiting if _group(pod)}):
            entry = self.picture.pending.get(f"{work.namespace}/{name}")
            if entry is not None:
                yield from self._reason(entry, answer)
            yield from self._audit(f"podgroup/{work.namespace}/{name}", answer)

    # Other questions

    def _pod(self, work: AppliedWorkload, pod: Object, codes: Mapping[str, Cause]) -> Iterator[str]:
        name = f"{work.namespace}/{pod['metadata']['name']}"
        of_work = codes.get(name)
        subjects = [("Pod", pod["metadata"]["name"]), *((("PodGroup", _group(pod)),) if _group(pod) else ())]
        for kind, subject in subjects:
            try:
                answer = ask(self.lab, kind, subject, work.namespace, tried=False)
            except KailabError as error:
                yield f"explain {kind.lower()} fails: {error}"
                continue
            other = _codes_of_pods(answer).get(name)
            if of_work is not None and other is not None and _code_and_numbers(of_work) != _code_and_numbers(other):
                yield f"explain {kind.lower()}: {other.code} ({other.sentence}), the workload: {of_work.code} ({of_work.sentence})"

    def _queue(self, pod: Object, codes: Mapping[str, Cause]) -> Iterator[str]:
        group = self.picture.podgroups.get((pod["metadata"]["namespace"], _group(pod)))
        queue = "" if group is None else str(group["spec"].get("queue") or "")
        if queue not in self.picture.shares:
            return
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        of_queue, of_work = _codes_of_pods(self.of_queue(queue)).get(name), codes.get(name)
        if of_queue is None or of_work is None or of_queue.code == of_work.code:
            return
        # Asked about a whole queue, each of its workloads is other work than the next.
        if CauseCode.BEHIND_OTHERS not in (of_queue.code, of_work.code):
            yield f"explain queue {queue}: {of_queue.code} for {name}, the workload: {of_work.code}"

    # Tables, apply, timeline, page

    def _reason(self, entry: PendingReason, answer: Answer) -> Iterator[str]:
        causes = {cause.code: cause for cause in (*((answer.cause,) if answer.cause else ()), *answer.more)}
        for group in answer.groups:
            causes |= {cause.code: cause for cause in group.causes if cause.code not in causes}
        expected = _BY_REASON.get(entry.reason, ())
        named = any(code in causes for code in expected)
        if expected and not named:
            yield f"tables say {entry.reason} ({entry.message}), explain only {', '.join(causes) or 'nothing'}"
        first = answer.cause
        if (
            first is not None
            and first.code in _RULES
            and entry.reason != _RULES[first.code]
            and answer.verdict is not Verdict.NEVER
            # Of two rules that refuse it tables give the one that the scheduler meets first, explain the one to change first.
            and not named
        ):
            yield f"explain says {first.code}, tables {entry.reason} ({entry.message})"
        for code, reason in _RULES.items():
            if entry.reason == reason and code in causes:
                yield from _numbers(entry, causes[code])

    def _audit(self, reference: str, answer: Answer) -> Iterator[str]:
        for finding in self.audit.findings:
            if finding.code is not FindingCode.FITS_NOWHERE or reference not in finding.objects:
                continue
            if answer.verdict is Verdict.LATER:
                yield f"audit: {reference} fits nowhere; explain: it can run later"
            cause = finding.numbers["cause"]
            if cause is not None and cause not in {one.code for one in (answer.cause, *answer.more) if one is not None}:
                yield f"audit: {reference} fits nowhere because of {cause}; explain does not know of it"

    # A failing test

    def failing_test(self, work: AppliedWorkload, answer: Answer) -> Iterator[str]:
        """The text of a test that expects the work to run."""
        try:
            expect(self.lab.workload(work.kind, work.name, work.namespace)).running()
        except ExpectationFailed as error:
            codes = {str(cause.code) for cause in (answer.cause, *answer.more) if cause is not None}
            codes |= {str(cause.code) for group in answer.groups for cause in group.causes}
            if codes and not any(code in str(error) for code in codes):
                yield f"a failing test says none of {', '.join(sorted(codes))}: {error}"


def _group(pod: Object) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(labels.POD_GROUP) or "")


def _codes_of_pods(answer: Answer) -> dict[str, Cause]:
    """Pod -> its first cause."""
    return {pod: group.causes[0] for group in answer.groups for pod in group.pods if group.causes}


def _code_and_numbers(cause: Cause) -> tuple[Any, ...]:
    numbers = {key: value for key, value in cause.facts.items() if isinstance(value, int | float)}
    return cause.code, tuple(sorted(numbers.items()))


def _numbers(entry: PendingReason, cause: Cause) -> Iterator[str]:
    """The numbers of a queue rule: of the same queue and resource they are the same."""
    if cause.sentence.startswith("Without other work: "):
        return  # of another cluster than the tables
    numbers, facts = entry.numbers, cause.facts
    if entry.queue_context != facts.get("queue") or str(numbers.get("resource", "")).lower() != facts.get("resource"):
        return
    bound = facts.get("limit", facts.get("quota"))
    ours = (facts.get("held"), facts.get("wanted"), bound)
    theirs = (numbers.get("allocated"), numbers.get("requested"), numbers.get("bound"))
    if ours != theirs:
        yield f"tables: {entry.message} {theirs}, explain: {cause.sentence} {ours}"
