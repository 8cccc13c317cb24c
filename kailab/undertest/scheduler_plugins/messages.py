"""Names of scheduler-plugins' API, and the reading of its conditions. Source: apis/scheduling/v1alpha1, pkg/capacityscheduling and
pkg/coscheduling of scheduler-plugins; pkg/scheduler/framework/preemption of Kubernetes.
"""

from __future__ import annotations

import re

from kailab.undertest.contract import EvictionCondition

NAME = "scheduler-plugins"
SCHEDULER_NAME = "scheduler-plugins-scheduler"  # the name in its Helm chart
API_VERSION = "scheduling.x-k8s.io/v1alpha1"
GANG = "scheduling.x-k8s.io/pod-group"

_PREEMPTED = re.compile(r"^\S+: preempting to accommodate a higher priority pod$")
_OVER_MAX = re.compile(r"because ElasticQuota \S+ is more than Max")


def parse_eviction(message: str) -> EvictionCondition | None:
    """Reclaim between queues and preemption in a queue have the same message."""
    return EvictionCondition("preempt", "") if _PREEMPTED.match(message) else None


def parse_code(message: str) -> str:
    """Empty for messages of any kube-scheduler."""
    return "OverLimit" if _OVER_MAX.search(message) else ""
