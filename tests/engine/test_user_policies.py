"""User policies: what they decide, what they see, and how their errors are reported."""

from __future__ import annotations

import json
from typing import ClassVar

import msgspec
import numpy as np
import pytest

from kailab.engine.config import EngineConfig
from kailab.engine.cycle import run_cycle
from kailab.engine.policies.contract import (
    JobOrder,
    NodeScore,
    VictimOrder,
    make_policy,
    register_policy,
)
from kailab.engine.policies.settings import PolicyChoice
from kailab.engine.policies.views import JobView, NodesView
from kailab.engine.snapshot.records import Status, Task
from kailab.errors import InputError, PolicyError

NOW = 1_000_000.0
HOUR = 3600.0


class FewestGpus(JobOrder, frozen=True):
    reverse: bool = False

    def key(self, job: JobView) -> float:
        return -job.wants.gpu if self.reverse else job.wants.gpu


class ByWait(JobOrder, frozen=True):
    """Who waits for the first hour comes after all others."""

    refresh: ClassVar[float | None] = 60.0

    def key(self, job: JobView) -> tuple[float, float]:
        waited = 0.0 if job.waiting_since is None else job.now - job.waiting_since
        return (float(waited < HOUR), job.group.created)


class ByName(NodeScore, frozen=True):
    name: str

    def score(self, task: Task, nodes: NodesView) -> list[float]:
        return [1.0 if node.name == self.name else 0.5 for node in nodes.records]


class Emptiest(NodeScore, frozen=True):
    def score(self, task: Task, nodes: NodesView) -> np.ndarray:
        return nodes.idle_gpu / max(1, nodes.idle_gpu.max())


class Largest(VictimOrder, frozen=True):
    def cost(self, job: JobView) -> float:
        return -job.holds.gpu


for _name, _policy in (
    ("fewest", FewestGpus),
    ("wait", ByWait),
    ("named", ByName),
    ("emptiest", Emptiest),
    ("largest", Largest),
):
    register_policy(_name, _policy)


def choice(name: str, /, **parameters: object) -> PolicyChoice:
    return PolicyChoice(name=name, parameters=parameters)


def asked(answer: object, kind: type = JobOrder) -> PolicyChoice:
    """A policy that gives this answer, or raises it."""

    def give(*_: object) -> object:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    method = {JobOrder: "key", NodeScore: "score", VictimOrder: "cost"}[kind]
    body = {"__module__": __name__, method: lambda self, *given: give()}
    name = f"gives-{kind.__name__}-{answer!r}-{id(answer)}"
    register_policy(name, msgspec.defstruct(name, [], bases=(kind,), namespace=body, frozen=True))
    return choice(name)


# Order of jobs


@pytest.fixture
def three(team):
    team.node("node", gpus=8)
    team.job("large", gpus=8)
    team.job("middle", gpus=4)
    team.job("small", gpus=2)
    return team


@pytest.mark.parametrize(("parameters", "first"), [({}, {"small-0", "middle-0"}), ({"reverse": True}, {"large-0"})])
def test_an_order_of_jobs_with_its_parameters(three, parameters: dict, first: set) -> None:
    assert set(three.decide().bound) == {"large-0"}
    assert set(three.decide(job_order_policy=choice("fewest", **parameters)).bound) == first


def test_equal_keys_go_by_kai_s_order(team) -> None:
    team.node("node", gpus=8)
    team.job("old", gpus=8)
    team.job("urgent", gpus=8, priority=90)
    assert set(team.decide(job_order_policy=choice("fewest")).bound) == {"urgent-0"}


def test_queues_keep_their_order(world) -> None:
    world.node("node", gpus=8)
    world.queue("owner", quota=8)
    world.queue("guest")
    world.job("large", queue="owner", gpus=8)
    world.job("small", queue="guest", gpus=1)
    assert set(world.decide(job_order_policy=choice("fewest")).bound) == {"large-0"}


def test_of_equal_keys_the_higher_priority_preempts(team) -> None:
    team.node("node", gpus=8)
    team.job("runs", gpus=8, on="node")
    team.job("urgent", gpus=8, priority=90)
    assert team.decide(job_order_policy=choice("fewest")).evicted == {"runs-0"}


def test_nobody_is_preempted_who_would_come_first_again(team) -> None:
    """Else the two would put each other out for ever."""
    team.node("node", gpus=8)
    team.job("runs", gpus=2, on="node")
    team.job("urgent", gpus=8, priority=90)
    assert team.decide().evicted == {"runs-0"}
    assert team.decide(job_order_policy=choice("fewest")).nothing


def test_a_reason_tells_the_key(three) -> None:
    messages = three.decide(job_order_policy=choice("fewest")).pending("large").numbers
    assert messages["policy"] == {"name": "fewest", "key": [8000]}


