"""Shares of a device, by fraction or memory, on one device or several; and MIG profiles."""

import pytest

from kailab.engine.snapshot.gpu_requests import GpuFraction, GpuMemory, MigInstances
from kailab.engine.snapshot.records import Status


def test_two_halves_share_one_device(team):
    team.node("node-1", gpus=2)
    team.job("a", gpus=0.5)
    team.job("b", gpus=0.5)
    decided = team.decide()
    assert decided.groups("a-0") == decided.groups("b-0")


def test_shares_that_don_t_fit_together_sit_apart(team):
    team.node("node-1", gpus=2)
    team.job("a", gpus=0.6)
    team.job("b", gpus=0.6)
    decided = team.decide()
    assert decided.groups("a-0") != decided.groups("b-0")


def test_a_device_in_use_takes_no_more_than_itself(team):
    team.node("node-1", gpus=1)
    for name in "abcd":
        team.job(name, gpus=0.3)
    assert sorted(team.decide().bound) == ["a-0", "b-0", "c-0"]


def test_a_whole_device_is_not_taken_from_one_that_is_shared(team):
    team.node("node-1", gpus=2)
    team.job("a", gpus=0.1, on="node-1", groups=[("g",)])
    team.job("whole", gpus=2)
    team.job("one")
    assert team.decide().bound == {"one-0": "node-1"}


def test_a_share_goes_where_a_device_is_open_though_another_node_is_fuller(team):
    team.node("node-1", gpus=4)
    team.node("node-2", gpus=4)
    team.job("held", tasks=3, on="node-1")
    team.job("open", gpus=0.5, on="node-2", groups=[("g",)])
    team.job("new", gpus=0.5)
    decided = team.decide()
    assert decided.bound == {"new-0": "node-2"}
    assert decided.groups("new-0") == ("g",)
    assert team.decide(prefer_shared_devices=False).bound == {"new-0": "node-1"}


def test_a_pod_without_a_gpu_goes_beside_shares_too(team):
    """KAI's gpusharingorder asks every pod whether it fits on a GPU in use by shares. One that takes nothing of it does."""
    team.node("node-1", gpus=4, cpu=4_000)
    team.node("node-2", gpus=4, cpu=8_000)
    team.job("open", gpus=0.9, on="node-2", groups=[("g",)])
    team.job("cpu", gpus=0)
    assert team.decide().bound == {"cpu-0": "node-2"}
    assert team.decide(prefer_shared_devices=False).bound == {"cpu-0": "node-1"}


def test_a_gpu_that_all_shares_leave_attracts_no_pod(team):
    team.node("node-1", gpus=4, cpu=4_000)
    team.node("node-2", gpus=4, cpu=8_000)
    team.job("leaves", gpus=0.9, on="node-2", groups=[("g",)], status=Status.RELEASING)
    team.job("cpu", gpus=0)
    assert team.decide().bound == {"cpu-0": "node-1"}


def test_a_whole_gpu_is_not_sought_beside_shares(team):
    team.node("node-1", gpus=2)
    team.node("node-2", gpus=4)
    team.job("open", gpus=0.1, on="node-2", groups=[("g",)])
    team.job("whole", gpus=1)
    assert team.decide().bound == {"whole-0": "node-1"}


@pytest.mark.parametrize(("sharing", "device"), [("binpack", "fuller"), ("spread", "emptier")])
def test_which_open_device_is_taken_first(team, sharing, device):
    team.node("node-1", gpus=2)
    team.job("a", gpus=0.6, on="node-1", groups=[("fuller",)])
    team.job("b", gpus=0.2, on="node-1", groups=[("emptier",)])
    team.job("new", gpus=0.2)
    assert team.decide(gpu_sharing=sharing).groups("new-0") == (device,)


