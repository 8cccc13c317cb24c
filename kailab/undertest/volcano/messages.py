"""Names of Volcano's API, and the reading of its conditions. Source: staging/src/volcano.sh/apis/pkg/apis/scheduling/v1beta1 and
pkg/scheduler/cache of Volcano.
"""

from __future__ import annotations

from kailab.undertest.contract import EvictionCondition

NAME = "volcano"
SCHEDULER_NAME = "volcano"
API_VERSION = "scheduling.volcano.sh/v1beta1"
ROOT = "root"

QUEUE = "scheduling.volcano.sh/queue-name"
GROUP = "scheduling.k8s.io/group-name"
PREEMPTABLE = "volcano.sh/preemptable"

_PREEMPTED = f"{SCHEDULER_NAME}: preempting to accommodate a higher priority pod"


def parse_eviction(message: str) -> EvictionCondition | None:
    """Reclaim between queues and preemption in a queue have the same message."""
    return EvictionCondition("preempt", "") if message == _PREEMPTED else None


def parse_code(message: str) -> str:
    """Empty for a message that only says that there is no room."""
    return "OverLimit" if "queue resource quota insufficient" in message else ""
