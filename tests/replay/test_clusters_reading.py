"""Faults of files of clusters are reported with their field before anything is replayed."""

from __future__ import annotations

import pytest

from kailab.errors import InputError, InputErrors
from kailab.replay.clusters.cluster_file import SiteDefaults, read_sites
from kailab.replay.trace import read_trace
from tests.replay.clusters_file import TEAMS, clusters_file

WEST, EAST = {"name": "west", "nodes": 1, "teams": ["blue"]}, {"name": "east", "nodes": 1, "teams": ["red"]}


@pytest.fixture
def read(trace_file, tmp_path):
    def reading(*clusters, trace=None, skip_broken=False, **fields):
        path = clusters_file(tmp_path, *clusters, **fields)
        jobs = read_trace(trace or trace_file("a,0,60,4,blue", "b,0,60,4,red", header=TEAMS), priorities=None)
        return read_sites(path, jobs, SiteDefaults(skip_broken=skip_broken))

    return reading


@pytest.mark.parametrize(
    "clusters, fields, told",
    [
        ((WEST, WEST), {}, r"clusters\[1\].name: duplicate cluster west; expected each name once"),
        ((WEST, {**EAST, "teams": ["blue"]}), {}, r"clusters\[1\].teams: the team 'blue' already belongs to the cluster west"),
        ((WEST, {**EAST, "teams": []}), {}, r"home: no cluster lists the trace's teams 'red'"),
        ((WEST, EAST), {"home": "wset"}, r"home: no cluster 'wset'; there are: west, east"),
        ((WEST, EAST), {"links": [{"between": ["west", "north"]}]}, r"links\[0\].between: no cluster 'north'"),
        ((WEST, EAST), {"links": [{"between": ["west", "west"]}]}, r"links\[0\].between: expected two different clusters"),
        ((WEST, EAST), {"link": {"latency": "soon"}}, r"link.latency: .*soon"),
        ((WEST, EAST), {"link": {"gigabitsPerSecond": 0}}, r"link.gigabitsPerSecond: "),
        ((WEST, EAST), {"dispatch": {"retry": "500ms"}}, r"dispatch.retry: 500ms: expected whole seconds"),
        ((WEST, EAST), {"dispatch": {"again": "never"}}, r"dispatch.again: "),
        ((WEST, EAST), {"dispatch": {"polciy": "most-free"}}, r"dispatch.polciy: unknown field; did you mean policy\?"),
        ((WEST, EAST), {"dispatch": {"policy": "nope"}}, r"clusters.yaml:\d+: dispatch: no policy is called 'nope'"),
        (
            (WEST, EAST),
            {"dispatch": {"policy": "spill-over", "parameters": {"bound": "soon"}}},
            r"dispatch: policy 'spill-over': parameters: Expected `float`, got `str` - at `\$.bound` \(it has: bound, gain\)",
        ),
        (
            (WEST, EAST),
            {"dispatch": {"policy": "spill-over", "parameters": {"bound": -60}}},
            r"dispatch: policy 'spill-over': parameters: Expected `float` >= 0.0 - at `\$.bound`",
        ),
        ((WEST, EAST), {"datasets": [{"name": "x", "size": "much", "at": ["west"]}]}, r"datasets\[0\].size: "),
        ((WEST, EAST), {"datasets": [{"name": "x", "size": 1, "at": ["north"]}]}, r"datasets\[0\].at: no cluster"),
        (
            (WEST, EAST),
            {"datasets": [{"name": n, "size": 1, "at": ["west"], "teams": ["red"]} for n in "xy"]},
            r"datasets\[1\].teams: the team 'red' already has the dataset 'x'",
        ),
        ((WEST, EAST), {"outages": [{"cluster": "north", "from": "0s", "for": "1m"}]}, r"outages\[0\].cluster: no cluster"),
        ((WEST, EAST), {"outages": [{"cluster": "west", "from": "0s", "for": "0s"}]}, r"outages\[0\].for: 0s: expected whole"),
        (({**WEST, "limit": -1}, EAST), {}, r"clusters\[0\].limit: "),
        (({**WEST, "pay": "later"}, EAST), {}, r"clusters\[0\].pay: 'later' is not valid; expected all or held"),
        (({**WEST, "queues": "nowhere.yaml"}, EAST), {}, r"clusters.yaml:1: clusters\[0\].queues: .*nowhere.yaml: can't be read"),
        ((WEST, {**EAST, "config": "nowhere.yaml"}), {}, r"clusters.yaml:1: clusters\[1\].config: .*nowhere.yaml"),
        ((WEST, {**EAST, "prices": "nowhere.yaml"}), {}, r"clusters.yaml:1: clusters\[1\].prices: .*nowhere.yaml"),
        ((WEST, {**EAST, "policies": ["nope"]}), {}, r"clusters.yaml:1: clusters\[1\].policies: no policy is called 'nope'"),
        ((WEST, {**EAST, "policies": ["nope.py:X"]}), {}, r"clusters.yaml:1: clusters\[1\].policies: .*nope.py"),
        ((WEST, {**EAST, "policies": ["fifo", "fifo"]}), {}, r"clusters.yaml:1: clusters\[1\].policies: policy 'fifo' is of the same kind"),
        ((WEST, EAST), {"dispatch": {"policy": "fifo"}}, r"clusters.yaml:1: dispatch: policy 'fifo' is not a dispatch policy"),
        ((WEST, EAST), {"dispatch": {"policy": "nope.py:X"}}, r"clusters.yaml:1: dispatch: .*nope.py"),
        (({"name": "west", "fleet": "nowhere"}, EAST), {"home": "east"}, r"clusters.yaml:1: clusters\[0\].fleet: .*nowhere"),
    ],
)  # fmt: skip
def test_faults_are_told_by_their_field(read, clusters, fields, told) -> None:
    with pytest.raises((InputError, InputErrors), match=told):
        read(*clusters, **fields)


