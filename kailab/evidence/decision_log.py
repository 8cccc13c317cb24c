"""What the scheduler decided, cycle by cycle, with names where the engine has UIDs.

Names must outlive what they name (an evicted pod is gone by the time someone asks), so the index is fed by a watch and
never forgets. A PodGroup that stays pending for the same reason is logged once, not once per cycle.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

import msgspec

from kailab.cluster.protocol import Cluster, Watch
from kailab.engine.decisions import Decisions, Evict, Pending
from kailab.evidence.canonical import rfc3339
from kailab.evidence.standing import owner


class Named(NamedTuple):
    """``namespace/name`` of a pod or PodGroup; a pod's ``app`` label and its owner as ``Kind/name``."""

    name: str
    app: str = ""
    owner: str = ""


class Naming(Protocol):
    """Knows pods and PodGroups by UID."""

    def refresh(self) -> None: ...

    def everyone(self) -> Iterable[Named]: ...

    def of(self, uid: str) -> Named: ...

    def close(self) -> None: ...


class Names:
    """UID -> name of every pod and PodGroup that there was since it began to watch: ``at_once``, or when first asked."""

    def __init__(self, cluster: Cluster, *, at_once: bool = True) -> None:
        self._cluster = cluster
        self._watch: Watch | None = None
        self._known: dict[str, Named] = {}
        if at_once:
            self._begin()

    def _begin(self) -> Watch:
        if self._watch is None:
            self._watch = self._cluster.watch(["Pod", "PodGroup"])
        return self._watch

    def refresh(self) -> None:
        """Take in what has come since the last call."""
        for event in self._begin().poll():
            if event.type == "ADDED":
                metadata = event.object["metadata"]
                name = f"{metadata.get('namespace', '')}/{metadata['name']}"
                if event.kind == "Pod":
                    app = (metadata.get("labels") or {}).get("app", "")
                    self._known[metadata["uid"]] = Named(name, app, owner(event.object))
                else:
                    self._known[metadata["uid"]] = Named(name)

    def everyone(self) -> Iterable[Named]:
        """All that there ever were."""
        self.refresh()
        return self._known.values()

    def of(self, uid: str) -> Named:
        """The UID itself stands in for a name that is not known."""
        return self._known.get(uid) or Named(uid)

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()


class DecisionLog:
    """Entries of all cycles (``keep_all``), or only evictions and what is pending now: what explanations need.

    An entry is a dict: ``cycle``, ``t`` (seconds since the lab opened), ``time``, ``action``, ``decision``
    (bind, pipeline, evict, pending), the objects by name, ``reason`` and ``numbers``."""

    def __init__(self, names: Naming, opened: float, keep_all: bool = False) -> None:
        self.names = names
        self.entries: list[dict[str, Any]] = []
        self.evictions: list[dict[str, Any]] = []
        self.last: Decisions | None = None
        self.cycle = 0
        self.keep_all = keep_all
        self._opened = opened
        self._pending: dict[str, tuple[str, str]] = {}

    def take(self, decisions: Decisions) -> list[dict[str, Any]]:
        """Log one cycle; the entries it gave (all kinds, even if only evictions are kept)."""
        self.cycle += 1
        self.last = decisions
        if not (self.keep_all or decisions.evictions):
            return []
        self.names.refresh()
        entries = list(self._entries(decisions))
        self.evictions.extend(entry for entry in entries if entry["decision"] == "evict")
        if self.keep_all:
            self.entries.extend(entries)
        return entries

    def observe(self, entries: list[dict[str, Any]]) -> None:
        """Log what was seen of a scheduler that tells nothing (kailab.evidence.observed)."""
        self.evictions.extend(entry for entry in entries if entry["decision"] == "evict")
        if self.keep_all:
            self.entries.extend(entries)

    def _entries(self, decisions: Decisions) -> Iterable[dict[str, Any]]:
        of = self.names.of
        head = {
            "cycle": self.cycle,
            "t": round(decisions.now - self._opened, 6),
            "time": rfc3339(decisions.now),
        }
        # Evictions first: that is the order in which they make sense to a reader, and in which they are carried out.
        for evict in decisions.evictions:
            yield {**head, **self._evict(evict)}
        for bind in decisions.binds:
            pod = of(bind.task)
            entry = {
                **head,
                "action": bind.action,
                "decision": "bind",
                "pod": pod.name,
                "app": pod.app,
                "podgroup": of(bind.podgroup).name,
                "queue": bind.queue,
                "node": bind.node,
            }
            if bind.gpu_groups:
                entry["gpu_groups"] = bind.gpu_groups
            yield entry
        for promise in decisions.pipelines:
            pod = of(promise.task)
            yield {
                **head,
                "action": promise.action,
                "decision": "pipeline",
                "pod": pod.name,
                "app": pod.app,
                "podgroup": of(promise.podgroup).name,
                "queue": promise.queue,
                "node": promise.node,
                "moved": promise.moved,
                "reason": "waits for leaving pods to free the place",
            }
        yield from self._pendings(decisions.pending, head)

    def _evict(self, evict: Evict) -> dict[str, Any]:
        of = self.names.of
        pod = of(evict.task)
        return {
            "action": evict.action,
            "decision": "evict",
            "pod": pod.name,
            "app": pod.app,
            "owner": pod.owner,
            "podgroup": of(evict.podgroup).name,
            "queue": evict.queue,
            "node": evict.node,
            "beneficiary": of(evict.beneficiary).name if evict.beneficiary else "",
            "beneficiary_queue": evict.beneficiary_queue,
            "reason": evict.message,
            "taking": msgspec.to_builtins(evict.taking),
            "shares": {
                queue: {"before": msgspec.to_builtins(before), "after": msgspec.to_builtins(after)}
                for queue, (before, after) in evict.shares.items()
            },
        }

    def _pendings(self, pending: tuple[Pending, ...], head: dict[str, Any]) -> Iterable[dict[str, Any]]:
        now: dict[str, tuple[str, str]] = {}
        for entry in pending:
            now[entry.podgroup] = said = (str(entry.code), entry.message)
            if self._pending.get(entry.podgroup) != said:
                yield {**head, **self.pending_entry(entry)}
        self._pending = now

    def pending_entry(self, entry: Pending) -> dict[str, Any]:
        """A pending PodGroup and its reason, with names."""
        of = self.names.of
        return {
            "action": entry.tried[-1][0] if entry.tried else "allocate",
            "decision": "pending",
            "podgroup": of(entry.podgroup).name,
            "pods": [of(task).name for task in entry.tasks],
            "queue": entry.queue,
            "reason": str(entry.code),
            "message": entry.message,
            "numbers": entry.numbers,
            "queue_context": entry.queue_context,
            "fits": [
                {"pod": of(fit.task).name, "nodes": fit.nodes, "reasons": [list(reason) for reason in fit.reasons]}
                for fit in entry.fits
            ],
            "tried": [list(step) for step in entry.tried],
        }

    def pending_now(self) -> list[dict[str, Any]]:
        """Every PodGroup that the last cycle left pending."""
        if self.last is None:
            return []
        self.names.refresh()
        return [self.pending_entry(entry) for entry in self.last.pending]
