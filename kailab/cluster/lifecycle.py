"""The life of a pod on a fake node, in one description: how its annotations are read, how long what takes, and what is then
in its status.

The kubelet of the embedded cluster lives by it in virtual time; the KWOK stages of real clusters are written from it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

READY_SECONDS = 1.0
"""From bound to ready, where ``kailab.dev/ready-seconds`` does not say otherwise."""
TERMINATION_SECONDS = 1.0
"""From deleted to gone, where ``kailab.dev/termination-seconds`` does not say otherwise."""
TERMINATION = "kailab.dev/termination-seconds"
BACKOFF_FIRST = 10.0
BACKOFF_LAST = 300.0
LONGEST_SECONDS = 10.0 * 366 * 86400
"""What is asked for beyond this counts as this."""

COMPLETED = "Completed"
ERROR = "Error"
OOM_KILLED = "OOMKilled"
BACKING_OFF = "CrashLoopBackOff"
NOT_READY = "ContainersNotReady"
DONE_REASONS = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}
"""Why a pod that has ended is not ready, by its phase."""

CODE_COMPLETED = 0
CODE_ERROR = 1
CODE_OOM_KILLED = 137
CODE_STOPPED = 143
"""A pod that was told to leave while a finalizer holds it."""

STARTED_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
"""True from when a pod is ready."""
READY_CONDITIONS = ("Ready", "ContainersReady")
"""Not true while no container runs."""


class Said(NamedTuple):
    """An event about a pod that leaves."""

    type: str
    reason: str
    message: str


CHECKPOINTED = Said("Normal", "Checkpointed", "It saved its state before it left")
CHECKPOINT_LOST = Said("Warning", "CheckpointLost", "Its grace period ended before its state was saved")


def seconds_of(text: Any, default: float | None) -> float | None:
    """A number of seconds from an annotation; what can't be read as one counts as absent."""
    if text is None:
        return default
    try:
        value = float(text)
    except (TypeError, ValueError):
        return default
    return min(value, LONGEST_SECONDS) if value >= 0 else default


def backoff_seconds(restarts: int) -> float:
    """The pause before a container is started for the nth time again."""
    return float(min(BACKOFF_FIRST * 2 ** min(restarts - 1, 16), BACKOFF_LAST))


def failure(annotation: str) -> tuple[str, int]:
    """(reason, exit code) of ``"<seconds>[:reason]"``."""
    reason = annotation.partition(":")[2] or ERROR
    return reason, CODE_OOM_KILLED if reason == OOM_KILLED else CODE_ERROR
