"""PodCliqueSets: cliques, scaling groups, and the gangs that their pods start in."""

from __future__ import annotations

import pytest

from kailab.errors import Invalid

GROVE = "grove.io/v1alpha1"
PENDING = "grove.io/podgang-pending-creation"


def clique(world, name, replicas=1, **spec):
    return {"name": name, "spec": {"roleName": name, "replicas": replicas, "podSpec": world.template()["spec"], **spec}}


def clique_set(world, *cliques, replicas=1, **template):
    return world.add(GROVE, "PodCliqueSet", {"replicas": replicas, "template": {"cliques": list(cliques), **template}})


def gangs(world):
    return {
        gang["metadata"]["name"]: {
            group["name"]: (group["minReplicas"], len(group["podReferences"])) for group in gang["spec"]["podgroups"]
        }
        for gang in world.cluster.list("PodGang")
    }


def gated(world):
    return [pod for pod in world.pods() if pod["spec"].get("schedulingGates")]


def test_each_replica_has_its_cliques_and_is_a_gang(world):
    clique_set(world, clique(world, "front", 2, minAvailable=1), clique(world, "back"), replicas=2)
    world.settle()
    assert len(world.pods()) == 6
    one = {"a-0-front": (1, 2), "a-0-back": (1, 1)}
    assert gangs(world) == {"a-0": one, "a-1": {name.replace("a-0", "a-1"): size for name, size in one.items()}}
    pod = world.pods(**{"grove.io/podclique": "a-1-back"})[0]
    assert pod["metadata"]["labels"]["grove.io/podgang"] == "a-1"
    assert pod["spec"]["hostname"] == "a-1-back-0"


def test_replicas_of_a_scaling_group_beyond_the_least_are_gangs_of_their_own(world):
    group = {"name": "sg", "cliqueNames": ["lead", "work"], "replicas": 3, "minAvailable": 2}
    cliques = clique(world, "lead"), clique(world, "work", 2), clique(world, "front")
    clique_set(world, *cliques, podCliqueScalingGroups=[group])
    world.settle()
    assert gangs(world) == {
        "a-0": {"a-0-front": (1, 1), "a-0-sg-0-lead": (1, 1), "a-0-sg-0-work": (2, 2), "a-0-sg-1-lead": (1, 1),
                "a-0-sg-1-work": (2, 2)},
        "a-0-sg-0": {"a-0-sg-2-lead": (1, 1), "a-0-sg-2-work": (2, 2)},
    }  # fmt: skip
    assert not gated(world)


def test_a_further_replica_waits_until_the_base_gang_is_scheduled(world):
    group = {"name": "sg", "cliqueNames": ["work"], "replicas": 2}
    clique_set(world, clique(world, "work"), podCliqueScalingGroups=[group])
    world.settle(bind=False)
    (waiting,) = gated(world)
    assert waiting["metadata"]["labels"]["grove.io/base-podgang"] == "a-0"
    assert [gate["name"] for gate in waiting["spec"]["schedulingGates"]] == [PENDING]
    world.settle()
    assert not gated(world)


def test_scaling_a_group_adds_and_removes_a_gang(world):
    group = {"name": "sg", "cliqueNames": ["work"], "replicas": 1}
    clique_set(world, clique(world, "work", 2), podCliqueScalingGroups=[group])
    world.settle()
    for replicas, pods, names in ((2, 4, ["a-0", "a-0-sg-0"]), (1, 2, ["a-0"])):
        world.cluster.patch("PodCliqueScalingGroup", "a-0-sg", "default", {"spec": {"replicas": replicas}})
        world.settle()
        assert len(world.pods()) == pods
        assert list(gangs(world)) == names


def test_a_lost_pod_comes_back_in_its_gang(world):
    clique_set(world, clique(world, "work", 2))
    world.settle()
    lost = world.names()[0]
    world.cluster.delete("Pod", lost, "default")
    world.pass_time(60)
    assert len(world.pods()) == 2
    assert not gated(world)
    (gang,) = world.cluster.list("PodGang")
    named = {one["name"] for one in gang["spec"]["podgroups"][0]["podReferences"]}
    assert named == set(world.names()) != {lost}


def test_a_new_template_replaces_the_pods(world):
    made = clique_set(world, clique(world, "work", 2), clique(world, "other"))
    world.settle()
    template = made["spec"]["template"]
    first, second = template["cliques"]
    spec = {**first["spec"]["podSpec"], "containers": [{"name": "c", "image": "new"}]}
    cliques = [{**first, "spec": {**first["spec"], "podSpec": spec}}, second]
    world.cluster.patch("PodCliqueSet", "a", "default", {"spec": {"template": {**template, "cliques": cliques}}})
    world.pass_time(300)
    images = [pod["spec"]["containers"][0]["image"] for pod in world.pods(**{"grove.io/podclique": "a-0-work"})]
    assert images == ["new", "new"]
    assert len(world.pods()) == 3


def test_the_cliques_of_a_set_and_their_gangs_stay(world):
    clique_set(world, clique(world, "a", 2), clique(world, "b"))

    def change(*cliques, **template):
        world.cluster.patch(
            "PodCliqueSet", "a", "default", {"spec": {"template": {"cliques": list(cliques), **template}}}
        )

    change(clique(world, "b", 3), clique(world, "a", 2, minAvailable=2))  # as it is by default
    for cliques in ((clique(world, "a", 2),), (clique(world, "a", 2, minAvailable=1), clique(world, "b"))):
        with pytest.raises(Invalid, match=r"spec.template.cliques: field is immutable"):
            change(*cliques)
    groups = [{"name": "g", "cliqueNames": ["a"]}]
    for field, value in (("cliqueStartupType", "CliqueStartupTypeInOrder"), ("podCliqueScalingGroups", groups)):
        with pytest.raises(Invalid, match=rf"spec.template.{field}: field is immutable"):
            change(clique(world, "a", 2), clique(world, "b"), **{field: value})


