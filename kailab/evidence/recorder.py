"""Keeps what happens in one lab, and writes it into a folder.

While a lab runs this only holds on to references (objects handed out by a cluster never change), so recording costs
next to nothing; all the writing happens in ``write``. Nothing here looks at a wall clock.

    lab.json                fleet, backend, scheduler under test, engine configuration
    manifests/NN-name       what was applied, byte for byte
    steps.json              what was done, in order, with the virtual time
    states/NN-operation.json    pods, PodGroups, queues and nodes after each step, a row each
    before/, after/         nodes, queues, podgroups, pods in full
    decisions.jsonl         every decision of every cycle
    events.json             Kubernetes Events
    pending.json            what stayed pending, and why
    expectations.jsonl      what was expected and seen
    timeline.json, timeline.txt
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kailab.cluster.protocol import Cluster, Object
from kailab.evidence import canonical, timeline
from kailab.evidence.standing import standing

KEPT_WHOLE = {"nodes": "Node", "queues": "Queue", "podgroups": "PodGroup", "pods": "Pod"}


class Recorder:
    """One lab's record. ``lab`` names it among the labs of a test."""

    def __init__(self, lab: str = "lab") -> None:
        self.lab = lab
        self.facts: dict[str, Any] = {}
        self.steps: list[dict[str, Any]] = []
        self.decisions: list[dict[str, Any]] = []
        self.expectations: list[dict[str, Any]] = []
        self._manifests: list[tuple[str, bytes]] = []
        self._states: list[tuple[str, dict[str, Any]]] = []
        self._moments: list[dict[str, Any]] = []
        self._before: dict[str, list[Object]] = {}
        self._after: dict[str, list[Object]] = {}
        self._events: list[Object] = []
        self._pending: list[dict[str, Any]] = []
        self._cluster: Cluster | None = None
        self._opened = 0.0

    @property
    def is_open(self) -> bool:
        return self._cluster is not None

    def open(self, cluster: Cluster, facts: Mapping[str, Any], opened: float | None = None) -> None:
        """The lab is up. ``facts``: plain values that tell what it is made of."""
        self._cluster = cluster
        self._opened = cluster.now() if opened is None else opened
        self.facts = dict(facts)
        self._before = _whole(cluster)

    def manifest(self, name: str, text: bytes) -> str:
        """Keep what is about to be applied. Returns the name under which it is kept."""
        kept = f"{len(self._manifests) + 1:02d}-{canonical.safe_name(name)}"
        self._manifests.append((kept, text))
        return kept

    def step(self, operation: str, text: str = "", *, state: bool = False, **detail: Any) -> None:
        """Something was done (apply, delete, scale, settle, advance). ``state``: note how the cluster stands
        after it."""
        entry = {"n": len(self.steps) + 1, "t": self._t(), "operation": operation, "text": text, **detail}
        self.steps.append(entry)
        self._moments.append({"kind": "step", "t": entry["t"], "operation": operation, "text": text})
        if state and self._cluster is not None:
            now = standing(self._cluster)
            if not self._states or self._states[-1][1] != now:
                self._states.append((f"{entry['n']:02d}-{operation}", now))

    def cycle(self, entries: list[dict[str, Any]]) -> None:
        """The named entries that one cycle added to the decision log."""
        if entries:
            self.decisions.extend(entries)
            self._moments.append({"kind": "cycle", "t": entries[0]["t"], "entries": entries})

    def expectation(self, subject: str, expected: str, seen: str, held: bool) -> None:
        """An expectation was checked."""
        entry = {"t": self._t(), "subject": subject, "expected": expected, "seen": seen, "held": held}
        self.expectations.append(entry)
        self._moments.append({"kind": "expectation", **entry})

    def close(self, pending: list[dict[str, Any]]) -> None:
        """The lab goes down: take the last look. ``pending``: the reasons of what stayed pending."""
        if self._cluster is None:
            return
        self._after = _whole(self._cluster)
        self._events = self._cluster.list("Event")
        self._pending = pending
        self._cluster = None

    def timeline(self) -> list[dict[str, Any]]:
        """See kailab.evidence.timeline."""
        return timeline.tell(self._moments)

    def write(self, folder: Path) -> None:
        """All of it into ``folder``, which is made."""
        folder.mkdir(parents=True)
        (folder / "lab.json").write_bytes(canonical.pretty(self.facts))
        (folder / "steps.json").write_bytes(canonical.pretty(self.steps))
        (folder / "decisions.jsonl").write_bytes(canonical.lines(self.decisions))
        (folder / "expectations.jsonl").write_bytes(canonical.lines(self.expectations))
        (folder / "pending.json").write_bytes(canonical.pretty(self._pending))
        (folder / "events.json").write_bytes(canonical.pretty([_event(event) for event in self._events]))
        told = self.timeline()
        (folder / "timeline.json").write_bytes(canonical.pretty(told))
        (folder / "timeline.txt").write_bytes(timeline.render(told).encode())
        _write_all(folder / "manifests", dict(self._manifests))
        _write_all(folder / "states", {f"{name}.json": canonical.pretty(state) for name, state in self._states})
        for name, objects in (("before", self._before), ("after", self._after)):
            _write_all(folder / name, {f"{kind}.json": canonical.pretty(found) for kind, found in objects.items()})

    def _t(self) -> float:
        if self._cluster is None:
            return self.steps[-1]["t"] if self.steps else 0.0
        return round(self._cluster.now() - self._opened, 6)


def _whole(cluster: Cluster) -> dict[str, list[Object]]:
    return {name: cluster.list(kind) for name, kind in KEPT_WHOLE.items()}


def _write_all(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)


def _event(event: Object) -> dict[str, Any]:
    involved = event.get("involvedObject") or {}
    return {
        "type": event.get("type", ""),
        "reason": event.get("reason", ""),
        "message": event.get("message", ""),
        "object": f"{involved.get('kind', '')} {involved.get('namespace', '')}/{involved.get('name', '')}",
        "count": event.get("count", 1),
        "first": event.get("firstTimestamp"),
        "last": event.get("lastTimestamp"),
    }
