"""Work that waits only because a larger gang stands before it: the cause names that gang, a step holds it back, and no screen says that
what waits could have what it does not get."""

from __future__ import annotations

import re
from contextlib import closing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kailab.advice.audit import audit
from kailab.advice.findings import FindingCode
from kailab.explain.questions import ask
from kailab.lab import Lab
from kailab.lab.answer import Cause, CauseCode
from kailab.lab.owners import work_title
from tests.explain.building import causes, gang, lab, pods, queue, settled


def departments(found: Lab) -> None:
    """All 48 GPUs are held, 16 of them by ``borrower`` beyond its quota; ``owner`` holds nothing of its 16."""
    settled(found, queue("research", 32), queue("product", 16))
    settled(found, queue("borrower", 16, weight=3, parent="research"), queue("owner", 16, weight=2, parent="research"))
    settled(found, queue("other", 16, parent="product"))
    settled(found, gang("long", "borrower", 2, 8), gang("short", "borrower", 4, 4), gang("other", "other", 2, 8))


def behind_a_gang(found: Lab, *more: Any) -> None:
    departments(found)
    settled(found, gang("huge", "owner", 6, 8), gang("small", "owner", 8, 1, least=1), *more)


def running(found: Lab, name: str) -> int:
    return sum(bool(row.node) for row in found.picture().rows if row.name.startswith(f"default/{name}-"))


def test_small_work_runs_where_no_gang_stands_before_it() -> None:
    with lab(nodes=6) as found:
        departments(found)
        settled(found, gang("small", "owner", 8, 1, least=1))
        assert running(found, "small") == 8


def test_the_gang_that_stands_before_it_is_named() -> None:
    with lab(nodes=6) as found:
        behind_a_gang(found)
        assert running(found, "small") == 0
        told = causes(found, "Job", "small")
    assert [one.code for one in told] == [CauseCode.BEHIND_OTHERS]
    assert told[0].facts["first"] == ["Job huge"]
    assert "Job huge (48 GPUs) waits before it in queue owner" in told[0].sentence
    assert "Job short would be evicted for it" in told[0].sentence
    assert told[0].sentence.endswith("If Job huge did not wait, this work would get the room.")


def test_of_several_that_wait_only_the_one_in_the_way_is_named() -> None:
    with lab(nodes=6) as found:
        behind_a_gang(found, gang("beside", "other", 2, 8), gang("later", "owner", 2, 2))
        [cause, *_] = causes(found, "Job", "small")
    assert cause.facts["first"] == ["Job huge"]


def test_a_step_suspends_the_gang_and_evicts_no_more_than_the_share_allows() -> None:
    with lab(nodes=6) as found:
        behind_a_gang(found)
        steps = ask(found, "Job", "small").steps
    [step] = [one for one in steps if "Job huge" in one.do]
    # What removes the cause comes before what jumps the queue.
    assert "priority class" in steps[steps.index(step) + 1].do
    assert step.do.startswith("Suspend Job huge, which waits before it: kailab patch job huge")
    assert step.changes == (
        {"patch": {"kind": "Job", "name": "huge", "namespace": "default", "patch": {"spec": {"suspend": True}}}},
    )
    assert step.outcome is not None
    assert (step.outcome.running, len(step.outcome.evicted)) == (8, 4)
    assert len({str(one.changes) for one in steps}) == len(steps)


def test_what_is_evicted_for_other_work_is_not_told_as_evicted_for_it() -> None:
    with lab(nodes=6) as found:
        behind_a_gang(found, gang("beside", "owner", 8, 1, least=1))
        outcomes = {
            name: step.outcome
            for name in ("small", "beside")
            for step in ask(found, "Job", name).steps
            if step.do.startswith("Suspend Job huge")
        }
    small, beside = outcomes["small"], outcomes["beside"]
    assert small is not None
    assert beside is not None
    # All pods of a gang go for the first job, and the second takes what these leave.
    assert (len(small.evicted), small.besides) == (4, ())
    assert (beside.evicted, beside.besides) == ((), small.evicted)
    assert "; evicted meanwhile, not for it: default/short-" in beside.describe()


