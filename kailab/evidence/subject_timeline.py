"""What happened to one subject of a lab, in order of time: created, waited and why, bound, evicted and for whom, ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from kailab.engine.decisions import EvictionGround
from kailab.engine.snapshot.amounts import quantity_text
from kailab.engine.working.queues import NAMES
from kailab.errors import InputError
from kailab.evidence.canonical import as_plain_json, format_rfc3339
from kailab.evidence.entries import Decision, GroupWaits, PodBound, PodEvicted, PodPromised, WriteRefused
from kailab.evidence.history import LabHistory, PodPast
from kailab.evidence.shares import queue_ancestry
from kailab.evidence.wording import some


@dataclass(frozen=True)
class TimelineEvent:
    """``t``: seconds since the lab opened. ``what``: created, waits, bound, promised, refused, evicted, moved (it
    has another place at once), ended, gone. ``pods``: full names. ``decision``: the first
    decision behind it, in the form of evidence."""

    t: float
    what: str
    text: str
    pods: tuple[str, ...] = ()
    cycle: int | None = None
    decision: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SubjectTimeline:
    """``kind``, ``name``: the subject; empty for all pods."""

    kind: str
    namespace: str
    name: str
    opened: float
    happenings: tuple[TimelineEvent, ...]
    since: float = 0.0

    def lines(self) -> list[str]:
        title = f"{self.kind} {f'{self.namespace}/' if self.namespace else ''}{self.name}" if self.kind else "All pods"
        since = format_rfc3339(self.opened + self.since)
        if not self.happenings:
            return [f"{title}: nothing has happened since {since}."]
        return [
            f"{title}, since {since}:",
            *(f"{happening.t:>8g} s  {happening.text}" for happening in self.happenings),
        ]

    def data(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "opened": format_rfc3339(self.opened),
            "since": format_rfc3339(self.opened + self.since),
            "happenings": [
                {**asdict(event), "time": format_rfc3339(self.opened + event.t)} for event in self.happenings
            ],
        }


def subject_timeline(
    history: LabHistory, kind: str = "", name: str = "", namespace: str = "default", since: float = 0.0
) -> SubjectTimeline:
    """The timeline of a pod, PodGroup, queue (with the queues below it) or workload; of all pods without a kind. ``since``: seconds since the lab opened, where it
    begins. Raises InputError if the history has no such subject."""
    belongs = subject_pods(history, kind, name, namespace)
    pods = {pod.name: pod for pod in history.pods.values() if belongs(pod)}
    if kind and not pods:
        raise InputError(f"no {kind} {name!r} with pods in this history{_near(history, kind, namespace)}")
    events = [*_pod_lifetimes(pods.values()), *_decided(history, pods)]
    spaced = "" if not kind or kind == "Queue" else namespace
    return SubjectTimeline(
        kind, spaced, name, history.opened,
        tuple(sorted((event for event in events if event.t >= since), key=lambda event: (event.t, _ORDER[event.what]))),
        since,
    )  # fmt: skip


_ORDER = {
    name: place
    for place, name in enumerate(
        ("created", "evicted", "moved", "ended", "gone", "bound", "promised", "refused", "waits")
    )
}
"""The order within one moment: events that free capacity come before those that use it."""


def subject_pods(history: LabHistory, kind: str, name: str, namespace: str) -> Callable[[PodPast], bool]:
    """The rule by which pods belong to a subject. Raises InputError for a queue that the history does not have."""
    if kind != "Queue":
        return lambda pod: not kind or pod.is_of(kind, name, namespace)
    known = history.queue_parents
    if name not in known and not any(pod.queue == name for pod in history.pods.values()):
        raise InputError(f"no queue {name!r} in this history; there are: {', '.join(sorted(known)) or 'none'}")
    # The queue may be known only from its pods.
    parents = {name: "", **known}
    return lambda pod: name in queue_ancestry(pod.queue, parents)


def _near(history: LabHistory, kind: str, namespace: str) -> str:
    """The names of this kind that have pods: those in the namespace, or else those in others, with their namespaces."""
    names: set[str] = set()
    for pod in history.pods.values():
        inside, _, own = pod.name.partition("/")
        owners = (owner.partition("/")[2] for owner in pod.owners if owner.startswith(f"{kind}/"))
        names |= {f"{inside}/{name}" for name in ((own,) if kind == "Pod" else owners)}
    here = {name.partition("/")[2] for name in names if name.startswith(f"{namespace}/")}
    if here:
        return f"; there are: {some(sorted(here), 8)}"
    return f"; there are in other namespaces: {some(sorted(names), 8)}" if names else ""


def _pod_lifetimes(pods: Iterable[PodPast]) -> Iterator[TimelineEvent]:
    """Creation, end and deletion of pods; pods of one moment are joined."""
    moments: dict[tuple[float, str, str], list[str]] = {}
    for pod in pods:
        # A pod that was created twice at the same moment appears once.
        for t in dict.fromkeys(pod.created):
            moments.setdefault((t, "created", "created"), []).append(pod.name)
        for t in pod.gone:
            moments.setdefault((t, "gone", "deleted"), []).append(pod.name)
        if pod.ended is not None:
            moments.setdefault((pod.ended, "ended", f"ended ({pod.phase})"), []).append(pod.name)
    for (t, what, description), names in moments.items():
        yield TimelineEvent(t, what, f"{_pods(names)} {description}", tuple(names))


def _decided(history: LabHistory, pods: dict[str, PodPast]) -> Iterator[TimelineEvent]:
    """Decisions about pods; equal decisions of one cycle are joined."""
    groups = {pod.podgroup for pod in pods.values() if pod.podgroup}
    together: dict[tuple[int, float, str, str], list[Decision]] = {}
    for entry in history.decisions:
        if isinstance(entry, GroupWaits):
            # Also by pods, because the PodGroup of a pod known only from records is not known.
            concerned = entry.podgroup in groups or any(pod in pods for pod in entry.pods)
        else:
            concerned = entry.pod in pods
        if concerned:
            what = "moved" if isinstance(entry, PodEvicted) and entry.is_move else _WHAT[type(entry)]
            together.setdefault((entry.cycle, entry.t, what, _why(history, entry)), []).append(entry)
    for (cycle, t, what, why), entries in together.items():
        names = [name for entry in entries for name in (entry.pods if isinstance(entry, GroupWaits) else (entry.pod,))]
        text = _describe(what, _pods(list(dict.fromkeys(names))), _nodes(entries), why) + _amounts(entries)
        yield TimelineEvent(t, what, text, tuple(dict.fromkeys(names)), cycle, as_plain_json(entries[0]))


_WHAT: Mapping[type, str] = {
    PodBound: "bound", PodPromised: "promised", PodEvicted: "evicted", WriteRefused: "refused", GroupWaits: "waits",
}  # fmt: skip


def _why(history: LabHistory, entry: Decision) -> str:
    """The text beside pods and nodes; equal for joined decisions."""
    if isinstance(entry, GroupWaits):
        return f"{entry.reason}: {message_without_names(entry)}"
    if isinstance(entry, WriteRefused):
        return f"{entry.verb} was refused: {' '.join(entry.reason.split())}"
    by = f"by {entry.action}"
    # Allocate is the normal case; only other actions are named.
    if not isinstance(entry, PodEvicted):
        return "" if entry.action == "allocate" else by
    if not entry.beneficiary:
        return f"{by}: {' '.join(entry.reason.split())}"
    beneficiary = history.workloads.get(entry.beneficiary, f"PodGroup {entry.beneficiary}")
    return f"{by} for {beneficiary} of queue {entry.beneficiary_queue}{_ground_text(entry.ground)}"


def message_without_names(entry: GroupWaits) -> str:
    """Why a PodGroup waits, without names of its pods."""
    text = " ".join(entry.message.split())
    for pod in entry.pods:
        text = text.replace(f"pod {pod}", "it")
    return text


def _ground_text(ground: EvictionGround | None) -> str:
    if ground is None:
        return ""
    if ground.priorities:
        victim, beneficiary = ground.priorities
        return f": priority {beneficiary} over {victim} in queue {ground.queue}"
    if not ground.resource:
        return ""
    return f"; decided between {ground.queue} and {ground.beside}"


def _amounts(entries: list[Decision]) -> str:
    """The amount that the victims' queue held before the first eviction and after the last."""
    grounds = [
        entry.ground for entry in entries if isinstance(entry, PodEvicted) and entry.ground and entry.ground.resource
    ]
    if not grounds or not (resource := grounds[0].resource):
        return ""
    # Evictions of one cycle are in order, each with the amounts before and after it.
    first, last, r = grounds[0], grounds[-1], NAMES.index(resource)
    held, bound, left = (quantity_text(r, amount) for amount in (first.before, first.bound, last.after))
    return f": {first.queue} held {held}, beyond its {first.rule} of {bound}; {left} without what was taken"


def _describe(what: str, many: str, nodes: str, why: str) -> str:
    if what == "waits":
        return f"{many} waiting: {why}"
    if what == "refused":
        return f"{many}: {why}"
    verb = {"bound": "bound to", "promised": "promised a place on", "evicted": "evicted from", "moved": "moved from"}
    return f"{many} {verb[what]} {nodes} {why}".rstrip()


def _nodes(entries: list[Decision]) -> str:
    counts = Counter(entry.node for entry in entries if isinstance(entry, PodBound | PodPromised | PodEvicted))
    return some([node if count == 1 else f"{node} ({count})" for node, count in counts.items()])


def _pods(names: list[str]) -> str:
    bare = [name.partition("/")[2] or name for name in names]
    return f"pod {bare[0]}" if len(bare) == 1 else f"{len(bare)} pods ({some(bare)})"