def test_an_order_that_depends_on_time_says_when_to_ask_again(team) -> None:
    team.node("node", gpus=8)
    team.job("runs", gpus=8, on="node", created=NOW - 9 * HOUR, last_start=NOW - 8 * HOUR)
    team.job("urgent", gpus=8, priority=90, created=NOW - HOUR + 30)
    config = EngineConfig(job_order_policy=choice("wait"))
    decisions = run_cycle(team.working(), config, NOW)
    assert (decisions.evictions, decisions.wake_at) == ((), NOW + 60)
    assert run_cycle(team.working(), config, NOW + 60).evictions


# Score of nodes


def test_a_score_of_nodes(team) -> None:
    for name in ("a", "b", "c"):
        team.node(name, gpus=8)
    team.job("full", gpus=6, on="a")
    team.job("work", gpus=2)
    assert team.decide().bound == {"work-0": "a"}
    assert team.decide(node_score_policy=choice("named", name="c")).bound == {"work-0": "c"}


def test_a_score_sees_what_the_cycle_placed(team) -> None:
    for name in ("a", "b", "c"):
        team.node(name, gpus=8)
    team.job("work", gpus=1, tasks=3, gang=3)
    assert sorted(team.decide(node_score_policy=choice("emptiest")).bound.values()) == ["a", "b", "c"]


def test_a_score_does_not_override_what_stands_above_it(team) -> None:
    team.node("free", gpus=8)
    team.node("later", gpus=8)
    team.job("leaving", gpus=8, on="later", status=Status.RELEASING)
    team.job("work", gpus=2)
    assert team.decide(node_score_policy=choice("named", name="later")).bound == {"work-0": "free"}


# Choice of victims


def test_a_choice_of_victims(world) -> None:
    world.node("node", gpus=8)
    world.queue("team", quota=-1)
    world.job("new", gpus=1, on="node", last_start=NOW - 10)
    world.job("big", gpus=7, on="node", last_start=NOW - 9 * HOUR)
    world.job("urgent", gpus=1, priority=90)
    assert world.decide(victim_order="priority").evicted == {"new-0"}
    assert world.decide(victim_order_policy=choice("largest")).evicted == {"big-0"}


def test_what_runs_is_asked_about_in_cycles_that_search_for_victims(world) -> None:
    asked_about = []

    class Noting(VictimOrder, frozen=True):
        def cost(self, job: JobView) -> float:
            asked_about.append(job.group.name)
            return 0.0

    register_policy("noting", Noting)
    world.node("node", gpus=8)
    world.queue("team", quota=-1)
    world.job("runs", gpus=4, on="node")
    world.job("starts", gpus=4)
    assert world.decide(victim_order_policy=choice("noting")).bound == {"starts-0": "node"}
    assert asked_about == ["starts"]
    world.job("urgent", gpus=8, priority=90)
    assert world.decide(victim_order_policy=choice("noting")).evicted == {"runs-0"}
    assert "runs" in asked_about


# What is one value, and what is not told twice


def test_a_configuration_with_policies_is_json_both_ways() -> None:
    config = EngineConfig(
        job_order_policy=choice("fewest", reverse=True),
        node_score_policy=PolicyChoice(name="named", parameters={"name": "b"}, distribution="d", version="1.0"),
    )
    assert msgspec.json.decode(msgspec.json.encode(config), type=EngineConfig) == config
    json.loads(msgspec.json.encode(config))


def test_a_policy_shows_nothing_that_can_be_written(team) -> None:
    class Greedy(NodeScore, frozen=True):
        def score(self, task: Task, nodes: NodesView) -> np.ndarray:
            nodes.idle_gpu[:] = 10**9
            return nodes.idle_gpu

    register_policy("greedy", Greedy)
    team.node("node", gpus=8)
    team.job("work", gpus=1)
    with pytest.raises(PolicyError, match="read-only"):
        team.decide(node_score_policy=choice("greedy"))


# Faults

WRONG = [
    (
        JobOrder,
        (1,) * 33,
        "key of PodGroup default/urgent is a tuple of 33; expected a number, or a tuple of 32 numbers at most",
    ),
    (JobOrder, float("nan"), "key of PodGroup default/urgent is nan; expected a number, or a tuple of numbers"),
    (JobOrder, (1.0, float("nan")), "is (1.0, nan)"),
    (JobOrder, "first", "is 'first'"),
    (JobOrder, None, "is None"),
    (JobOrder, (), "is ()"),
    (JobOrder, ZeroDivisionError("division by zero"), "failed: ZeroDivisionError: division by zero"),
    (JobOrder, SystemExit(3), "failed: SystemExit: 3"),
    (NodeScore, [0.5, 0.5], "score of pod default/work-0 is 2 numbers; expected 1 numbers, one for each node"),
    (NodeScore, [float("nan")], "is nan for node node; expected a number from 0 to 1"),
    (NodeScore, [2.0], "is 2 for node node"),
    (NodeScore, ["high"], "is ['high']; expected a number for each node"),
    (NodeScore, 1.0, "is an array of shape ()"),
    (VictimOrder, [1.0], "cost of PodGroup default/work is [1.0]"),
]