@pytest.mark.parametrize(("devices", "leaving"), [(1, 1), (2, 1)])
def test_a_new_device_that_spread_prefers_is_waited_for_until_it_is_idle(team, devices, leaving):
    """One device has room beside a share, so the task fits now; the device that it opens is still held all the same. KAI binds it."""
    team.node("node-1", gpus=1 + devices)
    team.job("open", gpus=0.2, on="node-1", groups=[("g",)])
    team.job("leaves", gpus=leaving, on="node-1", status=Status.RELEASING)
    team.job("new", shape={"gpu": GpuFraction(devices=devices, portion=500)})
    decided = team.decide(gpu_sharing="spread")
    assert not decided.bound
    assert decided.promised == {"new-0": "node-1"}
    assert team.decide(gpu_sharing="spread", imitate_faults=True).bound == {"new-0": "node-1"}
    assert team.decide().bound == {"new-0": "node-1"}


def test_a_new_device_that_is_idle_is_taken_at_once_beside_one_that_leaves(team):
    team.node("node-1", gpus=3)
    team.job("open", gpus=0.2, on="node-1", groups=[("g",)])
    team.job("leaves", on="node-1", status=Status.RELEASING)
    team.job("new", gpus=0.5)
    decided = team.decide(gpu_sharing="spread")
    assert decided.bound == {"new-0": "node-1"}
    assert decided.groups("new-0") != ("g",)


def test_gpu_memory_counts_against_the_device_of_the_node(team):
    """A device of 40,000 MiB takes one request for 30,000; one of 80,000 takes two."""
    team.node("node-1", gpus=1, gpu_memory_mib=40_000)
    team.node("node-2", gpus=1, gpu_memory_mib=80_000)
    for name in "abcd":
        team.job(name, shape={"gpu": GpuMemory(devices=1, memory_mib=30_000)})
    assert sorted(team.decide().bound.values()) == ["node-1", "node-2", "node-2"]


def test_more_memory_than_a_device_has_fits_nowhere(team):
    team.node("node-1", gpus=2, gpu_memory_mib=40_000)
    team.job("a", shape={"gpu": GpuMemory(devices=1, memory_mib=50_000)})
    assert team.decide().nothing


@pytest.mark.parametrize(("asked", "passes"), [(80_000, True), (79_700, True), (79_600, False), (80_100, False)])
def test_kai_takes_a_multiple_of_a_devices_memory_for_a_share_of_one_device(team, asked, passes):
    """A fault of KAI: the multiple counts as two devices in the queue, and the pod gets one. Memory is counted in hundredths of a device, rounded up."""
    team.node("node-1", gpus=2, gpu_memory_mib=40_000)
    team.job("a", shape={"gpu": GpuMemory(devices=1, memory_mib=asked)})
    team.job("beside")
    assert "a-0" not in team.decide().bound
    imitated = team.decide(imitate_faults=True)
    assert sorted(imitated.bound) == (["a-0", "beside-0"] if passes else ["beside-0"])
    assert not passes or len(imitated.groups("a-0")) == 1


def test_a_multiple_of_a_devices_memory_takes_a_device_that_nobody_shares(team):
    team.node("node-1", gpus=1, gpu_memory_mib=40_000)
    team.job("small", gpus=0.1, on="node-1", groups=[("g",)])
    team.job("a", shape={"gpu": GpuMemory(devices=1, memory_mib=80_000)})
    assert team.decide(imitate_faults=True).nothing


@pytest.mark.parametrize(("limit", "bound"), [(1, False), (2, True)])
def test_a_multiple_of_a_devices_memory_counts_in_full_in_its_queue(world, limit, bound):
    world.queue("team", limit=limit)
    world.node("node-1", gpus=4, gpu_memory_mib=40_000)
    world.job("a", queue="team", shape={"gpu": GpuMemory(devices=1, memory_mib=80_000)})
    assert bool(world.decide(imitate_faults=True).bound) == bound


def test_a_node_that_does_not_tell_its_gpu_memory_gets_no_memory_request(team):
    team.node("node-1", gpus=1, gpu_memory_mib=0)
    team.job("a", shape={"gpu": GpuMemory(devices=1, memory_mib=50)})
    assert team.decide().nothing


@pytest.mark.parametrize("second", ["free", "limited"])
def test_what_one_queues_limit_refuses_is_there_for_another(world, second):
    """Only the small device has room, of which 30,000 MiB are more than the first queue may have; no event lies between the two."""
    world.queue("limited", limit=0.4, priority=200)
    world.queue("free", priority=100)
    world.node("large", gpus=1, gpu_memory_mib=80_000)
    world.node("small", gpus=1, gpu_memory_mib=40_000)
    world.job("holds", queue="free", on="large")
    asked = {"gpu": GpuMemory(devices=1, memory_mib=30_000)}
    world.job("first", queue="limited", shape=asked)
    world.job("second", queue=second, shape=asked)
    assert world.decide().bound == ({"second-0": "small"} if second == "free" else {})