def test_teams_that_the_trace_does_not_have_are_told(read) -> None:
    east = {**EAST, "teams": ["red", "bleu"]}
    datasets = [{"name": "x", "size": 1, "at": ["west"], "teams": ["gren"]}]
    first, second = read(WEST, east, datasets=datasets).warnings
    assert first.endswith("clusters[1].teams: the trace has no job of the team 'bleu'; there are: blue, red")
    assert "datasets[0].teams: the trace has no job of the team 'gren'; there are: " in second
    assert not read(WEST, EAST).warnings


def test_a_dataset_that_is_not_declared_is_told_with_the_traces_line(read, trace_file) -> None:
    trace = trace_file("a,0,60,4,blue,", "b,0,60,4,red,images", header=f"{TEAMS},dataset")
    with pytest.raises(InputError, match=r"trace.csv:3: no dataset 'images'; .*clusters.yaml has: none"):
        read(WEST, EAST, trace=trace)
    found = read(WEST, EAST, trace=trace, skip_broken=True)
    assert [job.name for job in found.trace.jobs] == ["a"]
    assert [(one.line, one.broken) for one in found.trace.left_out] == [(3, True)]
    assert found.sites[0].plan.trace is found.trace


def test_a_priority_that_a_cluster_does_not_have_breaks_its_line(read, trace_file, tmp_path) -> None:
    trace = trace_file("a,0,60,4,blue,", "b,0,60,4,red,gold", header=f"{TEAMS},priority")
    queue = "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: NAME}\nspec: {}\n"
    gold = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: gold}\nvalue: 70\n"
    (tmp_path / "queues.yaml").write_text(
        "---\n".join([*(queue.replace("NAME", name) for name in ("blue", "red")), gold])
    )
    own = {"queues": "queues.yaml"}
    with pytest.raises(InputErrors, match=r"trace.csv:3: cluster east: no PriorityClass 'gold'; there are: "):
        read({**WEST, **own}, EAST, trace=trace)
    assert [job.name for job in read({**WEST, **own}, EAST, trace=trace, skip_broken=True).trace.jobs] == ["a"]
    assert len(read({**WEST, **own}, {**EAST, **own}, trace=trace).trace.jobs) == 2


def test_amounts_of_different_currencies_are_not_summed_up(read, tmp_path) -> None:
    for name, currency in (("a", "USD"), ("b", "EUR")):
        (tmp_path / name).write_text(
            f"{{apiVersion: kailab.dev/v1, kind: Prices, currency: {currency}, other: {{perHour: 1}}}}"
        )
    with pytest.raises(InputError, match="prices in EUR and USD; expected one currency"):
        read({**WEST, "prices": "a"}, {**EAST, "prices": "b"})
