"""What step families read: the subject, the workloads of its pods, its queues, nodes and other work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from kailab.cluster.protocol import Object
from kailab.engine.decisions import QueueState, TaskAmounts
from kailab.evidence.entries import PodRow
from kailab.evidence.shares import queue_ancestry
from kailab.explain.step_budget import StepBudget
from kailab.explain.subject import PodsAtMoment, SubjectRef
from kailab.lab.answer import Cause, Forecast
from kailab.lab.lab import Lab
from kailab.lab.owners import top_of
from kailab.lab.picture import Picture
from kailab.model.objects import parent_of, spec_of
from kailab.model.validation.advice import pod_templates
from kailab.scheduler.reading.podgroups import PriorityClasses


class QuestionContext:
    """The context of one question at one moment. ``causes``: the first cause first. ``never``: the subject would not run without other work.
    ``budget``: of the search for steps. ``forecast``: when the subject runs if nothing changes, if that is known already."""

    def __init__(
        self,
        state: PodsAtMoment,
        causes: Sequence[Cause],
        never: bool = False,
        budget: StepBudget | None = None,
        forecast: Forecast | None = None,
    ) -> None:
        self.state = state
        self.causes = tuple(causes)
        self.never = never
        self.budget = budget or StepBudget()
        self.forecast = forecast

    @property
    def lab(self) -> Lab:
        return self.state.lab

    @property
    def subject(self) -> SubjectRef:
        return self.state.subject

    @property
    def picture(self) -> Picture:
        return self.state.picture

    @property
    def pods(self) -> dict[str, Object]:
        """``namespace/name`` -> pod, of the whole lab."""
        return self.picture.pods_by_name

    @cached_property
    def waiting(self) -> list[PodRow]:
        return self.state.waiting

    @cached_property
    def works(self) -> list[Object]:
        """The objects that a user changes to change the subject: the top owners of its pods. Of a queue, those with waiting pods."""
        rows = self.waiting if self.subject.kind == "Queue" else self.state.pods
        owners = [self.top(pod) for row in rows if (pod := self.pods.get(row.name)) is not None]
        if self.subject.kind not in ("Pod", "PodGroup", "Queue") and (own := self.state.object) is not None:
            owners.append(self.top(own))
        return list(_distinct(owners))

    @property
    def groups(self) -> list[Object]:
        """PodGroups that a user created, which the grouping does not rewrite."""
        return [group for group in self.podgroups if not group["metadata"].get("ownerReferences")]

    @cached_property
    def pod(self) -> Object | None:
        """A waiting pod, or else a pod template, that stands for all of them."""
        for row in (*self.waiting, *self.state.pods):
            if (pod := self.pods.get(row.name)) is not None:
                return pod
        return next((pod for work in self.works for _, pod in pod_templates(work)), None)

    def top(self, obj: Object) -> Object:
        """The top owner of an object; the object itself if it has none."""
        key = obj["metadata"]["uid"]
        if key not in self._tops:
            self._tops[key] = top_of(self.lab.cluster, obj)
        return self._tops[key]

    @cached_property
    def _tops(self) -> dict[str, Object]:
        return {}

    @cached_property
    def queues(self) -> dict[str, Object]:
        return {queue["metadata"]["name"]: queue for queue in self.lab.cluster.list("Queue")}

    @cached_property
    def states(self) -> dict[str, QueueState]:
        """The engine's state of every queue."""
        return {state.name: state for state in self.picture.present.queues}

    @cached_property
    def podgroups(self) -> list[Object]:
        """The PodGroups of the subject's pods."""
        names = {(row.name.partition("/")[0], row.podgroup) for row in self.state.pods if row.podgroup}
        if self.subject.kind == "PodGroup":
            names.add((self.subject.namespace, self.subject.name))
        return [self.picture.podgroups[name] for name in sorted(names) if name in self.picture.podgroups]

    @cached_property
    def named_queue(self) -> str:
        """The queue that the waiting pods name, whether it exists or not; empty if they name none."""
        if self.subject.kind == "Queue" and not any(self.subject.name == row.queue for row in self.waiting):
            return next((row.queue for row in self.waiting), self.subject.name)
        waiting = {row.podgroup for row in self.waiting}
        groups = sorted(self.podgroups, key=lambda group: group["metadata"]["name"] not in waiting)
        named = (str(spec_of(group).get("queue") or "") for group in groups)
        return next(filter(None, named), next((row.queue for row in self.waiting if row.queue), ""))

    def priority(self, group: Object) -> int:
        return self._priorities.of(spec_of(group).get("priorityClassName") or "")

    @cached_property
    def _priorities(self) -> PriorityClasses:
        classes = PriorityClasses()
        for priority_class in self.lab.cluster.list("PriorityClass"):
            classes.set(priority_class)
        return classes

    @cached_property
    def lines(self) -> dict[str, list[str]]:
        """Queue -> itself and the queues above it."""
        parents = {name: parent_of(queue) for name, queue in self.queues.items()}
        return {name: queue_ancestry(name, parents) for name in parents}

    @property
    def line(self) -> list[str]:
        """The named queue and those above it; empty if it does not exist."""
        return self.lines.get(self.named_queue, [])

    @cached_property
    def leaves(self) -> list[str]:
        """Queues without children, by name."""
        parents = {parent_of(queue) for queue in self.queues.values()}
        return sorted(name for name in self.queues if name not in parents)

    @cached_property
    def asked(self) -> TaskAmounts:
        """What its waiting pods request in all, scaled up by the pods that do not exist yet."""
        amounts = [amount for _, requests in self._requests for amount in requests]
        existing, wanted = len(self.waiting) or 1, len(self.waiting) + self.state.missing

        def whole(amount: int) -> int:
            return -(-amount * wanted // existing)

        return TaskAmounts(
            gpu=whole(sum(row.milli_gpus for row in self.waiting)),
            cpu=whole(sum(amount.cpu for amount in amounts)),
            memory=whole(sum(amount.memory for amount in amounts)),
        )

    @cached_property
    def asked_by_parts(self) -> list[TaskAmounts]:
        """What growing parts of a queue's waiting work request, up to all but one of its PodGroups; the smallest PodGroups come first. Empty
        if all of the work waits for one cause, which a step removes for all of it or for none.
        """
        if self.subject.kind != "Queue" or len(self.causes) < 2:
            return []
        gpus = {row.name: row.milli_gpus for row in self.waiting}
        requests = sorted(
            (sum(gpus[pod] for pod in pods), sum(each.cpu for each in amounts), sum(each.memory for each in amounts))
            for pods, amounts in self._requests
        )
        parts = [TaskAmounts(gpu=0, cpu=0, memory=0)]
        for gpu, cpu, memory in requests[:-1]:
            last = parts[-1]
            parts.append(TaskAmounts(gpu=last.gpu + gpu, cpu=last.cpu + cpu, memory=last.memory + memory))
        return parts[1:]

    @cached_property
    def _requests(self) -> list[tuple[list[str], list[TaskAmounts]]]:
        """The waiting pods of each PodGroup of the subject, and what each of them requests."""
        names = {row.name for row in self.waiting}
        found = []
        for entry in self.picture.pending.values():
            pairs = [(pod, amount) for pod, amount in zip(entry.pods, entry.amounts, strict=False) if pod in names]
            if pairs:
                found.append(([pod for pod, _ in pairs], [amount for _, amount in pairs]))
        return found

    @cached_property
    def nodes(self) -> dict[str, Object]:
        return dict(sorted(self.picture.nodes.items()))

    @cached_property
    def others(self) -> dict[str, tuple[Object, list[PodRow]]]:
        """``Kind/namespace/name`` -> another workload with pods that hold something, and these pods."""
        own = {row.name for row in self.state.pods}
        others: dict[str, tuple[Object, list[PodRow]]] = {}
        for row in self.picture.rows:
            if row.name in own or not row.node or row.phase not in ("Running", "Pending"):
                continue
            pod = self.pods.get(row.name)
            if pod is None or not row.queue:
                continue
            top = self.top(pod)
            others.setdefault(object_path(top), (top, []))[1].append(row)
        return others

    def groups_of(self, obj: Object) -> set[tuple[str, str]]:
        """(namespace, name) of the PodGroups of a workload's waiting pods."""
        return self._groups.get(object_path(obj), set())

    @cached_property
    def _groups(self) -> dict[str, set[tuple[str, str]]]:
        groups: dict[str, set[tuple[str, str]]] = {}
        for row in self.picture.rows:
            if row.phase == "Pending" and not row.node and row.podgroup and row.name in self.pods:
                top = object_path(self.top(self.pods[row.name]))
                groups.setdefault(top, set()).add((row.name.partition("/")[0], row.podgroup))
        return groups

    @cached_property
    def ahead(self) -> list[Object]:
        """Other workloads that wait, in the serving order."""
        own = {object_path(work) for work in self.works}
        tops = []
        for group in self.picture.turns:
            for row in self.picture.by_group.get(group, ())[:1]:
                if row.name in self.pods and object_path(top := self.top(self.pods[row.name])) not in own:
                    tops.append(top)
        return list(_distinct(tops))

    @cached_property
    def holders(self) -> set[str]:
        """Names of the PodGroups that hold something on nodes where the first of its waiting PodGroups may run."""
        waiting = {row.podgroup for row in self.waiting}
        for group in self.podgroups:
            if group["metadata"]["name"] in waiting and group["metadata"]["uid"] in self.state.records:
                reach = self.state.relaxed_cycles.reach(group["metadata"]["uid"])
                records = self.state.records
                holding = (
                    records[holder.podgroup]
                    for holder in (reach.holders if reach else ())
                    if holder.podgroup in records
                )
                return {record.name for record in holding}
        return set()

    @cached_property
    def beneficiaries(self) -> set[str]:
        """Names of the workloads for which pods of the subject were evicted."""
        names = set()
        for entry in self.state.evictions:
            for row in self.picture.by_group.get(entry.beneficiary, ())[:1]:
                if row.name in self.pods:
                    names.add(self.top(self.pods[row.name])["metadata"]["name"])
        return names


def object_path(obj: Object) -> str:
    """``Kind/namespace/name``."""
    metadata = obj["metadata"]
    return "/".join(filter(None, (obj["kind"], metadata.get("namespace"), metadata["name"])))


def kind_and_name(obj: Object) -> str:
    """``Deployment chat``."""
    return f"{obj['kind']} {obj['metadata']['name']}"


def _distinct(objects: Iterable[Object]) -> Iterator[Object]:
    seen: set[str] = set()
    for obj in objects:
        if (key := object_path(obj)) not in seen:
            seen.add(key)
            yield obj
