"""Backoff for pods whose binding failed.

A pod whose binding failed is held back for a while: the cycle treats it as one that fits nowhere, so it takes no capacity from others and
its gang does not start without it. A pod whose bind has no answer counts as bound in the cache until an inquiry tells the truth; only if it
turns out not to be bound is it held back for the rest of its pause. A change of the pod ends the pause. KAI leaves this to its
binder, which retries a BindRequest with growing pauses up to its backoffLimit, while the pod keeps its place, and forgets the failure with the BindRequest.

A pod whose binding was *refused* (not one without an answer) evicts nobody and is bound before the rest of its gang, until a binding
succeeds or the pod changes. So nobody is evicted in vain, and no gang starts in part again and again.
"""

from __future__ import annotations

from typing import Any

from kailab.cluster.protocol import Object
from kailab.cluster.retries import Retries
from kailab.errors import ApiError, Conflict
from kailab.model import labels as names
from kailab.model.objects import labels_of, metadata_of
from kailab.scheduler.mirror import Mirror

REFUSED = "Binding failed"
"""Begins the reason of a pod whose last binding was refused."""
UNCONFIRMED = "Binding did not go through"
"""Begins the reason of a pod whose binding got no answer or a conflict, which is no refusal."""
CONFLICTS = 5
"""After this many conflicts in a row a pod counts as refused."""


class BindBackoff:
    """Holds pods back in a mirror, which shows them as blocked."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._retries: Retries[str] = Retries()
        self._tried: dict[str, Any] = {}  # uid -> the content of the pod that could not be bound
        self._held_until: dict[str, float] = {}
        self._refused: set[str] = set()

    def carry_on(self, other: BindBackoff) -> None:
        """Take over the state of another backoff, whose mirror may show the same pods."""
        self._retries.carry_on(other._retries)
        self._tried |= other._tried
        self._held_until |= other._held_until
        self._refused |= other._refused
        for uid in other._held_until:
            self._mirror.hold_back(uid, other._mirror.held_back_reason(uid))

    @property
    def next_at(self) -> float | None:
        return min(self._held_until.values(), default=None)

    @property
    def refused_pods(self) -> frozenset[str]:
        """UIDs of pods whose last binding was refused and that have not changed since."""
        return frozenset(self._refused)

    def next_retry_since(self, since: float) -> float | None:
        """The time of the next retry that is worth waiting for (``Retries.worth_waiting``)."""
        worth = self._retries.worth_waiting
        return min((until for uid, until in self._held_until.items() if worth(uid, since)), default=None)

    def failed(self, uid: str, error: ApiError, now: float) -> None:
        """Hold back a pod that could not be bound."""
        pod = self._mirror.pods.get(uid)
        if pod is None:
            return
        known = _relevant_content(pod)
        # For a changed pod the pauses begin short again.
        if self._tried.get(uid, known) != known:
            self._retries.forget(uid)
        self._tried[uid] = known
        self._held_until[uid] = self._retries.failed(uid, now)
        # After a conflict the next try knows the new state. A conflict that stays is a refusal.
        transient = isinstance(error, Conflict) and self._retries.failures(uid) < CONFLICTS
        if error.unanswered or transient:
            self._refused.discard(uid)
        else:
            self._refused.add(uid)
        problem = REFUSED if uid in self._refused else UNCONFIRMED
        self._mirror.hold_back(uid, f"{problem} ({error.reason}); it is tried again after a pause")

    def bound(self, uid: str) -> None:
        if uid in self._tried:
            self._forget(uid)

    def release_due(self, now: float) -> None:
        """Release pods whose pause is over, and pods that have changed or are gone."""
        for uid in list(self._tried):
            pod = self._mirror.pods.get(uid)
            if pod is None or _relevant_content(pod) != self._tried[uid]:
                self._forget(uid)
            # The count of failures and the refusal stay until a binding succeeds or the pod changes.
            elif uid in self._held_until and self._held_until[uid] <= now:
                del self._held_until[uid]
                self._mirror.hold_back(uid, None)

    def _forget(self, uid: str) -> None:
        self._retries.forget(uid)
        del self._tried[uid]
        self._refused.discard(uid)
        self._held_until.pop(uid, None)
        self._mirror.hold_back(uid, None)


def _relevant_content(pod: Object) -> tuple[Any, ...]:
    """The content of a pod whose change may let its binding succeed: without its node and the labels written by bindings."""
    # The cluster's cache shows an unanswered bind as carried out, so a new nodeName alone is not a change of the pod.
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    labels = {
        key: value
        for key, value in labels_of(pod).items()
        if key != names.GPU_GROUP and not key.startswith(names.GPU_MULTI_GROUP_PREFIX)
    }
    return spec, labels, metadata_of(pod).get("deletionTimestamp")
