"""Knative's Service, Configuration and Revision."""

from __future__ import annotations

from typing import Any

from kailab.model.kind import Kind
from kailab.model.validation.core import loose_pod_spec, shape
from kailab.model.validation.shapes import Check, record, with_spec


def _service() -> Check:
    template = {"metadata": shape("V1ObjectMeta"), "spec": loose_pod_spec()}
    return with_spec(record({"template": record(template)}, ("template",)))


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
        shape=_service,
        controller="kailab.workloads.knative:KnativeController",
        grouping="kailab.grouping.families.knative:KNATIVE",
    ),
    _serving("Revision", "rev"),
    _serving("Configuration", "config", "cfg"),
)
