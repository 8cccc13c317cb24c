"""The use of GPUs by model: how many there are, are in use and are free. All tables and sentences by model ask this module.

A model is the value of the node label that ``model.labels.gpu_model`` reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from kailab.model.labels import gpu_model
from kailab.model.objects import Object, labels_of, spec_of, status_of
from kailab.scheduler.reading.nodes import unavailable

NO_MODEL = "no model named"
"""In tables: the nodes have no label that names their model."""


class ModelUse(msgspec.Struct, frozen=True, kw_only=True):
    """The GPUs of one model ("": the nodes do not name it), in milli-GPU. ``free``: on nodes that take new pods; ``closed``: on others."""

    model: str
    nodes: int = 0
    gpus: int = 0
    used: int = 0
    free: int = 0
    closed: int = 0

    @property
    def title(self) -> str:
        return self.model or NO_MODEL

    def plus(self, other: ModelUse) -> ModelUse:
        """The sum, under the model of the first."""
        sums = {
            name: getattr(self, name) + getattr(other, name) for name in ("nodes", "gpus", "used", "free", "closed")
        }
        return ModelUse(model=self.model, **sums)

    def data(self) -> dict[str, Any]:
        """For programs, in GPUs."""
        amounts = {name: getattr(self, name) / 1000 for name in ("gpus", "used", "free", "closed")}
        return {"model": self.model, "nodes": self.nodes, **amounts}


def model_of_node(node: Object) -> str:
    """The GPU model of a node object, or ""."""
    return gpu_model(labels_of(node))


def use_by_model(
    nodes: Mapping[str, Object], used: Mapping[str, int], offered: Callable[[Object], int]
) -> dict[str, ModelUse]:
    """The use of each model, those with most GPUs first. ``used``: milli-GPU in use by node. ``offered``: milli-GPU of a node."""
    result: dict[str, ModelUse] = {}
    for name, node in nodes.items():
        has, held = offered(node), used.get(name, 0)
        if not has and not held:
            continue
        model, left = model_of_node(node), max(0, has - held)
        where = "closed" if unavailable(spec_of(node), status_of(node)) else "free"
        here = ModelUse(model=model, nodes=1, gpus=has, used=held, **{where: left})
        result[model] = result[model].plus(here) if model in result else here
    return dict(sorted(result.items(), key=lambda item: (-item[1].gpus, item[0])))


def total_use(uses: Sequence[ModelUse]) -> ModelUse:
    """The sum of several models, without a model of its own."""
    total = ModelUse(model="")
    for use in uses:
        total = total.plus(use)
    return total
