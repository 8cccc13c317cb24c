"""Pods that can't be bound though they fit are held back, each for a while of its own.

Such a pod counts as one that fits nowhere until its pause is over: neither does it keep a place from others, nor is its gang
begun without it. A change of the pod ends the pause. KAI's scheduler leaves this to its binder, which tries a BindRequest again
with growing pauses up to its backoffLimit while the pod keeps its place, and forgets the failure with the BindRequest.

A pod that was *refused* (not one of which no answer came) has nobody evicted for it, and is bound before the rest of its gang,
until a binding of it works or it changes: neither is anyone to go in vain, nor a gang to be begun in part again and again.
"""

from __future__ import annotations

from typing import Any

from kailab.cluster.protocol import Object
from kailab.cluster.retries import Retries
from kailab.errors import ApiError, Conflict
from kailab.model import labels as names
from kailab.scheduler.mirror import Mirror

REFUSED = "Binding failed"
"""How a reason begins that the cycle tells of a pod whose last binding was refused."""
PASSING = "Binding did not go through"
"""The same where no answer came, or where the cluster had changed meanwhile: that is no refusal."""
CONFLICTS = 5
"""Conflicts in a row from which on a pod counts as refused."""


class BindBackoff:
    """Over a mirror, which shows the pods that are held back as blocked."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._retries: Retries[str] = Retries()
        self._as_tried: dict[str, Any] = {}  # uid -> what was tried to bind
        self._held: dict[str, float] = {}
        self._refused: set[str] = set()

    def carry_on(self, other: BindBackoff) -> None:
        """Remember what another remembers, over a mirror that may show the same pods."""
        self._retries.carry_on(other._retries)
        self._as_tried |= other._as_tried
        self._held |= other._held
        self._refused |= other._refused
        for uid in other._held:
            self._mirror.hold_back(uid, other._mirror.why_held_back(uid))

    @property
    def next_at(self) -> float | None:
        return min(self._held.values(), default=None)

    @property
    def refused(self) -> frozenset[str]:
        """UIDs of pods whose last binding was refused, and that are as they were then."""
        return frozenset(self._refused)

    def due_since(self, since: float) -> float | None:
        """When the next pod is tried again whose next try is worth waiting for (``Retries.worth_waiting``)."""
        worth = self._retries.worth_waiting
        return min((until for uid, until in self._held.items() if worth(uid, since)), default=None)

    def failed(self, uid: str, error: ApiError, now: float) -> None:
        """A pod could not be bound."""
        pod = self._mirror.pods.get(uid)
        if pod is None:
            return
        known = _what_counts(pod)
        # A pod that has changed is another try: its pauses begin short again.
        if self._as_tried.get(uid, known) != known:
            self._retries.done(uid)
        self._as_tried[uid] = known
        self._held[uid] = self._retries.failed(uid, now)
        # A conflict says that the cluster is not as it was believed to be: the next try knows better. One that stays is a refusal.
        passing = isinstance(error, Conflict) and self._retries.failures(uid) < CONFLICTS
        if error.doubtful or passing:
            self._refused.discard(uid)
        else:
            self._refused.add(uid)
        words = REFUSED if uid in self._refused else PASSING
        self._mirror.hold_back(uid, f"{words} ({error.reason}); it is tried again after a pause")

    def bound(self, uid: str) -> None:
        if uid in self._as_tried:
            self._forget(uid)

    def look(self, now: float) -> None:
        """Let go of those whose pause is over, and of those that have changed or are gone."""
        for uid in list(self._as_tried):
            pod = self._mirror.pods.get(uid)
            if pod is None or _what_counts(pod) != self._as_tried[uid]:
                self._forget(uid)
            # The count of failures and the refusal stay: only a binding that works, or a change of the pod, takes them
            # away.
            elif uid in self._held and self._held[uid] <= now:
                del self._held[uid]
                self._mirror.hold_back(uid, None)

    def _forget(self, uid: str) -> None:
        self._retries.done(uid)
        del self._as_tried[uid]
        self._refused.discard(uid)
        self._held.pop(uid, None)
        self._mirror.hold_back(uid, None)


def _what_counts(pod: Object) -> tuple[Any, ...]:
    """What of a pod could make its binding go well: not its node, nor what is written for its binding."""
    metadata = pod["metadata"]
    # A try in doubt counts as bound until the server says otherwise; that alone is no change of the pod.
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    labels = {
        key: value
        for key, value in (metadata.get("labels") or {}).items()
        if key != names.GPU_GROUP and not key.startswith(names.GPU_MULTI_GROUP_PREFIX)
    }
    return spec, labels, metadata.get("deletionTimestamp")
