"""The scheduler as a process.

``process.ServiceProcess`` connects to the cluster and starts everything else: ``election`` acquires the lease in its own thread,
``service_loop.SchedulerService`` runs cycles while it leads, over a ``guard.GuardedCluster`` that refuses writes without the lease.
``health`` serves /livez, /readyz and /metrics; ``metrics`` collects the metrics. ``manifests`` has the YAML that installs it.
"""
