"""A cluster as a value: JSON both ways, changes between two values, and decisions that depend on nothing else."""

from __future__ import annotations

import json
import random
from fractions import Fraction

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checks.case_input import NOW
from checks.fuzzing.random_cluster import random_case_input
from checks.simulated_cluster import SimulatedCluster
from kailab.engine.config import EngineConfig
from kailab.engine.cycle import decide, run_cycle
from kailab.engine.decisions import Decisions
from kailab.engine.snapshot import jsonform
from kailab.engine.snapshot.changes import Changes, RemovedRecords, summed
from kailab.engine.snapshot.devices import DeviceRequest, DeviceToleration, any_devices
from kailab.engine.snapshot.records import GPU, Node, Numa, NumaZone, Queue, ResourceClaim, Taint
from kailab.engine.snapshot.snapshot import IDENTITY, Snapshot
from kailab.engine.working.workingset import WorkingSet
from kailab.errors import InputError
from kailab.model.device_selectors import Device, Semver


@st.composite
def clusters(draw):
    return random_case_input(lambda options: draw(st.sampled_from(options)))


searching = settings(max_examples=60, derandomize=True, suppress_health_check=list(HealthCheck))

DEVICE = Device(
    driver="gpu.example.com",
    pool="n0",
    name="gpu-0",
    attributes={"gpu.example.com": {"model": "x", "index": 0, "ecc": True, "driverVersion": Semver("1.2.3-rc.1")}},
    capacity={"gpu.example.com": {"memory": Fraction(80 * 2**30), "odd": Fraction(10, 3)}},
    taints=({"key": "broken", "effect": "NoSchedule"},),
)
RICH = Snapshot(
    nodes=(
        Node(
            name="n0",
            gpus=8 * GPU,
            labels=(("rack", "r0"),),
            taints=(Taint(key="k"),),
            numa=Numa(policy="restricted", zones=(NumaZone(name="node-0", allocatable=(("cpu", 4000),)),)),
            devices=(DEVICE,),
        ),
    ),
    claims=(
        ResourceClaim(name="default/c", requests=any_devices(2), held=(("d", "p", "n"),), allocated=True, queue=None),
        ResourceClaim(
            name="default/d",
            requests=msgspec.structs.replace(
                any_devices(1),
                requests=((DeviceRequest(expressions=("true",), tolerations=(DeviceToleration(key="k"),)),),),
            ),
            queue="q",
        ),
    ),
)


@searching
@given(clusters())
def test_a_working_set_gives_back_the_value_that_it_was_made_of(case_input):
    value = SimulatedCluster(case_input).working().value()
    assert WorkingSet.of(value).value() == value
    assert Snapshot.from_json(value.as_json()) == value
    assert Snapshot.from_json(value.as_json()).digest == value.digest


@searching
@given(clusters())
def test_a_value_decides_as_the_working_set_does(case_input):
    """And all that goes in and comes out survives its JSON."""
    working = SimulatedCluster(case_input).working()
    first = run_cycle(working, case_input.config, NOW)
    value = Snapshot.from_json(working.value().as_json())
    config = jsonform.decode(jsonform.encode(case_input.config), EngineConfig)
    assert config == case_input.config
    assert jsonform.encode(decide(value, config, NOW)) == jsonform.encode(first)
    assert jsonform.decode(jsonform.encode(first), Decisions) == first


@searching
@given(clusters(), clusters(), st.randoms(use_true_random=False))
def test_changes_lead_from_a_value_to_the_next_one(case_input, other, chance):
    """A working set that was used and changed, record by record, decides as one made from the value of that moment."""
    remaining = SimulatedCluster(case_input).working()
    follower = remaining.follow()
    old = follower.take().applied_to(Snapshot())
    assert old == remaining.value()
    beside = WorkingSet.of(old)
    messages = [Changes(set=old, whole=True)]
    for _ in range(3):
        run_cycle(remaining, case_input.config, NOW)
        change(remaining, SimulatedCluster(other).working().value(), chance)
        changes = Changes.from_json(follower.take().as_json())
        new = changes.applied_to(old)
        assert new == remaining.value()
        messages.append(changes)
        assert summed(messages) == new
        # One that begins over the same records tells the same, where it knows what was told before.
        later = WorkingSet.of(new).follow()
        later.go_on(old)
        assert later.take().applied_to(old) == new
        beside.apply(changes)
        assert beside.value() == new
        assert new.digest == beside.value().digest
        decided = jsonform.encode(decide(new, case_input.config, NOW))
        assert jsonform.encode(run_cycle(remaining, case_input.config, NOW)) == decided
        assert jsonform.encode(run_cycle(beside, case_input.config, NOW)) == decided
        old = new
    assert follower.take() == Changes()
    later = WorkingSet.of(new).follow()
    later.go_on(new)
    assert later.take() == Changes()


