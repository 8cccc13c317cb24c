"""What the engine is asked of before it is tried on a copy of the lab."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kailab.engine.relaxing.rules import MadePreemptible
from kailab.explain import step_search
from kailab.explain.step_search import engine_can_judge
from kailab.explain.steps.proposals import Change, Disturbance, Proposal, ProposalFamily, apply, patch
from kailab.explain.steps.question_context import QuestionContext
from kailab.explain.subject import SubjectRef
from kailab.explain.verdict import could_run
from kailab.lab import Lab
from tests.explain.manifests import deployment, fleet, pod, queue

QUOTA = {"spec": {"resources": {"gpu": {"quota": 4}}}}


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        ((apply(queue("new")),), True),
        ((patch(queue("old"), QUOTA),), True),
        ((apply(queue("new")), patch(queue("old"), QUOTA)), True),
        # Of two changes that belong together the second may be of what the first makes: it is tried on the copy alone.
        ((apply(queue("new")), patch(queue("new"), QUOTA)), False),
        ((apply(deployment("web", "old")),), False),
    ],
)
def test_changes_are_read_where_what_they_change_is_there(changes: tuple[Change, ...], asked: bool) -> None:
    assert engine_can_judge(ProposalFamily((Proposal("Do it", changes, Disturbance.QUEUES),))) is asked


@pytest.fixture
def beyond(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """A Deployment of which half waits for its queue's quota, and in the same queue a pod larger than any node; taken for a large lab."""
    monkeypatch.setattr(step_search, "FILTERED_FROM", 0)
    monkeypatch.setattr(step_search, "SLOW_FROM", 0)
    with Lab.open(fleet({"count": 2, "gpus": 4})) as lab:
        lab.apply([queue("a", quota=2), deployment("web", "a", 4, 1, priority=""), pod("giant", "a", 8)])
        lab.settle()
        yield lab


def test_a_large_lab_is_told_one_step_and_more_where_everything_is_asked_for(beyond: Lab) -> None:
    first, both = beyond.explain("Deployment", "web"), beyond.explain("Deployment", "web", everything=True)
    assert (len(first.steps), len(both.steps)) == (1, 2)
    assert first.steps[0] in both.steps
    assert all(step.checked for step in both.steps)


def test_a_change_that_takes_away_one_of_two_causes_is_no_way_to_run(beyond: Lab) -> None:
    web = SubjectRef("Deployment", "default", "web").state(beyond)
    whole = SubjectRef("Queue", "", "a").state(beyond)
    assert not could_run(web)
    assert could_run(web, MadePreemptible())
    assert not could_run(whole, MadePreemptible())


def test_what_cannot_run_with_a_change_is_not_tried_with_it(beyond: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def noted(self: step_search.StepTrials, setting: QuestionContext, proposal: Proposal) -> None:
        tried.append(proposal.do)

    monkeypatch.setattr(step_search.StepTrials, "try_proposal", noted)
    beyond.explain("Deployment", "web")
    assert any(do.startswith("Make it preemptible") for do in tried)
    tried.clear()
    beyond.explain("Queue", "a")
    assert not [do for do in tried if do.startswith(("Make it preemptible", "Raise the gpu quota", "Delete"))]
