"""Node filters: labels, affinity, taints, other pods, ports, pod slots, and unavailable nodes."""

import pytest

from kailab.engine.decisions import PendingCode
from kailab.engine.snapshot.records import NodeTerm, PodTerm, Requirement, Taint, Toleration


def two_nodes(world, **labels_of_the_second):
    """node-1 would be taken first, by its name."""
    world.node("node-1", labels={"disk": "hdd", "size": "10"})
    world.node("node-2", labels={"disk": "ssd", "size": "20"} | labels_of_the_second)


def needs(key, operator, *values):
    return Requirement(key=key, operator=operator, values=values)


@pytest.mark.parametrize(
    "requirement",
    [
        needs("disk", "In", "ssd", "nvme"),
        needs("disk", "NotIn", "hdd"),
        needs("fast", "Exists"),
        needs("size", "Gt", "15"),
    ],
    ids=lambda requirement: requirement.operator,
)
def test_a_node_selector_or_affinity_keeps_a_pod_to_its_nodes(team, requirement):
    two_nodes(team, fast="yes")
    team.job("selector", shape={"selector": (requirement,)})
    team.job("affinity", shape={"terms": (NodeTerm(requirements=(requirement,)),)})
    assert team.decide().bound == {"selector-0": "node-2", "affinity-0": "node-2"}


@pytest.mark.parametrize("requirement", [needs("fast", "DoesNotExist"), needs("size", "Lt", "15")])
def test_and_off_the_others(team, requirement):
    two_nodes(team, fast="yes")
    team.job("held", tasks=7, on="node-2")
    team.job("a", shape={"terms": (NodeTerm(requirements=(requirement,)),)})
    assert team.decide().bound == {"a-0": "node-1"}


def test_any_term_of_an_affinity_suffices_but_all_of_one(team):
    two_nodes(team)
    impossible = NodeTerm(requirements=(needs("disk", "In", "ssd"), needs("disk", "In", "hdd")))
    team.job("none", shape={"terms": (impossible,)})
    team.job("some", shape={"terms": (impossible, NodeTerm(requirements=(needs("disk", "In", "ssd"),)))})
    assert team.decide().bound == {"some-0": "node-2"}


def test_a_pod_may_ask_for_a_node_by_name(team):
    two_nodes(team)
    team.job("a", shape={"terms": (NodeTerm(fields=(needs("metadata.name", "In", "node-2"),)),)})
    assert team.decide().bound == {"a-0": "node-2"}


@pytest.mark.parametrize(
    ("toleration", "node"),
    [
        (None, "node-2"),
        (Toleration(key="gpu", operator="Exists"), "node-1"),
        (Toleration(key="gpu", value="a100"), "node-1"),
        (Toleration(key="gpu", value="h100"), "node-2"),
        (Toleration(key="gpu", operator="Exists", effect="NoExecute"), "node-2"),
        (Toleration(operator="Exists"), "node-1"),
    ],
)
def test_a_taint_keeps_pods_off_that_do_not_tolerate_it(team, toleration, node):
    team.node("node-1", taints=(Taint(key="gpu", value="a100"),))
    team.node("node-2")
    team.job("a", shape={"tolerations": (toleration,) if toleration else ()})
    assert team.decide().bound == {"a-0": node}


def test_the_reason_names_each_taint_in_kubernetes_words(team):
    team.node("node-1", taints=(Taint(key="fake", value="yes"),))
    team.node("node-2", taints=(Taint(key="fake", value="yes"),))
    team.node("node-3", taints=(Taint(key="known"), Taint(key="reserved")))
    team.job("a", shape={"tolerations": (Toleration(key="known", operator="Exists"),)})
    pending = team.decide().pending("a")
    assert pending.fits[0].reasons == (
        ("node(s) had untolerated taint {fake: yes}", 2),
        ("node(s) had untolerated taint {reserved: }", 1),
    )
    assert "no node may take pod" in pending.message
    assert pending.message.endswith(
        ": 2 node(s) had untolerated taint {fake: yes}, 1 node(s) had untolerated taint {reserved: }"
    )


def test_a_taint_is_named_beside_nodes_that_are_full(team):
    team.node("node-1", gpus=8, taints=(Taint(key="fake", value="yes"),))
    team.node("node-2", gpus=8)
    team.job("held", tasks=8, on="node-2")
    team.job("a")
    team.job("gang", tasks=2, gang=2)
    decided = team.decide()
    messages = "; 1 node(s) had untolerated taint {fake: yes}"
    assert "no node has room for pod" in decided.pending("a").message
    assert decided.pending("a").message.endswith(messages)
    assert decided.pending("gang").message.endswith(messages)


def test_a_taint_that_only_asks_is_no_bar(team):
    team.node("node-1", taints=(Taint(key="gpu", effect="PreferNoSchedule"),))
    team.job("a")
    assert team.decide().bound == {"a-0": "node-1"}


def test_an_unavailable_node_takes_nothing_new_and_counts_for_no_share(world):
    world.node("node-1", gpus=8, unavailable="node is unschedulable")
    world.queue("team")
    world.job("a")
    decided = world.decide()
    assert decided.nothing
    assert decided.decisions.queues[0].gpu.fair_share == 0
    assert decided.pending("a").fits[0].reasons == (("node is unschedulable", 1),)


def test_what_a_pod_lacks_keeps_it_off_every_node(team):
    team.node("node-1")
    team.job("a", shape={"blocked": ('persistentvolumeclaim "data" not found',)})
    decided = team.decide()
    assert decided.nothing
    assert decided.pending("a").code == PendingCode.POD_SCHEDULING_ERRORS
    assert decided.pending("a").message.endswith(': 1 persistentvolumeclaim "data" not found')


