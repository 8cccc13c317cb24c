"""Policies named in a replay decide in the lab's own scheduler."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec import structs

from benchmarks import fgd
from benchmarks.fgd import allocations, deciding, drawn, pods_of, snapshot_of
from benchmarks.fgd_table import Row, beside, markdown
from kailab.engine.policies.settings import PolicyChoice
from kailab.errors import InputError, KailabError
from kailab.fleet.fleet import Fleet, Pool
from kailab.policies.fragmentation import TypicalWorkload
from kailab.replay import tables
from kailab.replay.job import TraceJob
from kailab.replay.policies import with_replay_policies, workload_mix
from kailab.replay.trace import Trace, read_trace
from kailab.scheduler.cycle_record import CycleRecord
from kailab.scheduler.observers import Observer


@pytest.fixture
def began(trace_file, replayed, two_nodes):
    """When each job of a trace began under these policies, in seconds after the first arrival."""

    def run(*lines: str, policies=(), fleet=two_nodes, **header: str) -> dict[str, int]:
        path = trace_file(*lines, **header)
        config = with_replay_policies(None, policies, read_trace(path), fleet)
        return {row[0]: row[8] for row in tables.job_rows(replayed(path, "one", config=config, fleet=fleet))}

    return run


QUEUED = ("first,0,100,8", "long,10,500,8", "short,20,50,8", "small,30,400,1")


@pytest.mark.parametrize(
    "policies, order",
    [
        ((), ["first", "long", "short", "small"]),
        (("fifo",), ["first", "long", "short", "small"]),
        (("shortest-job",), ["first", "short", "small", "long"]),
        (("smallest-job",), ["first", "small", "long", "short"]),
    ],
)
def test_an_order_of_jobs_decides_who_begins(began, policies, order) -> None:
    times = began(*QUEUED, policies=policies)
    assert sorted(times, key=times.__getitem__) == order


def test_fifo_knows_no_priority(began) -> None:
    # What runs is not preemptible: those that wait are all that there is to order.
    lines = ("first,0,100,8,build", "early,10,50,8,build", "urgent,20,50,8,inference")
    header = {"header": "name,submit,seconds,gpus,priority"}
    by_priority, by_arrival = began(*lines, **header), began(*lines, policies=("fifo",), **header)
    assert by_priority["urgent"] < by_priority["early"]
    assert by_arrival["early"] < by_arrival["urgent"]


class Binds(Observer):
    """Pod -> node of all that the scheduler bound, with names."""

    def __init__(self) -> None:
        self.nodes: dict[str, str] = {}

    def on_cycle(self, record: CycleRecord) -> None:
        self.nodes.update((record.tasks[bind.task], bind.node) for bind in record.decisions.binds)


@pytest.mark.parametrize(
    "policy, node",
    [
        ("gpu-packing", "a-0"),  # a node in use first
        ("best-fit", "a-0"),
        ("dot-product", "a-0"),
        ("fgd", "a-0"),  # its last GPU is of no use to pods of three
        ("gpu-clustering", "a-1"),  # a node that holds none rather than one that holds requests of another size
    ],
)
def test_a_score_of_nodes_says_where_pods_go(trace_file, replayed, two_nodes, policy, node) -> None:
    path = trace_file("three,0,1000,3", "half,1,1000,0.5")
    binds = Binds()
    replayed(path, "one", config=with_replay_policies(None, (policy,), read_trace(path), two_nodes), observers=(binds,))
    assert list(binds.nodes.values()) == ["a-0", node]


def test_random_goes_anywhere_and_the_same_way_again(trace_file, replayed, two_nodes) -> None:
    path = trace_file(*(f"s{number},{number},1000,0.25" for number in range(12)))
    found = []
    for seed in (1, 1, 2):
        binds = Binds()
        config = with_replay_policies(None, ("random",), read_trace(path), two_nodes, seed)
        replayed(path, "one", config=config, observers=(binds,), endless=True)
        found.append(list(binds.nodes.values()))
    assert found[0] == found[1] != found[2]
    assert set(found[0]) == {"a-0", "a-1"}


def test_fgd_is_told_what_pods_the_trace_has(trace_file, two_nodes) -> None:
    trace = read_trace(trace_file("a,0,60,1", "b,0,60,1", "c,0,60,6", "d,0,60,0.5"))
    assert workload_mix(trace, two_nodes) == (
        TypicalWorkload(cpu=0, devices=3, portion=1000, models=(), part=0.4),
        TypicalWorkload(cpu=0, devices=1, portion=1000, models=(), part=0.4),
        TypicalWorkload(cpu=0, devices=1, portion=500, models=(), part=0.2),
    )


def test_in_fgd_s_experiment_a_model_named_twice_makes_another_sort_of_pod(tmp_path, two_nodes) -> None:
    # As in the simulator: the text tells the sort. Elsewhere both are pods that may run on T4 or P100.
    path = tmp_path / "pods.csv"
    lines = ("a,1000,1024,1,1000,T4|P100", "b,1000,1024,1,1000,T4|P100", "c,1000,1024,1,1000,T4|P100|P100")
    path.write_text("\n".join(("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec", *lines)))
    sorts = workload_mix(pods_of(path), two_nodes)
    assert [(sort.models, round(sort.part, 2)) for sort in sorts] == [
        (("P100", "T4"), 0.67),
        (("P100", "P100", "T4"), 0.33),
    ]


def test_a_policy_of_ours_stands_beside_a_published_one_seed_by_seed() -> None:
    published = {("default", "fgd"): [(42, 95.0, 95.2), (43, 94.0, 94.2), (44, 90.0, 90.0)]}
    ours = [Row("default", "own", 42, 0, 95.3, 95.3, 1.0), Row("default", "own", 43, 0, 94.1, 94.5, 1.0)]
    row = beside([*ours, Row("default", "fgd", 42, 0, 95.0, 95.2, 1.0)], published, ("default", "cpu050"), "own", "fgd")
    cells = [cell.strip() for cell in row.splitlines()[-1].split("|")[1:-1]]
    assert cells == [
        "default", "2", "94.70", "94.50", "not all run", "+0.20 ± 0.10", "94.90", "94.70", "not all run", "+0.20 ± 0.10",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "policies, seed, told",
    [
        (
            ("fgd", "random"),
            None,
            "policy 'random' is of the same kind as another named policy; expected one policy of each kind",
        ),
        (("fifo",), 3, "--seed applies only to the policy random"),
        (
            ("nothing",),
            None,
            "no policy is called 'nothing'; installed distributions bring: none; kailab has: fifo, shortest-job",
        ),
    ],
)
def test_policies_that_can_not_be_are_refused(trace_file, two_nodes, policies, seed, told) -> None:
    with pytest.raises(KailabError) as error:
        with_replay_policies(None, policies, read_trace(trace_file("a,0,60,1")), two_nodes, seed)
    assert told in str(error.value)


@pytest.mark.parametrize("said", ["tiresias", "{weights: {priority: 1}}"])
def test_a_policy_by_name_stands_in_the_place_of_what_the_configuration_says(
    trace_file, two_nodes, tmp_path, said: str
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"kailab: {{jobOrder: {said}}}\n")
    engine = with_replay_policies(config, ("shortest-job",), read_trace(trace_file("a,0,60,1")), two_nodes).engine
    assert engine.job_order_policy == PolicyChoice(name="shortest-job", parameters={})
    assert engine.weighted_order is None


def test_a_workload_is_drawn_until_the_demand_is_there() -> None:
    jobs = [TraceJob(name=f"j{number}", arrival=0, seconds=1, gpus=number % 3) for number in range(30)]
    for gpus in (40, 10):  # more than they ask for, and less
        found = drawn(jobs, 5, gpus, seed=7)
        assert 1.3 * gpus - 2 <= sum(jobs[row].gpus for row in found.pods) <= 1.3 * gpus + 1
        assert sorted(found.places) == [0, 1, 2, 3, 4]
        assert found == drawn(jobs, 5, gpus, seed=7) != drawn(jobs, 5, gpus, seed=8)


def test_runs_of_one_draw_with_other_numbers_count_as_their_mean() -> None:
    published = {("default", "random"): [(42, 86.0, 87.0), (43, 85.0, 86.0), (44, 87.0, 88.0)]}
    ours = [
        Row("default", "random", 42, 0, 85.0, 88.0, 1.0),
        Row("default", "random", 42, 1, 86.0, 87.0, 1.0),
        Row("default", "random", 43, 0, 85.0, 86.0, 1.0),
    ]
    row = next(line for line in markdown(ours, published, ("default",)).splitlines() if line.startswith("| default"))
    cells = [cell.strip() for cell in row.split("|")[1:-1]]
    assert cells == [
        "default", "`random`", "2", "85.25", "85.50 ± 1.00", "yes", "86.75", "86.50 ± 1.00", "yes", "2 of 3",
    ]  # fmt: skip


def test_random_is_run_with_as_many_sets_of_numbers_as_are_asked_for(tmp_path, monkeypatch) -> None:
    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr(fgd, "run_all", lambda runs, path, workers: asked.extend(run.key for run in runs))
    command = [
        "fgd",
        "run",
        "runs.csv",
        "data",
        "--workload",
        "default",
        "--seed",
        "42",
        "--policy",
        "random",
        "--policy",
        "fgd",
        "--numbers",
        "2",
    ]
    monkeypatch.setattr("sys.argv", command)
    fgd.main()
    assert asked == [("default", "random", 42, 0), ("default", "random", 42, 1), ("default", "fgd", 42, 0)]


def test_pods_of_fgd_s_experiment_are_decided_as_they_arrive_and_never_twice() -> None:
    pools = [Pool(name=name, count=1, cpu="64000m", memory="512Gi", gpus=4) for name in ("a", "b")]
    fleet = Fleet(name="two", pools=tuple(pools))
    sizes = (3, 3, 2, 1, 0.5, 1)  # the third finds one GPU on each node, and the last half a one
    jobs = [
        TraceJob(name=f"j{number}", arrival=0, seconds=1, gpus=max(1, int(size)), share=500 if size < 1 else 1000)
        for number, size in enumerate(sizes)
    ]
    config = deciding(Trace("", "csv", jobs), fleet, "best-fit", 42)
    held = allocations(snapshot_of(fleet, jobs, [1, 0]), jobs, config)
    assert held == {38: 37.5, 75: 75, 100: 75, 112: 87.5, 119: 93.75, 131: 93.75}


def test_a_policy_is_of_one_kind_at_a_time(trace_file, two_nodes) -> None:
    config = with_replay_policies(
        None, ("fgd", "tiresias", "most-attained"), read_trace(trace_file("a,0,60,1")), two_nodes
    )
    named = [config.engine.job_order_policy, config.engine.node_score_policy, config.engine.victim_order_policy]
    assert [one.name for one in named] == ["tiresias", "fgd", "most-attained"]
    assert not config.engine.prefer_shared_devices
    with pytest.raises(InputError, match="expected one policy of each kind"):
        with_replay_policies(None, ("fifo", "tiresias"), read_trace(trace_file("a,0,60,1")), two_nodes)


def test_backfill_keeps_the_place_of_a_gang_and_lets_short_jobs_by(began) -> None:
    lines = ("runs,0,3600,4", "gang,10,600,8", "long,20,7200,4", "short,30,3000,4")
    assert began(*lines, policies=("fifo",)) == {"runs": 0, "gang": 7220, "long": 20, "short": 3600}
    assert began(*lines, policies=("fifo", "backfill")) == {"runs": 0, "gang": 3600, "long": 4200, "short": 30}


class Promises(Observer):
    """Each PodGroup's earliest promise, in seconds after the first cycle."""

    def __init__(self) -> None:
        self.first: dict[str, float] = {}
        self.bound: dict[str, float] = {}

    def on_cycle(self, record: CycleRecord) -> None:
        for kept in record.decisions.kept:
            self.first.setdefault(kept.podgroup, kept.at)
        for bind in record.decisions.binds:
            self.bound[bind.podgroup] = record.decisions.now


