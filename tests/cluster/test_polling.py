"""Writes to a server that answers late or not at all."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.polling import write_until_answered
from kailab.cluster.writes import Chain, CreateWrite, DeleteWrite, WriteOutcome
from kailab.errors import AlreadyExists, Invalid, NotFound, Unavailable


class Busy:
    """A cluster that does not answer the first ``silences`` batches. ``carries_out``: whether it did what it was asked."""

    def __init__(self, cluster: EmbeddedCluster, silences: int, *, carries_out: bool) -> None:
        self.cluster = cluster
        self.silences = silences
        self.carries_out = carries_out
        self.batches: list[int] = []

    def write_all(self, chains: Sequence[Chain]) -> list[WriteOutcome]:
        self.batches.append(len(chains))
        if self.silences == 0:
            return self.cluster.write_all(chains)
        self.silences -= 1
        if self.carries_out:
            self.cluster.write_all(chains)
        error = Unavailable("no answer")
        error.unanswered = self.carries_out
        return [WriteOutcome([], error) for _ in chains]


@pytest.fixture
def cluster() -> EmbeddedCluster:
    return EmbeddedCluster()


@pytest.mark.parametrize("carries_out", [False, True])
def test_each_write_is_carried_out_once(cluster, build, carries_out) -> None:
    cluster.create(build.config("old"))
    busy = Busy(cluster, 2, carries_out=carries_out)
    outcomes = write_until_answered(
        busy, [DeleteWrite("ConfigMap", "old", "default"), CreateWrite(build.config("new"))], 60, pause=0
    )
    assert [outcome.error for outcome in outcomes] == [None, None]
    assert [obj["metadata"]["name"] for obj in cluster.list("ConfigMap", "default")] == ["new"]
    assert busy.batches == [2, 2, 2]


def test_only_what_got_no_answer_is_sent_again(cluster, build) -> None:
    class HalfBusy(Busy):
        def write_all(self, chains: Sequence[Chain]) -> list[WriteOutcome]:
            if self.silences == 0 or len(chains) == 1:
                return super().write_all(chains)
            return [*self.cluster.write_all(chains[:1]), *super().write_all(chains[1:])]

    busy = HalfBusy(cluster, 1, carries_out=False)
    write_until_answered(busy, [CreateWrite(build.config(name)) for name in "abc"], 60, pause=0)
    assert [obj["metadata"]["name"] for obj in cluster.list("ConfigMap", "default")] == ["a", "b", "c"]
    assert busy.batches == [2, 2]


def test_what_was_there_or_gone_before_is_told(cluster, build) -> None:
    cluster.create(build.config("there"))
    busy = Busy(cluster, 1, carries_out=False)
    writes = [CreateWrite(build.config("there")), DeleteWrite("ConfigMap", "gone", "default")]
    errors = [outcome.error for outcome in write_until_answered(busy, writes, 60, pause=0)]
    assert [type(error) for error in errors] == [AlreadyExists, NotFound]


def test_a_refusal_is_an_answer(cluster, build) -> None:
    busy = Busy(cluster, 0, carries_out=False)
    (outcome,) = write_until_answered(busy, [CreateWrite(build.config("Not a name"))], 60, pause=0)
    assert isinstance(outcome.error, Invalid)
    assert busy.batches == [1]


def test_patience_has_an_end(cluster, build) -> None:
    (outcome,) = write_until_answered(
        Busy(cluster, 10**9, carries_out=False), [CreateWrite(build.config())], 0.05, pause=0
    )
    assert isinstance(outcome.error, Unavailable)
