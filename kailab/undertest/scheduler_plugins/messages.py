"""The words of scheduler-plugins: its kinds and labels, and what its conditions say.

Source: apis/scheduling/v1alpha1, pkg/capacityscheduling and pkg/coscheduling of scheduler-plugins; pkg/scheduler/framework/preemption
of Kubernetes.
"""

from __future__ import annotations

import re

from kailab.undertest.contract import EvictionCondition

NAME = "scheduler-plugins"
SCHEDULER_NAME = "scheduler-plugins-scheduler"  # that of its Helm chart
API_VERSION = "scheduling.x-k8s.io/v1alpha1"
GANG = "scheduling.x-k8s.io/pod-group"

_PREEMPTED = re.compile(r"^\S+: preempting to accommodate a higher priority pod$")
_OVER_MAX = re.compile(r"because ElasticQuota \S+ is more than Max")


def parse_eviction(message: str) -> EvictionCondition | None:
    """Its sentence is the same for what a queue takes back and for what comes before within one."""
    return EvictionCondition("preempt", "") if _PREEMPTED.match(message) else None


def parse_code(message: str) -> str:
    """Empty for what any kube-scheduler says."""
    return "OverLimit" if _OVER_MAX.search(message) else ""
