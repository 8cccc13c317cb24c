"""One job of a trace in any format, and a trace line that yields no job."""

from __future__ import annotations

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
    ``share``: thousandths of a GPU; below ``WHOLE`` the job has one pod per device, each with that share. ``pods``:
    number of equal pods that start together; 0: as few as the fleet's nodes allow. ``cpu_millis`` and ``memory_mib``:
    requests of each pod. ``models``: GPU models that it may run on; empty: any. ``team``: its team in the trace.
    ``priority``: name of a PriorityClass, or empty. ``dataset``: name of the dataset that it reads, or empty. ``line``:
    its line in the file.
    """

    name: str
    arrival: int
    seconds: int
    gpus: int
    share: int = WHOLE
    pods: int = 0
    cpu_millis: int = 0
    memory_mib: int = 0
    models: tuple[str, ...] = ()
    team: str = ""
    priority: str = ""
    dataset: str = ""
    line: int = 0

    @property
    def milli(self) -> int:
        """Thousandths of a GPU of the whole job."""
        return self.gpus * self.share

    @property
    def demand(self) -> int:
        """Milli-GPU-seconds of the whole job."""
        return self.milli * self.seconds


class SkippedLine(msgspec.Struct, frozen=True):
    """A trace line that yields no job. ``broken``: it cannot be read; False: there is nothing to replay, as for a job
    that never ran."""

    line: int
    reason: str
    broken: bool = True
