"""The scheduler as a process: its loop, the election of a leader, health, metrics."""

from kailab.scheduler.service.election import Election, ElectionThread, Leadership, LeaseTerms, NoElection
from kailab.scheduler.service.guard import GuardedCluster, NotLeading
from kailab.scheduler.service.health import HealthServer, LoopHealth
from kailab.scheduler.service.metrics import SchedulerMetrics
from kailab.scheduler.service.service_loop import SchedulerService, ServiceSettings

__all__ = [
    "NoElection",
    "Election",
    "ElectionThread",
    "GuardedCluster",
    "HealthServer",
    "Leadership",
    "SchedulerMetrics",
    "NotLeading",
    "SchedulerService",
    "ServiceSettings",
    "LoopHealth",
    "LeaseTerms",
]
