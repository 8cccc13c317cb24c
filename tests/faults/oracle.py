"""What must hold of a cluster whatever went wrong: read from the API server, judged without kailab's code.

At any moment
    no GPU is given twice: what the live pods of a node ask for is there, shares of one GPU add up to one at most.
Once it is quiet
    no gang is half bound: of a PodGroup run none or at least its minMember;
    all that fits runs: the fleet is as full as the work lets it be, and what is owed to a queue runs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from tests.faults.api import Api, Obj, patiently

GPU = "nvidia.com/gpu"
RESERVATIONS = "kai-resource-reservation"


def gpus(pod: Obj) -> int:
    """Whole GPUs that a pod asks for."""
    found = 0
    for container in pod["spec"]["containers"]:
        resources = container.get("resources") or {}
        asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        found += int(asked.get(GPU, 0))
    return found


def node_of(pod: Obj) -> str:
    return pod["spec"].get("nodeName") or ""


def holds(pod: Obj) -> bool:
    """Whether a pod takes up its node: one that is leaving does, too, until it is gone."""
    return bool(node_of(pod)) and pod["status"].get("phase") not in ("Succeeded", "Failed")


def is_leaving(pod: Obj) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def share(pod: Obj) -> Fraction:
    return Fraction((pod["metadata"].get("annotations") or {}).get("gpu-fraction", "0"))


def gpu_groups(pod: Obj) -> list[str]:
    labels = pod["metadata"].get("labels") or {}
    several = [value for key, value in labels.items() if key.startswith("runai-gpu-group/")]
    return several or [labels[key] for key in ("runai-gpu-group",) if key in labels]


def group_of(pod: Obj) -> str:
    return (pod["metadata"].get("annotations") or {}).get("pod-group-name", "")


@dataclass
class Picture:
    """One look. ``pods``: of all namespaces."""

    nodes: dict[str, Obj]
    pods: list[Obj]
    podgroups: dict[str, Obj]

    def placed(self, app: str) -> list[Obj]:
        """Pods with this label that hold a place to stay."""
        return [pod for pod in self.of(app) if holds(pod) and not is_leaving(pod)]

    def of(self, app: str) -> list[Obj]:
        return [pod for pod in self.pods if (pod["metadata"].get("labels") or {}).get("app") == app]

    def running(self, app: str) -> list[Obj]:
        return [pod for pod in self.placed(app) if pod["status"].get("phase") == "Running"]

    def node_gpus(self, name: str) -> int:
        return int(self.nodes[name]["status"]["allocatable"].get(GPU, 0))

    def used(self) -> Counter[str]:
        """GPUs that are taken, by node."""
        taken: Counter[str] = Counter()
        for pod in self.pods:
            if holds(pod):
                taken[node_of(pod)] += gpus(pod)
        return taken


def look(api: Api) -> Picture:
    """Nodes last: one that a pod is on was there before it."""
    for attempt in patiently():
        with attempt:
            pods, groups, nodes = api.all_pods(), api.list("PodGroup"), api.list("Node")
    return Picture(
        {node["metadata"]["name"]: node for node in nodes}, pods, {one["metadata"]["name"]: one for one in groups}
    )


def given_twice(picture: Picture) -> list[str]:
    """GPUs that more than one has."""
    found = [
        f"{node}: {taken} GPUs taken of {picture.node_gpus(node)}: "
        f"{_told([pod for pod in picture.pods if holds(pod) and node_of(pod) == node])}"
        for node, taken in picture.used().items()
        if node in picture.nodes and taken > picture.node_gpus(node)
    ]
    shares: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for pod in picture.pods:
        if holds(pod) and pod["metadata"]["namespace"] != RESERVATIONS:
            for group in gpu_groups(pod):
                shares[node_of(pod), group] += share(pod)
    found += [f"{node}: {taken} of the GPU {group} taken" for (node, group), taken in shares.items() if taken > 1]
    homes: dict[str, set[str]] = defaultdict(set)
    for node, group in shares:
        homes[group].add(node)
    return found + [f"the GPU {group} is on {sorted(nodes)}" for group, nodes in homes.items() if len(nodes) > 1]


def half_bound(picture: Picture) -> list[str]:
    """Gangs of which some run, and too few."""
    running: Counter[str] = Counter(group_of(pod) for pod in picture.pods if holds(pod) and not is_leaving(pod))
    return [
        f"{name}: {running[name]} of {group['spec']['minMember']} run"
        for name, group in picture.podgroups.items()
        if 0 < running[name] < int(group["spec"].get("minMember") or 1)
    ]


def missing(picture: Picture, owed: Mapping[str, int], full: int) -> list[str]:
    """What fits and does not run. ``owed``: how many pods of an app must run; ``full``: GPUs in use when all that fits runs."""
    found = [
        f"{app}: {len(picture.running(app))} run, {count} must; there are {_told(picture.of(app))}"
        for app, count in owed.items()
        if len(picture.running(app)) != count
    ]
    used = sum(picture.used().values())
    return found if used == full else [*found, f"{used} GPUs are in use of the {full} that can be"]


def _told(pods: list[Obj]) -> str:
    """Of each pod: where it is and how far it came."""
    return ", ".join(
        f"{pod['metadata']['name']} ({node_of(pod) or 'unbound'}, {pod['status'].get('phase')}"
        f"{', leaving' if is_leaving(pod) else ''}{_shares(pod)})"
        for pod in pods
    )


def _shares(pod: Obj) -> str:
    groups = ", ".join(gpu_groups(pod))
    return f", GPU {groups}" if groups else ""
