"""Check the workloads of a student's files by their pods, PodGroups and scheduling decisions.

The text of manifests is not checked, because the same can be written in many ways (a limit stands for a request,
containers have any order), and a line may have no effect. Each method of ``SubjectPods`` raises ExpectationFailed, as those
of ``expect`` do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kailab.errors import ExpectationFailed
from kailab.evidence.entries import PodEvicted, PodRow
from kailab.evidence.wording import count, some
from kailab.lab.expectations import Amount, describe_amount, holds
from kailab.lab.picture import group_of
from kailab.lab.subjects import Subject
from kailab.model.labels import GPU_FRACTION_DEVICES
from kailab.model.objects import ENDED_PHASES, annotations_of
from kailab.model.times import duration_seconds
from kailab.scheduler.cycle_record import CycleRecord
from kailab.scheduler.observers import Observer
from kailab.scheduler.reading import requests

DEVICE = "device"
"""Pseudo-resource: the part of one GPU that a pod has, from 0 to 1."""


class RunTimes(Observer):
    """Records how long each evicted pod had run since it was bound."""

    def __init__(self, earlier: RunTimes | None = None) -> None:
        self._bound: dict[str, float] = dict(earlier._bound) if earlier else {}
        self._ran: dict[tuple[str, float], float] = dict(earlier._ran) if earlier else {}

    def on_cycle(self, record: CycleRecord) -> None:
        for bind in record.decisions.binds:
            self._bound[bind.task] = record.decisions.now

    def on_decisions(self, entries: Sequence[Any], record: CycleRecord | None = None, number: int = 0) -> None:
        if record is None:
            return
        evicted = [entry for entry in entries if isinstance(entry, PodEvicted)]
        for evict, entry in zip(record.decisions.evictions, evicted, strict=True):
            now = record.decisions.now
            self._ran[entry.pod, entry.t] = now - self._bound.get(evict.task, now)

    def of(self, entry: PodEvicted) -> float:
        """For how many seconds the evicted pod had run."""
        return self._ran[entry.pod, entry.t]


class SubjectPods:
    """Words about a subject's pods that have not ended."""

    def __init__(self, subject: Subject, run_times: RunTimes) -> None:
        self._subject, self._run_times = subject, run_times
        self._picture = subject.lab.picture()
        subject.look_up(self._picture)
        self._pods = [row for row in subject.pods(self._picture) if row.phase not in ENDED_PHASES]

    def has(self, pods: Amount) -> None:
        """It has this number of pods, running or waiting."""
        self._check(
            holds(pods, len(self._pods)), f"has {count(len(self._pods), 'pod')}, not {describe_amount(pods, 'pod')}"
        )

    def each(self, **amounts: Amount) -> None:
        """Each pod requests these amounts, summed over its containers: cores of cpu, bytes of memory, pieces of
        anything else."""
        self._check(bool(self._pods), "has no pods")
        for resource, wanted in amounts.items():
            for row in self._pods:
                requested = self._asked(row, resource)
                self._check(
                    holds(wanted, requested),
                    f"{row.name} requests {requested:g} of {resource}, not {describe_amount(wanted, 'unit')}",
                )

    def gang(self, pods: Amount) -> None:
        """Its pods form one gang, of which this number starts together."""
        groups = {group_of(row) for row in self._pods if row.podgroup}
        podgroups = [podgroup for key, podgroup in self._picture.podgroups.items() if "/".join(key) in groups]
        self._check(len(podgroups) == 1, f"its pods are in {count(len(podgroups), 'PodGroup')}, not in one")
        minimum = podgroups[0]["spec"].get("minMember") or 0
        self._check(
            holds(pods, minimum), f"{count(minimum, 'pod')} of it start together, not {describe_amount(pods, 'pod')}"
        )

    def in_queue(self, name: str) -> None:
        """All its pods count in this queue."""
        queues = sorted({row.queue or "no queue" for row in self._pods})
        self._check(queues == [name], f"its pods are in {some(queues) if queues else 'no queue'}")

    def spared(self, first: str) -> None:
        """None of its pods was evicted within this time after it was bound."""
        for entry in self._subject.evictions(self._picture):
            ran = self._run_times.of(entry)
            self._check(ran >= duration_seconds(first), f"{entry.pod} was evicted {ran:g} s after it was bound")

    def _asked(self, row: PodRow, resource: str) -> float:
        pod = self._picture.pods_by_name[row.name]
        if resource == DEVICE:
            devices = annotations_of(pod).get(GPU_FRACTION_DEVICES, "1")
            return min(1.0, row.milli_gpus / 1000 / int(devices))
        total = requests.pod_amounts(pod["spec"]).get(resource, 0)
        return total / 1000 if resource == "cpu" else total

    def _check(self, held: bool, seen: str) -> None:
        if not held:
            raise ExpectationFailed(f"seen     {self._subject.title}: {seen}")