@pytest.mark.parametrize(("cpu", "memory"), [(1500, 0), (0, 1500)])
def test_cpu_and_memory_are_counted_like_gpus(team, cpu, memory):
    team.node("node-1", gpus=0, cpu=2000, memory=2000)
    for name in ("a", "b"):
        team.job(name, gpus=0, shape={"cpu": cpu, "memory": memory})
    assert team.decide().bound == {"a-0": "node-1"}


def test_other_resources_are_counted_too(team):
    team.node("node-1", gpus=0, extended=(("example.com/nic", 2),))
    for name in ("a", "b", "c"):
        team.job(name, gpus=0, shape={"extended": (("example.com/nic", 1),)})
    assert sorted(team.decide().bound) == ["a-0", "b-0"]


def test_a_node_takes_only_so_many_pods(team):
    team.node("node-1", gpus=8, pods=2)
    for name in ("a", "b", "c"):
        team.job(name, gpus=0)
    assert sorted(team.decide().bound) == ["a-0", "b-0"]


def test_a_new_shared_device_needs_a_slot_for_the_pod_that_reserves_it(team):
    team.node("node-1", gpus=8, pods=1)
    team.job("a", gpus=0.5)
    assert team.decide().nothing


@pytest.mark.parametrize(("group", "bound"), [("0", {"more-0": "node-1"}), ("of-a-pod", {})])
def test_a_share_of_a_device_in_use_needs_that_slot_too_but_where_devices_are_numbered(team, group, bound):
    """KAI tells a device in use from a new one by its name, and takes all for new but numbers, which no cluster has."""
    team.node("node-1", gpus=8, pods=2)
    team.job("a", gpus=0.5, on="node-1", groups=[(group,)])
    team.job("more", gpus=0.5)
    assert team.decide().bound == bound


def web(key="kubernetes.io/hostname"):
    return (PodTerm(topology_key=key, requirements=(needs("app", "In", "web"),), namespaces=("default",)),)


LABELLED = {"labels": (("app", "web"),), "namespace": "default"}


def hosts(world):
    for number in (1, 2):
        world.node(f"node-{number}", labels={"kubernetes.io/hostname": f"node-{number}", "zone": "z"})


def test_pod_affinity_goes_where_such_a_pod_is(team):
    hosts(team)
    team.job("web", on="node-2", shape=LABELLED)
    team.job("held", tasks=5, on="node-1")
    team.job("a", shape={"affinity": web()})
    assert team.decide().bound == {"a-0": "node-2"}


def test_pod_affinity_looks_at_the_whole_domain(team):
    hosts(team)
    team.job("web", on="node-2", shape=LABELLED)
    team.job("held", tasks=5, on="node-1")
    team.job("a", shape={"affinity": web("zone")})
    assert team.decide().bound == {"a-0": "node-1"}


APP_AND_TIER = {"labels": (("app", "web"), ("tier", "front")), "namespace": "default"}


def app_and_tier():
    tier = PodTerm(
        topology_key="kubernetes.io/hostname",
        requirements=(needs("tier", "In", "front"),),
        namespaces=("default",),
    )
    return (*web(), tier)


def test_several_terms_of_pod_affinity_want_one_pod_that_matches_them_all(team):
    hosts(team)
    team.job("app", on="node-1", shape=LABELLED)
    team.job("tier", on="node-1", shape={"labels": (("tier", "front"),), "namespace": "default"})
    team.job("a", shape={"affinity": app_and_tier()})
    assert team.decide().bound == {}
    team.job("whole", on="node-2", shape=APP_AND_TIER)
    assert team.decide().bound == {"a-0": "node-2"}


def test_the_first_of_a_series_has_to_match_all_terms_itself(team):
    hosts(team)
    team.job("app", on="node-1", shape=LABELLED)
    team.job("held", tasks=7, on="node-1")
    team.job("half", shape={"affinity": app_and_tier(), **LABELLED})
    assert team.decide().bound == {}
    team.job("first", shape={"affinity": app_and_tier(), **APP_AND_TIER})
    assert team.decide().bound["first-0"] == "node-2"


def test_pod_anti_affinity_keeps_away_from_such_pods(team):
    hosts(team)
    team.job("web", tasks=5, on="node-1", shape=LABELLED)
    team.job("a", shape={"anti_affinity": web()})
    assert team.decide().bound == {"a-0": "node-2"}


def test_pods_that_run_keep_others_away_too(team):
    hosts(team)
    team.job("alone", on="node-1", shape={"anti_affinity": web(), "namespace": "default"})
    team.job("web", shape=LABELLED)
    assert team.decide().bound == {"web-0": "node-2"}


def test_replicas_that_avoid_each_other_spread(team):
    hosts(team)
    team.job("web", tasks=3, shape=LABELLED | {"anti_affinity": web()})
    assert sorted(team.decide().bound.values()) == ["node-1", "node-2"]


def test_a_host_port_is_taken_once_a_node(team):
    hosts(team)
    for name in ("a", "b", "c"):
        team.job(name, shape={"ports": (("0.0.0.0", "TCP", 80),)})
    team.job("other", shape={"ports": (("0.0.0.0", "TCP", 81),)})
    bound = team.decide().bound
    assert sorted(bound) == ["a-0", "b-0", "other-0"]
    assert bound["a-0"] != bound["b-0"]
