"""The fleet of the nodes of a cluster, from the output of ``kubectl get nodes -o yaml|json`` or from files that hold it.

A node keeps its name, labels, taints and allocatable amounts. Nodes that differ only in a number in their names make one pool.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from kailab.errors import InputError, InputErrors, Where
from kailab.fleet.fleet import Fleet, Pool
from kailab.model import labels, quantities
from kailab.model.cluster_files import newest_time, read_objects, time_of_cluster
from kailab.model.file_trees import TreeFile
from kailab.model.kinds import key_of
from kailab.model.manifests import object_name
from kailab.model.objects import Object, condition_of, labels_of, name_of, spec_of, status_of
from kailab.model.validation import validate
from kailab.model.wording import count, some

MOST_NODES = 100_000
_LIFECYCLE = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Prefixes of taints that controllers set and remove as a node's state changes. A fleet leaves them out."""
_NOT_IN_NAMES = re.compile(r"[^a-z0-9-]+")
_FLEET_KINDS = ("Topology", "PriorityClass")
_SYSTEM = "system-"


class _Node(NamedTuple):
    name: str
    pool: Pool


def fleet_of_files(files: Iterable[TreeFile], path: Path) -> Fleet:
    """The fleet of all nodes in files, with their topologies and priority classes. ``path``: where they are. Raises InputError(s)."""
    found: dict[tuple[str, str], Object] = {}
    errors: list[InputError] = []
    times: list[tuple[float, str]] = []
    others = 0
    for file in files:
        for obj in read_objects(file):
            if (at := newest_time(obj)) is not None:
                times.append((at, object_name(obj)))
            key = key_of(obj["apiVersion"], obj["kind"])
            if key != "Node" and key not in _FLEET_KINDS:
                others += 1
                continue
            faults = validate(obj, key, stored=obj)
            errors += [InputError(text, Where(file.name, 0, f"{key}/{_named(obj)}", field)) for field, text in faults]
            if not faults:
                found[key, name_of(obj)] = obj
    if errors:
        raise InputErrors.of(errors)
    nodes = [obj for (key, _), obj in found.items() if key == "Node"]
    place = Where(file=str(path))
    if not nodes:
        raise InputError(
            "holds Kubernetes objects, but no nodes; a fleet is made of `kubectl get nodes -o yaml`. Apply manifests with `kailab apply -f`",
            place,
        )
    if len(nodes) > MOST_NODES:
        raise InputError(f"{len(nodes):,} nodes; expected {MOST_NODES:,} at most", place)
    pools = tuple(_pools([_Node(name_of(node), _pool(node, place)) for node in nodes]))
    newest, time_notices = time_of_cluster(times)
    name = _NOT_IN_NAMES.sub("-", path.name.partition(".")[0].lower()).strip("-")[:63].strip("-")
    return Fleet(
        name=name or "nodes",
        description=f"{count(len(nodes), 'node')} of a cluster",
        pools=pools,
        topologies=tuple(_plain(obj, "spec") for (key, _), obj in found.items() if key == "Topology"),
        priority_classes=tuple(
            _plain(obj, "value", "globalDefault", "description", "preemptionPolicy")
            for (key, name), obj in found.items()
            if key == "PriorityClass" and not name.startswith(_SYSTEM)
        ),
        start_time=newest,
        file=str(path),
        notices=(*(f"{path}: {notice}" for notice in time_notices), *_notices(nodes, others, path)),
    )


def _named(obj: Mapping[str, Any]) -> str:
    meta = obj.get("metadata")
    return str(meta.get("name", "")) if isinstance(meta, dict) else ""


def _plain(obj: Object, *fields: str) -> Object:
    kept = {field: obj[field] for field in fields if field in obj}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": {"name": name_of(obj)}, **kept}


