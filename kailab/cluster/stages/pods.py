"""The stages of a pod. Of any pod at any time, one matches at most: KWOK would choose among several at random."""

from __future__ import annotations

from kailab.cluster import lifecycle
from kailab.cluster.protocol import Object
from kailab.cluster.stages import questions, templates
from kailab.cluster.stages.stage import Rule, absent, among, outside, present, stage
from kailab.model import labels

_PHASE = ".status.phase"
_POLICY = ".spec.restartPolicy"
_DEVICE = f'.metadata.annotations["{labels.RESERVED_DEVICE}"]'
_STAYS = absent(".metadata.deletionTimestamp")
_LEAVES = present(".metadata.deletionTimestamp")
_FREE = absent(".metadata.finalizers")
_HELD = present(".metadata.finalizers")
# Without grace and finalizers the API server itself removes a pod: there is nothing left to do.
_GRACE_LEFT = among(".metadata.deletionGracePeriodSeconds // 0 | . > 0", "true")
_ENDED = ("Succeeded", "Failed")
_HOW = {"stopped": None, "checkpointed": lifecycle.CHECKPOINTED, "checkpoint-lost": lifecycle.CHECKPOINT_LOST}


def pod_stages() -> list[Object]:
    """In the order of a pod's life."""
    return [_ready(), _reserved(), *_endings(), _restart(), *_departures(), _released()]


def _ready() -> Object:
    rules = [_STAYS, among(_PHASE, "Pending")]
    return stage("pod-ready", "Pod", rules, due=questions.TO_READY, patch=templates.READY)


def _reserved() -> Object:
    """A pod that holds a shared GPU for a real KAI tells which one it got: its program would ask the device plugin, and KAI's
    binder waits for it. It ends by no run time of its own, so no other stage matches."""
    rules = [
        _STAYS,
        among(".metadata.namespace", labels.RESERVATION_NAMESPACE),
        among(_PHASE, "Running"),
        absent(_DEVICE),
    ]
    # An annotation is no part of the status.
    return stage("gpu-reserved", "Pod", rules, patch=templates.RESERVED, subresource="")


def _endings() -> list[Object]:
    # A crashed container waits and has no start time: only ``pod-restarted`` matches then.
    runs = [_STAYS, among(_PHASE, "Running"), present(questions.STARTED)]
    ways: list[tuple[str, Rule, str, str]] = [
        ("pod-completed", outside(_POLICY, "Always"), "completed", templates.COMPLETED),
        ("pod-ran-out", among(_POLICY, "Always"), "completed", templates.RAN_OUT),
        ("pod-failed", among(_POLICY, "Never"), "failed", templates.FAILED),
        ("pod-crashed", outside(_POLICY, "Never"), "failed", templates.CRASHED),
    ]
    return [
        stage(name, "Pod", [*runs, policy, among(questions.ENDING, ending)], due=questions.TO_ENDING, patch=patch)
        for name, policy, ending, patch in ways
    ]


def _restart() -> Object:
    rules = [_STAYS, among(_PHASE, "Running"), among(questions.WAITING, lifecycle.BACKING_OFF)]
    return stage("pod-restarted", "Pod", rules, due=questions.TO_RESTART, patch=templates.RESTARTED)


def _departures() -> list[Object]:
    found = []
    for how, said in _HOW.items():
        leaves = among(questions.LEAVING, how)
        found.append(
            stage(
                f"pod-{how}",
                "Pod",
                [_LEAVES, _FREE, _GRACE_LEFT, leaves],
                due=questions.TO_LEAVING,
                delete=True,
                said=said,
            )
        )
        # A finalizer holds it: its containers end all the same, and it stays as a pod that has failed.
        held = [_LEAVES, _HELD, outside(_PHASE, *_ENDED), leaves]
        found.append(
            stage(f"pod-{how}-held", "Pod", held, due=questions.TO_LEAVING, patch=templates.STOPPED, said=said)
        )
    return found


def _released() -> Object:
    """A pod that has ended waits for its finalizers alone: no grace is left."""
    return stage("pod-released", "Pod", [_LEAVES, _HELD, among(_PHASE, *_ENDED), _GRACE_LEFT], delete=True)
