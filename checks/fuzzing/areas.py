"""The areas of random clusters: each draws what its name says more often than the others do, so that agreement can be
told by area and by size.

``small`` is the cluster of ``random_cluster``, a few of everything. The others are drawn by ``team_cluster``: those
named ``large-*`` at the size that teams have, in the situation in which one action decides, and the rest smaller, each
with one feature in most of its workloads.
"""

from __future__ import annotations

import random
from dataclasses import replace
from types import MappingProxyType

from checks.case_input import CaseInput
from checks.fuzzing import random_cluster
from checks.fuzzing.random_cluster import Pick
from checks.fuzzing.team_cluster import TeamCluster, team_case_input
from kailab.errors import InputError

SMALL = "small"

_MEDIUM = TeamCluster(nodes=range(4, 9), running=range(2, 8), waiting=range(3, 9), fill=range(50, 96))
_LARGE = TeamCluster(nodes=range(8, 33), running=range(6, 41), waiting=range(4, 28), fill=range(85, 101))


TEAM_AREAS: MappingProxyType[str, TeamCluster] = MappingProxyType(
    {
        "cpu-quota": replace(_MEDIUM, cpu_only=45, cpu_quotas=85, shares=10, cpu_nodes=60),
        "cpu-beside-shares": replace(_MEDIUM, cpu_only=45, shares=45, fill=range(30, 81), cpu_nodes=40),
        "gpu-memory": replace(_MEDIUM, gpu_memory=60, shares=10, unlike_devices=90, models=range(2, 4)),
        "topology": replace(_MEDIUM, levels=100, constrained=80, nodes=range(6, 13), gangs=70),
        "subgroups": replace(_MEDIUM, subgroups=70, gangs=80, minima=70),
        "elastic-subgroups": replace(_MEDIUM, subgroups=65, elastic=70, gangs=80, minima=40),
        "min-runtimes": replace(_MEDIUM, runtimes=90, fill=range(85, 101)),
        "settings": replace(_MEDIUM, settings=90, shares=20, fill=range(70, 101)),
        "large-allocate": replace(_LARGE, fill=range(30, 61)),
        "large-consolidate": replace(_LARGE, fill=range(70, 91), scattered=90),
        "large-reclaim": replace(_LARGE, fill=range(95, 101), greedy=True),
        "large-preempt": replace(_LARGE, fill=range(95, 101), urgent=True),
        "large-mixed": _LARGE,
        "large-variety": replace(_LARGE,
            cpu_only=20, cpu_quotas=40, shares=15, gpu_memory=10, unlike_devices=50, levels=60, constrained=30,
            subgroups=20, minima=40, elastic=30, runtimes=30, settings=40, cpu_nodes=50, leaving=10,
        ),
    }
)  # fmt: skip
AREAS = (SMALL, *TEAM_AREAS)


def random_of_area(area: str, pick: Pick) -> CaseInput:
    """A cluster of an area, made from a stream of choices. Raises InputError for an unknown area."""
    check_area(area)
    return random_cluster.random_case_input(pick) if area == SMALL else team_case_input(TEAM_AREAS[area], pick)


def seeded(seed: int, area: str = SMALL) -> CaseInput:
    """The cluster of a seed. Raises InputError for an unknown area."""
    check_area(area)
    if area == SMALL:
        return random_cluster.seeded(seed)
    # The same seed gives other clusters in other areas.
    return random_of_area(area, picking(random.Random(f"{area} {seed}")))


def picking(source: random.Random) -> Pick:
    return lambda options: options[source.randrange(len(options))]


def check_area(area: str) -> None:
    """Raises InputError for an unknown area."""
    if area not in AREAS:
        raise InputError(f"--area: there is no area {area!r}; expected one of: {', '.join(AREAS)}")
