"""The life of a pod on a fake node, in one description: how its annotations are read, how long what takes, and what is then
in its status.

The kubelet of the embedded cluster lives by it in virtual time; the KWOK stages of real clusters are written from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from kailab.model import labels

READY_SECONDS = 1.0
"""From bound to ready, where ``kailab.dev/ready-seconds`` does not say otherwise."""
LONGEST_START = 3600.0
"""A pod that takes longer to become ready does so only as time is let pass, as one ends that runs for a while."""
TERMINATION_SECONDS = 1.0
"""From deleted to gone, where ``kailab.dev/termination-seconds`` does not say otherwise."""
TERMINATION = labels.TERMINATION_SECONDS
PLAIN_SLEEP = (
    "^(?:(?:[a-z/]*/)?(?:ba)?sh -c )?(?:exec )?(?:[a-z/]*/)?sleep (?P<seconds>[0-9]{1,9}(?:[.][0-9]{1,9})?)s?$"
)
"""A preStop command that only waits: its words with a space between them, as Python, Go and jq read regular expressions."""

BACKOFF_FIRST = 10.0  # as the kubelet's for crashing containers
BACKOFF_LAST = 300.0
LONGEST_SECONDS = 10.0 * 366 * 86400
"""What is asked for beyond this counts as this."""

COMPLETED = "Completed"
ERROR = "Error"
DEADLINE_EXCEEDED = "DeadlineExceeded"
DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"
"""What a kubelet says of a pod past its activeDeadlineSeconds."""
OOM_KILLED = "OOMKilled"
BACKING_OFF = "CrashLoopBackOff"
NOT_READY = "ContainersNotReady"
DONE_REASONS = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}
"""Why a pod that has ended is not ready, by its phase."""

CODE_COMPLETED = 0
CODE_ERROR = 1
CODE_OOM_KILLED = 137  # 128 + SIGKILL
CODE_STOPPED = 143
"""A pod that was told to leave while a finalizer holds it."""

STARTED_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
"""True from when a pod is ready."""
READY_CONDITIONS = ("Ready", "ContainersReady")
"""Not true while no container runs."""


class PodEvent(NamedTuple):
    """An event about a pod that leaves."""

    type: str
    reason: str
    message: str


CHECKPOINTED = PodEvent("Normal", "Checkpointed", "It saved its state before it left")
CHECKPOINT_LOST = PodEvent("Warning", "CheckpointLost", "Its grace period ended before its state was saved")


def seconds_of(text: Any, default: float | None) -> float | None:
    """A number of seconds from an annotation; what can't be read as one counts as absent."""
    if text is None:
        return default
    try:
        value = float(text)
    except (TypeError, ValueError):
        return default
    return min(value, LONGEST_SECONDS) if value >= 0 else default


def pre_stop_seconds(hook: Mapping[str, Any]) -> float | None:
    """How long a preStop hook takes, where it says so: ``sleep``, or a command that only sleeps. None: nobody knows.

    >>> pre_stop_seconds({"exec": {"command": ["/bin/sh", "-c", "sleep 90"]}})
    90.0
    """
    if isinstance(asleep := hook.get("sleep"), Mapping):
        return seconds_of(asleep.get("seconds"), None)
    run = hook.get("exec")
    command = run.get("command") if isinstance(run, Mapping) else None
    found = re.match(PLAIN_SLEEP, " ".join(map(str, command))) if isinstance(command, list) else None
    return seconds_of(found["seconds"], None) if found else None


def stopping_seconds(pod: Mapping[str, Any], grace: float) -> float | None:
    """How long a running pod takes from deleted to gone, where it says so; None: it leaves when it is asked to.

    ``kailab.dev/termination-seconds``, else the longest preStop hook of its containers, after which they are asked to
    leave. What a hook does that is no plain sleep can't be known on a fake node: it counts as taking the whole grace
    period, the most that a kubelet gives it. Never longer than the grace period (seconds)."""
    asked = seconds_of((pod["metadata"].get("annotations") or {}).get(TERMINATION), None)
    if asked is not None:
        return min(asked, grace)
    hooks = pre_stop_hooks(pod) if (pod.get("status") or {}).get("phase") == "Running" else []
    if not hooks:
        return None
    # Hooks of several containers run side by side: the pod is gone when the slowest of them is.
    known = [pre_stop_seconds(hook) for hook in hooks]
    return min(max(grace if one is None else one for one in known) + TERMINATION_SECONDS, grace)


def saving_seconds(pod: Mapping[str, Any]) -> float | None:
    """How long a running pod that was asked to save its state takes for it; None: it was not asked, or does not say.

    ``kailab.dev/checkpoint-seconds``, and 0 once it says that it is done."""
    notes = pod["metadata"].get("annotations") or {}
    if labels.CHECKPOINT_REQUESTED not in notes or (pod.get("status") or {}).get("phase") != "Running":
        return None
    takes = seconds_of(notes.get(labels.CHECKPOINT_SECONDS), None)
    # Whoever sets the mark need not say beforehand how long saving takes, if there is a hook that does it.
    if labels.CHECKPOINT_DONE in notes and (takes is not None or pre_stop_hooks(pod)):
        return 0.0
    return takes


def can_save(pod: Mapping[str, Any]) -> bool:
    """Whether a pod can save its state before it leaves: it says so, or has a preStop hook."""
    return labels.CHECKPOINT_SECONDS in (pod["metadata"].get("annotations") or ()) or bool(pre_stop_hooks(pod))


def pre_stop_hooks(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The preStop hooks of a pod's containers."""
    containers = pod["spec"].get("containers") or ()
    lives = [one["lifecycle"] for one in containers if isinstance(one.get("lifecycle"), Mapping)]
    hooks = [one.get("preStop") for one in lives]
    return [hook for hook in hooks if hook and isinstance(hook, Mapping)]


def backoff_seconds(restarts: int) -> float:
    """The pause before a container is started for the nth time again."""
    # The bound of the exponent changes nothing: it only keeps the power small, here and in ``stages.pods``.
    return float(min(BACKOFF_FIRST * 2 ** min(restarts - 1, 16), BACKOFF_LAST))


def failure(annotation: str) -> tuple[str, int]:
    """(reason, exit code) of ``"<seconds>[:reason]"``."""
    reason = annotation.partition(":")[2] or ERROR
    return reason, CODE_OOM_KILLED if reason == OOM_KILLED else CODE_ERROR
