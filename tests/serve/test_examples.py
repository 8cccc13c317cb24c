"""Each example does what its title says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kailab.lab import Lab, expect
from kailab.serve.page_files import examples
from tests.serve.conftest import TEXTS


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab.open("lesson") as found:
        found.apply(TEXTS["10-two-teams"])
        yield found


def submit(lab: Lab, name: str) -> None:
    assert lab.apply(TEXTS[name]).warnings == []
    lab.settle()


def test_every_example_has_a_title_and_says_what_to_look_at() -> None:
    assert len(examples()) == 8
    assert all(one.title and one.about and len(one.title) < 40 for one in examples())


def test_borrowed_gpus_are_taken_back_and_a_third_team_gets_its_quota(lab: Lab) -> None:
    submit(lab, "20-borrower")
    expect(lab.queue("team-a")).running(gpus=24)
    submit(lab, "30-owner")
    expect(lab.queue("team-a")).running(gpus=16)
    expect(lab.queue("team-b")).running(gpus=16)
    submit(lab, "80-third-team")
    expect(lab.queue("team-c")).running(gpus=8)
    expect(lab.queue("team-a")).running(gpus=12)
    expect(lab.queue("team-b")).running(gpus=12)


def test_a_gang_serving_and_shares_run(lab: Lab) -> None:
    submit(lab, "40-gang")
    expect(lab.job("gang")).running(pods=8)
    submit(lab, "50-serving")
    expect(lab.deployment("serving")).running(pods=4)
    submit(lab, "60-shares")
    expect(lab.deployment("shares")).running(pods=6)
    assert lab.picture().shares.queues["team-a"].allocated == 8000 + 3000


def test_what_no_node_can_hold_waits(lab: Lab) -> None:
    submit(lab, "70-too-large")
    [reason] = lab.picture().waiting()
    assert "node" in reason.message
    assert lab.explain_pod("too-large").verdict == "never"
