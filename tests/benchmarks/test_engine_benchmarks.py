"""The set-ups of the engine benchmarks end as they must, and what makes the engine quick changes no decision."""

from __future__ import annotations

import json
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from benchmarks.engine import setups
from benchmarks.engine.__main__ import chosen, main
from benchmarks.engine.cluster import NOW
from benchmarks.engine.measure import decide, measure, order_victims, prepare
from benchmarks.engine.plot import svg
from benchmarks.engine.published import figures
from benchmarks.engine.series import SERIES, Growth, exponent
from benchmarks.engine.setups import CycleOutcome, Setup, VictimOrderSetup
from benchmarks.lab_runs.measured import WrongOutcome
from checks.fuzzing.random_cluster import seeded
from checks.invariants import run_rounds
from kailab.engine.config import EngineConfig
from kailab.engine.cycle import run_cycle
from kailab.engine.decisions import Decisions
from kailab.engine.search.search_goal import SearchGoal
from kailab.engine.search.shortfall import Shortfall
from kailab.engine.working.state import WTask
from kailab.engine.working.workingset import WorkingSet
from kailab.errors import InputError

SMALL = [
    setups.allocate(3, 20),
    setups.nothing_waits(3, 12),
    setups.preempt(3, 12),
    setups.consolidate(3, 12),
    setups.full_cycle(3, 12),
    setups.many_queues(5, 40, 20, 5),
    setups.gangs(4, 8),
    setups.hopeless(12),
    setups.hopeless_apart(18),
    setups.hopeless_together(36),
    setups.no_volume(20),
    setups.reclaim_gang(10),
    setups.reclaim_gang(10, 3),
    setups.reclaim_single(4),
    setups.reclaim_single(4, min_runtime=30.0),
]


@pytest.mark.parametrize("setup", SMALL, ids=lambda setup: setup.name)
def test_a_setup_ends_as_it_must(setup: Setup) -> None:
    working = prepare(setup)
    for _ in range(2):  # a cycle leaves the working set as it was
        _, _, decisions = decide(setup, working)
        assert setup.expected.admits(CycleOutcome.of(decisions)), CycleOutcome.of(decisions)


def test_consolidation_loses_no_one() -> None:
    setup = setups.consolidate(3, 12)
    _, _, decisions = decide(setup, prepare(setup))
    moved = {pipeline.task for pipeline in decisions.pipelines if pipeline.moved}
    assert {eviction.task for eviction in decisions.evictions} == moved


@pytest.mark.parametrize(
    "setup, why",
    [
        (setups.hopeless(12), "give up 79 at the most"),
        (setups.hopeless_apart(18), "there are 9 where one could go"),
        (setups.hopeless_together(36), "the best one has room for 3"),
    ],
    ids=lambda value: value.name if isinstance(value, Setup) else "",
)
def test_a_hopeless_gang_is_told_by_an_argument(setup: Setup, why: str) -> None:
    _, _, decisions = decide(setup, prepare(setup))
    (pending,) = decisions.pending
    assert why in dict(pending.tried)["reclaim"]


def test_a_running_gang_still_in_its_minimum_runtime_is_spared() -> None:
    """The other side of I-min: there the minimum runtime is over."""
    young = setups.reclaim_single(2, min_runtime=3600.0)
    _, _, decisions = decide(young, prepare(young))
    assert CycleOutcome.of(decisions) == setups.NOTHING


@pytest.mark.parametrize("queues, by_age", [(1, True), (4, True), (4, False)])
def test_all_victims_come_in_order(queues: int, by_age: bool) -> None:
    setup = VictimOrderSetup("J", lambda: setups.victims_alone(queues, 20), 20, by_age)
    assert order_victims(setup, prepare(setup))[1] == 20


def test_a_wrong_outcome_gives_no_figure() -> None:
    right = setups.allocate(2, 4)
    wrong = Setup(right.name, right.build, right.config, CycleOutcome(bound=5))
    with pytest.raises(WrongOutcome, match="expected: CycleOutcome\\(bound=5"):
        measure(wrong, enough=0)


def test_measuring() -> None:
    timing = measure(setups.allocate(2, 4), enough=0)
    assert 0 < timing.actions <= timing.cycle
    assert (timing.runs, timing.outcome) == (2, CycleOutcome(bound=4))


def test_every_benchmark_of_kai_has_a_setup() -> None:
    assert set(figures().by_setup) <= set(setups.setups())
    for series in SERIES:
        assert set(series.kai) <= set(figures().by_setup)


# The command


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["A-10", "B-10"]) == 0
    out = capsys.readouterr().out
    assert "AllocateAction_SmallCluster" in out
    assert "50 bound" in out
    assert figures().source in out


