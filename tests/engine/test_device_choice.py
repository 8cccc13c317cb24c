"""A node score that also chooses the device for a share, and one whose answers are cached from pod to pod."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kailab.engine.config import EngineConfig
from kailab.engine.cycle import run_cycle
from kailab.engine.policies.contract import NodeScore, check_policy, register_policy
from kailab.engine.policies.settings import PolicyChoice
from kailab.engine.policies.views import NodesView
from kailab.engine.snapshot.gpu_requests import GpuFraction
from kailab.engine.snapshot.records import GPU, PodGroup, Status, Task
from kailab.errors import InputError, PolicyError
from kailab.policies.fragmentation import Fgd, TypicalWorkload
from kailab.policies.placement import BestFit, GpuClustering, GpuPacking
from tests.engine.conftest import NOW, World

SHOWN: list[tuple[tuple[str, ...], list[int], int]] = []
ASKED: list[tuple[str, ...]] = []


class Roomiest(NodeScore, frozen=True):
    """The device with the most room; of equal ones the first."""

    def score(self, task: Task, nodes: NodesView) -> np.ndarray:
        return np.zeros(len(nodes.records))

    def devices(self, task: Task, node: NodesView, room: np.ndarray) -> np.ndarray:
        SHOWN.append((tuple(record.name for record in node.records), room.tolist(), int(node.free_gpu[0])))
        return room / GPU


class Answers(NodeScore, frozen=True):
    """Says of devices what it is told to."""

    says: tuple[float, ...] | None

    def score(self, task: Task, nodes: NodesView) -> list[float]:
        return [0.5] * len(nodes.records)

    def devices(self, task: Task, node: NodesView, room: np.ndarray) -> tuple[float, ...] | None:
        return self.says


class Fullest(NodeScore, frozen=True):
    local: ClassVar[bool] = True

    def score(self, task: Task, nodes: NodesView) -> np.ndarray:
        ASKED.append(tuple(record.name for record in nodes.records))
        return 1 - nodes.free_gpu / nodes.largest_gpu


for _name, _policy in (("roomiest", Roomiest), ("says", Answers), ("fullest", Fullest)):
    register_policy(_name, _policy)


def config(name: str, /, **parameters: object) -> EngineConfig:
    choice = PolicyChoice(name=name, parameters=parameters)
    return EngineConfig(node_score_policy=choice, prefer_shared_devices=False)


@pytest.fixture
def shared(team):
    """A node with a device of which 0.7 is taken, one of which 0.2 is, and a whole one."""
    team.node("node", gpus=3)
    team.job("full", gpus=0.7, on="node", groups=[("g-full",)])
    team.job("roomy", gpus=0.2, on="node", groups=[("g-roomy",)])
    team.job("new", gpus=0.3)
    return team


def group_of(world: World, told: EngineConfig) -> str:
    bind = next(bind for bind in run_cycle(world.working(), told, NOW).binds if bind.task == "new-0")
    return bind.gpu_groups[0] if bind.gpu_groups[0].startswith("g-") else "whole"


def test_a_policy_says_which_device_a_share_gets(shared) -> None:
    SHOWN.clear()
    assert group_of(shared, EngineConfig()) == "g-full"
    assert group_of(shared, config("roomiest")) == "whole"
    # By the names of the groups, and a whole one last; the view has this node alone.
    assert SHOWN == [(("node",), [300, 800, 1000], 2100)]


@pytest.mark.parametrize(
    ("says", "group"),
    [
        ((0.1, 0.9, 0.2), "g-roomy"),
        ((0.5, 0.5, 0.5), "g-full"),  # of equal ones the first
        ((0.5, 0.5, 1.0), "whole"),
        (None, "g-full"),  # the engine's own choice
    ],
)
def test_the_highest_wins_and_none_leaves_it_to_the_engine(shared, says: object, group: str) -> None:
    assert group_of(shared, config("says", says=says)) == group


def test_a_policy_that_says_nothing_of_devices_leaves_gpuspread_its_say(shared) -> None:
    chosen = PolicyChoice(name="says", parameters={"says": None})
    assert group_of(shared, EngineConfig(node_score_policy=chosen, gpu_sharing="spread")) == "whole"


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ((0.5, 0.5), "devices of pod default/new-0 on node node is 2 numbers; expected 3 numbers, one for each device"),
        ((0.5, 0.5, 1.5), "expected numbers from 0 to 1"),
        ((0.5, 0.5, float("nan")), "expected numbers from 0 to 1"),
    ],
)
def test_what_is_no_answer_ends_the_cycle(shared, says: tuple[float, ...], told: str) -> None:
    with pytest.raises(PolicyError, match=r"policy 'says': ") as raised:
        run_cycle(shared.working(), config("says", says=says), NOW)
    assert told in str(raised.value)


def test_a_share_of_two_devices_gets_the_two_best(team) -> None:
    team.node("node", gpus=3)
    team.job("full", gpus=0.7, on="node", groups=[("g-full",)])
    team.job("roomy", gpus=0.2, on="node", groups=[("g-roomy",)])
    team.job("new", gpus=0.3, shape={"gpu": GpuFraction(devices=2, portion=300)})
    (bind,) = team.decide(node_score_policy=config("says", says=(0.2, 0.9, 0.1)).node_score_policy).decisions.binds
    assert bind.gpu_groups == ("g-roomy", "g-full")


def test_a_method_that_can_not_be_called_so_is_refused() -> None:
    class Odd(NodeScore, frozen=True):
        def score(self, task: Task, nodes: NodesView) -> list[float]:
            return []

        def devices(self, task: Task) -> None: ...

    with pytest.raises(InputError, match=r"Odd\.devices\(self, task: .*can't be called as devices"):
        check_policy(Odd)


# Answers that are kept


def test_a_local_policy_is_asked_again_only_of_what_changed(team) -> None:
    for name in ("a", "b", "c"):
        team.node(name, gpus=4)
    for number in range(3):
        team.job(f"work{number}", gpus=2)
    ASKED.clear()
    working = team.working()
    decisions = run_cycle(working, config("fullest"), NOW)
    assert [bind.node for bind in decisions.binds] == ["a", "a", "b"]
    assert ASKED == [("a", "b", "c"), ("a",), ("a",)]
    # What the cycle tried is undone, and these nodes are looked at again.
    ASKED.clear()
    assert run_cycle(working, config("fullest"), NOW).binds == decisions.binds
    assert ASKED[0] == ("a", "b")


EXPECTED = (
    TypicalWorkload(0, 1, 500, (), 0.5),
    TypicalWorkload(100, 1, 1000, (), 0.3),
    TypicalWorkload(100, 2, 1000, (), 0.2),
)
POLICIES = {"best-fit": BestFit, "gpu-packing": GpuPacking, "gpu-clustering": GpuClustering, "fgd": Fgd}


def _asked_anew(policy: type[NodeScore]) -> type[NodeScore]:
    return type(f"{policy.__name__}Anew", (policy,), {"__module__": __name__, "local": False}, frozen=True)  # type: ignore[call-overload]


for _name, _policy in POLICIES.items():
    register_policy(f"{_name}-kept", _policy)
    register_policy(f"{_name}-anew", _asked_anew(_policy))

GPUS = st.sampled_from([0, 0.2, 0.3, 0.5, 1, 2])


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=25, deadline=None)
@given(runs=st.lists(GPUS, max_size=6), first=st.lists(GPUS, min_size=1, max_size=8), then=st.lists(GPUS, max_size=6))
def test_kept_answers_decide_as_asking_anew_does(
    policy: str, runs: list[float], first: list[float], then: list[float]
) -> None:
    world = World()
    world.queue("team", quota=-1)
    for number, gpus in enumerate((2, 4, 3)):
        world.node(f"n{number}", gpus=gpus, cpu=1000)
    for number, gpus in enumerate(runs):
        world.job(f"runs{number}", gpus=gpus, on=f"n{number % 3}", groups=[(f"g{number}",)] if 0 < gpus < 1 else ())
    for number, gpus in enumerate(first):
        world.job(f"first{number}", gpus=gpus)
    parameters = {"workload": EXPECTED} if policy == "fgd" else {}
    working = {way: world.working() for way in ("kept", "anew")}
    for round_ in range(2):
        messages = {way: run_cycle(working[way], config(f"{policy}-{way}", **parameters), NOW) for way in working}
        assert messages["kept"].binds == messages["anew"].binds
        if round_:
            return
        # Those that were bound run from now on, and others come.
        later = World()
        for number, gpus in enumerate(then):
            later.job(f"then{number}", gpus=gpus, created=NOW)
        places = {bind.task: bind for bind in messages["kept"].binds}
        for one in working.values():
            for uid, bind in places.items():
                record = one.tasks[uid].record
                one.set_task(replace(record, status=Status.RUNNING, node=bind.node, gpu_groups=bind.gpu_groups))
            for record in later.records:
                (one.set_podgroup if isinstance(record, PodGroup) else one.set_task)(record)
