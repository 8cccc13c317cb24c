"""A trace over several clusters: invariants of all replays, and equality with a replay without dispatcher for one
cluster."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec import to_builtins

from kailab.engine import Dispatch, register_policy
from kailab.errors import InputError, PolicyError
from kailab.replay import tables
from kailab.replay.clusters.figures import figures
from kailab.replay.clusters.journeys import cluster_timeline_rows, dispatched_job_rows
from kailab.replay.clusters.replica import seconds_until_room
from kailab.replay.fleets import replay_fleet
from kailab.replay.plan import ReplayPlan
from kailab.replay.queues import queues_for
from kailab.replay.run import replay
from kailab.replay.trace import read_trace
from kailab.scheduler import policy_timeouts
from tests.replay.clusters_file import TEAMS, clusters_file, dispatched, rows, where

POLICIES = (
    "stay-home", "least-cost", "least-latency", "most-free", "shortest-wait", "data-gravity", "spill-over", "global-queue",
)  # fmt: skip
JOBS = st.lists(
    st.tuples(
        st.integers(0, 400),
        st.integers(1, 300),
        st.sampled_from([0, 0.25, 0.5, 1, 2, 3, 4, 6, 8, 16]),
        st.sampled_from(["blue", "red"]),
    ),
    min_size=1,
    max_size=12,
)
QUEUE = """\
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {{name: {name}}}
spec: {{resources: {{gpu: {{quota: 0, limit: {limit}, overQuotaWeight: 1}}, cpu: {{quota: -1, limit: -1}}, memory: {{quota: -1, limit: -1}}}}}}
"""
FEW = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def written(trace_file, jobs):
    return trace_file(
        *(f"j{n},{at},{long},{gpus},{team}" for n, (at, long, gpus, team) in enumerate(jobs)), header=TEAMS
    )


@FEW
@given(JOBS, st.sampled_from([None, 40]), st.sampled_from([None, 150]), st.sampled_from(["none", "by-share"]))
def test_one_cluster_is_as_without_a_dispatcher(trace_file, tmp_path, jobs, checkpoint, lasting, queues) -> None:
    path, clusters = written(trace_file, jobs), clusters_file(tmp_path, {"name": "one", "nodes": 2})
    trace, fleet = read_trace(path), replay_fleet(str(tmp_path / "one-fleet.yaml"))
    alone = replay(
        ReplayPlan(
            trace=trace, fleet=fleet, queues=queues_for(trace, 8, queues), lasting=lasting, checkpoint=checkpoint
        )
    )
    found = dispatched(path, clusters, lasting=lasting, checkpoint=checkpoint, queues=queues)
    expected = {row[0]: dict(zip(tables.JOBS, row, strict=True)) for row in tables.job_rows(alone)}
    same = ("arrived", "began", "ended", "waited", "evictions", "lost_gpu_milli_seconds")
    assert {name: [row[key] for key in same] for name, row in rows(found).items()} == {
        name: [row[key] for key in same] for name, row in expected.items()
    }
    assert found.clusters["one"].balance == alone.balance
    assert list(cluster_timeline_rows(found)) == [("one", *row) for row in tables.timeline_rows(alone)]


def test_who_would_arrive_at_the_cut_has_not(trace_file, tmp_path) -> None:
    path = written(trace_file, [(77, 1, 0, "blue"), (277, 1, 0, "blue")])
    clusters = clusters_file(tmp_path, {"name": "west", "nodes": 1, "teams": ["blue"]})
    assert list(rows(dispatched(path, clusters, lasting=200))) == ["j0"]
    assert list(rows(dispatched(path, clusters, lasting=201))) == ["j0", "j1"]


@FEW
@given(
    JOBS,
    st.sampled_from(POLICIES),
    st.sampled_from([None, "1m"]),
    st.sampled_from([None, 200]),
    st.sampled_from([None, 3]),
    st.sampled_from(["0s", "40ms", "7s"]),
    st.lists(st.tuples(st.sampled_from(["west", "east"]), st.integers(0, 300), st.integers(1, 200)), max_size=3),
)
def test_no_job_is_lost_or_in_two_places(
    trace_file, tmp_path, jobs, policy, again, lasting, limit, latency, outages
) -> None:
    path = written(trace_file, jobs)
    clusters = clusters_file(
        tmp_path,
        {"name": "west", "nodes": 2, "teams": ["blue"], "per_hour": 2},
        {"name": "east", "nodes": 1, "teams": ["red"]} | ({} if limit is None else {"limit": limit}),
        dispatch={"policy": policy} | ({} if again is None else {"again": again}),
        link={"latency": latency, "gigabitsPerSecond": 1},
        datasets=[{"name": "images", "size": "5G", "at": ["west"], "teams": ["red"]}],
        outages=[{"cluster": name, "from": f"{at}s", "for": f"{lasts}s"} for name, at, lasts in outages],
    )
    found = dispatched(path, clusters, lasting=lasting)  # raises where jobs or GPU time do not come out
    table = rows(found)
    assert len(table) == len(found.journeys)
    inside = [work.job.name for one in found.clusters.values() for work in one.accounts.works.values()]
    outside = [one.job.name for one in found.journeys if one.work is None]
    assert sorted((*inside, *outside)) == sorted(table)
    for name, (_, seconds, gpus, _) in ((f"j{n}", job) for n, job in enumerate(jobs)):
        row = table.get(name)
        if row is None or row["began"] is None:
            continue
        # No sooner than it and its data were there, and on a cluster that can hold it.
        assert row["began"] >= row["sent"] + row["way"] >= row["arrived"]
        assert gpus <= (8 if row["cluster"] == "west" else limit or 4)
        assert row["ended"] is None or row["ended"] - row["began"] == seconds or row["evictions"]
    if lasting is None:
        assert all(table[f"j{n}"]["ended"] is not None for n, job in enumerate(jobs) if job[2] <= 8)
    held = [(name, amount) for name, _, amount, _, _ in cluster_timeline_rows(found)]
    assert all(amount <= (8000 if name == "west" else 1000 * (4 if limit is None else limit)) for name, amount in held)
    told = figures(found)
    assert told.total.jobs == sum(one.row.jobs for one in told.clusters) + told.with_dispatcher + told.on_way
    assert told.total.jobs == sum(one.row.jobs for one in told.queues)
    assert sum(one.came for one in told.clusters) == told.away == sum(one.went for one in told.clusters)


@FEW
@given(st.lists(st.tuples(st.integers(1, 8), st.integers(1, 90)), min_size=1, max_size=10), st.integers(1, 8))
def test_the_estimate_is_what_comes_when_all_is_as_it_assumes(trace_file, tmp_path, waiting, last) -> None:
    # One node, one queue, whole GPUs: nothing is split, nobody overtakes... but for those that backfill, so sizes are all alike.
    jobs = [f"j{n},0,{seconds},8,blue" for n, (_, seconds) in enumerate(waiting)]
    path = trace_file(*jobs, f"last,1,10,{last},blue", header=TEAMS)
    clusters = clusters_file(tmp_path, {"name": "one", "nodes": 1, "gpus": 8}, dispatch={"policy": "shortest-wait"})
    row = rows(dispatched(path, clusters, queues="one"))["last"]
    assert row["expected_wait"] == row["waited"]


def test_room_is_when_those_before_have_begun_and_enough_has_ended() -> None:
    assert seconds_until_room(0, [(60.0, 1000), (90.0, 2000)], [], 1000) == 60
    assert seconds_until_room(0, [(60.0, 1000), (90.0, 2000)], [(3000, 100.0, 0.0)], 1000) == 190
    assert seconds_until_room(500, [], [], 1000) == float("inf")


def test_the_same_files_give_the_same_tables(trace_file, tmp_path) -> None:
    path = trace_file(
        *(f"j{n},{n * 7},{60 + n},{1 + n % 8},{'blue' if n % 3 else 'red'}" for n in range(30)), header=TEAMS
    )
    clusters = clusters_file(
        tmp_path,
        {"name": "west", "nodes": 2, "teams": ["blue"], "per_hour": 2},
        {"name": "east", "nodes": 1, "teams": ["red"], "per_hour": 1},
        dispatch={"policy": "spill-over", "parameters": {"bound": 30}, "again": "40s"},
    )
    first, second = (dispatched(path, clusters) for _ in range(2))
    assert list(dispatched_job_rows(first)) == list(dispatched_job_rows(second))
    assert list(cluster_timeline_rows(first)) == list(cluster_timeline_rows(second))
    assert json.dumps(to_builtins(figures(first))) == json.dumps(to_builtins(figures(second)))


def test_what_does_not_balance_is_noticed(trace_file, tmp_path) -> None:
    path = trace_file("a,0,60,4,blue", "b,0,60,4,blue", header=TEAMS)
    clusters = clusters_file(
        tmp_path, {"name": "west", "nodes": 1, "teams": ["blue"]}, {"name": "east", "nodes": 1},
        dispatch={"policy": "spill-over", "parameters": {"bound": 0}},
    )  # fmt: skip
    found = dispatched(path, clusters)
    assert where(found) == {"a": ("west", 0, 60), "b": ("east", 0, 60)}
    one, other = found.journeys
    west, east = (found.clusters[name].accounts for name in ("west", "east"))
    west.works[other.name] = other.work
    assert found.faults[0].startswith("b is in west, east; expected east")
    del west.works[other.name], east.works[other.name]
    assert found.faults[0].startswith("b is in no cluster; expected east")
    east.works[other.name] = other.work
    east.submitted -= 1
    assert found.faults[0].startswith("480000 milli-GPU-seconds arrived, which is not 479999 in clusters")
    east.submitted += 1
    found.journeys.remove(one)
    assert found.faults[0].startswith("2 jobs of the trace have arrived; the dispatcher knows 1")


class _Answers(Dispatch, frozen=True):
    answer: str = ""

    def choose(self, job, clusters):
        if self.answer == "raise":
            raise ValueError("no idea")
        while self.answer == "never":
            pass
        return {"nowhere": None, "number": 7}.get(self.answer, self.answer)

    def turn(self, job):
        return float("nan") if self.answer == "nowhere" else 0.0


register_policy("test-answers", _Answers)


@pytest.mark.parametrize(
    "answer, told",
    [
        ("raise", "dispatch policy 'test-answers': choose of job a at .*: ValueError: no idea"),
        ("number", "choose of job a at .*: 7; expected None or one of west, east"),
        ("north", "choose of job a at .*: 'north'; expected None or one of west, east"),
        ("nowhere", "turn of job a at .*: nan; expected a number, or several"),
        ("never", "choose of job a at .*: PolicyTimeout: the policy did not return in time"),
    ],
)
def test_an_answer_that_is_none_is_refused_with_the_policys_name(
    trace_file, tmp_path, monkeypatch, answer, told
) -> None:
    monkeypatch.setattr(policy_timeouts.WATCHDOG, "_looks", 2)
    monkeypatch.setattr(policy_timeouts.WATCHDOG, "_every", 0.05)
    clusters = clusters_file(
        tmp_path, {"name": "west", "nodes": 1, "teams": ["blue"]}, {"name": "east", "nodes": 1},
        dispatch={"policy": "test-answers", "parameters": {"answer": answer}},
    )  # fmt: skip
    with pytest.raises(PolicyError, match=told):
        dispatched(trace_file("a,0,60,4,blue", "b,0,60,4,blue", header=TEAMS), clusters)


def test_a_policy_that_holds_all_for_ever_does_not_hold_the_replay(trace_file, tmp_path) -> None:
    clusters = clusters_file(
        tmp_path, {"name": "west", "nodes": 1, "limit": 4}, dispatch={"policy": "global-queue", "retry": "5m"}
    )
    # b can never have 4 GPUs beside what never ends.
    path = trace_file("a,0,60,1,blue", "b,1,60,4,blue", header=TEAMS)
    found = dispatched(path, clusters, endless=True)
    assert where(found) == {"a": ("west", 0, None), "b": (None, None, None)}
    assert figures(found).with_dispatcher == 1


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_beyond_the_limit_of_the_one_cluster_with_room_never_begins_and_is_in_nobodys_way(
    trace_file, tmp_path, policy
) -> None:
    west = {"name": "west", "nodes": 2, "limit": 4, "teams": ["blue"]}
    clusters = clusters_file(tmp_path, west, {"name": "east", "nodes": 1, "teams": []}, dispatch={"policy": policy})
    path = trace_file("large,0,600,8,blue", "small,10,60,2,blue", header=TEAMS)
    found = dispatched(path, clusters)
    assert where(found)["large"] == (None, None, None)
    assert where(found)["small"][1:] == (10, 70)
    assert figures(found).with_dispatcher == 1


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("never", ["0,600,16,blue", "0,600,8,red"], ids=["too large", "beyond its queue's limit"])
def test_a_job_that_begins_nowhere_waits_at_home_and_is_in_nobodys_way(trace_file, tmp_path, policy, never) -> None:
    queues = tmp_path / "queues.yaml"
    queues.write_text("---\n".join(QUEUE.format(name=name, limit=limit) for name, limit in (("blue", -1), ("red", 4))))
    west = {"name": "west", "nodes": 2, "teams": ["blue", "red"], "limit": 16, "queues": queues.name}
    east = {"name": "east", "nodes": 1, "teams": [], "queues": queues.name}
    clusters = clusters_file(tmp_path, west, east, dispatch={"policy": policy, "again": "1m"})
    # Only west has room for the second of them.
    found = dispatched(trace_file(f"never,{never}", "next,10,60,8,blue", header=TEAMS), clusters)
    assert where(found) == {"never": ("west", None, None), "next": ("west", 10, 70)}
    # Policies that ask how long it would wait are told that it would not.
    assert rows(found)["next"]["expected_wait"] in (None, 0)


@FEW
@given(
    st.sampled_from([policy for policy in POLICIES if policy != "most-free"]),
    st.lists(st.tuples(st.integers(0, 90), st.integers(1, 300), st.sampled_from([1, 2, 4])), min_size=1, max_size=8),
    st.sampled_from([0, 1, 2, 4]),
    st.sampled_from([None, "1m"]),
)
@example("global-queue", [(0, 300, 4), (1, 300, 4), (2, 300, 4)], 4, None)
def test_jobs_at_the_limit_of_their_queue_are_in_nobodys_way(
    trace_file, tmp_path, policy, limited, limit, again
) -> None:
    """The home has room for all that the limited queue may hold at once, and for all jobs of the other team beside it."""
    queues = tmp_path / "queues.yaml"
    queues.write_text(
        "---\n".join(QUEUE.format(name=name, limit=bound) for name, bound in (("blue", -1), ("red", limit)))
    )
    west = {"name": "west", "nodes": 3, "teams": ["blue", "red"], "queues": queues.name}
    clusters = clusters_file(
        tmp_path,
        west,
        {**west, "name": "east", "teams": []},
        dispatch={"policy": policy, **({"again": again} if again else {})},
    )
    lines = [f"r{number},{at},{long},{gpus},red" for number, (at, long, gpus) in enumerate(limited)]
    lines += [f"b{number},{50 + 10 * number},500,4,blue" for number in range(2)]
    found = where(dispatched(trace_file(*lines, header=TEAMS), clusters))
    shift = min(50, *(at for at, _, _ in limited))
    assert {name: one for name, one in found.items() if name[0] == "b"} == {
        f"b{number}": ("west", 50 + 10 * number - shift, 550 + 10 * number - shift) for number in range(2)
    }


NOWHERE = st.sampled_from(
    # Too large; beyond its queue's limit; of a model that there is not; of too much memory; in pods of which no cluster has room for all.
    [
        (16, "blue", 1, "", 0, 0),
        (5, "red", 1, "", 0, 0),
        (1, "blue", 0.5, "V100", 0, 0),
        (1, "blue", 1, "", 600_000, 1),
        (4, "blue", 1, "", 300_000, 4),
    ]
)


@FEW
@given(
    st.sampled_from(POLICIES),
    st.lists(st.tuples(st.integers(0, 90), st.integers(1, 300), NOWHERE), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(1, 120), st.integers(1, 300), st.sampled_from([1, 2, 4])), min_size=1, max_size=8),
    st.sampled_from([{}, {"again": "1m"}]),
)
def test_jobs_that_begin_nowhere_change_nothing_for_others(
    trace_file, tmp_path, policy, hopeless, others, again
) -> None:
    queues = tmp_path / "queues.yaml"
    queues.write_text("---\n".join(QUEUE.format(name=name, limit=limit) for name, limit in (("blue", -1), ("red", 4))))
    west = {"name": "west", "nodes": 1, "gpus": 8, "teams": ["blue", "red"], "queues": queues.name}
    east = {**west, "name": "east", "nodes": 2, "gpus": 4, "teams": []}
    clusters = clusters_file(tmp_path, west, east, dispatch={"policy": policy, **again})
    header = f"{TEAMS},share,models,memory_mib,pods"
    first = "first,0,1,1,blue,1,,0,1"
    ordinary = [f"o{number},{at},{long},{gpus},blue,1,,0,1" for number, (at, long, gpus) in enumerate(others)]
    vain = [f"n{number},{at},{long},{','.join(map(str, one))}" for number, (at, long, one) in enumerate(hopeless)]
    found = where(dispatched(trace_file(first, *vain, *ordinary, header=header), clusters))
    alone = where(dispatched(trace_file(first, *ordinary, header=header), clusters))
    assert {name: one for name, one in found.items() if name[0] != "n"} == alone
    assert all(began is None for name, (_, began, _) in found.items() if name[0] == "n")


def test_a_job_is_sent_where_its_queue_lets_it_begin(trace_file, tmp_path) -> None:
    queues = tmp_path / "queues.yaml"
    queues.write_text(QUEUE.format(name="red", limit=4))
    west = {"name": "west", "nodes": 2, "teams": ["red"], "queues": queues.name}
    east = {**west, "name": "east", "teams": []}
    path = trace_file("a,0,600,4,red", "b,10,60,4,red", "c,20,60,4,red", header=TEAMS)
    for policy, third in (
        ("global-queue", ("east", 80)),
        ("shortest-wait", ("east", 70)),
        ("stay-home", ("west", 660)),
    ):
        found = where(dispatched(path, clusters_file(tmp_path, west, east, dispatch={"policy": policy})))
        assert found["b"][:2] == (("west", 600) if policy == "stay-home" else ("east", 10)), policy
        assert found["c"][:2] == third, policy


def test_a_policy_of_another_kind_does_not_dispatch(trace_file, tmp_path) -> None:
    path = trace_file("a,0,60,4,blue", header=TEAMS)
    clusters = clusters_file(tmp_path, {"name": "west", "nodes": 1}, dispatch={"policy": "fifo"})
    with pytest.raises(InputError, match="policy 'fifo' is not a dispatch policy"):
        dispatched(path, clusters)
    clusters = clusters_file(tmp_path, {"name": "west", "nodes": 1, "policies": ["spill-over"]})
    with pytest.raises(
        InputError, match=r"clusters.yaml:1: clusters\[0\].policies: policy 'spill-over' is a dispatch policy"
    ):
        dispatched(path, clusters)
