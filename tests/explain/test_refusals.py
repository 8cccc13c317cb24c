"""Refusals: the records of what a rule compared, from which causes are made."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest

from checks.explaining.random_situation import seeded
from checks.explaining.workloads import waiting_workloads
from kailab.cluster.unreadable_objects import STRICT
from kailab.engine.relaxing.queue_rules import refusing_rules
from kailab.explain.cause_kinds import CAUSE_KINDS, FALLBACK_FINDERS, FINDERS, find_causes
from kailab.explain.causes.node_capacity import DevicesFragmented, DevicesLacking
from kailab.explain.causes.queue_limits import LimitExceeded, PodsTogether, QueueBoundRefusal
from kailab.explain.causes.queue_order import WorkInFront
from kailab.explain.causes.refusal import ContradictionError, PlainRefusal, Refusal
from kailab.explain.causes.waiting_group import WaitingPodGroup, waiting_podgroups
from kailab.explain.evictions import Borrowing, StaleGang
from kailab.explain.subject import SubjectRef
from kailab.lab.answer import CauseCode

LIMIT = LimitExceeded(
    queue="team", own_queue="team", resource="gpu", held=2000, wanted=2000, limit=3000, pods=PodsTogether(2, 2)
)
ROOM = {"resource": "nvidia.com/gpu", "pods": 1, "waiting": 1, "each": "2 GPUs", "node": "n-0"}


def waiting(seed: int) -> Iterator[WaitingPodGroup]:
    """The waiting groups of a random situation."""
    situation = seeded(seed)
    with situation.opened() as lab:
        for work in waiting_workloads(situation, lab):
            yield from waiting_podgroups(SubjectRef.of(lab, work.kind, work.name, work.namespace).state(lab))


def refusals(group: WaitingPodGroup) -> list[Refusal]:
    """All that the finders report, in their order."""
    return [refusal for finder in (*FINDERS, *FALLBACK_FINDERS) for refusal in finder(group)]


def test_a_cause_has_the_numbers_that_its_sentence_names() -> None:
    cause = LIMIT.cause()
    assert cause is not None
    assert (
        cause.sentence
        == "Queue team holds 2 GPUs of its limit of 3 GPUs; its 2 pods, which start together, want 2 GPUs more."
    )
    assert cause.data()["numbers"] == {
        "queue": "team", "ownQueue": "team", "resource": "gpu", "held": 2000, "wanted": 2000, "limit": 3000,
        "pods": {"waiting": 2, "together": 2},
    }  # fmt: skip


@pytest.mark.parametrize(
    "refusal",
    [
        replace(LIMIT, held=1000),
        replace(LIMIT, limit=-1),
        DevicesFragmented(
            **ROOM, wanted=1000, one=1000, free=1000, most=1000, nodes=1, of_device=False, placed=0, also=()
        ),
        DevicesLacking(
            with_rest=False,
            **ROOM, code=CauseCode.NOT_ENOUGH_GPUS, wanted=2000, one=2000, free=2000, most=2000, capacity=8000, nodes=1,
            also=(), whole=(0, 0, 0),
        ),
    ],
    ids=["within its limit", "no limit", "what is free is on one node", "enough is free"],
)  # fmt: skip
def test_a_refusal_that_its_numbers_contradict_becomes_no_cause(
    refusal: Refusal, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ContradictionError):
        refusal.cause()
    monkeypatch.delenv(STRICT)
    with caplog.at_level(logging.ERROR):
        assert refusal.cause() is None
    assert type(refusal).__name__ in caplog.text


def test_what_threatens_running_work_has_its_numbers_and_is_not_reported_against_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(STRICT, raising=False)
    stale = StaleGang(
        podgroup="default/g",
        subgroups=False,
        ends=60.0,
        min_member=3,
        running=2,
        since="1970-01-01T00:00:00Z",
        grace=60.0,
        seconds=10.0,
    )
    cause = stale.cause()
    assert cause is not None
    assert cause.sentence.startswith("3 pods of PodGroup default/g must run together, and 2 run since")
    assert cause.numbers == {
        "minMember": 3,
        "running": 2,
        "since": "1970-01-01T00:00:00Z",
        "grace": 60.0,
        "seconds": 10.0,
    }
    assert replace(stale, running=3).cause() is None
    subgroup = replace(stale, running=3, subgroups=True).cause()
    assert subgroup is not None
    assert subgroup.sentence.startswith("A subgroup of PodGroup default/g lacks pods since")
    loan = Borrowing(
        title="Its queue a", unused_in_words="nobody uses it", queue="a", allocated=6000, quota=4000, borrowed=2000,
        lenders=(("b", 2000),), unused=(("b", 2000),),
    )  # fmt: skip
    cause = loan.cause()
    assert cause is not None
    assert "holds 6 GPUs, 2 GPUs beyond its quota of 4 GPUs" in cause.sentence
    assert cause.facts == {"queue": "a", "borrowed": 2000, "from": {"b": 2000}, "unused": {"b": 2000}}
    assert replace(loan, allocated=4000, borrowed=0).cause() is None


def test_each_kind_of_refusal_has_its_place_in_the_table() -> None:
    def concrete(kind: type[Refusal]) -> Iterator[type[Refusal]]:
        yield from ([kind] if "sentence" in vars(kind) else [])
        for below in kind.__subclasses__():
            yield from concrete(below)

    named = {refusal for kind in CAUSE_KINDS.values() for refusal in kind.refusals}
    assert named == {kind for kind in concrete(Refusal) if kind not in (Refusal, PlainRefusal)} - {QueueBoundRefusal}


@pytest.mark.parametrize("seed", range(10))
def test_what_finders_report_holds_and_ends_when_it_is_lifted(seed: int) -> None:
    for group in waiting(seed):
        for refusal in refusals(group):
            assert refusal.holds, refusal
            assert isinstance(refusal, (PlainRefusal, *CAUSE_KINDS[refusal.code].refusals)), refusal
            lifted, relaxed_cycles = refusal.lifted(), group.relaxed_cycles
            if relaxed_cycles is None or not lifted:
                continue
            if isinstance(refusal, WorkInFront):
                assert relaxed_cycles.further(*lifted, ahead=True)
            elif isinstance(refusal, QueueBoundRefusal) and refusal.code in (
                CauseCode.OVER_LIMIT,
                CauseCode.NON_PREEMPTIBLE_OVER_QUOTA,
            ):
                rules = refusing_rules(relaxed_cycles.after(*lifted))
                assert all(
                    (rule.queue, rule.resource, rule.lifted()) != (refusal.queue, refusal.resource, *lifted)
                    for rule in rules
                )


def test_a_cause_is_given_also_where_the_numbers_of_all_contradict_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(STRICT)
    monkeypatch.setattr(Refusal, "cause", lambda _: None)
    for group in waiting(0):
        (cause,) = find_causes(group)
        assert cause.code in {refusal.code for refusal in refusals(group)}
        assert cause.sentence.endswith(".")
        assert not cause.numbers
