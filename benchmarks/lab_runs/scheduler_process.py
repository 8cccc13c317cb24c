"""Kailab's scheduler as a process beside a plane, for as long as it is measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kailab.cluster.protocol import Cluster
from kailab.scheduler.settings.config_file import settings_of
from kailab.undertest.contract import StartSettings
from kailab.undertest.kailab.processes import KailabProcesses


@contextmanager
def kailab_process(plane: Any, cluster: Cluster, *, election: bool = True) -> Iterator[int]:
    """Its process id, once it is ready. Raises SchedulerFailed if it does not get to be."""
    beside = KailabProcesses(plane, election=election, telling=False)
    beside.start(cluster, StartSettings(settings_of(None)))
    try:
        yield next(int(one.pid) for one in plane.processes() if one.name in beside.names)
    finally:
        beside.stop()
