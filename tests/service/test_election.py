"""Leader election: who leads, when candidates take over, and that nobody writes without the lease."""

from __future__ import annotations

import pytest

from kailab.errors import InputError
from kailab.scheduler.service.election import Election, LeaseTerms


def lease(world):
    return world.cluster.get("Lease", "kailab-scheduler", "kai-scheduler")["spec"]


def test_one_of_two_leads_and_the_other_stands_by(world, build) -> None:
    a, b = world.candidate("a"), world.candidate("b")
    world.cluster.create(build.pod("p"))
    world.run(5)
    assert (a.election.leading, b.election.leading) == (True, False)
    assert lease(world)["holderIdentity"] == "a"
    assert world.node_of("p") == "n1"
    assert b.service.health.role == "standing by; a leads"
    assert b.service.health.ready() == (True, "ok: standing by; a leads")
    assert not b.service.cluster.written


def test_the_lease_is_written_as_kubernetes_components_do(world) -> None:
    world.candidate("a")
    world.run(5)
    spec = lease(world)
    assert spec["leaseDurationSeconds"] == 15
    assert spec["leaseTransitions"] == 0
    assert spec["renewTime"] > spec["acquireTime"]
    assert spec["acquireTime"].endswith("Z")
    assert "." in spec["acquireTime"]


def test_a_standby_takes_over_when_the_lease_is_no_longer_renewed(world, build) -> None:
    a, b = world.candidate("a"), world.candidate("b")
    world.run(5)
    world.candidates.remove(a)  # killed: it neither renews nor releases
    world.cluster.create(build.pod("p"))
    begun = world.cluster.now()
    while not b.election.leading:
        world.run(0.1)
    taken_after = world.cluster.now() - begun
    # Renewed less than a retry period before it died; seen less than 2.2 periods later.
    assert 15 - 2 - 4.4 <= taken_after <= 15 + 4.4 + 0.2
    world.run(1)
    assert world.node_of("p") == "n1"
    assert lease(world)["leaseTransitions"] == 1


def test_a_released_lease_is_taken_up_within_a_few_retries(world) -> None:
    a, b = world.candidate("a"), world.candidate("b")
    world.run(3)
    world.candidates.remove(a)
    a.service.close()
    a.election.release()
    assert lease(world)["holderIdentity"] == ""
    assert not a.election.leading
    world.run(4.5)
    assert b.election.leading


def test_a_holder_that_can_not_renew_stops_writing_before_anyone_may_take_over(world, build) -> None:
    a, b = world.candidate("a"), world.candidate("b")
    world.run(5)
    a.cut.off = True
    world.run(2)
    assert a.election.leading  # a short outage is borne
    world.run(9)
    assert not a.election.leading
    assert not b.election.leading
    # In between nobody acts: what a would still write is refused.
    world.cluster.create(build.pod("p"))
    world.run(1)
    assert world.node_of("p") == ""
    assert a.service.health.role == "standing by; nobody leads"
    world.run(10)
    assert b.election.leading
    assert world.node_of("p") == "n1"


def test_only_the_leader_tells_of_queues_and_pods(world, build) -> None:
    a, b = world.candidate("a"), world.candidate("b")
    world.cluster.create(build.pod("p"))
    world.run(3)

    def told(one):
        text = one.service.metrics.text().decode()
        return ["kai_queue_info{" in text, "kailab_pods{" in text, "kai_queue_fair_share_gpu{" in text]

    assert told(a) == [True] * 3
    assert told(b) == [False] * 3
    a.cut.off = True
    world.run(25)
    assert told(a) == [False] * 3
    assert told(b) == [True] * 3


def test_a_former_leader_comes_back_as_a_standby_and_may_lead_again(world, build) -> None:
    a, b = world.candidate("a"), world.candidate("b")
    world.run(5)
    a.cut.off = True
    world.run(25)
    assert b.election.leading
    a.cut.off = False
    world.run(5)
    assert a.election.holder == "b"
    world.candidates.remove(b)
    world.cluster.create(build.pod("p"))
    world.run(25)
    assert a.election.leading
    assert a.election.term == 2
    assert world.node_of("p") == "n1"


def test_steps_of_the_wall_clock_do_no_harm(world) -> None:
    """The times in the record are never compared with a clock; only its changes count."""
    a, b = world.candidate("a"), world.candidate("b")
    for one, shift in ((a, -86_400.0), (b, 86_400.0)):
        one.cut.now = lambda shift=shift: world.cluster.now() + shift
    world.run(30)
    assert a.election.leading
    assert b.election.term == 0


def test_who_waits_trusts_the_duration_that_the_record_gives(world) -> None:
    b = world.candidate("b")
    world.cluster.create(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "kailab-scheduler", "namespace": "kai-scheduler"},
            "spec": {"holderIdentity": "elsewhere", "leaseDurationSeconds": 60, "leaseTransitions": 4},
        }
    )
    world.run(59)
    assert not b.election.leading
    world.run(6)
    assert b.election.leading
    assert lease(world)["leaseTransitions"] == 5


def test_a_lease_taken_by_force_is_noticed_and_left_alone(world) -> None:
    a = world.candidate("a")
    world.run(5)
    world.cluster.patch("Lease", "kailab-scheduler", "kai-scheduler", {"spec": {"holderIdentity": "intruder"}})
    world.run(4.5)
    assert not a.election.leading
    assert lease(world)["holderIdentity"] == "intruder"


def test_a_deleted_lease_is_made_anew(world) -> None:
    a = world.candidate("a")
    world.run(5)
    world.cluster.delete("Lease", "kailab-scheduler", "kai-scheduler")
    world.run(3)
    assert a.election.leading
    assert a.election.term == 1
    assert lease(world)["holderIdentity"] == "a"


def test_the_clock_of_the_fence_runs_from_when_the_renewal_was_sent(world) -> None:
    """A slow answer must not extend the time for which the holder trusts its lease."""
    slow = world.candidate("slow")
    update = world.cluster.update

    def late(obj):
        updated = update(obj)
        world.cluster.advance(9)
        return updated

    world.run(1)
    world.candidates.clear()
    slow.cut.update = late
    sent_at = world.cluster.now()
    slow.election.step()
    assert world.cluster.now() == sent_at + 9
    assert slow.election.leading
    world.cluster.advance(1)
    assert not slow.election.leading


@pytest.mark.parametrize(
    "terms",
    [LeaseTerms(10, 10, 2), LeaseTerms(15, 2, 2), LeaseTerms(15, 10, 0), LeaseTerms(0.5, 0.4, 0.1)],
    ids=["lease not longer", "deadline too short", "no period", "lease too short"],
)
def test_terms_that_would_let_two_act_are_refused(world, terms) -> None:
    with pytest.raises(InputError):
        Election(world.cluster, "a", "kai-scheduler", "lease", terms)