def test_a_share_of_several_devices_takes_several_devices(team):
    team.node("node-1", gpus=2)
    half_of_two = {"gpu": GpuFraction(devices=2, portion=500)}
    team.job("a", shape=half_of_two)
    team.job("b", shape=half_of_two)
    team.job("c", shape=half_of_two)
    decided = team.decide()
    assert sorted(decided.bound) == ["a-0", "b-0"]
    assert len(set(decided.groups("a-0"))) == 2
    assert set(decided.groups("a-0")) == set(decided.groups("b-0"))


def test_a_share_waits_for_the_one_who_leaves_the_device(team):
    team.node("node-1", gpus=1)
    team.job("leaving", gpus=0.5, on="node-1", groups=[("g",)], status=Status.RELEASING)
    team.job("stays", gpus=0.5, on="node-1", groups=[("g",)])
    team.job("new", gpus=0.5)
    decided = team.decide()
    assert decided.bound == {}
    assert decided.promised == {"new-0": "node-1"}


MIG = {"node-role.kubernetes.io/mig-enabled": "true"}
SMALL, LARGE = "nvidia.com/mig-1g.5gb", "nvidia.com/mig-2g.10gb"


def mig_node(world, *profiles):
    labels = MIG | {"nvidia.com/mig.strategy": "mixed"}
    world.node("mig-1", gpus=0, labels=labels, extended=profiles)


def profile(name, count=1):
    return {"gpu": MigInstances(profiles=((name, count),))}


def test_mig_profiles_are_counted_each_for_itself(team):
    mig_node(team, (SMALL, 2), (LARGE, 1))
    for number in range(3):
        team.job(f"small{number}", shape=profile(SMALL))
        team.job(f"large{number}", shape=profile(LARGE))
    assert sorted(team.decide().bound) == ["large0-0", "small0-0", "small1-0"]


def test_a_mig_node_takes_no_whole_device_and_no_share(team):
    mig_node(team, (SMALL, 2))
    team.job("whole")
    team.job("half", gpus=0.5)
    assert team.decide().nothing


def test_a_plain_node_takes_no_mig_profile(team):
    team.node("node-1", gpus=8)
    team.job("small", shape=profile(SMALL))
    assert team.decide().nothing


def test_a_mig_profile_counts_for_its_leading_number_in_quotas(world):
    mig_node(world, (LARGE, 4))
    world.queue("team", limit=5)
    for number in range(4):
        world.job(f"large{number}", shape=profile(LARGE))
    assert len(world.decide().bound) == 2


@pytest.mark.parametrize("between", [False, True])
def test_what_a_share_is_refused_in_one_queue_another_queue_may_have(world, between):
    world.queue("strict", quota=0, limit=0.3, priority=200)
    world.queue("open", quota=-1)
    world.node("large", gpus=1, gpu_memory_mib=40_000)
    world.node("small", gpus=1, gpu_memory_mib=16_000)
    world.job("held", "open", on="large")
    # A fifth of the large device, half of the small one.
    share = {"gpu": GpuMemory(devices=1, memory_mib=8_000)}
    world.job("first", "strict", shape=share, priority=100)
    if between:
        world.job("huge", "strict", gpus=4, shape={"cpu": 10**9})
    world.job("second", "open", shape=share)
    decided = world.decide()
    assert decided.bound == {"second-0": "small"}
    assert decided.pending("first").code


def test_equal_shares_that_find_no_room_wait_all(team):
    team.node("node-1", gpus=1)
    team.job("held", gpus=0.7, on="node-1", groups=[("g",)])
    for number in range(3):
        team.job(f"half-{number}", gpus=0.5)
        team.job(f"whole-{number}")
    team.job("last", gpus=0.3)
    decided = team.decide()
    assert decided.bound == {"last-0": "node-1"}
    assert len(decided.decisions.pending) == 6
