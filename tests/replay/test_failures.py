"""Nodes that fail and are repaired, and what they cost the jobs on them."""

from __future__ import annotations

import pytest

from kailab.errors import InputError
from kailab.replay import tables
from kailab.replay.failures import NodeFailure, read_failures
from kailab.replay.summary import summarise

GPU_SECOND = 1000


def times(replayed):
    return {row[0]: (row[8], row[9]) for row in tables.job_rows(replayed)}


def test_a_failure_ends_the_jobs_of_a_node_and_keeps_it_empty_until_its_repair(trace_file, replayed) -> None:
    path = trace_file("first,0,1000,4", "second,1,1000,4")
    failures = (NodeFailure("a-0", 100, 5000), NodeFailure("a-1", 100, 500))
    done = replayed(path, "one", failures=failures, restart=0)
    # Nothing goes on after the failure. One node is back at 600 s, for one of the two after the other.
    assert sorted(times(done).values()) == [(0, 1600), (1, 2600)]
    found = summarise(done)
    assert (found.failed_nodes, found.failed_pods, found.total.evictions) == (2, 2, 2)
    assert done.balance.lost == 4 * (100 + 99) * GPU_SECOND
    assert not done.faults


def test_a_job_with_a_pod_there_fails_as_a_whole_and_goes_on_from_its_save(trace_file, replayed) -> None:
    failures = (NodeFailure("a-1", 250, 100),)
    done = replayed(trace_file("gang,0,1000,8"), "one", failures=failures, restart=10, checkpoint=100)
    # 200 s are saved on both nodes; they wait for the repair at 350 s and need 10 s to begin again.
    assert times(done) == {"gang": (0, 350 + 10 + 800)}
    assert done.balance.lost == 8 * 50 * GPU_SECOND
    assert not done.faults


def test_a_replay_without_work_waits_for_no_repair(trace_file, replayed) -> None:
    done = replayed(trace_file("a,0,50,4"), "one", failures=(NodeFailure("a-0", 100, 10_000),))
    assert done.ended - done.began == 50


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["a-0,5,0"], "failures.csv:2: seconds is '0'; expected a number from 1"),
        (["a-9,5,60"], "failures.csv:2: no node 'a-9'"),
        (["a-0,5,60", "a-0,30,60"], "failures.csv:3: a-0 fails at 30, before its repair at 65"),
    ],
)
def test_failures_that_can_not_be_are_told(trace_file, two_nodes, lines, said) -> None:
    path = trace_file(*lines, header="node,at,seconds", name="failures.csv")
    with pytest.raises(InputError) as caught:
        read_failures(path, two_nodes)
    assert said in str(caught.value)


def test_a_file_without_its_columns_is_told(trace_file, two_nodes) -> None:
    path = trace_file("a-0,5", header="node,at", name="failures.csv")
    with pytest.raises(InputError, match="no column seconds; expected failures of nodes with node, at, seconds"):
        read_failures(path, two_nodes)
