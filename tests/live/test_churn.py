"""The short form of the long run: under steady work nothing of the scheduler grows."""

import pytest

from benchmarks.lab_runs.churn import churn

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("components")]
MIB = 1024**2


def test_under_steady_work_nothing_grows():
    run = churn(150, every=5)
    middle, last = run.thirds()
    end = run.samples[-1]
    assert end.ended > 30
    assert end.evicted > 0, "the owner took back what is its own"
    assert last["threads"] <= middle["threads"]
    assert last["watches"] <= middle["watches"]
    assert last["files"] <= middle["files"] + 8  # connections that were idle come and go
    assert last["memory"] - middle["memory"] < 8 * MIB
    assert last["podgroups"] <= last["pods"] + 20, "a PodGroup goes with its pod"
