"""Why something ended as it did, from evidence alone. Nothing is tried: what would help is a question to a lab."""

from __future__ import annotations

from collections.abc import Iterator

from kailab.evidence.canonical import as_plain_json, format_rfc3339
from kailab.evidence.entries import PendingReason, PodBound, PodEvicted
from kailab.evidence.history import LabHistory
from kailab.evidence.subject_timeline import SubjectTimeline, subject_timeline
from kailab.evidence.wording import count
from kailab.explain.evictions import eviction_cause_of, eviction_lines, eviction_summary
from kailab.lab.answer import Answer, Verdict


def explain_evidence(history: LabHistory, kind: str, name: str, namespace: str = "default") -> Answer:
    """The answer at the end of the evidence. The verdict is ``gone``, ``running`` or None, as nothing was tried. Raises InputError for an
    unknown name."""
    timeline = subject_timeline(history, kind, name, namespace)
    return _EvidenceAnswer(history, timeline).answer()


class _EvidenceAnswer:
    def __init__(self, history: LabHistory, timeline: SubjectTimeline) -> None:
        self.history = history
        self.timeline = timeline
        self.pods = {name for happening in timeline.happenings for name in happening.pods}
        self.evictions = [
            decision for decision in history.decisions if isinstance(decision, PodEvicted) and decision.pod in self.pods
        ]
        phases = {
            f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}": (pod.get("status") or {}).get("phase")
            for pod in history.after.get("pods", ())
        }
        self.last_phases = {name: phase or "Pending" for name, phase in phases.items() if name in self.pods}

    def answer(self) -> Answer:
        timeline = self.timeline
        running, waiting = self._in("Running"), self._in("Pending")
        verdict: Verdict | None = None
        if self.evictions and not self._whole_since():
            verdict = Verdict.GONE
        elif not waiting and self.last_phases:
            verdict = Verdict.RUNNING
        cause = eviction_cause_of(self.evictions, self._whose) if verdict is Verdict.GONE else None
        reasons = list(self._reasons())
        return Answer(
            kind=timeline.kind,
            namespace=timeline.namespace,
            name=timeline.name,
            verdict=verdict,
            cause=cause,
            running=len(running),
            wanted=len(running) + len(waiting),
            head=self._head(running, waiting),
            scheduler_reason=reasons[0].text if reasons else "",
            notes=tuple(eviction_summary(self.evictions, self._whose)),
            details=(
                *(line for eviction in self.evictions[-1:] for line in eviction_lines(eviction)),
                *timeline.lines()[1:],
            ),
            facts={
                "happenings": timeline.data()["happenings"],
                "evictions": as_plain_json(self.evictions),
                "pending": as_plain_json(reasons),
            },
        )

    def _whose(self, podgroup: str) -> str:
        return self.history.workloads.get(podgroup, f"PodGroup {podgroup}")

    def _in(self, phase: str) -> list[str]:
        return [name for name, there in self.last_phases.items() if there == phase]

    def _head(self, running: list[str], waiting: list[str]) -> str:
        timeline = self.timeline
        title = (
            f"{timeline.kind} {timeline.namespace}/{timeline.name}"
            if timeline.namespace
            else f"{timeline.kind} {timeline.name}"
        )
        numbers = [f"{len(running)} of {count(len(running) + len(waiting), 'pod')} running"]
        numbers += [f"{len(waiting)} wait"] if waiting else []
        ended = len(self.last_phases) - len(running) - len(waiting)
        numbers += [f"{ended} ended"] if ended else []
        moved = sum(eviction.is_move for eviction in self.evictions)
        numbers += [f"{len(self.evictions) - moved} evicted before"] if len(self.evictions) > moved else []
        numbers += [f"{moved} moved before"] if moved else []
        end = max(
            [step.t for step in self.history.steps] + [happening.t for happening in self.timeline.happenings],
            default=0.0,
        )
        return f"{title} at the end, {format_rfc3339(self.history.opened + end)}: {', '.join(numbers)}."

    def _whole_since(self) -> bool:
        """Whether at least as many pods of it were bound after its last evictions as these took."""
        last = self.evictions[-1]
        lost = sum(eviction.t >= last.t for eviction in self.evictions)
        decisions = self.history.decisions
        bound = sum(
            isinstance(decision, PodBound) and decision.pod in self.pods and decision.cycle > last.cycle
            for decision in decisions
        )
        return bound >= lost

    def _reasons(self) -> Iterator[PendingReason]:
        return (reason for reason in self.history.pending if any(pod in self.pods for pod in reason.pods))
