"""The fleet of a replay: one of kailab's fleets, or the list of nodes published with a trace (openb)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kailab.engine.snapshot.counting import mig_gpus
from kailab.errors import InputError, Where
from kailab.fleet.fleet import Fleet, Pool
from kailab.fleet.reading import load_fleet
from kailab.model.labels import MIG_PREFIX
from kailab.replay.job import WHOLE
from kailab.replay.readers.lines import LineFields, read_table
from kailab.replay.trace import Trace

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
PODS = 1000
"""Pods per node. A list of nodes does not state it; CPU and memory are the effective bounds."""

MODEL_MEMORY_MIB = {"A10": 24_576, "P100": 16_384, "T4": 16_384, "V100M16": 16_384, "V100M32": 32_768}
"""Memory of the models that openb names (source: NVIDIA's data sheets). It calls the others G1 to G3."""

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", re.ASCII)


class _Node(NamedTuple):
    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str


def replay_fleet(name_or_path: str) -> Fleet:
    """Load a fleet by name or file. A ``.csv`` file is a list of nodes in openb's format. Raises InputError."""
    if name_or_path.endswith((".csv", ".csv.gz")):
        return fleet_of_nodes(Path(name_or_path))
    return load_fleet(name_or_path)


def counted_gpus(fleet: Fleet, trace: Trace) -> int:
    """The GPUs of a fleet for a trace: those available whole and, if jobs ask for MIG instances, the instances, each by the
    leading number of its profile, as KAI counts them in queues."""
    gpus = fleet.summary().gpus
    if not has_mig(trace):
        return gpus
    instances = [(profile, number * pool.count) for pool in fleet.pools for profile, number in pool.mig.items()]
    return gpus + sum(mig_gpus(f"{MIG_PREFIX}{profile}") * number for profile, number in instances) // WHOLE


def has_mig(trace: Trace) -> bool:
    """True if a job asks for MIG instances."""
    return any(job.mig for job in trace.jobs)


def fleet_of_nodes(path: Path) -> Fleet:
    """Read a list of nodes. Node names are kept. Raises InputError for any line that cannot be read."""
    pools = tuple(_pool(node) for node in _nodes(path))
    if not pools:
        raise InputError("the file lists no nodes; expected at least one", Where(file=str(path)))
    return Fleet(name=re.sub(r"[^a-z0-9]+", "-", path.name.partition(".")[0].lower()), pools=pools, file=str(path))


def _nodes(path: Path) -> Iterator[_Node]:
    seen: set[str] = set()
    for where, node in read_table(path, NODE_COLUMNS, "a list of nodes", _node):
        if not _NAME.fullmatch(node.name) or len(node.name) > 63:
            raise InputError(
                f"sn is {node.name!r:.80}; expected a node name of lower-case letters, digits, '-' and '.'", where
            )
        if node.name in seen:
            raise InputError(f"duplicate node {node.name}; expected each node once", where)
        seen.add(node.name)
        yield node


def _node(fields: LineFields) -> _Node:
    return _Node(
        fields.text("sn"),
        fields.whole("cpu_milli"),
        fields.whole("memory_mib"),
        fields.whole("gpu", 0),
        fields.text("model"),
    )


def _pool(node: _Node) -> Pool:
    # A list of nodes has no pools, so each node becomes a pool.
    return Pool(
        name=node.name,
        count=1,
        name_template=node.name,
        cpu=f"{node.cpu_milli}m",
        memory=f"{node.memory_mib}Mi",
        pods=PODS,
        gpus=node.gpus,
        gpu_model=node.model if node.gpus else "",
        gpu_memory_mib=MODEL_MEMORY_MIB.get(node.model, 0) if node.gpus else 0,
    )