def test_the_table_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["F-10", "J-preempt", "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    hopeless, order = told["benchmarks"]
    assert hopeless["kai_ms"] == 61.43
    assert hopeless["outcome"] == {"bound": 0, "promised": 0, "evicted": 0, "moved": 0}
    assert order["outcome"] is None


def test_names_may_be_beginnings() -> None:
    assert [setup.name for setup in chosen(["C-preempt", "G"])] == ["C-preempt-10", "C-preempt-50", "G-1500"]
    with pytest.raises(InputError, match="there is no set-up A-1;"):
        chosen(["A-1"])


def test_an_unknown_name_is_an_error_of_the_caller(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["Z"]) == 2
    assert "no set-up Z" in capsys.readouterr().err


def test_a_profile_says_where_the_time_goes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--profile", "B-10"]) == 0
    assert "function calls" in capsys.readouterr().out


# Growth


@given(
    st.floats(0.1, 4.0),
    st.floats(0.01, 100.0),
    st.lists(st.integers(1, 10_000), min_size=3, max_size=8, unique=True),
)
def test_the_exponent_of_a_power_is_found(power: float, factor: float, sizes: list[int]) -> None:
    points = [(float(size), factor * size**power) for size in sizes]
    assert exponent(points) == pytest.approx(power, abs=1e-6)


def test_two_points_have_no_exponent() -> None:
    assert exponent([(1.0, 1.0), (2.0, 2.0)]) is None


def test_the_plot_is_a_document_with_every_point() -> None:
    from xml.etree import ElementTree

    growth = Growth(SERIES[0], ((10.0, 1.0), (100.0, 3.0)), ((10.0, 60.0),), ((500.0, 180_000.0),))
    root = ElementTree.fromstring(svg([growth], "a < b"))
    circles = root.findall(".//{*}circle")
    assert len(circles) == 4 + 3  # and three in the legend


# What makes it quick changes nothing: the same decisions with each shortcut and without it


def _bare(decisions: Decisions, known: set[str]) -> Decisions:
    """Without what tells how far a search went: the words on what was tried, when to look again, and the numbers in the
    names of shared devices that are opened now (not those of ``known`` ones)."""
    names: dict[str, str] = {}

    def renamed(groups: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name if name in known else names.setdefault(name, f"new-{len(names)}") for name in groups)

    return structs.replace(
        decisions,
        wake_at=None,
        binds=tuple(structs.replace(bind, gpu_groups=renamed(bind.gpu_groups)) for bind in decisions.binds),
        pipelines=tuple(structs.replace(one, gpu_groups=renamed(one.gpu_groups)) for one in decisions.pipelines),
        pending=tuple(structs.replace(one, tried=()) for one in decisions.pending),
    )


def _wake(decisions: Decisions) -> float:
    return inf if decisions.wake_at is None else decisions.wake_at


class Both:
    """Decides twice, with shortcuts and without; goes on with the first. ``cut``: how many jobs a bound gave up on."""

    def __init__(self, quick: dict[str, Any], plain: dict[str, Any]) -> None:
        self.quick = quick
        self.plain = plain
        self.cut = 0

    def __call__(self, working: WorkingSet, config: EngineConfig, now: float) -> Decisions:
        known = {group for task in working.tasks.values() for group in task.groups}
        first = self._under(self.quick, working, config, now)
        second = self._under(self.plain, working, config, now)
        assert _bare(first, known) == _bare(second, known)
        # What is proven hopeless stays so when a protection runs out: no need to look again for its sake.
        assert _wake(first) >= _wake(second)
        self.cut += any("could make room" in told for one in first.pending for _, told in one.tried)
        return first

    @staticmethod
    def _under(patches: dict[str, Any], working: WorkingSet, config: EngineConfig, now: float) -> Decisions:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in patches.items():
                patch.setattr(name, value)
            return run_cycle(working, config, now)


PATIENCE = "kailab.engine.search.solver.PATIENCE"
IDLE = "kailab.engine.search.solver.JobsLeftByQueue._idle"
SHORT = "kailab.engine.search.shortfall.Shortfall.proves_failure"
NEVER = 10**9


def _full_length(self: object, path: object) -> None:
    """In place of ``JobsLeftByQueue._idle``: no waiting job is passed over."""


def _no_opinion(self: object, goal: object, victims: object) -> bool:
    """In place of ``Shortfall.proves_failure``: every scenario is simulated."""
    return False


# Each by itself, as far from its absence as it goes.
shortcuts = pytest.mark.parametrize(
    "quick, plain",
    [
        pytest.param({PATIENCE: 1}, {PATIENCE: NEVER}, id="bounds"),
        pytest.param({}, {IDLE: _full_length}, id="jobs passed over"),
        pytest.param({PATIENCE: NEVER}, {PATIENCE: NEVER, SHORT: _no_opinion}, id="shortfall"),
        pytest.param({PATIENCE: 1}, {PATIENCE: NEVER, IDLE: _full_length, SHORT: _no_opinion}, id="all"),
    ],
)


@shortcuts
def test_a_shortcut_changes_no_decision(quick: dict[str, Any], plain: dict[str, Any]) -> None:
    both = Both(quick, plain)
    for seed in range(150):
        run_rounds(seeded(seed), both, 4)


def test_these_clusters_put_the_bounds_to_use() -> None:
    both = Both({PATIENCE: 1}, {PATIENCE: NEVER})
    for seed in range(150):
        run_rounds(seeded(seed), both, 1)
    assert both.cut >= 10


def test_these_clusters_put_the_shortfall_to_use(monkeypatch: pytest.MonkeyPatch) -> None:
    proven = 0
    count = Shortfall.proves_failure

    def counted(self: Shortfall, goal: SearchGoal, victims: list[WTask]) -> bool:
        nonlocal proven
        short = count(self, goal, victims)
        proven += short
        return short

    monkeypatch.setattr(Shortfall, "proves_failure", counted)
    for seed in range(150):
        run_rounds(seeded(seed), run_cycle, 2)
    assert proven


@pytest.mark.slow
@shortcuts
def test_a_shortcut_changes_no_decision_in_many_clusters(quick: dict[str, Any], plain: dict[str, Any]) -> None:
    both = Both(quick, plain)
    for seed in range(10_000, 10_400):
        run_rounds(seeded(seed), both, 4)


@pytest.mark.parametrize("setup", SMALL, ids=lambda setup: setup.name)
def test_nor_in_a_setup(setup: Setup) -> None:
    both = Both({PATIENCE: 1}, {PATIENCE: NEVER, IDLE: _full_length, SHORT: _no_opinion})
    both(prepare(setup), setup.config, NOW)
