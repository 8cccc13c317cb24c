"""The life of a pod on a fake node: how its annotations are read, how long each stage takes, and the status that
follows.

The kubelet of the embedded cluster follows it in virtual time; the KWOK stages of real clusters are written from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from kailab.model import labels
from kailab.model.objects import annotations_of

READY_SECONDS = 1.0
"""From bound to ready, unless ``kailab.dev/ready-seconds`` says otherwise."""
LONGEST_START = 3600.0
"""Settling does not wait for a pod that takes longer to become ready: the clock must be advanced for it."""
TERMINATION_SECONDS = 1.0
"""From deleted to gone, unless ``kailab.dev/termination-seconds`` says otherwise."""
TERMINATION = labels.TERMINATION_SECONDS
PLAIN_SLEEP = (
    "^(?:(?:[a-z/]*/)?(?:ba)?sh -c )?(?:exec )?(?:[a-z/]*/)?sleep (?P<seconds>[0-9]{1,9}(?:[.][0-9]{1,9})?)s?$"
)
"""A preStop command that only sleeps: its words joined by spaces. The syntax is valid for Python, Go and jq."""

BACKOFF_FIRST = 10.0  # as the kubelet's for crashing containers
BACKOFF_LAST = 300.0
LONGEST_SECONDS = 10.0 * 366 * 86400
"""The upper bound of every duration that an annotation gives."""

COMPLETED = "Completed"
ERROR = "Error"
DEADLINE_EXCEEDED = "DeadlineExceeded"
DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"
"""The kubelet's message for a pod past its activeDeadlineSeconds."""
OOM_KILLED = "OOMKilled"
BACKING_OFF = "CrashLoopBackOff"
NOT_READY = "ContainersNotReady"
DONE_REASONS = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}
"""Phase of an ended pod -> why it is not ready."""

CODE_COMPLETED = 0
CODE_ERROR = 1
CODE_OOM_KILLED = 137  # 128 + SIGKILL
CODE_STOPPED = 143
"""Of a deleted pod that a finalizer keeps."""

STARTED_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
"""True from when a pod is ready."""
READY_CONDITIONS = ("Ready", "ContainersReady")
"""False while no container runs."""


class PodEvent(NamedTuple):
    """An event about a pod that leaves."""

    type: str
    reason: str
    message: str


CHECKPOINTED = PodEvent("Normal", "Checkpointed", "It saved its state before it left")
CHECKPOINT_LOST = PodEvent("Warning", "CheckpointLost", "Its grace period ended before its state was saved")


def seconds_of(text: Any, default: float | None) -> float | None:
    """Seconds in an annotation's text; ``default`` if it is no number."""
    if text is None:
        return default
    try:
        value = float(text)
    except (TypeError, ValueError):
        return default
    return min(value, LONGEST_SECONDS) if value >= 0 else default


def pre_stop_seconds(hook: Mapping[str, Any]) -> float | None:
    """Seconds that a preStop hook takes: its ``sleep``, or that of a command that only sleeps. None: unknown.

    >>> pre_stop_seconds({"exec": {"command": ["/bin/sh", "-c", "sleep 90"]}})
    90.0
    """
    if isinstance(asleep := hook.get("sleep"), Mapping):
        return seconds_of(asleep.get("seconds"), None)
    run = hook.get("exec")
    command = run.get("command") if isinstance(run, Mapping) else None
    match = re.match(PLAIN_SLEEP, " ".join(map(str, command))) if isinstance(command, list) else None
    return seconds_of(match["seconds"], None) if match else None


def stopping_seconds(pod: Mapping[str, Any], grace: float) -> float | None:
    """Seconds from the deletion of a running pod until it is gone, at most ``grace``; None: nothing in the pod says it.

    They are ``kailab.dev/termination-seconds``, else the longest preStop hook of its containers. A hook that is no
    plain sleep can't run on a fake node: it counts as the whole grace period, the most that a kubelet gives it.
    """
    annotated = seconds_of(annotations_of(pod).get(TERMINATION), None)
    if annotated is not None:
        return min(annotated, grace)
    hooks = pre_stop_hooks(pod) if (pod.get("status") or {}).get("phase") == "Running" else []
    if not hooks:
        return None
    # Hooks of several containers run side by side.
    known = [pre_stop_seconds(hook) for hook in hooks]
    return min(max(grace if seconds is None else seconds for seconds in known) + TERMINATION_SECONDS, grace)


def saving_seconds(pod: Mapping[str, Any]) -> float | None:
    """Seconds in which a running pod that was asked to save its state does so; None: it was not asked, or does not say.

    They are ``kailab.dev/checkpoint-seconds``, and 0 once the pod reports that it is done.
    """
    notes = annotations_of(pod)
    if labels.CHECKPOINT_REQUESTED not in notes or (pod.get("status") or {}).get("phase") != "Running":
        return None
    takes = seconds_of(notes.get(labels.CHECKPOINT_SECONDS), None)
    # A pod with a hook that saves need not announce how long saving takes.
    if labels.CHECKPOINT_DONE in notes and (takes is not None or pre_stop_hooks(pod)):
        return 0.0
    return takes


def can_save(pod: Mapping[str, Any]) -> bool:
    """True if a pod says that it can save its state before it leaves, or has a preStop hook."""
    return labels.CHECKPOINT_SECONDS in annotations_of(pod) or bool(pre_stop_hooks(pod))


def pre_stop_hooks(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    containers = pod["spec"].get("containers") or ()
    lives = [container["lifecycle"] for container in containers if isinstance(container.get("lifecycle"), Mapping)]
    hooks = [container.get("preStop") for container in lives]
    return [hook for hook in hooks if hook and isinstance(hook, Mapping)]


def backoff_seconds(restarts: int) -> float:
    """The pause before the nth restart of a container."""
    # The bound of the exponent only keeps the power small; ``cluster.stages`` has it, too.
    return float(min(BACKOFF_FIRST * 2 ** min(restarts - 1, 16), BACKOFF_LAST))


def failure(annotation: str) -> tuple[str, int]:
    """(reason, exit code) of ``"<seconds>[:reason]"``."""
    reason = annotation.partition(":")[2] or ERROR
    return reason, CODE_OOM_KILLED if reason == OOM_KILLED else CODE_ERROR
