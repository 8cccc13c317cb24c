"""Knative's Service, Configuration and Revision."""

from __future__ import annotations

from typing import Any

from kailab.model import labels
from kailab.model.kind import Kind
from kailab.model.objects import labels_of
from kailab.model.validation.core import shape_of_type
from kailab.model.validation.fields import Faults


def _advise_queue(faults: Faults, obj: dict[str, Any]) -> None:
    """KAI groups pods by their Revision, whose labels are those of the template."""
    template = faults.mapping(faults.mapping(obj, "spec", "spec") or {}, "template", "spec.template") or {}
    if labels.QUEUE in labels_of(obj) and labels.QUEUE not in labels_of(template):
        text = (
            "KAI does not read it here: the work goes by the labels of its Revision; set it in spec.template.metadata"
        )
        faults.add(f"metadata.labels[{labels.QUEUE}]", text)


def _serving(kind: str, *short: str, **parts: Any) -> Kind:
    plural = f"{kind.lower()}s"
    return Kind(
        group="serving.knative.dev",
        kind=kind,
        versions=("v1",),
        plural=plural,
        short=short,
        label_domains=("knative.dev",),
        **parts,
    )


KINDS = (
    _serving(
        "Service",
        "kservice",
        "ksvc",
        shape=shape_of_type("KnativeService"),
        advice=_advise_queue,
        controller="kailab.workloads.knative:KnativeController",
        grouping="kailab.grouping.families.knative:KNATIVE",
    ),
    _serving("Revision", "rev"),
    _serving("Configuration", "config", "cfg"),
)
