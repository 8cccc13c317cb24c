"""What the engine is asked of before it is tried on a copy of the lab."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kailab.engine.relaxing.rules import MadePreemptible
from kailab.explain import step_search
from kailab.explain.step_search import engine_can_judge
from kailab.explain.steps.proposals import ChangeData, Disturbance, Proposal, ProposalFamily, apply_change, patch_change
from kailab.explain.steps.question_context import QuestionContext
from kailab.explain.subject import SubjectRef
from kailab.explain.verdict import could_run
from kailab.lab import Lab
from tests.explain.manifests import deployment, fleet, job, pod, queue

TOLERATIONS = [{"operator": "Exists"}]
QUOTA = {"spec": {"resources": {"gpu": {"quota": 4}}}}


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        ((apply_change(queue("new")),), True),
        ((patch_change(queue("old"), QUOTA),), True),
        ((apply_change(queue("new")), patch_change(queue("old"), QUOTA)), True),
        # Of two changes that belong together the second may be of what the first makes: it is tried on the copy alone.
        ((apply_change(queue("new")), patch_change(queue("new"), QUOTA)), False),
        ((apply_change(deployment("web", "old")),), False),
    ],
)
def test_changes_are_read_where_what_they_change_is_there(changes: tuple[ChangeData, ...], asked: bool) -> None:
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

    def noted(self: step_search.StepTries, setting: QuestionContext, proposal: Proposal) -> None:
        tried.append(proposal.do)

    monkeypatch.setattr(step_search.StepTries, "try_proposal", noted)
    beyond.explain("Deployment", "web")
    assert any(do.startswith("Make it preemptible") for do in tried)
    tried.clear()
    beyond.explain("Queue", "a")
    assert not [do for do in tried if do.startswith(("Make it preemptible", "Raise the gpu quota", "Delete"))]


@pytest.mark.parametrize(("filtered", "openings", "additions"), [(True, 1, 2), (False, 8, 4)])
def test_on_many_nodes_the_engine_says_where_the_trials_begin(
    filtered: bool, openings: int, additions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steps are the same with fewer trials: of the smallest amount, and for nodes to be added of the one before it."""
    monkeypatch.setattr(step_search, "FILTERED_FROM_NODES", 0 if filtered else 1_000)
    tried: list[str] = []
    try_proposal = step_search.StepTries.try_proposal

    def counted(
        self: step_search.StepTries, context: QuestionContext, proposal: Proposal
    ) -> step_search.StepCandidate | None:
        tried.append(proposal.do)
        return try_proposal(self, context, proposal)

    monkeypatch.setattr(step_search.StepTries, "try_proposal", counted)
    with Lab.open(fleet({"count": 16, "gpus": 1})) as lab:
        for number in range(16):
            lab.patch("Node", f"p0-{number}", {"spec": {"taints": [{"key": "lab/kept", "effect": "NoSchedule"}]}})
        lab.apply([queue("a"), job("gang", "a", 11, gang=True), deployment("web", "a", 2, 1, tolerations=TOLERATIONS)])
        lab.settle()
        opened = [step.intent for step in lab.explain("Job", "gang").steps if step.do.startswith("Remove the taint")]
        lab.apply([job("more", "a", 18, gang=True, tolerations=TOLERATIONS)])
        lab.settle()
        added = [step.do for step in lab.explain("Job", "more").steps if step.do.startswith("Add ")]
    assert (opened, added) == (
        ["Remove the taint lab/kept from node p0-0, p0-1, p0-10 and 13 more"],
        ["Add 4 nodes to the pool p0."],
    )
    assert sum(do.startswith("Remove the taint") for do in tried) == openings
    assert sum("nodes to the pool" in do for do in tried) == additions
