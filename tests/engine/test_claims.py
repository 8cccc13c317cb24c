"""Resource claims (DRA): sharers go where the claim is, a shared device counts once, claims of another queue are refused."""

import pytest

from kailab.engine.snapshot.gpu_requests import ClaimedGpus

CLASS = "gpu.example.com"


def claiming(*claims, gpus=1, cpu=100):
    """A pod that names claims for so many GPUs in all."""
    return {
        "gpu": ClaimedGpus(claimed=((CLASS, gpus),)),
        "claims": tuple(f"default/{claim}" for claim in claims),
        "cpu": cpu,
    }


def test_a_claim_takes_a_device_of_the_node(team):
    team.node("node-1", gpus=1, devices=1)
    for name in ("a", "b"):
        team.claim(name, gpus=1)
        team.job(name, shape=claiming(name))
    assert team.decide().bound == {"a-0": "node-1"}


def test_a_claim_that_does_not_exist_is_waited_for(team):
    team.node("node-1", gpus=1)
    team.job("a", shape=claiming("nowhere"))
    decided = team.decide()
    assert decided.nothing
    assert "default/nowhere does not exist" in decided.pending("a").fits[0].reasons[0][0]


@pytest.mark.parametrize(
    ("label", "bound"), [("team", {"a-0": "node-1"}), ("other", {}), ("", {}), (None, {"a-0": "node-1"})]
)
def test_a_shared_gpu_claim_must_carry_the_queue_s_label(team, label, bound):
    team.node("node-1", gpus=1)
    team.claim("a", gpus=1, queue=label)
    team.job("a", shape=claiming("a"))
    assert team.decide().bound == bound


def test_who_shares_a_claim_goes_to_the_same_node(team):
    """node-2 would be packed first: it is the fuller one."""
    team.node("node-1", gpus=4)
    team.node("node-2", gpus=4)
    team.claim("shared", gpus=1, allocated=True, node="node-1", reserved=("a-0",))
    team.job("a", shape=claiming("shared"), on="node-1")
    team.job("held", tasks=3, on="node-2")
    team.job("b", shape=claiming("shared"))
    assert team.decide().bound == {"b-0": "node-1"}


def test_a_gang_on_one_claim_does_not_start_on_a_node_without_room_for_all(team):
    team.node("node-1", gpus=2, cpu=150)
    team.node("node-2", gpus=2, cpu=150)
    team.claim("shared", gpus=1)
    team.job("gang", tasks=2, gang=2, shape=claiming("shared", cpu=100))
    assert team.decide().nothing


def test_a_device_that_running_pods_share_counts_once(team):
    team.node("node-1", gpus=2)
    team.claim("shared", gpus=1, allocated=True, node="node-1", reserved=("a-0", "a-1"))
    team.job("a", tasks=2, shape=claiming("shared"), on="node-1")
    team.job("plain")
    team.job("more")
    assert team.decide().bound == {"plain-0": "node-1"}


def test_a_pod_that_joins_a_running_claim_needs_no_further_device(team):
    team.node("node-1", gpus=1)
    team.claim("shared", gpus=1, allocated=True, node="node-1", reserved=("a-0",))
    team.job("a", shape=claiming("shared"), on="node-1")
    team.job("b", shape=claiming("shared"))
    assert team.decide().bound == {"b-0": "node-1"}


def test_a_claim_reserved_for_somebody_unknown_stays_where_it_is(team):
    team.node("node-1", gpus=1)
    team.node("node-2", gpus=1)
    team.claim("shared", gpus=1, allocated=True, node="node-2", reserved=("stranger",))
    team.job("a", shape=claiming("shared"))
    assert team.decide().bound == {"a-0": "node-2"}


def test_claims_without_gpus_are_served_from_the_node_s_devices(team):
    team.node("node-1", gpus=0, devices=2)
    for name in ("a", "b", "c"):
        team.claim(name)
        team.job(name, gpus=0, shape={"claims": (f"default/{name}",)})
    assert sorted(team.decide().bound) == ["a-0", "b-0"]


def test_a_claim_is_reserved_for_so_many_pods_and_no_more(team):
    team.node("node-1", gpus=1)
    team.claim("full", gpus=1, allocated=True, node="node-1", reserved=tuple(f"pod-{n}" for n in range(256)))
    team.job("a", shape=claiming("full"))
    assert team.decide().nothing


def test_claims_count_against_quotas(world):
    world.node("node-1", gpus=4)
    world.queue("team", limit=3)
    world.claim("large", gpus=4, devices=4)
    world.job("a", shape=claiming("large", gpus=4))
    assert world.decide().nothing


def test_a_device_held_by_a_claim_is_reclaimed(world):
    world.node("node-1", gpus=1, devices=1)
    world.queue("owner", quota=1)
    world.queue("borrower", quota=0)
    world.claim("theirs", gpus=1, allocated=True, node="node-1", reserved=("b-0",))
    world.claim("mine", gpus=1)
    world.job("b", queue="borrower", shape=claiming("theirs"), on="node-1")
    world.job("mine", queue="owner", shape=claiming("mine"))
    decided = world.decide()
    assert decided.lost == {"b-0"}
    assert decided.promised == {"mine-0": "node-1"}


def test_a_claim_changed_later_is_counted_as_if_it_had_been_so_from_the_start(team, state):
    """Records in another order, and claims replaced: the same state of nodes."""
    team.node("node-1", gpus=4)
    team.claim("shared", gpus=2, devices=2, allocated=True, node="node-1", reserved=("a-0",))
    team.job("a", tasks=3, gpus=0, shape=claiming("shared", gpus=2), on="node-1")
    wanted = state(team.working())
    assert wanted["idle"][2] == [2000]
    late = team.working([r for r in team.records if not hasattr(r, "reserved")])
    state(late)
    for record in team.records:
        if hasattr(record, "reserved"):
            late.set_claim(record)
    assert state(late) == wanted
    late.remove_claim("default/shared")
    assert state(late)["idle"][2] == [-2000]


def held(node, number):
    return {"allocated": True, "node": node, "held": (("example.com", node, f"device-{number}"),)}


def test_a_device_that_a_claim_has_is_not_given_to_another_in_thought(team):
    """Two devices are free, and one is kept for a pod that can't run just now. To move others makes no room for a third pod: one of
    them would sit on the device of another."""
    has = {"a": ("node-1", 0), "b": ("node-1", 1), "d": ("node-2", 0), "e": ("node-2", 1), "h": ("node-1", 2)}
    for node in ("node-1", "node-2"):
        team.node(node, gpus=4, devices=4)
    for name in "abcdefgh":
        team.claim(name, gpus=1, **(held(*has[name]) | {"reserved": (f"{name}-0",)} if name in has else {}))
        team.job(name, shape=claiming(name), on=has[name][0] if name in has else ())
    team.claim("kept", gpus=1, reserved=("kept-0",), **held("node-2", 3))
    team.job("kept", shape={**claiming("kept"), "blocked": ("its binding failed",)})
    decided = team.decide()
    assert decided.lost == set()
    assert len(decided.bound) == 2