JOBS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 60), st.sampled_from((0.5, 1, 2, 3, 4, 6, 8))), min_size=4, max_size=10
)


@given(JOBS, st.sampled_from((1, 3)))
@example([(0, 1, 1), (0, 11, 1), (0, 2, 3), (0, 11, 4), (0, 1, 4)], 1)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nobody_starts_later_than_promised_where_run_times_hold(trace_file, replayed, two_nodes, jobs, most) -> None:
    path = trace_file(*(f"j{number},{came},{lasts},{gpus}" for number, (came, lasts, gpus) in enumerate(jobs)))
    given = with_replay_policies(None, ("fifo", "backfill"), read_trace(path), two_nodes)
    choice = PolicyChoice(name="backfill", parameters={"most": most})
    # What is moved to make room comes again later, and before those who came after it.
    engine = structs.replace(given.engine, reservation_policy=choice, actions=("allocate",))
    config = structs.replace(given, engine=engine)
    told = Promises()
    replayed(path, "one", config=config, observers=(told,))
    # A second for the cycle after the one in which the last of those before it ends.
    late = {uid: told.bound[uid] - at for uid, at in told.first.items() if told.bound[uid] > at + 1}
    assert not late


def test_an_order_whose_head_blocks_has_a_depth_of_its_own(trace_file, replayed) -> None:
    config = {"kailab": {"jobOrder": "strict-fifo"}, "queueDepthPerAction": {"allocate": 5}}
    with pytest.raises(
        InputError, match="queueDepthPerAction: the order of jobs tries only the first job of each queue"
    ):
        replayed(trace_file("a,0,60,1"), "one", config=config)


def test_the_head_of_one_queue_blocks_no_other(trace_file, replayed) -> None:
    lines = ("full,0,100,6,red", "head,1,10,8,red", "behind,2,10,1,red", "other,3,10,1,blue")
    done = replayed(
        trace_file(*lines, header="name,submit,seconds,gpus,team"), config={"kailab": {"jobOrder": "strict-fifo"}}
    )
    began = {work.job.name: work.began - done.began for work in done.accounts.works.values()}
    assert began == {"full": 0, "head": 100, "behind": 110, "other": 3}
