"""Workloads of the embedded cluster: the controllers of Kubernetes and of the operators, which make pods.

``controller_manager`` queues the owners that changed, and calls the controllers that kinds name (``Kind.controller``). ``controller`` has
their base class. ``apps``, ``jobs``, ``jobset``, ``knative``, ``kubeflow``, ``leaderworkerset``, ``ray`` and ``spark`` have the
controllers; ``resourceclaims`` makes the claims that pods ask for.
"""

from kailab.workloads.controller_manager import WorkloadControllers
from kailab.workloads.resourceclaims import ResourceClaimController

__all__ = ["ResourceClaimController", "WorkloadControllers"]
