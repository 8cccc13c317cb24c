"""What each node answers to the pods of a subject: the table of ``explain --nodes``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from kailab.engine.report.node_answers import NodeAnswer, node_answers
from kailab.engine.session import Session
from kailab.engine.snapshot.records import Task
from kailab.errors import InputError
from kailab.evidence.entries import PodRow
from kailab.evidence.wording import count, some
from kailab.explain.subject import PodsAtMoment, SubjectRef
from kailab.lab.lab import Lab

SHOWN_ROWS = 20
"""Rows of the short table."""
HEADERS = ("NODES", "RULE", "ANSWER", "WHICH")


@dataclass(frozen=True)
class NodesOfPods:
    """What all nodes answer to pods that are alike. ``pods``: full names. ``node``: of the first of them; empty while it waits. ``nodes``:
    their number. ``group``: the scheduler's message about the waiting group."""

    pods: tuple[str, ...]
    node: str
    nodes: int
    answers: tuple[NodeAnswer, ...]
    group: str = ""

    def head(self) -> list[str]:
        """The lines above the table."""
        whose = f"Pod {self.pods[0]}"
        like = f", and {len(self.pods) - 1} more like it" if len(self.pods) > 1 else ""
        taking = sum(
            len(answer.nodes) for answer in self.answers if answer.rule is None and self.node not in answer.nodes
        )
        if self.node:
            text = f"runs on {self.node}; of the other {count(self.nodes - 1, 'node')} {taking or 'none'} would take it now"
        else:
            text = f"waits; by itself {taking or 'none'} of {count(self.nodes, 'node')} would take it now"
        lines = [f"{whose}{like}: {text}."]
        if self.group:
            lines.append(f"Its group: {self.group}.")
        return lines

    def rows(self, everything: bool = False) -> Iterator[tuple[str, str, str, str]]:
        """Cells as in ``HEADERS``."""
        shown = self.answers if everything else self.answers[:SHOWN_ROWS]
        for answer in shown:
            names = ", ".join(answer.nodes) if everything else some(answer.nodes)
            yield str(len(answer.nodes)), str(answer.rule) if answer.rule else "-", answer.text, names
        more = self.answers[len(shown) :]
        if more:
            yield str(sum(len(hidden.nodes) for hidden in more)), "...", f"{len(more)} more answers (--all)", ""

    def data(self) -> dict[str, Any]:
        """For programs. Amounts in engine units: CPU in millicores, memory in bytes, GPUs in thousandths."""
        return {
            "pods": list(self.pods),
            "node": self.node,
            "nodes": self.nodes,
            "group": self.group,
            "answers": [
                {"takes": answer.rule is None, "rule": str(answer.rule or ""), **msgspec.to_builtins(answer)}
                for answer in self.answers
            ],
        }


def about_nodes(lab: Lab, kind: str, name: str, namespace: str = "default") -> list[NodesOfPods]:
    """The answers of nodes, by groups of pods that are alike. ``kind``: a kind key. Raises NotFound, and InputError for a subject without
    pods that kailab's scheduler would place."""
    subject = SubjectRef.of(lab, kind, name, namespace)
    if subject.kind == "Queue":
        raise InputError("a queue is not placed on nodes; --nodes expects a pod, a podgroup or a workload")
    state = subject.state(lab)
    if not state.picture.scheduler.knows_queues:
        raise InputError(
            f"--nodes asks the filters of KAI's rules, and {state.picture.scheduler.name} decides here by others"
        )
    answers = list(_answers_by_pods(state))
    if not answers:
        raise InputError(
            f"{subject.title} has no pods that the scheduler would place: see `kailab explain` without --nodes"
        )
    return answers


def _answers_by_pods(state: PodsAtMoment) -> Iterator[NodesOfPods]:
    tasks = {f"{task.namespace}/{task.name}": task for own in state.tasks.values() for task in own}
    alike: dict[tuple[Any, ...], list[tuple[PodRow, Task]]] = {}
    for row in (*state.waiting, *state.running):
        task = tasks.get(row.name)
        record = state.records.get(task.podgroup) if task is not None else None
        if task is not None and record is not None:
            alike.setdefault((bool(row.node), id(task.shape), record.root), []).append((row, task))
    relaxed_cycles = state.relaxed_cycles
    for same in alike.values():
        row, task = same[0]
        session = Session(relaxed_cycles.working, relaxed_cycles.config, relaxed_cycles.now)
        try:
            answers = node_answers(session, relaxed_cycles.working.tasks[task.uid])
        finally:
            session.close()
        pending = () if row.node else relaxed_cycles.about(task.podgroup)().pending
        yield NodesOfPods(
            pods=tuple(pod.name for pod, _ in same),
            node=row.node,
            nodes=len(relaxed_cycles.working.table),
            answers=answers,
            group=pending[0].message if pending else "",
        )
