"""Preferred pod affinity and anti-affinity: KAI's podaffinity plugin, which scores with Kubernetes' InterPodAffinity.

Each other pod that a preferred term means adds the term's weight to its whole domain, or takes it off; terms of pods that are
there already count for the newcomer as its own do. A million a unit: more than topology and packing, less than ten
times a unit of a nominated node. Required terms of others score nothing.
"""

from __future__ import annotations

import pytest

from kailab.engine.config import EngineConfig
from kailab.engine.cycle import run_cycle
from kailab.engine.policies.switches import DEFAULT_PLUGINS
from kailab.engine.snapshot.records import PodTerm, Requirement

NOW = 1_000_000.0
HOST = "kubernetes.io/hostname"


def term(app, weight=10, key=HOST):
    named = Requirement(key="app", operator="In", values=(app,))
    return PodTerm(topology_key=key, requirements=(named,), namespaces=("default",), weight=weight)


def shape(app="", **terms):
    return {"labels": (("app", app),) if app else (), "namespace": "default", **terms}


def hosts(world, **gpus):
    for name, count in gpus.items():
        world.node(name, gpus=count, labels={HOST: name, "zone": "east" if name < "c" else "west"})


def test_a_pod_goes_to_whom_it_prefers_though_another_node_is_fuller(team):
    hosts(team, a=8, b=8)
    team.job("filler", gpus=4, on="a")
    team.job("web", on="b", shape=shape("web"))
    team.job("new", shape=shape(affinity=(term("web"),)))
    assert team.decide().bound == {"new-0": "b"}


def test_a_pod_keeps_off_whom_it_would_rather_avoid(team):
    hosts(team, a=8, b=8)
    team.job("web", gpus=4, on="a", shape=shape("web"))
    team.job("new", shape=shape(anti_affinity=(term("web"),)))
    assert team.decide().bound == {"new-0": "b"}


def test_who_can_only_go_where_it_would_rather_not_starts_all_the_same(team):
    hosts(team, a=8)
    team.job("web", gpus=4, on="a", shape=shape("web"))
    team.job("new", shape=shape(anti_affinity=(term("web"),)))
    assert team.decide().bound == {"new-0": "a"}


@pytest.mark.parametrize(("kind", "goes_to"), [("affinity", "b"), ("anti_affinity", "c")])
def test_terms_of_pods_that_are_there_count_for_the_newcomer(team, kind, goes_to):
    hosts(team, b=8, c=8)
    team.job("filler", gpus=4, on="c" if kind == "affinity" else "b")
    team.job("host", on="b", shape=shape(**{kind: (term("new"),)}))
    team.job("new", shape=shape("new"))
    team.job("stranger", shape=shape("stranger"))
    bound = team.decide().bound
    assert bound["new-0"] == goes_to
    assert bound["stranger-0"] == ("c" if kind == "affinity" else "b")  # packing alone


def test_each_pod_of_the_domain_counts_and_weights_add_up(team):
    hosts(team, a=8, b=8, c=8, d=8)  # a and b: east, c and d: west
    team.job("one", on="a", shape=shape("web"))
    team.job("two", tasks=2, on=("c", "d"), shape=shape("web"))
    team.job("db", on="b", shape=shape("db"))
    team.job("more", shape=shape(affinity=(term("web", 10, "zone"),)))
    team.job("less", shape=shape(affinity=(term("web", 10, "zone"), term("db", 11, "zone"))))
    bound = team.decide().bound
    assert bound["more-0"] in ("c", "d")
    assert bound["less-0"] in ("a", "b")


def test_pods_of_one_gang_count_for_each_other_as_they_are_placed(team):
    hosts(team, a=8, b=8)
    team.job("apart", tasks=2, gang=2, shape=shape("apart", anti_affinity=(term("apart"),)))
    assert team.decide().bound == {"apart-0": "a", "apart-1": "b"}


def test_required_terms_of_others_score_nothing(team):
    hosts(team, a=8, b=8)
    team.job("filler", gpus=4, on="a")
    team.job("fan", on="b", shape=shape("new", affinity=(term("new", 0),)))
    team.job("new", shape=shape("new"))
    assert team.decide().bound == {"new-0": "a"}


def test_who_left_counts_no_more(team):
    hosts(team, a=8, b=8)
    team.job("filler", gpus=4, on="a")
    team.job("web", on="b", shape=shape("web"))
    team.job("new", shape=shape(affinity=(term("web"),)))
    working = team.working()
    config = EngineConfig()
    assert run_cycle(working, config, NOW).binds[0].node == "b"
    working.remove_task("web-0")
    assert run_cycle(working, config, NOW).binds[0].node == "a"


@pytest.mark.parametrize(("weight", "goes_to"), [(9, "a"), (11, "b")])
def test_a_nominated_node_is_worth_ten_units(team, weight, goes_to):
    hosts(team, a=8, b=8)
    team.job("web", on="b", shape=shape("web"))
    team.job("new", shape=shape(affinity=(term("web", weight),)), task={"nominated_node": "a"})
    assert team.decide().bound == {"new-0": goes_to}


def test_without_the_plugin_nobody_prefers(team):
    hosts(team, a=8, b=8)
    team.job("filler", gpus=4, on="a")
    team.job("web", on="b", shape=shape("web"))
    team.job("new", shape=shape(affinity=(term("web"),)))
    off = tuple(name for name in DEFAULT_PLUGINS if name != "podaffinity")
    assert team.decide(plugins=off).bound == {"new-0": "a"}
