"""A lab and the accounts of the jobs in it: jobs are given to it, and its time goes on from moment to moment."""

from __future__ import annotations

from collections.abc import Iterator

from kailab.cluster.embedded import EmbeddedCluster
from kailab.errors import InputError
from kailab.lab import Lab
from kailab.replay.following import PodFollower
from kailab.replay.job import TraceJob
from kailab.replay.manifests import NAMESPACE, job_object, pods_of
from kailab.replay.queues import Queues
from kailab.replay.trace import Trace, strange_priority
from kailab.replay.work import Accounts, Work


class Stay:
    """Of jobs in a lab, from the first to the last. ``largest``: GPUs of its largest node. ``queues``: applied as it begins. Raises InputError."""

    def __init__(self, lab: Lab, queues: Queues, accounts: Accounts, largest: int) -> None:
        cluster = lab.cluster
        assert isinstance(cluster, EmbeddedCluster)
        self.lab = lab
        self.cluster = cluster
        self.queues = queues
        self.accounts = accounts
        self._largest = largest
        lab.apply([*queues.classes, *queues.objects])
        lab.settle()
        self._follower = PodFollower(cluster, accounts)

    @property
    def now(self) -> int:
        return int(self.cluster.now())

    def submit(self, name: str, job: TraceJob, arrived: int | None = None) -> Work:
        """``arrived``: from when on it waits, now if None."""
        now = self.now
        self.accounts.pass_to(now)
        queue, pods = self.queues.of_team[job.team], pods_of(job, self._largest)
        work = Work(name, job, queue, pods, now if arrived is None else arrived)
        self.accounts.arrive(work)
        self.cluster.create(job_object(name, job, queue, pods, endless=self.accounts.endless))
        return work

    def withdraw(self, work: Work) -> None:
        """Take a job back that has never begun and holds nothing now: the accounts know it no more."""
        self.accounts.withdraw(work)
        self.cluster.delete("Job", work.name, NAMESPACE)
        self.accounts.note(self.now)

    def moments(self, seconds: float, *, before: bool = False, rested: bool = False) -> Iterator[bool]:
        """As ``Lab.moments``; at each the accounts are up to date."""
        for resting in self.lab.moments(seconds, before=before, rested=rested):
            self._follower.look()
            yield resting

    @property
    def still(self) -> bool:
        """Nothing is to happen any more by itself. With a timer ahead something is, if only a Job that makes a pod again."""
        return self.cluster.next_timer() is None and self.cluster.next_prompt() is None

    def close(self) -> None:
        """Take in the last that has happened."""
        self._follower.look()
        self._follower.close()

    def check_priorities(self, trace: Trace) -> None:
        """Raises InputError for a job with a priority that there is not."""
        known = {one["metadata"]["name"] for one in self.cluster.list("PriorityClass")}
        for job in trace.jobs:
            if strange := strange_priority(job, known):
                raise InputError(strange, trace.where(job.line))
