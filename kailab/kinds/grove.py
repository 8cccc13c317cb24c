"""Grove: PodCliqueSet and the objects that its operator makes of it. A lab makes no pods of these kinds."""

from __future__ import annotations

from kailab.model.kind import Kind

_GROVE = "kailab.grouping.families.grove:GROVE"


def _grove(kind: str, plural: str, short: str, grouping: str | None = None, group: str = "grove.io") -> Kind:
    return Kind(
        group=group,
        label_domains=("grove.io",),
        kind=kind,
        versions=("v1alpha1",),
        plural=plural,
        short=(short,),
        grouping=grouping,
        in_cluster="Grove's operator makes the pods of its cliques",
    )


KINDS = (
    _grove("PodCliqueSet", "podcliquesets", "pcs", _GROVE),
    _grove("PodGangSet", "podgangsets", "pgs", _GROVE),
    _grove("PodClique", "podcliques", "pclq"),
    _grove("PodCliqueScalingGroup", "podcliquescalinggroups", "pcsg"),
    _grove("PodGang", "podgangs", "pgang", group="scheduler.grove.io"),
)
