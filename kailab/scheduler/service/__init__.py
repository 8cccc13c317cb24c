"""The scheduler as a process: its loop, the election of a leader, health, metrics."""

from kailab.scheduler.service.election import Alone, Election, ElectionThread, Leadership, Terms
from kailab.scheduler.service.guard import GuardedCluster, NotLeading
from kailab.scheduler.service.health import HealthServer, Standing
from kailab.scheduler.service.metrics import Metrics
from kailab.scheduler.service.running import Service, Settings

__all__ = [
    "Alone",
    "Election",
    "ElectionThread",
    "GuardedCluster",
    "HealthServer",
    "Leadership",
    "Metrics",
    "NotLeading",
    "Service",
    "Settings",
    "Standing",
    "Terms",
]
