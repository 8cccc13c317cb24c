"""Segments: workers in runs of equal size, each with its own topology constraint.

The annotations ``kai.scheduler/segment-size`` and ``kai.scheduler/segment-topology-*-placement`` request them, on the pod or else on the
worker's pod template. The owner may also name the topology.
"""

from __future__ import annotations

from typing import Any

from kailab.cluster.protocol import Object
from kailab.grouping.fields import string
from kailab.grouping.records import GroupingError, PlannedTopology
from kailab.model.labels import TOPOLOGY
from kailab.model.objects import annotations_of

SEGMENT_SIZE = "kai.scheduler/segment-size"
SEGMENT_REQUIRED = "kai.scheduler/segment-topology-required-placement"
SEGMENT_PREFERRED = "kai.scheduler/segment-topology-preferred-placement"
POD_ANNOTATIONS = (SEGMENT_SIZE, SEGMENT_REQUIRED, SEGMENT_PREFERRED, TOPOLOGY)

MOST_SEGMENTS = 10_000


def check_count(segments: int) -> None:
    if segments > MOST_SEGMENTS:
        raise GroupingError(f"{segments} segments are more than the {MOST_SEGMENTS} allowed")


def segment_topology(pod: Object, template: dict[str, Any], owner: Object) -> PlannedTopology | None:
    """The constraint of each segment; None without a topology or without a level."""
    topology = annotation(pod, template, TOPOLOGY) or annotations_of(owner).get(TOPOLOGY, "")
    required = annotation(pod, template, SEGMENT_REQUIRED)
    preferred = annotation(pod, template, SEGMENT_PREFERRED)
    return PlannedTopology(topology, required, preferred) if topology and (required or preferred) else None


def annotation(pod: Object, template: dict[str, Any], key: str) -> str:
    """An annotation of the pod, else of its template, else ""."""
    return annotations_of(pod).get(key) or string(template, "metadata", "annotations", key) or ""
