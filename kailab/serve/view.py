"""What the page shows of a lab: its history and present state in the viewer's form, and the objects that can be changed."""

from __future__ import annotations

import gzip
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from kailab.engine.snapshot import jsonform
from kailab.errors import NotFound
from kailab.evidence.entries import ClusterState
from kailab.evidence.recorder import Recorder
from kailab.lab.lab import Lab
from kailab.lab.node_changes import growable
from kailab.lab.subjects import SYSTEM_NAMESPACES
from kailab.model.kinds import KINDS
from kailab.model.objects import is_owned, name_of, namespace_of, parent_of, spec_of
from kailab.model.times import format_time
from kailab.report.lab_form import LabFormBuilder
from kailab.report.moments import PresentState
from kailab.report.page_data import LabForm
from kailab.scheduler.reading.nodes import unavailable
from kailab.serve.live_record import EventFeed, LiveRecord
from kailab.serve.raw_text import LiveRawText
from kailab.whatif.fields import FIELDS
from kailab.whatif.outcome import Outcome, Workload

_LEVEL, _QUICK = 3, 1
_MOST_INCREMENTS = 8 * 2**20
"""When the increments exceed this many bytes, a new complete form is encoded for new pages."""


class PageView:
    """The lab at one moment. ``number`` counts the views of one series, which ``showing`` names. A page with an earlier view of the same series only needs
    the increments since then."""

    def __init__(
        self,
        showing: str,
        number: int,
        base: PackedForm,
        increments: Sequence[bytes],
        chunks: Mapping[str, bytes],
        lab: Mapping[str, Any],
        editable: Callable[[], bytes],
    ) -> None:
        """``base``: the complete form at this or an earlier number; ``increments``: those since, as JSON. ``chunks``: raw text by name, compressed. ``lab``: facts
        about the lab. ``editable``: encodes the objects that can be changed (JSON, compressed) on request."""
        self.showing, self.number, self.chunks, self.about = showing, number, chunks, lab
        self._base, self._increments, self._editable_objects = base, increments, editable

    @property
    def lab(self) -> bytes:
        """The ``LabForm`` at the number ``first``: JSON, compressed."""
        return self._base.content

    @property
    def first(self) -> int:
        return self._base.number

    def since(self, showing: str, number: int) -> bytes | None:
        """The increments from a view to this one: a list of ``Increment``, JSON, compressed. None if they are not available."""
        if showing != self.showing or not self._base.number <= number <= self.number:
            return None
        increments = self._increments[number - self._base.number :]
        return gzip.compress(b"[" + b",".join(increments) + b"]", _QUICK, mtime=0)

    @cached_property
    def editable(self) -> bytes:
        return self._editable_objects()


class PackedForm(NamedTuple):
    """A complete ``LabForm`` at a number: JSON, compressed."""

    number: int
    content: bytes


class ViewBuilder:
    """Builds the views of one running lab. Each view after the first is an increment to the one before, where possible."""

    def __init__(self) -> None:
        self._name = secrets.token_hex(8)
        self._record = LiveRecord()
        self._builder: LabFormBuilder | None = None
        self._number = 0
        self._base = PackedForm(0, b"")
        self._increments: list[bytes] = []

    def view(self, lab: Lab, recorder: Recorder, events: EventFeed | None = None, *, at_once: bool = True) -> PageView:
        """Build the next view. ``recorder``: the lab's record after its last reading. ``events``: None if the recorder has the events. ``at_once``: encode everything
        now, because the lab is not kept in memory."""
        recorded, raw, continues = self._record.update(recorder, events)
        now, builder = read_present_state(lab), self._builder
        self._number += 1
        if builder is not None and continues:
            increment = builder.go_on(recorded, now)
            increment.parts = raw.new_parts()
            self._increments.append(jsonform.encode(increment))
        else:
            builder = self._builder = LabFormBuilder(recorded, raw)
            self._record.set_state(now.state)
            self._pack(builder.form(now), raw)
        names = builder.names()
        for kind, column in names.items():
            raw.latest_objects(kind).names = column
        if sum(map(len, self._increments)) > _MOST_INCREMENTS:
            self._pack(builder.whole(), raw)
        facts = _facts(lab, now.state)
        editable = _packed(_editable_objects(lab)) if at_once else None
        return PageView(
            self._name,
            self._number,
            self._base,
            tuple(self._increments),
            raw.chunks(),
            facts,
            lambda: _packed(_editable_objects(lab)) if editable is None else editable,
        )

    def _pack(self, form: LabForm, raw: LiveRawText) -> None:
        form.raw = raw.form()
        self._base = PackedForm(self._number, gzip.compress(jsonform.encode(form), _LEVEL, mtime=0))
        self._increments = []


