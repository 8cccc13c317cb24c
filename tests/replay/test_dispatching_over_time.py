"""When the dispatcher asks for which job, how teams take turns, and which data move."""

from __future__ import annotations

import pytest

from kailab.engine import Dispatch, register_policy
from kailab.replay.clusters.figures import figures
from tests.replay.clusters_file import TEAMS, clusters_file, dispatched, rows, where

WEST = {"name": "west", "nodes": 1, "teams": ["blue", "red"]}
EAST = {"name": "east", "nodes": 1}
IMAGES = {"name": "images", "size": "100G", "at": ["west"], "teams": ["blue"]}
QUOTAS = """\
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {{name: {name}}}
spec: {{resources: {{gpu: {{quota: {quota}, limit: -1}}, cpu: {{quota: -1, limit: -1}}, memory: {{quota: -1, limit: -1}}}}}}
"""


class _AfterAWhile(Dispatch, frozen=True):
    seconds: float = 3600

    def choose(self, job, clusters):
        return clusters[0].name if job.now - job.arrived >= self.seconds else None


class _InTurn(Dispatch, frozen=True):
    """East, then west, and so on."""

    def choose(self, job, clusters):
        return ("east", "west")[job.sent % 2]


register_policy("test-after-a-while", _AfterAWhile)
register_policy("test-in-turn", _InTurn)


def quotas(folder, **by_queue):
    path = folder / "queues.yaml"
    path.write_text("---\n".join(QUOTAS.format(name=name, quota=quota) for name, quota in by_queue.items()))
    return path.name


@pytest.mark.parametrize("seconds, began", [(3600, 3600), (80_000, 80_040), (100_000, None)])
def test_a_policy_may_wait_for_a_day_though_nothing_else_happens(trace_file, tmp_path, seconds, began) -> None:
    told = {"policy": "test-after-a-while", "parameters": {"seconds": seconds}}
    clusters = clusters_file(tmp_path, WEST, EAST, dispatch=told)
    path = trace_file("a,0,60,4,blue", header=TEAMS)
    found = dispatched(path, clusters)
    assert where(found)["a"] == (("west", began, began + 60) if began else (None, None, None))
    # Time in which it was asked in vain to the end is nobody's.
    assert found.ended - found.began <= (0 if began is None else began) + 180
    cut = dispatched(path, clusters, lasting=7200)
    assert where(cut)["a"] == (("west", began, began + 60) if began == 3600 else (None, None, None))
    assert cut.ended - cut.began == 7200


def test_a_team_s_turn_counts_what_was_sent_for_it(trace_file, tmp_path) -> None:
    own = {**WEST, "nodes": 2, "queues": quotas(tmp_path, blue=4, red=4)}
    clusters = clusters_file(tmp_path, own, dispatch={"policy": "global-queue"})
    jobs = [f"{team}{n},{at},60,1,{team}" for team, at in (("blue", 10), ("red", 20)) for n in range(6)]
    found = where(dispatched(trace_file("full,0,600,8,blue", *jobs, header=TEAMS), clusters))
    assert [sum(found[f"{team}{n}"][1] < 660 for n in range(6)) for team in ("blue", "red")] == [4, 4]


@pytest.mark.parametrize(
    "policy", ["spill-over", "shortest-wait", "least-latency", "data-gravity", "global-queue", "stay-home"]
)
def test_who_wants_no_gpus_waits_for_none(trace_file, tmp_path, policy) -> None:
    clusters = clusters_file(
        tmp_path, WEST, EAST, dispatch={"policy": policy}, link={"gigabitsPerSecond": 1}, datasets=[IMAGES]
    )
    found = dispatched(trace_file("a,0,6000,4,red", "b,1,6000,4,red", "c,2,60,0,blue", header=TEAMS), clusters)
    assert where(found)["c"] == ("west", 2, 62)
    assert rows(found)["c"]["expected_wait"] in (None, 0)


def test_data_count_where_they_were_moved_to(trace_file, tmp_path) -> None:
    clusters = clusters_file(
        tmp_path, WEST, EAST, dispatch={"policy": "test-in-turn", "again": "5m"}, datasets=[IMAGES]
    )
    found = dispatched(trace_file("a,0,600,4,red", "b,1,60,4,blue", header=TEAMS), clusters)
    # b is sent to the east, where a runs, and is taken back to where its data have always been.
    assert where(found) == {"a": ("east", 0, 600), "b": ("west", 301, 361)}
    told = figures(found)
    assert {one.name: one.bytes_in for one in told.clusters} == {"west": 0, "east": 100 * 10**9}
    assert told.moved == 100 * 10**9


def test_no_copy_is_begun_in_a_cluster_that_is_not_reached(trace_file, tmp_path) -> None:
    clusters = clusters_file(
        tmp_path, WEST, EAST,
        {"name": "south", "nodes": 1},
        dispatch={"policy": "least-latency"},
        link={"gigabitsPerSecond": 8},
        datasets=[{**IMAGES, "at": ["south"]}],
        outages=[{"cluster": "south", "from": "0s", "for": "10m"}],
    )  # fmt: skip
    row = rows(dispatched(trace_file("a,0,60,4,blue", header=TEAMS), clusters))["a"]
    assert (row["cluster"], row["way"], row["began"]) == ("west", 700, 700)


def test_a_queue_with_work_where_nothing_has_a_price_has_no_cost(trace_file, tmp_path) -> None:
    clusters = clusters_file(tmp_path, {**WEST, "per_hour": 1}, EAST, dispatch={"policy": "most-free"})
    told = figures(dispatched(trace_file("a,0,3600,4,blue", "b,1,3600,4,red", header=TEAMS), clusters))
    assert {one.row.name: one.cost for one in told.queues} == {"blue": 4.0, "red": None}
    assert told.cost is None
