"""Workloads of the embedded cluster: what Kubernetes' and the operators' controllers do, so that pods appear.

One module per controller; ``WorkloadControllers`` runs those that kinds name (``Kind.controller``). ``ResourceClaimController`` makes the claims that pods ask for.
"""

from kailab.workloads.controller_manager import WorkloadControllers
from kailab.workloads.resourceclaims import ResourceClaimController

__all__ = ["ResourceClaimController", "WorkloadControllers"]
