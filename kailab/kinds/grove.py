"""Grove: PodCliqueSet and what its operator makes of it. A lab has its objects as they are given; nothing makes their pods."""

from __future__ import annotations

from kailab.model.kind import Kind

_GROVE = "kailab.grouping.families.grove:GROVE"


def _of(kind: str, plural: str, short: str, grouping: str | None = None, group: str = "grove.io") -> Kind:
    return Kind(
        group=group,
        kind=kind,
        versions=("v1alpha1",),
        plural=plural,
        short=(short,),
        grouping=grouping,
        in_cluster="Grove's operator makes the pods of its cliques",
    )


KINDS = (
    _of("PodCliqueSet", "podcliquesets", "pcs", _GROVE),
    _of("PodGangSet", "podgangsets", "pgs", _GROVE),
    _of("PodClique", "podcliques", "pclq"),
    _of("PodCliqueScalingGroup", "podcliquescalinggroups", "pcsg"),
    _of("PodGang", "podgangs", "pgang", group="scheduler.grove.io"),
)
