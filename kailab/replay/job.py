"""One job of a trace, whatever the form of its file; and a line that gave none."""

from __future__ import annotations

import msgspec

WHOLE = 1000
"""Thousandths of a GPU, as the engine counts them."""


HOUR = 3600
"""Seconds."""
LONGEST = 10**9
"""Seconds of virtual time after which a replay is given up: some thirty years."""


class TraceJob(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """``arrival``: whole seconds on the trace's own clock. ``seconds``: how long it ran. ``gpus``: devices in all; with ``share`` (thousandths)
    below ``WHOLE`` each pod has that part of one, and there are as many pods. ``pods``: equal pods that start together; 0: as few as the fleet's nodes
    allow. ``cpu_millis`` and ``memory_mib``: of each pod. ``models``: of GPUs that it may run on, any where empty. ``team``: whose it is, as
    the trace says; ``priority``: the name of a PriorityClass, or empty. ``dataset``: the name of the data that it
    reads, or empty. ``line``: where it stands."""

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
        """Thousandths of a GPU in all."""
        return self.gpus * self.share

    @property
    def demand(self) -> int:
        """Milli-GPU-seconds that it takes to be done."""
        return self.milli * self.seconds


class SkippedLine(msgspec.Struct, frozen=True):
    """A line of a trace that gave no job. ``broken``: it can't be read; otherwise it can, and there is nothing to replay (a job that never
    ran)."""

    line: int
    reason: str
    broken: bool = True
