"""What steps are made from: the subject, the workloads its pods come from, its queues, and what the engine says of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from kailab.cluster.protocol import Object
from kailab.engine.decisions import QueueState, TaskAmounts
from kailab.evidence.entries import PodRow
from kailab.evidence.shares import queue_ancestry
from kailab.explain.answer import Cause
from kailab.explain.subject import PodsAtMoment, Subject
from kailab.lab.owners import top_of
from kailab.lab.picture import Picture
from kailab.model.validation.advice import pod_templates
from kailab.scheduler.reading.podgroups import PriorityClasses

if TYPE_CHECKING:
    from kailab.lab.lab import Lab


class QuestionContext:
    """One question's surroundings, at one moment. ``causes``: the first one first. ``never``: it does not run where nothing else is."""

    def __init__(self, state: PodsAtMoment, causes: Sequence[Cause], never: bool = False) -> None:
        self.state = state
        self.causes = tuple(causes)
        self.never = never

    @property
    def lab(self) -> Lab:
        return self.state.lab

    @property
    def subject(self) -> Subject:
        return self.state.subject

    @property
    def picture(self) -> Picture:
        return self.state.picture

    # --- the subject's own objects --------------------------------------------------------------------------------

    @property
    def pods(self) -> dict[str, Object]:
        """``namespace/name`` -> pod, of the whole lab."""
        return self.picture.pods_by_name

    @cached_property
    def waiting(self) -> list[PodRow]:
        return self.state.waiting

    @cached_property
    def works(self) -> list[Object]:
        """What a user changes to change the subject: the workload on top of its pods, a pod that nobody owns. Of a queue, those that
        have pods waiting."""
        rows = self.waiting if self.subject.kind == "Queue" else self.state.pods
        found = [self.top(pod) for row in rows if (pod := self.pods.get(row.name)) is not None]
        if self.subject.kind not in ("Pod", "PodGroup", "Queue") and (own := self.state.object) is not None:
            found.append(self.top(own))
        return list(_distinct(found))

    @property
    def groups(self) -> list[Object]:
        """PodGroups that a user made: what they say nobody works out again."""
        return [group for group in self.podgroups if not group["metadata"].get("ownerReferences")]

    @cached_property
    def pod(self) -> Object | None:
        """One that stands for those that wait: a pod, else a pod template."""
        for row in (*self.waiting, *self.state.pods):
            if (pod := self.pods.get(row.name)) is not None:
                return pod
        return next((pod for work in self.works for _, pod in pod_templates(work)), None)

    def top(self, obj: Object) -> Object:
        """What a user made from which it comes; itself where nobody owns it."""
        key = obj["metadata"]["uid"]
        if key not in self._tops:
            self._tops[key] = top_of(self.lab, obj)
        return self._tops[key]

    @cached_property
    def _tops(self) -> dict[str, Object]:
        return {}

    # --- queues ---------------------------------------------------------------------------------------------------

    @cached_property
    def queues(self) -> dict[str, Object]:
        return {queue["metadata"]["name"]: queue for queue in self.lab.cluster.list("Queue")}

    @cached_property
    def states(self) -> dict[str, QueueState]:
        """Where every queue stands, by the engine."""
        return {state.name: state for state in self.picture.present.queues}

    @cached_property
    def podgroups(self) -> list[Object]:
        """Of the subject's pods."""
        names = {(row.name.partition("/")[0], row.podgroup) for row in self.state.pods if row.podgroup}
        if self.subject.kind == "PodGroup":
            names.add((self.subject.namespace, self.subject.name))
        return [self.picture.podgroups[name] for name in sorted(names) if name in self.picture.podgroups]

    @cached_property
    def named_queue(self) -> str:
        """The one for which those who wait count, whether it is there or not; empty where that is not known."""
        if self.subject.kind == "Queue" and not any(self.subject.name == row.queue for row in self.waiting):
            return next((row.queue for row in self.waiting), self.subject.name)
        waiting = {row.podgroup for row in self.waiting}
        groups = sorted(self.podgroups, key=lambda group: group["metadata"]["name"] not in waiting)
        named = (str(group["spec"].get("queue") or "") for group in groups)
        return next(filter(None, named), next((row.queue for row in self.waiting if row.queue), ""))

    def priority(self, group: Object) -> int:
        """Of a PodGroup."""
        return self._priorities.of(group["spec"].get("priorityClassName") or "")

    @cached_property
    def _priorities(self) -> PriorityClasses:
        found = PriorityClasses()
        for one in self.lab.cluster.list("PriorityClass"):
            found.set(one)
        return found

    @cached_property
    def lines(self) -> dict[str, list[str]]:
        """Queue -> itself and those above it."""
        parents = {name: queue["spec"].get("parentQueue") or "" for name, queue in self.queues.items()}
        return {name: queue_ancestry(name, parents) for name in parents}

    @property
    def line(self) -> list[str]:
        """The queue and those above it; empty where it is not there."""
        return self.lines.get(self.named_queue, [])

    @cached_property
    def leaves(self) -> list[str]:
        """Queues that may run work, by name."""
        parents = {queue["spec"].get("parentQueue") for queue in self.queues.values()}
        return sorted(name for name in self.queues if name not in parents)

    @cached_property
    def asked(self) -> TaskAmounts:
        """What its waiting pods ask for in all, by the engine, and those that do not exist yet: as much as those that wait."""
        names = {row.name for row in self.waiting}
        amounts = [
            amount
            for entry in self.picture.pending.values()
            for pod, amount in zip(entry.pods, entry.amounts, strict=False)
            if pod in names
        ]
        there, all_of_it = len(self.waiting) or 1, len(self.waiting) + self.state.missing

        def whole(amount: int) -> int:
            return -(-amount * all_of_it // there)

        return TaskAmounts(
            gpu=whole(sum(row.milli_gpus for row in self.waiting)),
            cpu=whole(sum(one.cpu for one in amounts)),
            memory=whole(sum(one.memory for one in amounts)),
        )

    # --- nodes ----------------------------------------------------------------------------------------------------

    @cached_property
    def nodes(self) -> dict[str, Object]:
        return dict(sorted(self.picture.nodes.items()))

    # --- others ---------------------------------------------------------------------------------------------------

    @cached_property
    def others(self) -> dict[str, tuple[Object, list[PodRow]]]:
        """``Kind/namespace/name`` -> a workload of which pods hold something, and those pods; the subject's own are left out."""
        own = {row.name for row in self.state.pods}
        found: dict[str, tuple[Object, list[PodRow]]] = {}
        for row in self.picture.rows:
            if row.name in own or not row.node or row.phase not in ("Running", "Pending"):
                continue
            pod = self.pods.get(row.name)
            if pod is None or not row.queue:
                continue
            top = self.top(pod)
            found.setdefault(object_key(top), (top, []))[1].append(row)
        return found

    def groups_of(self, obj: Object) -> set[tuple[str, str]]:
        """(namespace, name) of the PodGroups of which pods of a workload wait."""
        return self._groups.get(object_key(obj), set())

    @cached_property
    def _groups(self) -> dict[str, set[tuple[str, str]]]:
        found: dict[str, set[tuple[str, str]]] = {}
        for row in self.picture.rows:
            if row.phase == "Pending" and not row.node and row.podgroup and row.name in self.pods:
                top = object_key(self.top(self.pods[row.name]))
                found.setdefault(top, set()).add((row.name.partition("/")[0], row.podgroup))
        return found

    @cached_property
    def ahead(self) -> list[Object]:
        """Workloads that wait, in the order in which they are served; the subject's own are left out."""
        own = {object_key(work) for work in self.works}
        found = []
        for group in self.picture.turns:
            for row in self.picture.by_group.get(group, ())[:1]:
                if row.name in self.pods and object_key(top := self.top(self.pods[row.name])) not in own:
                    found.append(top)
        return list(_distinct(found))

    @cached_property
    def holders(self) -> set[str]:
        """Names of the PodGroups that hold something where the first of its PodGroups that waits may run, by the engine."""
        waiting = {row.podgroup for row in self.waiting}
        for group in self.podgroups:
            if group["metadata"]["name"] in waiting and group["metadata"]["uid"] in self.state.records:
                reach = self.state.trials.reach(group["metadata"]["uid"])
                records = self.state.records
                found = (records[one.podgroup] for one in (reach.holders if reach else ()) if one.podgroup in records)
                return {record.name for record in found}
        return set()

    @cached_property
    def beneficiaries(self) -> set[str]:
        """Names of the workloads for which pods of the subject were evicted."""
        found = set()
        for entry in self.state.evictions:
            for row in self.picture.by_group.get(entry.beneficiary, ())[:1]:
                if row.name in self.pods:
                    found.add(self.top(self.pods[row.name])["metadata"]["name"])
        return found


def object_key(obj: Object) -> str:
    """``Kind/namespace/name``."""
    metadata = obj["metadata"]
    return "/".join(filter(None, (obj["kind"], metadata.get("namespace"), metadata["name"])))


def kind_and_name(obj: Object) -> str:
    """``Deployment chat``."""
    return f"{obj['kind']} {obj['metadata']['name']}"


def _distinct(found: Iterable[Object]) -> Iterator[Object]:
    seen: set[str] = set()
    for obj in found:
        if (key := object_key(obj)) not in seen:
            seen.add(key)
            yield obj
