"""The cluster that each built-in dispatch policy chooses, and when jobs begin there."""

from __future__ import annotations

import pytest

from tests.replay.clusters_file import TEAMS, clusters_file, dispatched, rows, where

WEST = {"name": "west", "nodes": 1, "teams": ["blue", "red"]}


@pytest.fixture
def sent(trace_file, tmp_path):
    """``sent(lines, policy, *clusters, parameters, **fields)``: name -> (cluster, began, ended)."""

    def run(lines, policy, *clusters, parameters=None, again=None, rows_of=where, header=TEAMS, **fields):
        told = {"policy": policy, "parameters": parameters or {}} | ({} if again is None else {"again": again})
        path = clusters_file(tmp_path, *clusters, dispatch=told, **fields)
        return rows_of(dispatched(trace_file(*lines, header=header), path))

    return run


FULL = ("a,0,600,4,blue", "b,10,60,4,blue")
EAST = {"name": "east", "nodes": 1}


def test_at_home_everybody_waits_for_the_own_cluster(sent) -> None:
    assert sent(FULL, "stay-home", WEST, EAST) == {"a": ("west", 0, 600), "b": ("west", 600, 660)}


def test_what_can_not_run_at_home_goes_elsewhere(sent) -> None:
    large = {"name": "east", "nodes": 2}
    assert sent(("a,0,60,8,blue",), "stay-home", WEST, large) == {"a": ("east", 0, 60)}


def test_what_can_not_run_anywhere_waits_at_home(sent) -> None:
    assert sent(("a,0,60,99,blue",), "spill-over", WEST, EAST) == {"a": ("west", None, None)}


def test_a_job_goes_where_its_models_are(sent) -> None:
    header = f"{TEAMS},models"
    h100 = {"name": "east", "nodes": 1, "model": "H100"}
    found = sent(("a,0,60,4,blue,H100", "b,0,60,4,blue,A100|H100"), "stay-home", WEST, h100, header=header)
    assert found == {"a": ("east", 0, 60), "b": ("west", 0, 60)}


@pytest.mark.parametrize("bound, expected", [(589, ("east", 10, 70)), (590, ("west", 600, 660))])
def test_jobs_spill_over_when_the_wait_at_home_would_be_longer_than_the_bound(sent, bound, expected) -> None:
    assert sent(FULL, "spill-over", WEST, EAST, parameters={"bound": bound})["b"] == expected


def test_they_stay_where_elsewhere_is_no_sooner(sent) -> None:
    lines = (*FULL, "c,20,60,4,red")
    # b is in the east until 70; there c would begin at 70, at home at 600.
    assert sent(lines, "spill-over", WEST, EAST, parameters={"bound": 30})["c"] == ("east", 70, 130)
    assert sent(lines, "spill-over", WEST, EAST, parameters={"bound": 30, "gain": 530})["c"] == ("west", 600, 660)


def test_of_clusters_as_soon_the_cheapest_takes_what_spills_over(sent) -> None:
    clusters = (WEST, {**EAST, "per_hour": 5}, {"name": "south", "nodes": 1, "per_hour": 1})
    assert sent(FULL, "spill-over", *clusters, parameters={"bound": 60})["b"] == ("south", 10, 70)


def test_the_cheapest_counts_its_data_and_may_be_bounded_by_a_wait(sent) -> None:
    clusters = ({**WEST, "per_hour": 3}, {**EAST, "per_hour": 1})
    assert sent(FULL, "least-cost", *clusters) == {"a": ("east", 0, 600), "b": ("east", 600, 660)}
    assert sent(FULL, "least-cost", *clusters, parameters={"within": 60})["b"] == ("west", 10, 70)
    # a costs 4 GPUs x 600 s: 2.00 at home, 0.67 away and 10.00 for its data.
    data = {"datasets": [{"name": "images", "size": "100G", "at": ["west"], "teams": ["blue"]}]}
    found = sent(FULL, "least-cost", *clusters, link={"perGigabyte": 0.1}, **data)
    assert found == {"a": ("west", 0, 600), "b": ("west", 600, 660)}
    # Without prices nothing is cheaper than anything: the order of the file decides.
    assert sent(FULL, "least-cost", EAST, WEST)["a"] == ("east", 0, 600)


def test_the_nearest_with_room_is_taken(sent) -> None:
    clusters = (WEST, EAST, {"name": "south", "nodes": 1})
    links = [{"between": ["west", "east"], "latency": "90ms"}, {"between": ["west", "south"], "latency": "5ms"}]
    found = sent((*FULL, "c,20,60,4,red", "d,30,60,4,red"), "least-latency", *clusters, links=links)
    # On its way a job needs a second. d begins where that is soonest.
    assert found == {"a": ("west", 0, 600), "b": ("south", 11, 71), "c": ("east", 21, 81), "d": ("south", 71, 131)}


def test_the_most_free_is_that_after_those_who_wait(sent) -> None:
    large = {"name": "east", "nodes": 2}
    found = sent(("a,0,600,4,blue", "b,1,600,2,blue", "c,2,600,1,blue"), "most-free", WEST, large)
    assert {name: cluster for name, (cluster, *_) in found.items()} == {"a": "east", "b": "west", "c": "east"}


