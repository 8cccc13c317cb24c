"""The scheduler as a process.

``process.ServiceProcess`` connects to the cluster and starts everything else: ``election`` acquires the lease in its own thread,
``service_loop.SchedulerService`` runs cycles while it leads, over a ``guard.GuardedCluster`` that refuses writes without the lease.
``health`` serves /livez, /readyz and /metrics; ``metrics`` collects the metrics. ``manifests`` has the YAML that installs it.
"""

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