def change(working: WorkingSet, other: Snapshot, chance: random.Random) -> None:
    """Remove some records, and set some of another cluster's."""
    setters = {"nodes": "node", "queues": "queue", "podgroups": "podgroup", "tasks": "task"}
    here = working.value()
    for kind, name in setters.items():
        for record in getattr(here, kind):
            if chance.random() < 0.2:
                getattr(working, f"remove_{name}")(IDENTITY[kind](record))
        for record in getattr(other, kind):
            if chance.random() < 0.3:
                getattr(working, f"set_{name}")(record)


def test_whole_changes_leave_nothing_of_what_was_before():
    working = WorkingSet.of(Snapshot(nodes=(Node(name="a"), Node(name="b")), queues=(Queue(name="q"),)))
    other = WorkingSet.of(RICH)
    other.apply(working.follow().take())
    assert other.value() == working.value()


def test_changes_are_collected_while_somebody_follows():
    working = WorkingSet.of(RICH)
    follower = working.follow()
    follower.take()
    working.set_queue(Queue(name="q"))
    assert follower.take() == Changes(set=Snapshot(queues=(Queue(name="q"),)))
    working.remove_queue("q")
    assert follower.take() == Changes(removed=RemovedRecords(queues=("q",)))
    working.unfollow(follower)
    working.set_queue(Queue(name="q"))
    assert follower.take() == Changes()


def test_every_kind_of_record_survives_its_json():
    again = Snapshot.from_json(RICH.as_json())
    assert again == RICH
    assert WorkingSet.of(again).value() == RICH
    assert RICH.as_json().startswith(b'{"format":1,')
    assert again.nodes[0].devices[0].attributes["gpu.example.com"]["driverVersion"] == Semver("1.2.3-rc.1")


def test_records_are_kept_in_one_order_and_once():
    a, b = Node(name="a"), Node(name="b")
    assert Snapshot(nodes=(b, a)) == Snapshot(nodes=(a, b))
    assert Snapshot(nodes=(b, a)).digest == Snapshot(nodes=(a, b)).digest
    assert Snapshot(nodes=(a,)).digest != Snapshot(nodes=(b,)).digest
    whole, exact = Queue(name="q", created=5), Queue(name="q", created=5.0)  # a careless 5 is a 5.0
    assert Snapshot(queues=(whole,)).digest == Snapshot(queues=(exact,)).digest
    with pytest.raises(ValueError, match="two records of nodes are called 'a'"):
        Snapshot(nodes=(a, a))


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ('{"format":2,"nodes":{}}', "a snapshot of format 2; this kailab reads format 1"),
        ('{"nodes":[]}', "not a snapshot: Object missing required field `format`"),
        ('{"format":1,"nodez":[]}', "not a snapshot: Object contains unknown field `nodez`"),
        ('{"format":1,"nodes":[{"name":3}]}', r"not a snapshot: Expected `str`, got `int` - at `\$.nodes\[0\].name`"),
        ('{"format":1,"nodes":[{"name":"a"},{"name":"a"}]}', "not a snapshot: two records of nodes are called 'a'"),
        ('{"format":1,"queues":[{"name":"q","colour":1}]}', "unknown field `colour` - at `\\$.queues"),
        ('{"format":1,"nodes":[{"name"', "not a snapshot: Input data was truncated"),
        ("[]", "not a snapshot: Expected `object`, got `array`"),
        ("", "not a snapshot: Input data was truncated"),
        ('{"format":1,"nodes":' + "[" * 10_000, "not a snapshot: .*recursion"),
        (b"\xff", "not a snapshot: "),
    ],
)
def test_what_is_no_snapshot_is_told_with_its_place(written, told):
    with pytest.raises(InputError, match=told):
        Snapshot.from_json(written)


def test_changes_of_another_format_are_refused():
    with pytest.raises(InputError, match="record changes of format 7; this kailab reads format 1"):
        Changes.from_json(json.dumps({"format": 7}))


def test_a_configuration_survives_its_json():
    config = EngineConfig(
        k_value=1.0,
        usage={"q": {"gpu": 0.25}},
        promised=("w",),
        refused=frozenset({"b", "a"}),
        queue_depth={"reclaim": 3},
    )
    assert jsonform.decode(jsonform.encode(config), EngineConfig) == config
    assert b'"refused":["a","b"]' in jsonform.encode(config)
