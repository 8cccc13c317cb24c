"""The fleet to replay on: one of kailab's, or the list of nodes that comes with a trace (openb's)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kailab.errors import InputError, Where
from kailab.fleet import Fleet, load_fleet
from kailab.fleet.fleet import Pool
from kailab.replay.readers import lines
from kailab.replay.readers.lines import BrokenLine, LineFields

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
PODS = 1000
"""A list of nodes does not say how many pods a node takes; CPU and memory bound them."""

MODEL_MEMORY_MIB = {"A10": 24_576, "P100": 16_384, "T4": 16_384, "V100M16": 16_384, "V100M32": 32_768}
"""Of models whose name says what they are (NVIDIA's data sheets). G1 to G3 stand for models that openb does not name."""

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", re.ASCII)


class _Node(NamedTuple):
    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str


def replay_fleet(name_or_path: str) -> Fleet:
    """A fleet by name or file; a ``.csv`` is a list of nodes as openb's. Raises InputError."""
    if name_or_path.endswith((".csv", ".csv.gz")):
        return fleet_of_nodes(Path(name_or_path))
    return load_fleet(name_or_path)


def fleet_of_nodes(path: Path) -> Fleet:
    """Nodes with their own names. Raises InputError: of a fleet no line may be missing."""
    header = lines.read_header(path)
    if missing := [name for name in NODE_COLUMNS if name not in header]:
        raise InputError(
            f"no column {', '.join(missing)}; expected a list of nodes with {', '.join(NODE_COLUMNS)}",
            Where(file=str(path), line=1),
        )
    pools = tuple(_pool(node) for node in _nodes(path))
    if not pools:
        raise InputError("it lists no nodes", Where(file=str(path)))
    return Fleet(name=re.sub(r"[^a-z0-9]+", "-", path.name.partition(".")[0].lower()), pools=pools, file=str(path))


def _nodes(path: Path) -> Iterator[_Node]:
    seen: set[str] = set()
    for line, values in lines.read_rows(path):
        where = Where(file=str(path), line=line)
        if isinstance(values, str):
            raise InputError(values, where)
        fields = LineFields(values)
        try:
            node = _Node(
                fields.text("sn"),
                fields.whole("cpu_milli"),
                fields.whole("memory_mib"),
                fields.whole("gpu", 0),
                fields.text("model"),
            )
        except BrokenLine as error:
            raise InputError(str(error), where) from None
        if not _NAME.fullmatch(node.name) or len(node.name) > 63:
            raise InputError(
                f"sn is {node.name!r:.80}; expected a node's name: small letters, digits, '-' and '.'", where
            )
        if node.name in seen:
            raise InputError(f"a second node {node.name}; expected each once", where)
        seen.add(node.name)
        yield node


def _pool(node: _Node) -> Pool:
    # Each node is a pool of its own: a list has no others.
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