@pytest.mark.parametrize(("kind", "answer", "told"), WRONG)
def test_a_policy_s_fault_names_it_and_leaves_the_snapshot_as_it_was(
    team, kind: type, answer: object, told: str
) -> None:
    field = {JobOrder: "job_order_policy", NodeScore: "node_score_policy", VictimOrder: "victim_order_policy"}[kind]
    team.node("node", gpus=8)
    team.job("runs", gpus=4, on="node")
    team.job("work", gpus=4)
    team.job("urgent", gpus=8, priority=90)
    if kind is JobOrder:
        team.records = [record for record in team.records if getattr(record, "uid", "") not in ("runs", "runs-0")]
    if kind is NodeScore:
        team.records = [record for record in team.records if not str(getattr(record, "uid", "")).startswith("urgent")]
    snapshot = team.working()
    before = run_cycle(snapshot, EngineConfig(), NOW)
    chosen = asked(answer, kind)
    with pytest.raises(PolicyError) as raised:
        run_cycle(snapshot, EngineConfig(**{field: chosen}), NOW)
    assert str(raised.value).startswith(f"policy {chosen.name!r}: ")
    assert told in str(raised.value)
    assert run_cycle(snapshot, EngineConfig(), NOW) == before


def test_a_fault_says_in_which_line(team) -> None:
    class Faulty(JobOrder, frozen=True):
        def key(self, job: JobView) -> float:
            return 1 / 0

    register_policy("faulty-here", Faulty)
    team.node("node")
    team.job("work")
    line = Faulty.key.__code__.co_firstlineno + 1
    with pytest.raises(
        PolicyError, match=rf"ZeroDivisionError: division by zero \(.*test_user_policies.py, line {line}\)"
    ):
        team.decide(job_order_policy=choice("faulty-here"))


def test_keys_of_different_lengths_can_t_be_compared(team) -> None:
    class Uneven(JobOrder, frozen=True):
        def key(self, job: JobView) -> tuple[float, ...]:
            return (1.0,) * len(job.tasks)

    register_policy("uneven", Uneven)
    team.node("node")
    team.job("one")
    team.job("two", tasks=2)
    with pytest.raises(PolicyError, match="is 2 numbers; expected 1, as for the PodGroups before it"):
        team.decide(job_order_policy=choice("uneven"))


# What can't be a policy


class NoMethod(JobOrder, frozen=True):
    pass


class OtherSignature(JobOrder, frozen=True):
    def key(self, job, queue):  # type: ignore[no-untyped-def, override]
        return 0.0


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (object, "is no policy; expected a class derived from one of JobOrder, NodeScore, VictimOrder"),
        (len, "is no policy"),
        (JobOrder, "is a base of policies"),
        (NoMethod, "has no method 'key', which a JobOrder must have"),
        (OtherSignature, r"OtherSignature\.key\(self, job, queue\) can't be called as key\(self, job: "),
    ],
)
def test_what_can_t_be_a_policy(policy: object, told: str) -> None:
    with pytest.raises(InputError, match=told):
        register_policy("wrong", policy)  # type: ignore[arg-type]


def test_a_name_is_taken_once() -> None:
    register_policy("fewest", FewestGpus)
    with pytest.raises(InputError, match=r"the policy 'fewest' is .*FewestGpus already"):
        register_policy("fewest", Emptiest)


@pytest.mark.parametrize(
    ("chosen", "kind", "told"),
    [
        (
            choice("fewest", reverse="yes"),
            JobOrder,
            r"policy 'fewest': parameters: Expected `bool`, got `str` - at `\$.reverse`",
        ),
        (choice("fewest", forward=True), JobOrder, r"unknown field `forward` \(it has: reverse\)"),
        (choice("named"), NodeScore, "missing required field `name`"),
        (choice("fewest"), NodeScore, "policy 'fewest' is a JobOrder; expected a NodeScore"),
        (choice("absent"), JobOrder, "policy 'absent' is not installed"),
    ],
)
def test_a_choice_that_does_not_suit(chosen: PolicyChoice, kind: type, told: str) -> None:
    with pytest.raises((InputError, PolicyError), match=told):
        make_policy(chosen, kind)
