"""Nodes: uncordoned, without a taint, told what their GPUs have, or more of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any

from kailab.cluster.protocol import Object
from kailab.errors import InputError
from kailab.explain.steps.manifest import as_manifest
from kailab.explain.steps.proposal import Change, Disturbance, Proposal, Way, apply, delete, patch
from kailab.explain.steps.setting import Setting
from kailab.lab.node_changes import added_nodes
from kailab.lab.wording import count, some
from kailab.model import labels
from kailab.model.kind import field_of
from kailab.model.quantities import parse_count
from kailab.scheduler.reading.nodes import gpu_memory, unavailable

ADDED = (1, 2, 3, 4, 6, 8, 12, 16)
"""Nodes that are added to a pool."""
POOLS = 3
SINGLE = 4
"""Nodes that are tried each by itself."""
_CORDON = "node.kubernetes.io/unschedulable"


def uncordon(setting: Setting) -> Iterator[Way]:
    """As few cordoned nodes as are enough."""
    cordoned = [node for node in setting.nodes.values() if (node.get("spec") or {}).get("unschedulable")]
    yield from some_of(cordoned, "Uncordon node {}", _uncordoned)


def make_ready(setting: Setting) -> Iterator[Way]:
    """Nodes that are not ready, once they are: tried by making them anew."""
    bad = [node for node in setting.nodes.values() if unavailable({}, node.get("status") or {})]

    def ready(node: Object) -> tuple[Change, ...]:
        status = _status(node)
        conditions = [{"type": "Ready", "status": "True"}]
        return delete(node), apply({**as_manifest(node), "status": {**status, "conditions": conditions}})

    yield from some_of(bad, "Get node {} ready again", ready)


def remove_taints(setting: Setting) -> Iterator[Way]:
    """Of as few nodes as are enough."""
    tainted = [node for node in setting.nodes.values() if any(map(_removable, field_of(node, "spec.taints") or ()))]
    yield from some_of(tainted, _untainting, _untainted)


def _untainting(nodes: Sequence[Object]) -> str:
    """Each taint with the nodes that have it."""
    having: dict[str, list[str]] = {}
    for node in nodes:
        for key in sorted({one["key"] for one in node["spec"]["taints"] if _removable(one)}):
            having.setdefault(key, []).append(node["metadata"]["name"])
    return "Remove " + " and ".join(f"the taint {key} from node {some(names)}" for key, names in having.items())


def tell_gpu_memory(setting: Setting) -> Iterator[Way]:
    """The label that says how much memory the GPUs of a node have. How much that is only the nodes know: as other nodes of that model
    say, else so much that it is enough."""
    silent = [node for node in setting.nodes.values() if not gpu_memory(node["metadata"].get("labels") or {})]
    notes = ((setting.pod or {}).get("metadata") or {}).get("annotations") or {}
    asked = -(-parse_count(notes.get(labels.GPU_MEMORY)) // 1024) * 1024
    known = {
        marks.get(labels.GPU_PRODUCT): marks[labels.GPU_NODE_MEMORY]
        for node in setting.nodes.values()
        if labels.GPU_NODE_MEMORY in (marks := node["metadata"].get("labels") or {})
    }

    def memory(node: Object) -> str:
        return str(known.get((node["metadata"].get("labels") or {}).get(labels.GPU_PRODUCT)) or asked)

    def told(node: Object) -> tuple[Change, ...]:
        return (patch(node, {"metadata": {"labels": {labels.GPU_NODE_MEMORY: memory(node)}}}),)

    def words(nodes: Sequence[Object]) -> str:
        tried = some(sorted({memory(node) for node in nodes}))
        return f"Label node {_names(nodes)} {labels.GPU_NODE_MEMORY} with the MiB that each of its GPUs has (tried with {tried})"

    if silent and asked:
        yield from some_of(silent, words, told)


def add_nodes(setting: Setting) -> Iterator[Way]:
    """Nodes like those of a pool, as few as are enough: pools of the nodes with most GPUs first."""
    pools: dict[str, Object] = {}
    for name, node in setting.nodes.items():
        pools.setdefault(name.rstrip("0123456789").rstrip("-") or name, node)
    for pool in sorted(pools, key=lambda one: (-_gpus(pools[one]), one))[:POOLS]:
        proposals = []
        for number in ADDED:
            try:
                change = added_nodes(setting.lab, f"{pool}:{number}").data()
            except InputError:  # names that tell of no pool
                break
            do = f"Add {count(sum(obj['kind'] == 'Node' for obj in change['apply']), 'node')} to the pool {pool}"
            proposals.append(Proposal(do, (change,), Disturbance.ADDED))
        yield Way(tuple(proposals), grows=True)


def _names(nodes: Sequence[Object]) -> str:
    return some([node["metadata"]["name"] for node in nodes])


def some_of(
    nodes: Sequence[Object], do: str | Callable[[Sequence[Object]], str], change: Callable[[Object], Sequence[Change]]
) -> Iterator[Way]:
    """One of the first nodes by itself, then more and more of them. ``do``: with a place for their names, or what tells it of them."""
    numbers = [2**power for power in range(1, 12) if 2**power < len(nodes)]
    chosen = [[node] for node in nodes[:SINGLE]]
    chosen += [list(nodes[:number]) for number in (*numbers, len(nodes)) if number > 1]
    if chosen:
        yield Way.of(
            Proposal(
                do.format(_names(some_nodes)) if isinstance(do, str) else do(some_nodes),
                tuple(one for node in some_nodes for one in change(node)),
                Disturbance.NODES,
            )
            for some_nodes in chosen
        )


def _uncordoned(node: Object) -> tuple[Change, ...]:
    left = [one for one in field_of(node, "spec.taints") or () if one["key"] != _CORDON]
    taints = {"taints": left} if field_of(node, "spec.taints") else {}
    return (patch(node, {"spec": {"unschedulable": False, **taints}}),)


def _untainted(node: Object) -> tuple[Change, ...]:
    return (patch(node, {"spec": {"taints": [one for one in node["spec"]["taints"] if not _removable(one)]}}),)


def _removable(taint: dict[str, Any]) -> bool:
    return taint.get("effect") in ("NoSchedule", "NoExecute") and not taint["key"].startswith("node.kubernetes.io/")


def _gpus(node: Object) -> int:
    return parse_count(str((field_of(node, "status.allocatable") or {}).get(labels.GPU_RESOURCE, 0)))


def _status(node: Object) -> dict[str, Any]:
    """What it offers."""
    status = node.get("status") or {}
    return deepcopy({key: status[key] for key in ("capacity", "allocatable") if key in status})