def _packed(value: Any) -> bytes:
    return gzip.compress(msgspec.json.encode(value), _LEVEL, mtime=0)


def read_present_state(lab: Lab) -> PresentState:
    queues = lab.picture().present.queues if lab.under_test.reports_shares else ()
    return PresentState(lab.now - lab.opened, lab.cluster_state(), queues)


def _facts(lab: Lab, state: ClusterState) -> dict[str, Any]:
    nodes, picture = state.nodes, lab.picture()
    return {
        "fleet": lab.fleet,
        "scheduler": lab.scheduler,
        "backend": lab.backend,
        "nodes": len(nodes),
        "gpus": sum(node.gpus for node in nodes),
        "models": [use.data() for use in picture.models.values()],
        "time": format_time(lab.now),
        "age": round(lab.now - lab.opened, 3),
    }


def _editable_objects(lab: Lab) -> dict[str, Any]:
    outcome, nodes = Outcome.of(lab), lab.get("nodes")
    return {
        "namespaces": [name for space in lab.get("namespaces") if (name := name_of(space)) not in SYSTEM_NAMESPACES],
        "workloads": [_workload(lab, item) | _counts(amounts) for item, amounts in outcome.workloads.items()]
        + _without_pods(lab, set(outcome.workloads)),
        "queues": [_queue(queue) for queue in lab.get("queues")],
        "nodes": [
            {
                "name": name_of(node),
                "cordoned": bool(spec_of(node).get("unschedulable")),
                "unavailable": unavailable(spec_of(node), node.get("status") or {}),
            }
            for node in nodes
        ],
        "pools": [{"name": name, "nodes": count} for name, count in growable(name_of(item) for item in nodes).items()],
        "queueFields": list(FIELDS["Queue"]),
    }


def _workload(lab: Lab, workload: Workload) -> dict[str, Any]:
    kind = KINDS.get(workload.kind)
    replicas = None
    if kind is not None and kind.scalable:
        # Pods may remain after their workload was deleted.
        with suppress(NotFound):
            replicas = lab.get(workload.kind, workload.name, workload.namespace)["spec"].get("replicas", 1)
    return {**workload.data(), "replicas": replicas}


def _counts(amounts: Any) -> dict[str, Any]:
    return {
        "queue": amounts.queue,
        "running": amounts.running,
        "waiting": amounts.waiting,
        "done": amounts.done,
    }


def _without_pods(lab: Lab, listed: set[Workload]) -> list[dict[str, Any]]:
    """Workloads that are scaled to zero: they can be scaled up again, or deleted."""
    none = {"queue": "", "running": 0, "waiting": 0, "done": 0}
    candidates = (
        Workload(namespace_of(obj), key, name_of(obj))
        for key, kind in KINDS.items()
        if kind.in_all and kind.scalable
        for obj in lab.get(key, namespace=None)
        if not is_owned(obj)
    )
    return [_workload(lab, workload) | none for workload in candidates if workload not in listed]


def _queue(queue: dict[str, Any]) -> dict[str, Any]:
    spec = spec_of(queue)
    return {
        "name": name_of(queue),
        "parent": parent_of(queue),
        "priority": spec.get("priority"),
        "resources": spec.get("resources") or {},
    }
