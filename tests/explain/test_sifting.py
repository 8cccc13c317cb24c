"""What the engine is asked of before it is tried on a copy of the lab."""

from __future__ import annotations

import pytest

from kailab.lab.explain.steps.proposal import Change, Disturbance, Proposal, Way, apply, patch
from kailab.lab.explain.steps.sifting import can_ask
from tests.explain.manifests import deployment, queue

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
    assert can_ask(Way((Proposal("Do it", changes, Disturbance.QUEUES),))) is asked
