"""The kinds that an operator brings, on an API server that is busy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.writes import Chain, WriteOutcome
from kailab.errors import Unavailable
from kailab.operators.processes import define_kind

SHAPE = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}


def definition(**more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "trees.woods.example"},
        "spec": {
            "group": "woods.example",
            "names": {"kind": "Tree", "plural": "trees", "singular": "tree"},
            "scope": "Namespaced",
            "versions": [SHAPE],
            **more,
        },
    }


class Slow(EmbeddedCluster):
    """Nobody hears the answer to its first write. ``carries_out``: it does what it was asked all the same."""

    def __init__(self, *, carries_out: bool) -> None:
        super().__init__()
        self.carries_out = carries_out
        self.asked = 0

    def write_all(self, chains: Sequence[Chain]) -> list[WriteOutcome]:
        self.asked += 1
        if self.asked > 1:
            return super().write_all(chains)
        if self.carries_out:
            super().write_all(chains)
        error = Unavailable("no answer in time")
        error.unanswered = True
        return [WriteOutcome([], error) for _ in chains]


@pytest.mark.parametrize("carries_out", [True, False])
def test_a_definition_whose_answer_comes_too_late_is_asked_for_again(carries_out: bool) -> None:
    cluster = Slow(carries_out=carries_out)
    define_kind(cluster, definition())
    assert cluster.get("CustomResourceDefinition", "trees.woods.example")["spec"]["group"] == "woods.example"
    assert cluster.asked == 2


def test_what_is_there_is_left_as_it_is() -> None:
    cluster = Slow(carries_out=True)
    define_kind(cluster, definition())
    before = cluster.get("CustomResourceDefinition", "trees.woods.example")
    define_kind(cluster, definition(group="other.example"))
    assert cluster.get("CustomResourceDefinition", "trees.woods.example") == before