def _pool(node: Object, place: Where) -> Pool:
    """A pool with this node alone."""
    name, status, own = name_of(node), status_of(node), dict(labels_of(node))
    offer = {key: str(value) for key, value in (status.get("allocatable") or status.get("capacity") or {}).items()}
    if not {"cpu", "memory"} <= offer.keys():
        where = Where(file=place.file, object=f"Node/{name}", field="status.allocatable")
        raise InputError("has no cpu and memory; expected what the node offers", where)
    if own.get(labels.HOSTNAME) == name:
        del own[labels.HOSTNAME]
    amd = int(quantities.whole_amount(offer.pop(labels.AMD_GPU_RESOURCE, "0")))
    whole = int(quantities.whole_amount(offer.pop(labels.GPU_RESOURCE, "0")))
    mig = {
        resource.removeprefix(labels.MIG_PREFIX): int(quantities.whole_amount(offer.pop(resource)))
        for resource in [key for key in offer if key.startswith(labels.MIG_PREFIX)]
    }
    mig = {profile: number for profile, number in mig.items() if number}
    cpu, memory, pods = offer.pop("cpu"), offer.pop("memory"), offer.pop("pods", "110")
    resources = {key: value for key, value in offer.items() if value.strip("0.")}
    if mig and whole:
        resources[labels.GPU_RESOURCE] = str(whole)
    gpus = amd or (_number(own.get(labels.GPU_COUNT)) or whole or 1 if mig else whole)
    return Pool(
        name="",
        count=1,
        cpu=cpu,
        memory=memory,
        pods=int(quantities.whole_amount(pods)),
        gpus=gpus,
        gpu_model=own.get(labels.AMD_GPU_PRODUCT if amd else labels.GPU_PRODUCT, "") if gpus else "",
        gpu_vendor="amd" if amd else "nvidia",
        gpu_memory_mib=_number(own.get(labels.GPU_NODE_MEMORY)) if gpus and not amd else 0,
        mig_strategy="mixed" if mig else "",
        mig=mig,
        resources=resources,
        node_labels=own,
        taints=tuple(
            {key: str(taint[key]) for key in ("key", "value", "effect") if taint.get(key)}
            for taint in spec_of(node).get("taints") or ()
            if not str(taint.get("key", "")).startswith(_LIFECYCLE)
        ),
        unschedulable=bool(spec_of(node).get("unschedulable")),
    )


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() else 0


def _pools(nodes: list[_Node]) -> Iterator[Pool]:
    """One pool for each run of nodes that differ only in the last number of their names, and one for each other node."""
    names: set[str] = set()
    for run in _runs(sorted(nodes, key=_natural)):
        first = run[0].name
        match = _last_number(first)
        count = len(run)
        if count > 1 and match is not None:
            before, digits, after = match
            width = f":0{len(digits)}" if len(digits) > 1 and len(digits) < 10 else ""
            template, start, stem = f"{before}{{index{width}}}{after}", int(digits), before
        else:
            template, start, stem = first, 0, first
        yield replace(
            run[0].pool, name=_unique(stem, names), count=count, name_template=template, start_index=start
        )  # fmt: skip


def _natural(node: _Node) -> tuple[str, int, str]:
    """Sort key: ``gpu-9`` before ``gpu-10``."""
    before, digits, after = _last_number(node.name) or (node.name, "0", "")
    return before, int(digits), after


def _runs(nodes: list[_Node]) -> Iterator[list[_Node]]:
    run: list[_Node] = []
    for node in nodes:
        if run and not _follows(run[-1], node):
            yield run
            run = []
        run.append(node)
    if run:
        yield run


def _follows(one: _Node, other: _Node) -> bool:
    """True if two nodes are equal and the number in the second name is the next one."""
    before, after = _last_number(one.name), _last_number(other.name)
    if before is None or after is None or one.pool != other.pool:
        return False
    if (before[0], before[2]) != (after[0], after[2]):
        return False
    # Names of more than one digit become a padded template, so the number of digits may grow only from 9 to 10.
    same_width = len(before[1]) == len(after[1]) or (before[1], after[1]) == ("9", "10")
    return same_width and len(after[1]) < 7 and int(after[1]) == int(before[1]) + 1


def _last_number(name: str) -> tuple[str, str, str] | None:
    """Split a name at its last number: (text before, digits, text after); None if it has no number."""
    found = list(re.finditer(r"\d+", name))
    if not found:
        return None
    last = found[-1]
    return name[: last.start()], last[0], name[last.end() :]


def _unique(stem: str, names: set[str]) -> str:
    base = _NOT_IN_NAMES.sub("-", stem.lower()).strip("-")[:50].strip("-") or "nodes"
    name, number = base, 1
    while name in names:
        number += 1
        name = f"{base}-{number}"
    names.add(name)
    return name


def _notices(nodes: list[Object], others: int, path: Path) -> Iterator[str]:
    failed = [
        name_of(node) for node in nodes if (ready := condition_of(node, "Ready")) and ready.get("status") != "True"
    ]
    if failed:
        yield f"{path}: not Ready in the cluster, but ready in the fleet: {some(failed)} (`kailab fail NODE` lets a node fail)"
    if others:
        yield (
            f"{path}: {others} other object{' is' if others == 1 else 's are'} no part of a fleet; `kailab open {path}` opens the whole state, with "
            "running pods and queues"
        )