def test_an_answer_about_a_queue_names_the_work_and_proposes_to_hold_it_back() -> None:
    with lab(nodes=6) as found:
        # Three changes would let it run, which is more than a step has.
        vast = gang("vast", "owner", 1, 9)
        vast["spec"]["template"]["spec"] |= {
            "nodeSelector": {"lab/none": "here"}, "schedulingGates": [{"name": "lab/closed"}]
        }  # fmt: skip
        behind_a_gang(found, vast)
        answer = ask(found, "Queue", "owner")
    lines = answer.lines()
    assert lines[1].startswith("Job vast cannot run: neither more time nor other work ending would help")
    assert lines[1].endswith("The other work that waits would run if work in its way ended, or after some time.")
    assert answer.cause is not None
    assert answer.cause.sentence.startswith("Job small: Job short would be evicted for it")
    assert {group.workloads: str(group.verdict) for group in answer.groups}[("Job vast",)] == "never"
    [step] = [one for one in answer.steps if one.do.startswith("Suspend ")]
    assert step.do.startswith(
        "Suspend Job huge, which waits before the rest of its work: kailab patch job huge -n default"
    )
    # What is suspended does not run, so the step serves a part.
    assert step.outcome is not None
    assert (step.outcome.running, step.outcome.waiting) == (8, 7)


def test_the_screens_of_the_queues_agree() -> None:
    with lab(nodes=6) as found:
        behind_a_gang(found)
        owner = ask(found, "Queue", "owner", tried=False)
        borrower = ask(found, "Queue", "borrower", tried=False)
        findings = {one.code: one for one in audit(found).findings}
    why = "what waits in owner gets none of it now (first in its line: Job huge, which wants 48 GPUs)"
    assert f"owner may take 16 GPUs back from borrower, nothing of it now: {why}." in owner.lines()
    assert f"What prevents it: {why}." in borrower.lines()
    assert why in findings[FindingCode.STARVED].sentence
    assert why in findings[FindingCode.BORROWING].sentence
    assert owner.facts["claims"][0]["now"] == 0


def test_who_has_not_asked_gets_it_back_when_it_asks() -> None:
    with lab(nodes=6) as found:
        departments(found)
        lines = ask(found, "Queue", "owner").lines()
    assert (
        "Of its quota 16 GPUs are unused, while borrower holds 16 GPUs beyond its own; it gets them back by reclaim when it asks."
        in lines
    )


def test_what_the_next_cycle_takes_could_be_taken_now() -> None:
    with lab(nodes=6) as found:
        departments(found)
        found.patch("Queue", "owner", {"spec": {"resources": {"gpu": {"quota": 0, "overQuotaWeight": 0}}}})
        settled(found, gang("small", "owner", 8, 1, least=1))
        assert running(found, "small") == 0
        found.patch("Queue", "owner", {"spec": {"resources": {"gpu": {"quota": 16}}}})
        [starved] = [one for one in audit(found).findings if one.code is FindingCode.STARVED]
        found.settle()
        assert running(found, "small") == 8
    assert re.search(r"up to \d+ GPUs could be taken now", starved.sentence)


# Of many queues and jobs at once

TREE = {"a": "x", "b": "x", "c": "y", "d": "y"}


