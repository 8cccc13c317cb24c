"""The reference runs in the repository are what was written."""

from pathlib import Path

import pytest

from kailab.evidence import store
from kailab.evidence.replay import replay_run

REFERENCE = Path(__file__).parents[2] / "evidence" / "reference"


@pytest.mark.parametrize("run", [one.run for one in store.list_runs(REFERENCE)])
def test_a_reference_run_verifies(run: str) -> None:
    path = store.find_run(REFERENCE, run)
    assert store.verify_evidence(path) == []
    summary, tests = store.read_run(path)
    assert summary.finished
    assert {test.outcome for test in tests} == {"passed"}


@pytest.mark.parametrize("run", [one.run for one in store.list_runs(REFERENCE)])
def test_a_reference_run_is_decided_again_the_same(run: str) -> None:
    """Where the engine's decisions change on purpose, write the run anew: the five exercises, with --kailab-evidence."""
    replayed = replay_run(store.find_run(REFERENCE, run))
    assert replayed.same, str(replayed)
    assert replayed.decisions > 0
