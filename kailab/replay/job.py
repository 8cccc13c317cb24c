"""One job of a trace in any format, and a trace line that yields no job."""

from __future__ import annotations

from itertools import accumulate

import msgspec

WHOLE = 1000
"""One GPU in thousandths, the engine's unit."""


HOUR = 3600
"""Seconds in an hour."""
LONGEST = 10**9
"""Longest replay in seconds of virtual time, about thirty years."""


class TraceJob(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One job of a trace.

    ``arrival``: whole seconds on the trace's clock. ``seconds``: run time. ``gpus``: devices of the whole job.
    ``share``: thousandths of a GPU; below ``WHOLE`` the job has one pod per device, each with that share. ``mig``: the
    profile of MIG instances (1g.10gb), of which ``gpus`` is the number then; ``share`` is what one counts for in KAI.
    ``pods``: number of equal pods that start together; 0: as few as the fleet's nodes allow, and one for each instance. ``cpu_millis`` and ``memory_mib``:
    requests of each pod. ``models``: GPU models that it may run on; empty: any. ``team``: its team in the trace.
    ``priority``: name of a PriorityClass, or empty. ``dataset``: name of the dataset that it reads, or empty. ``line``:
    its line in the file. ``expected``: the run time that its user announced; 0: the real one.
    ``kind``: what it computes, for its speed. ``attempts``: seconds of each of its attempts, which make up ``seconds``; after each
    but the last it fails, and waits for GPUs anew. Empty: it runs once. ``least``: the fewest of its pods with which it
    works, more slowly; 0: all of them start together.
    """

    name: str
    arrival: int
    seconds: int
    gpus: int
    share: int = WHOLE
    mig: str = ""
    pods: int = 0
    cpu_millis: int = 0
    memory_mib: int = 0
    models: tuple[str, ...] = ()
    team: str = ""
    priority: str = ""
    dataset: str = ""
    line: int = 0
    expected: int = 0
    kind: str = ""
    attempts: tuple[int, ...] = ()
    least: int = 0

    @property
    def estimate(self) -> int:
        """The run time that policies know, in seconds."""
        return self.expected or self.seconds

    @property
    def milli(self) -> int:
        """Thousandths of a GPU of the whole job."""
        return self.gpus * self.share

    def attempt_end(self, before: int) -> int:
        """Seconds of the job's work at which the attempt ends that a pod makes after ``before`` seconds of it.

        >>> job = TraceJob(name="a", arrival=0, seconds=100, gpus=1, attempts=(30, 20, 50))
        >>> job.attempt_end(0), job.attempt_end(29), job.attempt_end(30), job.attempt_end(60)
        (30, 30, 50, 100)
        """
        return next((end for end in accumulate(self.attempts) if end > before), self.seconds)

    @property
    def demand(self) -> int:
        """Milli-GPU-seconds of the whole job."""
        return self.milli * self.seconds


class JobProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How a pod's work goes on while it runs. Times are in whole seconds.

    ``checkpoint``: the time of work after which it saves its state, counted from the beginning of the work; None: never, so that
    an evicted pod starts over. ``saving``: how long a save takes, during which no work is done. ``restart``: how long a
    pod that replaces another one needs before its work begins; None: none, and its Job waits as Kubernetes does before
    it makes the pod. ``speed`` of the methods: thousandths of a second of work that
    it does in a second.

    >>> progress = JobProgress(checkpoint=10, saving=2, restart=5)
    >>> progress.duration(25, 0, restarted=False), progress.duration(5, 20, restarted=True)
    (29, 10)
    >>> [progress.work(elapsed, 0, restarted=False) for elapsed in (9, 10, 12, 13, 29)], progress.saved(11, 0, restarted=False)
    ([9, 10, 10, 11, 25], 0)
    """

    checkpoint: int | None = None
    saving: int = 0
    restart: int | None = None

    def duration(self, left: int, before: int, *, restarted: bool, speed: int = WHOLE) -> int:
        """Seconds that a pod runs for ``left`` seconds of work after ``before``. There is no save at the very end."""
        running, phase = -(-left * WHOLE // speed), _phase(before, speed)
        saves = 0
        if self.checkpoint is not None and self.saving and running:
            saves = (phase + running - 1) // self.checkpoint - phase // self.checkpoint
        return self._startup(restarted) + running + saves * self.saving

    def work(self, elapsed: int, before: int, *, restarted: bool, speed: int = WHOLE) -> int:
        """Seconds of work that a pod has done ``elapsed`` seconds after its start, ``before`` being saved then."""
        return self.running(elapsed, before, restarted=restarted, speed=speed) * speed // WHOLE

    def running(self, elapsed: int, before: int, *, restarted: bool, speed: int = WHOLE) -> int:
        """Seconds for which a pod has worked, ``elapsed`` seconds after its start: not for a start or a save."""
        elapsed = max(0, elapsed - self._startup(restarted))
        if self.checkpoint is None or not self.saving:
            return elapsed
        first = self.checkpoint - _phase(before, speed) % self.checkpoint
        if elapsed <= first:
            return elapsed
        rounds, rest = divmod(elapsed - first, self.checkpoint + self.saving)
        return first + rounds * self.checkpoint + max(0, rest - self.saving)

    def saved(self, elapsed: int, before: int, *, restarted: bool, speed: int = WHOLE) -> int:
        """Seconds of work in all that a successor need not repeat: those of the last save that is complete."""
        if self.checkpoint is None:
            return before
        # A save that is under way is not complete, so the state is that of ``saving`` seconds ago.
        phase = _phase(before, speed)
        ran = phase + self.running(max(0, elapsed - self.saving), before, restarted=restarted, speed=speed)
        return before + max(0, ran // self.checkpoint * self.checkpoint - phase) * speed // WHOLE

    def _startup(self, restarted: bool) -> int:
        return (self.restart or 0) if restarted else 0


def _phase(before: int, speed: int) -> int:
    """Where in the rhythm of its saves a pod begins: it goes on with that of its work at the trace's own speed."""
    return before if speed == WHOLE else 0


class SkippedLine(msgspec.Struct, frozen=True):
    """A trace line that yields no job. ``broken``: it cannot be read; False: there is nothing to replay, as for a job
    that never ran."""

    line: int
    reason: str
    broken: bool = True
