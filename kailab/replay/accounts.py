"""What becomes of the jobs of a replay: when each arrived, began, was evicted and ended, and where its GPU time went.

Amounts are milli-GPU-seconds, whole numbers: nothing is rounded, so that what goes in can be held against what comes out."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kailab.cluster.protocol import Cluster
from kailab.errors import KailabError
from kailab.replay.job import TraceJob


class PodLifetime:
    """A pod from its binding to its end. ``begun``: when it ran, None before. ``model``: of the GPUs of its node."""

    __slots__ = ("begun", "bound", "index", "model")

    def __init__(self, index: int, bound: int, model: str) -> None:
        self.model = model
        self.index = index
        self.bound = bound
        self.begun: int | None = None


class ReplayedJob:
    """A job of a trace in the lab. ``milli``: GPU of each pod. ``arrived``, ``began``, ``ended``: seconds on the lab's clock; it began when all its
    pods ran for the first time. ``saved``: seconds of work that a pod's successor need not do again, by index."""

    __slots__ = (
        "arrived", "began", "done", "ended", "evictions", "job", "lives", "lost", "milli", "name", "pods", "queue", "saved",
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
        self.lives: dict[str, PodLifetime] = {}
        self.saved: dict[int, int] = {}

    @property
    def running(self) -> bool:
        """All its pods run."""
        return len(self.lives) + self.done == self.pods and all(one.begun is not None for one in self.lives.values())


class ReplayAccounts:
    """All jobs, and sums kept while they live. ``held``: milli-GPU bound now; ``held_time``: that over time. ``checkpoint``: seconds after which a
    running pod saves what it has done, again and again; None: an evicted pod begins anew.

    ``cut_short``: of each eviction the pod's milli-GPU, for how long it ran, and the seconds of work that were behind it, with those of its predecessors.
    ``useful``, ``lost``, ``overhead``: of lives that have ended: what need not be done again, what has to, and what was bound and did not run."""

    def __init__(self, checkpoint: int | None, *, endless: bool = False) -> None:
        self.checkpoint = checkpoint
        self.endless = endless
        self.works: dict[str, ReplayedJob] = {}
        self.held = 0
        self.held_time = 0
        self.useful = 0
        self.lost = 0
        self.overhead = 0
        self.submitted = 0
        self.evictions = 0
        self.unfinished: dict[str, ReplayedJob] = {}
        self.cut_short: list[tuple[int, int, int]] = []
        self.timeline: list[tuple[int, int, int, int]] = []
        self._used: dict[tuple[str, str], int] = {}
        self._waiting = 0
        self._since: int | None = None

    # --- what happens ------------------------------------------------------------------------------------------------

    def pass_to(self, now: int) -> None:
        """Time has come to ``now`` with what was held before."""
        if self._since is not None:
            self.held_time += self.held * (now - self._since)
        self._since = now

    def arrive(self, work: ReplayedJob) -> None:
        self.works[work.name] = self.unfinished[work.name] = work
        self.submitted += work.job.demand
        self._waiting += 1

    def withdraw(self, work: ReplayedJob) -> None:
        """As if it had never arrived: it goes elsewhere. It has not begun, and nothing of it is bound."""
        if work.began is not None or work.lives or work.saved or work.done:
            raise KailabError(f"{work.name} has begun or holds GPUs; it can't be taken back")
        del self.works[work.name], self.unfinished[work.name]
        self.submitted -= work.job.demand
        self._waiting -= 1

    def bind(self, work: ReplayedJob, uid: str, index: int, now: int, model: str = "") -> None:
        work.lives[uid] = PodLifetime(index, now, model)
        self.held += work.milli

    def begin(self, work: ReplayedJob, life: PodLifetime, now: int) -> None:
        life.begun = now
        if work.began is None and work.running:
            work.began = now
            self._waiting -= 1
            self._correct(now)

    def complete(self, work: ReplayedJob, uid: str, finished: int, now: int) -> None:
        """A pod had done its work when it ``finished``; that is seen ``now``, and it counts as holding its GPUs until then."""
        life = work.lives[uid]
        # Not ``ran``: a pod that worked longer than it has work must not go unnoticed.
        self._end(work, uid, 0 if life.begun is None else finished - life.begun, now)
        work.done += 1
        # All that its predecessors kept is done with it: nothing is left to go on from.
        work.saved.pop(life.index, None)
        if work.done == work.pods:
            work.ended = finished
            del self.unfinished[work.name]

    def evict(self, work: ReplayedJob, uid: str, now: int) -> None:
        """A pod is gone before it had done its work."""
        life = work.lives[uid]
        ran = self.ran(work, life, now)
        self._end(work, uid, ran, now)
        before = work.saved.get(life.index, 0)
        kept = before
        if self.checkpoint is not None and ran:
            # It saves after each interval of its own work, whoever did that.
            kept = max(before, (before + ran) // self.checkpoint * self.checkpoint)
        lost = (before + ran - kept) * work.milli
        self.cut_short.append((work.milli, ran, before + ran))
        work.saved[life.index] = kept
        work.evictions += 1
        work.lost += lost
        self.evictions += 1
        self.lost += lost
        self.useful -= lost

    def note(self, now: int) -> None:
        """How things stand now, on the timeline: (time, milli-GPU held, jobs that have not begun yet, jobs that run or did)."""
        entry = (now, self.held, self._waiting, len(self.unfinished) - self._waiting)
        if self.timeline and self.timeline[-1][1:] == entry[1:]:
            return
        if self.timeline and self.timeline[-1][0] == now:
            self.timeline[-1] = entry
        else:
            self.timeline.append(entry)

    def _correct(self, since: int) -> None:
        """A job began at a moment that has been noted already: that is seen a moment later."""
        for place in range(len(self.timeline) - 1, -1, -1):
            at, held, waiting, running = self.timeline[place]
            if at < since:
                # Nothing was noted then, as nothing else had changed.
                self.timeline.insert(place + 1, (since, held, waiting - 1, running + 1))
                return
            self.timeline[place] = at, held, waiting - 1, running + 1
            if at == since:
                return

    def _end(self, work: ReplayedJob, uid: str, ran: int, now: int) -> None:
        life = work.lives.pop(uid)
        self.held -= work.milli
        self._use(self._used, work, life, now)
        self.useful += ran * work.milli
        self.overhead += (now - life.bound - ran) * work.milli

    @staticmethod
    def _use(used: dict[tuple[str, str], int], work: ReplayedJob, life: PodLifetime, now: int) -> None:
        if work.milli:
            key = work.queue, life.model
            used[key] = used.get(key, 0) + (now - life.bound) * work.milli

    # --- what it comes to --------------------------------------------------------------------------------------------

    def ran(self, work: ReplayedJob, life: PodLifetime, now: int) -> int:
        """Seconds of work that a pod which has not completed has done since it began. It holds its GPUs for longer where it is evicted in its last
        second and takes one more to leave: it has no more work than is left of its job."""
        if life.begun is None:
            return 0
        since = now - life.begun
        return since if self.endless else min(since, work.job.seconds - work.saved.get(life.index, 0))

    def left(self, work: ReplayedJob, now: int) -> int:
        """What a job still has to do."""
        if work.ended is not None:
            return 0
        missing = (work.pods - work.done) * work.job.seconds - sum(work.saved.values())
        return (missing - sum(self.ran(work, life, now) for life in work.lives.values())) * work.milli

    def lost_with(self, interval: int) -> int:
        """What evictions would have lost, had each pod saved its work so often and all else gone the same way."""
        # A pod can lose no more than what it did itself: what it went on from had been saved.
        return sum(milli * min(ran, done % interval) for milli, ran, done in self.cut_short)

    def used(self, now: int) -> dict[tuple[str, str], int]:
        """(queue, model) -> milli-GPU-seconds for which it held GPUs of that model, up to ``now``."""
        found = dict(self._used)
        for work, life in self.live():
            self._use(found, work, life, now)
        return found

    def live(self) -> Iterator[tuple[ReplayedJob, PodLifetime]]:
        """Pods that are bound now."""
        for work in self.unfinished.values():
            for life in work.lives.values():
                yield work, life


# GPU time that goes in must come out: two sums that hold in every replay, whatever was decided.


class UnbalancedGpuTime(KailabError):
    """GPU time was lost or made: a defect of kailab, whose figures mean nothing then."""

    exit_code = 1


class GpuTimeBalance(msgspec.Struct, frozen=True, kw_only=True):
    """In milli-GPU-seconds.

    ``submitted`` = ``done`` + ``to_run`` + ``to_wait``: what the jobs that arrived ask for is done (by those that ended, and so far by others), or still to
    be done by jobs that run or that wait. Where jobs have no end (``endless``) there is nothing to hold against this.
    ``held`` = ``done`` + ``lost`` + ``overhead``: the time for which GPUs were bound, summed up moment by moment, is work that counts, work that has to be done again, or was
    spent on starting and leaving, summed up pod by pod."""

    submitted: int
    done: int
    to_run: int
    to_wait: int
    held: int
    lost: int
    overhead: int
    endless: bool = False

    @property
    def faults(self) -> list[str]:
        found = []
        if self.submitted != self.done + self.to_run + self.to_wait:
            found.append(
                f"submitted {self.submitted} is not done {self.done} + to run {self.to_run} + to wait {self.to_wait}"
            )
        if self.held != self.done + self.lost + self.overhead:
            found.append(f"held {self.held} is not done {self.done} + lost {self.lost} + overhead {self.overhead}")
        return found


def check_balance(accounts: ReplayAccounts, now: int) -> GpuTimeBalance:
    """As things stand at ``now``, to which time has passed. Raises Unbalanced."""
    done, overhead = accounts.useful, accounts.overhead
    for work, life in accounts.live():
        ran = accounts.ran(work, life, now)
        done += ran * work.milli
        overhead += (now - life.bound - ran) * work.milli
    to_run = to_wait = 0
    for work in accounts.unfinished.values():
        left = accounts.left(work, now)
        if work.lives:
            to_run += left
        else:
            to_wait += left
    # Work without an end asks for what it gets.
    submitted = done if accounts.endless else accounts.submitted
    found = GpuTimeBalance(
        submitted=submitted,
        done=done,
        to_run=0 if accounts.endless else to_run,
        to_wait=0 if accounts.endless else to_wait,
        held=accounts.held_time,
        lost=accounts.lost,
        overhead=overhead,
        endless=accounts.endless,
    )
    if found.faults:
        raise UnbalancedGpuTime(f"GPU time does not balance: {'; '.join(found.faults)} (milli-GPU-seconds)")
    return found


# Why jobs never began: what the scheduler said of them last, as it stands at their PodGroups when a replay ends.

UNTOLD = "Untold"
"""Of a job that no cycle has looked at."""


class UnstartedJobs(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that never began for one reason. ``example``: the name in the trace of the first of them, and ``message`` what was said of it."""

    reason: str
    jobs: int
    example: str
    message: str


def unstarted_jobs(cluster: Cluster, accounts: ReplayAccounts) -> list[UnstartedJobs]:
    """By how many jobs; of as many, in the order of their arrival."""
    waiting = {name: work for name, work in accounts.unfinished.items() if work.began is None}
    if not waiting:
        return []
    told: dict[str, tuple[str, str]] = {}
    for group in cluster.list("PodGroup"):
        conditions = (group.get("status") or {}).get("schedulingConditions") or ()
        said = next((one for condition in conditions for one in condition.get("reasons") or ()), None)
        for owner in group["metadata"].get("ownerReferences") or ():
            if said is not None:
                told[owner["name"]] = said["reason"], said["message"]
    found: dict[str, UnstartedJobs] = {}
    for name, work in waiting.items():
        reason, message = told.get(name, (UNTOLD, "no cycle has looked at it"))
        before = found.get(reason)
        if before is None:
            found[reason] = UnstartedJobs(reason=reason, jobs=1, example=work.job.name, message=message)
        else:
            found[reason] = msgspec.structs.replace(before, jobs=before.jobs + 1)
    return sorted(found.values(), key=lambda one: -one.jobs)
