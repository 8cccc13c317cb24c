"""Workloads of the embedded cluster: what Kubernetes' and the operators' controllers do, so that pods appear.

One room per family; ``WorkloadControllers`` runs them all.
"""

from kailab.workloads.controllers import WorkloadControllers

__all__ = ["WorkloadControllers"]
