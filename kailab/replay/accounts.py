"""Accounts of a replay: when each job arrived, began, was evicted and ended, and how its GPU time was used.

Amounts are whole milli-GPU-seconds. Nothing is rounded, so inputs and outputs must balance exactly (``balance_at``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from kailab.cluster.protocol import Cluster, Object
from kailab.errors import KailabError
from kailab.model.objects import owner_references, status_of, uid_of
from kailab.replay.elastic import ElasticWork, Stint
from kailab.replay.job import WHOLE, JobProgress, TraceJob


class PodLifetime:
    """One pod from bind to end.

    ``index``: its completion index in the Job. ``bound``: when it was bound. ``begun``: when it started to run, None
    before that. ``node``, ``model``: its node and the GPU model there. ``restarted``: it replaces an evicted pod.
    ``speed``: thousandths of a second of work that it does in a second. ``worked``: seconds for which it worked, of an elastic job, up to
    the last change of its pods.
    """

    __slots__ = ("begun", "bound", "index", "model", "node", "restarted", "speed", "worked")

    def __init__(self, index: int, bound: int, model: str, restarted: bool = False, node: str = "") -> None:
        self.node = node
        self.model = model
        self.speed = WHOLE
        self.restarted = restarted
        self.index = index
        self.bound = bound
        self.begun: int | None = None
        self.worked = 0


# Shared by all jobs that wait, so they stay empty.
_NO_LIVES: dict[str, PodLifetime] = {}
_NO_SECONDS: dict[int, int] = {}


class ReplayedJob:
    """One job of a trace as it runs in the lab.

    ``milli``: milli-GPU of each pod. ``arrived``, ``began``, ``ended``: seconds on the lab's clock; a job began when
    all its pods ran together for the first time. ``lives``: its bound pods by uid. ``saved``: by completion index, the
    seconds of work that a successor pod need not repeat. ``ran``: by completion index, the seconds that evicted pods ran.
    ``elastic``: the work of a job that does not need all its pods, instead of ``saved``.
    """

    __slots__ = (
        "arrived", "began", "done", "elastic", "ended", "evictions", "job", "lives", "lost", "milli", "name", "pods", "queue",
        "ran", "saved",
    )  # fmt: skip

    def __init__(self, name: str, job: TraceJob, queue: str, pods: int, arrived: int) -> None:
        self.name = name
        self.job = job
        self.queue = queue
        self.pods = pods
        self.milli = job.milli // pods
        self.arrived = arrived
        self.began: int | None = None
        self.ended: int | None = None
        self.evictions = 0
        self.lost = 0
        self.done = 0
        self.lives = _NO_LIVES
        self.saved = self.ran = _NO_SECONDS
        self.elastic = ElasticWork(job.seconds) if job.least else None

    def save(self, index: int, seconds: int) -> None:
        """Set the seconds of work that a successor of this pod need not repeat."""
        if not self.saved:
            self.saved = {}
        self.saved[index] = seconds

    def add_run(self, index: int, seconds: int) -> None:
        """Add the seconds that an evicted pod ran."""
        if not self.ran:
            self.ran = {}
        self.ran[index] = self.ran.get(index, 0) + seconds

    @property
    def running(self) -> bool:
        """True if all remaining pods run, or enough of an elastic job."""
        if self.elastic is not None:
            return len(self.begun) >= self.job.least
        return len(self.lives) + self.done == self.pods and all(
            lifetime.begun is not None for lifetime in self.lives.values()
        )

    def amounts(self, stint: Stint) -> tuple[int, int]:
        """What pods of an elastic job did together: their work, and their time beyond it, in milli-GPU-seconds."""
        work = stint.ran * self.pods * self.milli
        return work, stint.running * stint.pods * self.milli - work

    @property
    def begun(self) -> dict[str, PodLifetime]:
        return {uid: life for uid, life in self.lives.items() if life.begun is not None}


class ReplayAccounts:
    """All jobs of a replay and their running totals.

    ``progress``: how pods save their work, and what a restart costs.
    ``endless``: jobs do not end. ``held``: milli-GPU bound now; ``held_time``: its integral over time.

    ``failed_nodes``: failures of nodes; ``failed_pods``: pods that they ended, which count as evicted too. ``attempts``: pods that
    ended with an attempt of their job that was not its last; the work of these attempts counts, because the trace has it.

    ``useful``, ``lost``, ``slower`` and ``overhead`` cover pods that have ended: work that counts, work that must be
    repeated, the time of running beyond the work done in it (below 0 on GPUs faster than the trace's), and time bound
    without running. ``cut_short`` has an entry for each eviction: the pod's milli-GPU, the seconds that it
    ran, and the seconds of work done so far, including its predecessors'.
    """

    def __init__(self, progress: JobProgress, *, endless: bool = False) -> None:
        self.progress = progress
        self.endless = endless
        self.works: dict[str, ReplayedJob] = {}
        self.held = 0
        self.held_time = 0
        self.useful = 0
        self.lost = 0
        self.overhead = 0
        self.slower = 0
        self.submitted = 0
        self.evictions = 0
        self.failed_nodes = 0
        self.failed_pods = 0
        self.attempts = 0
        self.unfinished: dict[str, ReplayedJob] = {}
        self.cut_short: list[tuple[int, int, int]] = []
        self.timeline: list[tuple[int, int, int, int]] = []
        self._used: dict[tuple[str, str], int] = {}
        self._waiting = 0
        self._since: int | None = None

    # --- events ------------------------------------------------------------------------------------------------------

    def pass_to(self, now: int) -> None:
        """Advance time to ``now`` and account for the GPUs held until then."""
        if self._since is not None:
            self.held_time += self.held * (now - self._since)
        self._since = now

    def arrive(self, work: ReplayedJob) -> None:
        self.works[work.name] = self.unfinished[work.name] = work
        self.submitted += work.job.demand
        self._waiting += 1

    def withdraw(self, work: ReplayedJob) -> None:
        """Remove a job that goes to another cluster, as if it had never arrived.

        Raises KailabError if the job has begun or has bound pods.
        """
        if work.began is not None or work.lives or work.saved or work.done:
            raise KailabError(f"{work.name} has begun or holds GPUs and cannot be withdrawn")
        del self.works[work.name], self.unfinished[work.name]
        self.submitted -= work.job.demand
        self._waiting -= 1

    def regroup(self, work: ReplayedJob, now: int, speed: int) -> bool:
        """Let the pods of an elastic job that run go on together, at a speed in thousandths. Returns False if these pods work together
        already, or are too few.
        """
        elastic, begun = work.elastic, work.begun
        assert elastic is not None
        if len(begun) >= work.job.least:
            if elastic.together == begun.keys():
                return False
            # A start is seen after it has happened.
            last = max(life.begun for life in begun.values() if life.begun is not None)
            self._end_together(work, last)
            elastic.begin(begun, max(last, elastic.ended), speed)
            return True
        self._end_together(work, now)
        if elastic.done > elastic.saved:
            self._count_lost(work, work.pods, elastic.done, elastic.done, elastic.lose())
        return False

    def bind(self, work: ReplayedJob, uid: str, index: int, now: int, model: str = "", node: str = "") -> None:
        # An evicted pod leaves an entry in ``saved``, if only of 0 seconds.
        if not work.lives:
            work.lives = {}
        work.lives[uid] = PodLifetime(index, now, model, index in work.saved, node)
        self.held += work.milli

    def begin(self, work: ReplayedJob, life: PodLifetime, now: int) -> None:
        life.begun = now
        if work.began is None and work.running:
            work.began = now
            self._waiting -= 1
            self._correct(now)

    def complete(self, work: ReplayedJob, uid: str, finished: int, now: int) -> None:
        """Record that a pod completed.

        ``finished``: when its work ended. ``now``: when that was observed; the pod holds its GPUs until then.
        """
        if work.elastic is not None:
            # They share the work, so all of them end with it.
            self._end_together(work, finished)
            for each in list(work.lives):
                self._leave(work, each, now)
            work.done, work.ended = work.pods, finished
            del self.unfinished[work.name]
            return
        index = work.lives[uid].index
        self._end_attempt(work, uid, finished, now)
        work.done += 1
        # The work saved by its predecessors is part of the completed work.
        work.saved.pop(index, None)
        if work.done == work.pods:
            work.ended = finished
            del self.unfinished[work.name]

    def fail_attempt(self, work: ReplayedJob, uid: str, finished: int, now: int) -> None:
        """Record that a pod ended with an attempt after which its job waits anew. The arguments are those of ``complete``."""
        index = work.lives[uid].index
        elapsed, end = self._end_attempt(work, uid, finished, now)
        work.add_run(index, elapsed)
        work.save(index, end)
        self.attempts += 1

    def _end_attempt(self, work: ReplayedJob, uid: str, finished: int, now: int) -> tuple[int, int]:
        """Account for a pod that ended with its attempt, which is the job's only one in most traces. Returns the seconds since its
        start, and the seconds of the job's work that are done then."""
        life = work.lives[uid]
        elapsed = 0 if life.begun is None else finished - life.begun
        before, restarted, speed = work.saved.get(life.index, 0), life.restarted, life.speed
        end = work.job.attempt_end(before)
        left = end - before
        ran = self.progress.work(elapsed, before, restarted=restarted, speed=speed)
        # Capping the time at the remaining work in any case would hide a pod that ran too long.
        if elapsed <= self.progress.duration(left, before, restarted=restarted, speed=speed):
            ran = min(ran, left)
        running = self.progress.running(elapsed, before, restarted=restarted, speed=speed)
        self._end(work, uid, ran, running, now)
        return elapsed, end

    def evict(self, work: ReplayedJob, uid: str, now: int) -> None:
        """Record that a pod ended before its work was done."""
        life = work.lives[uid]
        work.evictions += 1
        self.evictions += 1
        if work.elastic is not None:
            self._end_together(work, now)
            self._leave(work, uid, now)
            if life.begun is not None:
                work.add_run(life.index, now - life.begun)
            return
        ran = self.ran(work, life, now)
        self._end(work, uid, ran, self.running(work, life, now), now)
        before = work.saved.get(life.index, 0)
        saved = before
        if life.begun is not None:
            work.add_run(life.index, now - life.begun)
            elapsed = now - life.begun
            resumed = self.progress.saved(elapsed, before, restarted=life.restarted, speed=life.speed)
            saved = min(before + ran, resumed)
        work.save(life.index, saved)
        self._count_lost(work, 1, ran, before + ran, before + ran - saved)

    def _count_lost(self, work: ReplayedJob, pods: int, ran: int, done: int, seconds: int) -> None:
        """Count work of pods that is lost. ``ran``, ``done``: see ``cut_short``."""
        milli = work.milli * pods
        lost = seconds * milli
        self.cut_short.append((milli, ran, done))
        work.lost += lost
        self.lost += lost
        self.useful -= lost

    def note(self, now: int) -> None:
        """Append the current state to the timeline: (time, milli-GPU held, jobs not yet begun, jobs begun and
        unfinished)."""
        entry = (now, self.held, self._waiting, len(self.unfinished) - self._waiting)
        if self.timeline and self.timeline[-1][1:] == entry[1:]:
            return
        if self.timeline and self.timeline[-1][0] == now:
            self.timeline[-1] = entry
        else:
            self.timeline.append(entry)

    def _correct(self, since: int) -> None:
        """Count a job as begun in timeline entries since ``since``: starts are observed a moment after they happen."""
        for place in range(len(self.timeline) - 1, -1, -1):
            at, held, waiting, running = self.timeline[place]
            if at < since:
                # There is no entry at ``since`` because nothing else changed then.
                self.timeline.insert(place + 1, (since, held, waiting - 1, running + 1))
                return
            self.timeline[place] = at, held, waiting - 1, running + 1
            if at == since:
                return

    def _end(self, work: ReplayedJob, uid: str, ran: int, running: int, now: int) -> None:
        work.lives[uid].worked = running
        self._leave(work, uid, now)
        self.useful += ran * work.milli
        self.slower += (running - ran) * work.milli

    def _leave(self, work: ReplayedJob, uid: str, now: int) -> None:
        life = work.lives.pop(uid)
        self.held -= work.milli
        self._use(self._used, work, life, now)
        self.overhead += (now - life.bound - life.worked) * work.milli

    def _end_together(self, work: ReplayedJob, now: int) -> None:
        elastic = work.elastic
        assert elastic is not None
        together = elastic.together
        stint = elastic.end(now, self.progress, endless=self.endless)
        for uid in together:
            work.lives[uid].worked += stint.running
        useful, slower = work.amounts(stint)
        self.useful += useful
        self.slower += slower

    @staticmethod
    def _use(used: dict[tuple[str, str], int], work: ReplayedJob, life: PodLifetime, now: int) -> None:
        if work.milli:
            key = work.queue, life.model
            used[key] = used.get(key, 0) + (now - life.bound) * work.milli

    # --- totals ------------------------------------------------------------------------------------------------------

    def ran(self, work: ReplayedJob, life: PodLifetime, now: int) -> int:
        """Seconds of work that a bound pod has done since it began.

        The result never exceeds the job's remaining work: a pod that is evicted in its last second holds its GPUs for
        one second more.
        """
        if life.begun is None:
            return 0
        before = work.saved.get(life.index, 0)
        since = self.progress.work(now - life.begun, before, restarted=life.restarted, speed=life.speed)
        return since if self.endless else min(since, work.job.attempt_end(before) - before)

    def running(self, work: ReplayedJob, life: PodLifetime, now: int) -> int:
        """Seconds for which a bound pod has worked since it began; never more than its remaining work takes."""
        if life.begun is None:
            return 0
        before = work.saved.get(life.index, 0)
        since = self.progress.running(now - life.begun, before, restarted=life.restarted, speed=life.speed)
        return since if self.endless else min(since, -(-(work.job.attempt_end(before) - before) * WHOLE // life.speed))

    def remaining_work(self, work: ReplayedJob, now: int) -> int:
        """Remaining work of a job in milli-GPU-seconds."""
        if work.ended is not None:
            return 0
        if work.elastic is not None:
            stint = work.elastic.stint(now, self.progress, endless=self.endless)
            return (work.elastic.remaining_seconds - stint.ran) * work.pods * work.milli
        missing = (work.pods - work.done) * work.job.seconds - sum(work.saved.values())
        return (missing - sum(self.ran(work, life, now) for life in work.lives.values())) * work.milli

    def lost_with(self, interval: int) -> int:
        """Work that evictions would have lost if every pod had saved at this interval and nothing else had changed."""
        # A pod loses at most its own work: the work that it resumed from was saved.
        return sum(milli * min(ran, done % interval) for milli, ran, done in self.cut_short)

    def used(self, now: int) -> dict[tuple[str, str], int]:
        """Map (queue, model) to the milli-GPU-seconds for which the queue held GPUs of that model, up to ``now``."""
        used = dict(self._used)
        for work, life in self.live():
            self._use(used, work, life, now)
        return used

    def used_by_queue(self, now: int) -> dict[str, int]:
        """Map each queue to the milli-GPU-seconds for which it held GPUs up to ``now``."""
        queues: dict[str, int] = {}
        for (queue, _), amount in self.used(now).items():
            queues[queue] = queues.get(queue, 0) + amount
        return queues

    def live(self) -> Iterator[tuple[ReplayedJob, PodLifetime]]:
        """Yield each bound pod with its job."""
        for work in self.unfinished.values():
            for life in work.lives.values():
                yield work, life


class UnbalancedGpuTime(KailabError):
    """GPU time was lost or created. This is a defect of kailab, and the replay's figures are invalid."""

    exit_code = 1


class GpuTimeBalance(msgspec.Struct, frozen=True, kw_only=True):
    """Two equations that hold in every replay, in milli-GPU-seconds.

    ``submitted`` = ``done`` + ``to_run`` + ``to_wait``: the work of all jobs that arrived is done, or remains for jobs
    that run or that wait. With ``endless`` jobs this holds trivially.

    ``held`` = ``done`` + ``lost`` + ``overhead`` + ``slower``: the time that GPUs were bound, summed over time, is work that
    counts, work that must be repeated, starting and stopping, or the time that this work took beyond that of the trace
    (below 0 on faster GPUs), summed over pods.
    """

    submitted: int
    done: int
    to_run: int
    to_wait: int
    held: int
    lost: int
    overhead: int
    slower: int = 0
    endless: bool = False

    @property
    def faults(self) -> list[str]:
        """What does not add up; empty if both equations hold."""
        faults = []
        if self.submitted != self.done + self.to_run + self.to_wait:
            faults.append(
                f"submitted {self.submitted} is not done {self.done} + to run {self.to_run} + to wait {self.to_wait} milli-GPU-seconds"
            )
        if self.held != self.done + self.lost + self.overhead + self.slower:
            slower = f" + slower {self.slower}" if self.slower else ""
            faults.append(
                f"held {self.held} is not done {self.done} + lost {self.lost} + overhead {self.overhead}{slower} milli-GPU-seconds"
            )
        return faults


def balance_at(accounts: ReplayAccounts, now: int) -> GpuTimeBalance:
    """The balance at ``now``, up to which time has been accounted for. Its ``faults`` say whether it closes."""
    done, overhead, slower = accounts.useful, accounts.overhead, accounts.slower
    for work in accounts.unfinished.values():
        if work.elastic is not None:
            stint = work.elastic.stint(now, accounts.progress, endless=accounts.endless)
            useful, beyond = work.amounts(stint)
            done, slower = done + useful, slower + beyond
            for uid, life in work.lives.items():
                worked = life.worked + (stint.running if uid in work.elastic.together else 0)
                overhead += (now - life.bound - worked) * work.milli
            continue
        for life in work.lives.values():
            ran, running = accounts.ran(work, life, now), accounts.running(work, life, now)
            done += ran * work.milli
            slower += (running - ran) * work.milli
            overhead += (now - life.bound - running) * work.milli
    to_run = to_wait = 0
    for work in accounts.unfinished.values():
        left = accounts.remaining_work(work, now)
        if work.lives:
            to_run += left
        else:
            to_wait += left
    # Endless work has no demand to compare with.
    submitted = done if accounts.endless else accounts.submitted
    return GpuTimeBalance(
        submitted=submitted,
        done=done,
        to_run=0 if accounts.endless else to_run,
        to_wait=0 if accounts.endless else to_wait,
        held=accounts.held_time,
        lost=accounts.lost,
        overhead=overhead,
        slower=slower,
        endless=accounts.endless,
    )


def raise_faults(faults: Sequence[str]) -> None:
    """Raise UnbalancedGpuTime if a replay's checks found ``faults``."""
    if faults:
        raise UnbalancedGpuTime(f"the replay does not balance: {'; '.join(faults)}; please report this")


UNTOLD = "Untold"
"""The reason of a job that no scheduling cycle has considered."""


class UnstartedJobs(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that never began for one reason.

    ``example``: the trace name of the first of them, with the scheduler's ``message`` for it.
    """

    reason: str
    jobs: int
    example: str
    message: str


def unstarted_jobs(
    cluster: Cluster, accounts: ReplayAccounts, reasons: Mapping[str, tuple[str, str]]
) -> list[UnstartedJobs]:
    """Group the jobs that never began by the reason on their PodGroups at the end of the replay.

    ``reasons``: (reason, message) of PodGroups that do not say it themselves, by UID. Sorted by number of jobs, then by arrival.
    """
    waiting = {name: work for name, work in accounts.unfinished.items() if work.began is None}
    if not waiting:
        return []
    reported: dict[str, tuple[str, str]] = {}
    for group in cluster.list("PodGroup"):
        reason_entry = reasons.get(uid_of(group)) or _reported_reason(group)
        for owner in owner_references(group):
            if reason_entry is not None:
                reported[owner["name"]] = reason_entry
    by_reason: dict[str, UnstartedJobs] = {}
    for name, work in waiting.items():
        reason, message = reported.get(name, (UNTOLD, "no cycle has looked at it"))
        known = by_reason.get(reason)
        if known is None:
            by_reason[reason] = UnstartedJobs(reason=reason, jobs=1, example=work.job.name, message=message)
        else:
            by_reason[reason] = msgspec.structs.replace(known, jobs=known.jobs + 1)
    return sorted(by_reason.values(), key=lambda entry: -entry.jobs)


def _reported_reason(group: Object) -> tuple[str, str] | None:
    conditions = status_of(group).get("schedulingConditions") or ()
    entries = (entry for condition in conditions for entry in condition.get("reasons") or ())
    return next(((entry["reason"], entry["message"]) for entry in entries), None)
