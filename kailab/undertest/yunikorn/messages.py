"""Names, annotations and properties of YuniKorn, and the reading of its conditions. Source: YuniKorn's documents (partition and queue
configuration, gang scheduling, priorities, preemption) and pkg/common/constants of yunikorn-k8shim.
"""

from __future__ import annotations

NAME = "yunikorn"
SCHEDULER_NAME = "yunikorn"
NAMESPACE = "yunikorn"
PORT = 9080
"""Of its REST server, fixed in its code."""

CONFIG_MAP = "yunikorn-configs"
CONFIG_KEY = "queues.yaml"
ROOT = "root"

APP_ID = "yunikorn.apache.org/app-id"
QUEUE = "yunikorn.apache.org/queue"
ALLOW_PREEMPTION = "yunikorn.apache.org/allow-preemption"
TASK_GROUP = "yunikorn.apache.org/task-group-name"
TASK_GROUPS = "yunikorn.apache.org/task-groups"
GANG_POLICY = "yunikorn.apache.org/schedulingPolicyParameters"


def parse_code(message: str) -> str:
    """Empty for a message that only says that there is no room."""
    return "OverLimit" if "does not fit in queue" in message or "queue quota" in message else ""