def test_names_of_topology_domains_become_labels_of_nodes(world):
    binding = {
        "levels": [{"domain": "rack", "key": "topology/rack"}, {"domain": "host", "key": "kubernetes.io/hostname"}]
    }
    world.cluster.create(
        {"apiVersion": GROVE, "kind": "ClusterTopologyBinding", "metadata": {"name": "t"}, "spec": binding}
    )
    pack = {"topologyConstraint": {"topologyName": "t", "packDomain": "rack"}}
    group = {"name": "sg", "cliqueNames": ["work"], "topologyConstraint": {"pack": {"preferred": "host"}}}
    clique_set(world, clique(world, "work"), podCliqueScalingGroups=[group], **pack)
    world.settle()
    assert world.cluster.get("Topology", "t")["spec"]["levels"] == [
        {"nodeLabel": "topology/rack"}, {"nodeLabel": "kubernetes.io/hostname"},
    ]  # fmt: skip
    gang = world.cluster.get("PodGang", "a-0", "default")
    assert gang["spec"]["topologyConstraint"] == {"packConstraint": {"required": "topology/rack"}}
    assert gang["spec"]["topologyConstraintGroupConfigs"] == [
        {"name": "a-0-sg-0", "podGroupNames": ["a-0-sg-0-work"],
         "topologyConstraint": {"packConstraint": {"preferred": "kubernetes.io/hostname"}}},
    ]  # fmt: skip
    assert gang["metadata"]["annotations"]["grove.io/topology-name"] == "t"


def test_its_objects_go_with_it(world):
    group = {"name": "sg", "cliqueNames": ["work"], "replicas": 2}
    clique_set(world, clique(world, "work"), podCliqueScalingGroups=[group])
    world.settle()
    world.cluster.delete("PodCliqueSet", "a", "default")
    world.pass_time(60)
    for kind in ("Pod", "PodClique", "PodCliqueScalingGroup", "PodGang"):
        assert world.cluster.list(kind) == []


def test_it_goes_on_in_a_resumed_lab(world):
    clique_set(world, clique(world, "work", 2))
    world.settle()
    before = world.names()
    world.resume()
    world.settle()
    assert world.names() == before


def dynamo(world, services, name="a", **metadata):
    return world.add("nvidia.com/v1alpha1", "DynamoGraphDeployment", {"services": services}, name, **metadata)


def test_a_graph_of_services_is_a_clique_set(world):
    gpu = {"limits": {"gpu": "2", "memory": "8Gi"}}
    dynamo(
        world,
        {
            "Frontend": {"componentType": "frontend", "replicas": 2},
            "Decode": {"componentType": "worker", "multinode": {"nodeCount": 3}, "replicas": 2, "resources": gpu},
            "Planner": {"replicas": 0},
        },
    )
    world.settle()
    assert len(world.pods()) == 2 + 2 * 3
    assert gangs(world) == {
        "a-0": {"a-0-frontend": (1, 2), "a-0-decode-0-decode-ldr": (1, 1), "a-0-decode-0-decode-wkr": (2, 2)},
        "a-0-decode-0": {"a-0-decode-1-decode-ldr": (1, 1), "a-0-decode-1-decode-wkr": (2, 2)},
    }
    worker = world.pods(**{"grove.io/podclique": "a-0-decode-0-decode-wkr"})[0]
    assert worker["spec"]["containers"][0]["resources"]["limits"] == {"memory": "8Gi", "nvidia.com/gpu": "2"}
    assert worker["spec"]["schedulerName"] == "kai-scheduler"


@pytest.mark.parametrize(("annotation", "queue"), [(None, "dynamo"), ("team", "team")])
def test_its_pods_go_to_the_queue_that_it_names_or_to_dynamo(world, annotation, queue):
    world.cluster.create(
        {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "dynamo"}, "spec": {}}
    )
    notes = {"nvidia.com/kai-scheduler-queue": annotation} if annotation else {}
    dynamo(world, {"front": {}}, annotations=notes)
    world.settle()
    assert world.pods()[0]["metadata"]["labels"]["kai.scheduler/queue"] == queue


def test_components_of_the_newer_version_bring_their_pod_template(world):
    main = {"name": "main", "image": "vllm", "resources": {"limits": {"nvidia.com/gpu": 4}}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [main, {"name": "beside", "image": "x"}]}}
    component = {"name": "Decode", "type": "worker", "replicas": 3, "podTemplate": template}
    world.add("nvidia.com/v1beta1", "DynamoGraphDeployment", {"components": [component]})
    world.settle()
    assert len(world.pods(a="b")) == 3
    assert [one["name"] for one in world.pods()[0]["spec"]["containers"]] == ["main", "beside"]


def test_a_scaling_group_has_one_replica_unless_it_says_otherwise_and_a_clique_has_to_say_how_many(world):
    group = world.add(GROVE, "PodCliqueScalingGroup", {"cliqueNames": ["work"]})
    assert {field: group["spec"][field] for field in ("replicas", "minAvailable")} == {"replicas": 1, "minAvailable": 1}
    alone = {"roleName": "work", "podSpec": world.template()["spec"]}
    with pytest.raises(Invalid, match=r"spec\.replicas"):
        world.add(GROVE, "PodClique", alone)
