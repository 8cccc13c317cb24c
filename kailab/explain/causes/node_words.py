"""Pods, nodes and amounts in words, for causes that stand in nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from kailab.engine.report.node_filter import NAMES
from kailab.engine.report.node_filter import wanted_text as share_wanted
from kailab.engine.snapshot.amounts import number, resource_text
from kailab.engine.snapshot.counting import wanted_gpus
from kailab.engine.snapshot.records import Requirement
from kailab.engine.working.layout import CPU, GPUS, MEMORY, PODS
from kailab.engine.working.nodes import NodeTable
from kailab.engine.working.state import ShapeInfo, WTask
from kailab.explain.cause import Ref
from kailab.lab.wording import count, gpus, some


def amount(name: str, value: int) -> str:
    """Of a resource, by its name as nodes report it: ``2 GPUs``, ``4 CPU``, ``20Gi memory``, ``1 nvidia.com/mig-7g.80gb``."""
    if name == "nvidia.com/gpu":
        return gpus(value)
    return f"{resource_text(name, value)} {NAMES.get(name, name)}"


def figure(name: str, value: int) -> str:
    """Without the name of the resource."""
    return number(value / 1000) if name == "nvidia.com/gpu" else resource_text(name, value)


def node_refs(table: NodeTable, nodes: Iterable[int]) -> tuple[Ref, ...]:
    return tuple(Ref("Node", "", table.nodes[int(i)].name) for i in nodes)


def node_names(table: NodeTable, nodes: Sequence[int] | np.ndarray, limit: int = 4) -> str:
    return some([table.nodes[int(i)].name for i in nodes], limit)


def nodes_that(nodes: Sequence[int] | np.ndarray, table: NodeTable, rest: str) -> str:
    """``the node that it could use, a100-0,``; ``the 3 nodes that it could use (a, b, c)``."""
    if len(nodes) == 1:
        return f"the node {rest}, {table.nodes[int(nodes[0])].name},"
    return f"the {len(nodes)} nodes {rest} ({node_names(table, nodes)})"


def who(tasks: Sequence[WTask], together: bool = True) -> str:
    """The head of a sentence about pods that are placed together."""
    if len(tasks) == 1:
        return "it wants"
    return f"its {len(tasks)} pods {'must start together and ' if together else ''}want"


def row_wanted(task: WTask, row: int, device: int) -> int:
    """What a pod wants of a row of nodes; of GPUs what a share of them counts for, too."""
    if row == GPUS and task.info.shape.gpu.shared:
        return wanted_gpus(task.info.shape.gpu, device)
    return task.info.rows.get(row, 0)


def rows_of(tasks: Iterable[WTask]) -> list[int]:
    """The resources that pods want, devices first."""
    rows = {row for task in tasks for row, value in task.info.rows.items() if value}
    if any(task.info.shape.gpu.shared for task in tasks):
        rows.add(GPUS)
    first = [GPUS, *sorted(row for row in rows if row > PODS), CPU, MEMORY, PODS]
    return [row for row in first if row in rows]


def wants(info: ShapeInfo, row: int, table: NodeTable) -> str:
    """What one pod wants of a row: ``2 GPUs``, ``0.5 of a GPU``, ``4 CPU``."""
    if row == GPUS and info.shape.gpu.shared:
        return share_wanted(info)
    return amount(table.layout.names[row], info.rows.get(row, 0))


def best_node(values: np.ndarray, among: np.ndarray) -> int | None:
    """The node with the most of something; of equal ones the first by name."""
    positions = np.flatnonzero(among)
    return int(positions[np.argmax(values[positions])]) if len(positions) else None


def requirement_text(requirement: Requirement) -> str:
    """``gpu.product=H100``, ``zone in (a, b)``."""
    values = requirement.values
    if requirement.operator == "In" and len(values) == 1:
        return f"{requirement.key}={values[0]}"
    words = {"In": "in", "NotIn": "not in", "Exists": "exists", "DoesNotExist": "is absent", "Gt": ">", "Lt": "<"}
    told = f" ({', '.join(values)})" if len(values) > 1 else f" {values[0]}" if values else ""
    return f"{requirement.key} {words[requirement.operator]}{told}"


def by_value(table: NodeTable, positions: Iterable[int], value: Callable[[int], str], limit: int = 5) -> str:
    """``A100 (1 node), L40S (2 nodes)``: what nodes have, by how many, the most first."""
    counts: dict[str, int] = {}
    for i in positions:
        text = value(int(i))
        counts[text] = counts.get(text, 0) + 1
    order = sorted(counts, key=lambda text: (-counts[text], text))
    return some([f"{text} ({count(counts[text], 'node')})" for text in order], limit)
