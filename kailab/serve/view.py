"""What the page shows of a lab: its past and how it stands, in the viewer's form, and what of it can be changed."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from kailab.engine.snapshot import jsonform
from kailab.errors import NotFound
from kailab.evidence.recorder import Recorder
from kailab.lab.lab import Lab
from kailab.lab.subjects import SYSTEM_NAMESPACES
from kailab.lab.whatif.fields import FIELDS
from kailab.lab.whatif.outcome import Outcome, Workload
from kailab.model.kinds import KINDS
from kailab.model.times import format_time
from kailab.report.gathering import Gathering
from kailab.report.of_states import Now
from kailab.scheduler.reading.nodes import unavailable
from kailab.serve.telling import Telling

_LEVEL = 3


@dataclass(frozen=True)
class View:
    """``lab``: a LabForm as JSON, compressed; ``chunks``: its raw text, by name, compressed; ``desk``: what the lab is and what of it can
    be changed, JSON, compressed."""

    lab: bytes
    chunks: Mapping[str, bytes]
    desk: bytes


def view_of(lab: Lab, recorder: Recorder, telling: Telling) -> View:
    """Of a lab and what was recorded of it, after the last look. ``telling``: what was told of it before."""
    told, raw = telling.told(recorder)
    form = Gathering(told, raw).form(now_of(lab))
    form.raw, chunks = raw.form()
    return View(gzip.compress(jsonform.encode(form), _LEVEL, mtime=0), chunks, _packed(_desk(lab)))


def _packed(value: Any) -> bytes:
    return gzip.compress(msgspec.json.encode(value), _LEVEL, mtime=0)


def now_of(lab: Lab) -> Now:
    found = {node["metadata"]["name"]: unavailable(node["spec"], node.get("status") or {}) for node in lab.get("nodes")}
    closed = {name: why for name, why in found.items() if why}
    queues = lab.picture().present.queues if lab.under_test.tells_shares else ()
    return Now(lab.now - lab.opened, lab.standing(), queues, closed)


def _desk(lab: Lab) -> dict[str, Any]:
    outcome, facts = Outcome.of(lab), lab.facts()
    return {
        "lab": {
            "fleet": lab.fleet,
            "scheduler": lab.scheduler,
            "backend": lab.backend,
            "nodes": facts["nodes"],
            "gpus": facts["gpus"],
            "time": format_time(lab.now),
            "age": round(lab.now - lab.opened, 3),
        },
        "namespaces": [
            name for space in lab.get("namespaces") if (name := space["metadata"]["name"]) not in SYSTEM_NAMESPACES
        ],
        "workloads": [_workload(lab, one) | _counts(standing) for one, standing in outcome.workloads.items()]
        + _without_pods(lab, set(outcome.workloads)),
        "queues": [_queue(queue) for queue in lab.get("queues")],
        "nodes": [
            {
                "name": node["metadata"]["name"],
                "cordoned": bool(node["spec"].get("unschedulable")),
                "unavailable": unavailable(node["spec"], node.get("status") or {}),
            }
            for node in lab.get("nodes")
        ],
        "queueFields": list(FIELDS["Queue"]),
    }


def _workload(lab: Lab, one: Workload) -> dict[str, Any]:
    known = KINDS.get(one.kind)
    replicas = None
    if known is not None and known.scalable:
        # Pods may be left of what is gone.
        with suppress(NotFound):
            replicas = lab.get(one.kind, one.name, one.namespace)["spec"].get("replicas", 1)
    return {**one.data(), "replicas": replicas}


def _counts(standing: Any) -> dict[str, Any]:
    return {
        "queue": standing.queue,
        "running": standing.running,
        "waiting": standing.waiting,
        "done": standing.done,
    }


def _without_pods(lab: Lab, told: set[Workload]) -> list[dict[str, Any]]:
    """Those that were scaled to nothing: they can be scaled up again, and deleted."""
    none = {"queue": "", "running": 0, "waiting": 0, "done": 0}
    found = (
        Workload(obj["metadata"].get("namespace", ""), key, obj["metadata"]["name"])
        for key, kind in KINDS.items()
        if kind.in_all and kind.scalable
        for obj in lab.get(key, namespace=None)
        if not obj["metadata"].get("ownerReferences")
    )
    return [_workload(lab, one) | none for one in found if one not in told]


def _queue(queue: dict[str, Any]) -> dict[str, Any]:
    spec = queue["spec"]
    return {
        "name": queue["metadata"]["name"],
        "parent": spec.get("parentQueue") or "",
        "priority": spec.get("priority"),
        "resources": spec.get("resources") or {},
    }