def test_the_shortest_wait_counts_the_way(sent) -> None:
    far = {"link": {"latency": "10m"}}
    assert sent(FULL, "shortest-wait", WEST, EAST, **far)["b"] == ("west", 600, 660)
    assert sent(("a,0,700,4,blue", "b,10,60,4,blue"), "shortest-wait", WEST, EAST, **far)["b"] == ("east", 610, 670)


DATA = {
    "datasets": [{"name": "images", "size": "75G", "at": ["west"], "teams": ["blue"]}],
    "link": {"gigabitsPerSecond": 10},
}


def test_jobs_go_to_their_data(sent) -> None:
    assert sent(FULL, "data-gravity", EAST, WEST, **DATA)["b"] == ("west", 600, 660)
    # 75 GB take 60 s.
    patient = {"parameters": {"patience": 300}}
    found = sent((*FULL, "c,20,60,4,red"), "data-gravity", EAST, WEST, {"name": "south", "nodes": 1}, **DATA, **patient)
    # b's data keep no GPU of the east free until they are there, so c starts there at once.
    assert found == {"a": ("west", 0, 600), "b": ("east", 80, 140), "c": ("east", 20, 80)}


def test_data_on_their_way_keep_no_gpu_free(sent) -> None:
    """A job whose data take an hour is no wait for a job that has none: it is there long before."""
    data = {
        "link": {"gigabitsPerSecond": 10},
        "datasets": [{"name": "corpus", "size": "4500G", "at": ["west"], "teams": ["blue"]}],
    }
    lines = ("full,0,9000,4,red", "slow,5,60,4,blue", "quick,10,30,4,red")
    found = sent(lines, "shortest-wait", WEST, EAST, **data)
    assert found["slow"] == ("east", 3605, 3665)
    assert found["quick"] == ("east", 10, 40)


def test_a_job_waits_behind_data_that_are_there_first(sent) -> None:
    data = {
        "link": {"gigabitsPerSecond": 10},
        "datasets": [{"name": "corpus", "size": "75G", "at": ["west"], "teams": ["blue"]}],
    }
    lines = ("full,0,9000,4,red", "one,5,600,4,blue", "two,10,60,4,blue")
    found = sent(lines, "shortest-wait", WEST, EAST, rows_of=rows, **data)
    # Both use the same copy, which is in the east at 65; the second starts once the first has ended.
    assert [(found[name]["began"], found[name]["expected_wait"]) for name in ("one", "two")] == [(65, 60), (665, 655)]


def test_data_are_moved_once_and_the_link_moves_one_dataset_after_the_other(sent) -> None:
    lines = ("a,0,60,1,blue", "b,10,60,1,blue", "c,10,60,1,red", "d,500,60,1,red")
    data = {
        **DATA,
        "datasets": [*DATA["datasets"], {"name": "speech", "size": "25G", "at": ["west"], "teams": ["red"]}],
    }
    clusters = ({**WEST, "limit": 0}, EAST)
    found = sent(lines, "shortest-wait", *clusters, rows_of=rows, **data)
    assert {name: (row["way"], row["moved_bytes"], row["began"]) for name, row in found.items()} == {
        "a": (60, 75 * 10**9, 60), "b": (50, 0, 60), "c": (70, 25 * 10**9, 80), "d": (0, 0, 500),
    }  # fmt: skip


def test_data_come_from_where_they_are_there_first(sent) -> None:
    lines, header = ("a,0,60,1,blue,images",), f"{TEAMS},dataset"
    clusters = ({**WEST, "limit": 0}, {"name": "south", "nodes": 1, "limit": 0}, EAST)
    links = [{"between": ["south", "east"], "gigabitsPerSecond": 100}]
    data = {"datasets": [{"name": "images", "size": "75G", "at": ["west", "south"]}], "link": DATA["link"]}
    assert sent(lines, "shortest-wait", *clusters, links=links, header=header, **data) == {"a": ("east", 6, 66)}


def test_a_global_queue_holds_jobs_until_a_cluster_has_room(sent) -> None:
    lines = (*FULL, "c,20,60,4,blue", "d,30,60,4,red")
    found = sent(lines, "global-queue", WEST, EAST, rows_of=rows)
    assert {name: (row["cluster"], row["sent"]) for name, row in found.items()} == {
        "a": ("west", 0), "b": ("east", 10),
        # Asked for each minute from 20 on, when c came; red holds nothing, so that d is first.
        "d": ("east", 80), "c": ("east", 140),
    }  # fmt: skip


def test_of_the_global_queue_the_team_that_holds_least_of_its_quotas_is_first(trace_file, tmp_path) -> None:
    path = clusters_file(tmp_path, WEST, EAST, dispatch={"policy": "global-queue"})
    lines = ("a,0,90,4,blue", "x,0,600,4,red", "b,10,60,4,red", "c,20,60,4,blue", "d,30,60,4,blue")
    found = rows(dispatched(trace_file(*lines, header=TEAMS), path, queues="by-share"))
    # a has ended by 130: red holds 4 GPUs of its quota, blue none of its.
    assert sorted(found, key=lambda name: found[name]["sent"])[2:] == ["c", "d", "b"]