@st.composite
def lines_of_jobs(draw: st.DrawFn) -> list[list[Any]]:
    """What is applied one after the other: queues, what runs, and jobs of unlike sizes, most of which wait."""
    leaves, sizes, gpus = st.sampled_from("abcd"), st.sampled_from([1, 2, 4, 6]), st.sampled_from([1, 2, 4, 8])
    above = [queue(name, draw(st.sampled_from([8, 16, 24])), weight=draw(st.integers(0, 2))) for name in ("x", "y")]
    quotas, weights = st.sampled_from([0, 4, 8, 16]), st.integers(0, 3)
    below = [queue(name, draw(quotas), weight=draw(weights), parent=parent) for name, parent in TREE.items()]
    begun = [gang(f"run-{n}", draw(leaves), draw(sizes), draw(gpus), least=1) for n in range(draw(st.integers(1, 3)))]
    fill = pods(draw(st.sampled_from([0, 8, 16])), "fill", draw(leaves))
    wait = []
    for number in range(draw(st.integers(2, 5))):
        size = draw(sizes)
        wait.append(
            gang(
                f"wait-{number}", draw(st.sampled_from("aab")), size, draw(gpus), least=draw(st.sampled_from([1, size]))
            )
        )
    return [[*above, *below], begun, fill, *([wait] if draw(st.booleans()) else [[one] for one in wait])]


def refuted(found: Lab, cause: Cause) -> str:
    """A sentence that its own numbers, or those of the queues, refute."""
    states = {state.name: state.gpu for state in found.picture().present.queues}
    facts, wants = cause.facts, re.search(r"wants? (\d+) GPU", cause.sentence)
    wanted = int(wants[1]) * 1000 if wants else 0
    if cause.code == CauseCode.VICTIMS_WITHIN_QUOTA:
        beyond = sum(max(0, states[name].allocated - states[name].quota) for name in facts["others"])
        if "too little" in cause.sentence and beyond >= wanted:
            return f"{beyond} beyond quotas are enough"
        if "none of the others" in cause.sentence and beyond:
            return f"{beyond} are held beyond quotas"
        if facts["held"] >= max(facts["quota"], facts["fairShare"]):
            return "it is owed nothing"
    if cause.code == CauseCode.FAIR_SHARE_REACHED and facts["held"] + wanted <= max(facts["quota"], facts["fairShare"]):
        return "it has a claim on that"
    if "The others have theirs" in cause.sentence:
        for name, held in re.findall(r"(\w+) holds (\d+) GPUs? with", cause.sentence.partition("The others")[2]):
            if int(held) * 1000 > max(states[name].quota, states[name].fair_share):
                return f"{name} holds more than is its due"
    return ""


def still_waits(found: Lab, name: str, cause: Cause) -> bool:
    """Whether it gets nothing though what the cause names has gone. Where a part of that runs, its room would go too, so it is not asked."""
    if any(running(found, title.partition(" ")[2]) for title in cause.facts["first"]):
        return False
    with closing(found.fork()) as copy:
        before = running(copy, name)
        for title in cause.facts["first"]:
            kind, _, other = title.partition(" ")
            copy.delete(kind, other)
        copy.settle()
        return running(copy, name) <= before


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(lines_of_jobs())
def test_three_screens_never_contradict_each_other_or_their_numbers(waves: list[list[Any]]) -> None:
    with lab(nodes=4) as found:
        for wave in waves:
            settled(found, *wave)
        picture = found.picture()
        # The lab has settled: what waits has asked for all that it has a claim on, and got no more.
        for finding in audit(found, picture).findings:
            assert "could be taken now" not in finding.sentence
        for name in {entry.queue for entry in picture.pending.values()}:
            text = "\n".join(ask(found, "Queue", name, tried=False).lines(everything=True))
            assert "when it asks" not in text, text
            assert not re.search(r"up to .* of it now", text), text
        for group in picture.pending:
            kind, _, name = work_title(picture, group).partition(" ")
            answer = ask(found, kind, name, tried=False)
            for cause in filter(None, (answer.cause, *answer.more)):
                assert not refuted(found, cause), (cause.sentence, refuted(found, cause))
            if answer.cause is not None and "inFront" in answer.cause.facts:
                assert not still_waits(found, name, answer.cause), answer.cause.sentence