def test_what_has_waited_long_may_be_taken_back(trace_file, tmp_path) -> None:
    # As b comes it is expected to begin at 100. Then c comes, with a higher priority, and is before it.
    lines = ("a,0,100,4,blue,", "b,10,60,4,blue,", "c,20,2000,4,red,inference")
    trace = trace_file(*lines, header=f"{TEAMS},priority")
    found = {}
    for again, most in ((None, 1), ("2m", 1), ("30s", 2), ("50s", 2)):
        told = {"policy": "spill-over", "parameters": {"bound": 600}} | (
            {"again": again, "most": most} if again else {}
        )
        path = clusters_file(tmp_path, WEST, EAST, dispatch=told)
        row = rows(dispatched(trace, path, queues="one"))["b"]
        found[again] = row["cluster"], row["began"], row["times_sent"], row["taken_back"]
    assert found == {
        None: ("west", 2121, 1, 0), "2m": ("east", 130, 2, 1), "30s": ("east", 40, 2, 1), "50s": ("east", 60, 2, 1),
    }  # fmt: skip


def test_what_has_begun_stays(sent) -> None:
    # b has waited for 590 s and runs by the time of the look at it.
    found = sent(FULL, "spill-over", WEST, EAST, parameters={"bound": 590}, again="600s", rows_of=rows)["b"]
    assert (found["cluster"], found["began"], found["taken_back"]) == ("west", 600, 0)


def test_what_nobody_reaches_gets_nothing_and_keeps_what_it_has(sent) -> None:
    out = {"outages": [{"cluster": "west", "from": "5s", "for": "5m"}, {"cluster": "east", "from": "20s", "for": "1m"}]}
    lines = (*FULL, "c,20,60,4,red", "d,400,60,4,red")
    # a runs on; b goes where it can; c stays with the dispatcher, which asks each minute, until the east is reached.
    assert sent(lines, "stay-home", WEST, EAST, **out) == {
        "a": ("west", 0, 600), "b": ("east", 10, 70), "c": ("east", 80, 140), "d": ("west", 600, 660),
    }  # fmt: skip


def test_a_job_on_its_way_into_an_outage_comes_to_be_there_once(sent) -> None:
    out = {"outages": [{"cluster": "east", "from": "15s", "for": "100s"}], "link": {"latency": "10s"}}
    found = sent(FULL, "spill-over", WEST, EAST, parameters={"bound": 60}, rows_of=rows, **out)["b"]
    assert (found["cluster"], found["sent"], found["began"], found["times_sent"]) == ("east", 10, 115, 1)


def test_nobody_is_taken_back_from_where_nobody_reaches(trace_file, tmp_path) -> None:
    lines = ("a,0,100,4,blue,", "b,10,60,4,blue,", "c,20,2000,4,red,inference")
    path = clusters_file(
        tmp_path, WEST, EAST, dispatch={"policy": "spill-over", "parameters": {"bound": 600}, "again": "2m"},
        outages=[{"cluster": "west", "from": "100s", "for": "300s"}],
    )  # fmt: skip
    trace = trace_file(*lines, header=f"{TEAMS},priority")
    row = rows(dispatched(trace, path, queues="one"))["b"]
    assert (row["cluster"], row["began"], row["taken_back"]) == ("east", 400, 1)


def test_a_replay_ends_with_its_last_job(sent) -> None:
    found = sent(FULL, "spill-over", WEST, EAST, again="1d", rows_of=lambda found: found.ended - found.began)
    assert found == 660


def test_a_job_is_not_sent_where_no_node_has_its_cpu_or_memory(trace_file, tmp_path) -> None:
    header = f"{TEAMS},cpu,memory_mib"
    lines = ("a,0,60,1,blue,65,0", "b,0,60,0,blue,1,600000", "c,0,60,8,blue,64,0", "d,0,60,0,blue,64,1024")
    fleet = '{"apiVersion": "kailab.dev/v1", "kind": "Fleet", "name": "big", "pools": [{"name": "big", "count": 2, "cpu": 96, "memory": "1Ti", "gpus": 4}]}'
    (tmp_path / "big.yaml").write_text(fleet)
    path = clusters_file(tmp_path, WEST, {"name": "east", "fleet": "big.yaml"}, dispatch={"policy": "stay-home"})
    found = where(dispatched(trace_file(*lines, header=header), path))
    assert {name: cluster for name, (cluster, *_) in found.items()} == {
        "a": "east",
        "b": "east",
        "c": "east",
        "d": "west",
    }
    assert all(ended is not None for *_, ended in found.values())


def test_clusters_may_have_other_queues(sent) -> None:
    lines = (*FULL, "c,20,60,4,red")
    found = sent(lines, "global-queue", {**WEST, "queues": "one"}, {**EAST, "queues": "by-share"}, rows_of=rows)
    assert {name: (row["cluster"], row["queue"]) for name, row in found.items()} == {
        "a": ("west", "trace"), "b": ("east", "blue"), "c": ("east", "red"),
    }  # fmt: skip
