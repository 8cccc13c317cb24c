"""Nodes taken out of service and brought back."""

from __future__ import annotations

import json

import pytest


def nodes(kailab):
    return {node["metadata"]["name"]: node for node in json.loads(kailab("get", "nodes", "-o", "json").out)["items"]}


def held(kailab):
    pods = json.loads(kailab("get", "pods", "-o", "json").out)["items"]
    return [pod["spec"].get("nodeName") for pod in pods]


def test_a_cordoned_node_takes_no_more_pods_and_keeps_its_own(busy) -> None:
    before = held(busy)
    home = next(node for node in before if node)
    assert busy("cordon", home).out == f"node/{home} cordoned\n"
    assert busy("cordon", f"node/{home}").out == f"node/{home} already cordoned\n"
    assert held(busy) == before
    assert nodes(busy)[home]["spec"]["unschedulable"] is True
    assert busy("uncordon", home).out == f"node/{home} uncordoned\n"
    assert "unschedulable" not in nodes(busy)[home]["spec"]


def test_a_drained_node_is_empty_and_its_pods_run_elsewhere(serving) -> None:
    serving("scale", "deployment", "api", "--replicas", "4")
    home = held(serving)[0]
    done = serving("drain", home)
    assert (done.code, done.out) == (0, f"node/{home} drained\n")
    assert home not in held(serving)
    assert "4 pods running" in done.err


def test_a_pod_that_nobody_makes_anew_is_drained_only_by_force(started) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "lone"},
        "spec": {"nodeName": "a100-0", "containers": [{"name": "main", "image": "x"}]},
    }
    started("apply", "-f", "-", input=json.dumps(pod))
    done = started("drain", "a100-0")
    assert done.code == 2
    assert "pod default/lone has no controller that replaces it; --force deletes it" in done.err
    assert "unschedulable" not in (nodes(started)["a100-0"].get("spec") or {})
    assert started("drain", "a100-0", "--force").code == 0
    assert held(started) == []


def test_pods_that_stay_or_have_ended_are_no_obstacle_to_a_drain(started) -> None:
    """As by kubectl: static pods stay, and so do those of DaemonSets, whose emptyDirs lose nothing."""
    spec = {
        "nodeName": "a100-0",
        "containers": [{"name": "main", "image": "x"}],
        "volumes": [{"name": "v", "emptyDir": {}}],
    }
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **more}, "spec": spec}
        for name, more in {
            "static": {"ownerReferences": [owner("v1", "Node", "a100-0")]},
            "agent": {"ownerReferences": [owner("apps/v1", "DaemonSet", "agents")]},
            "done": {},
        }.items()
    ]
    started("apply", "-f", "-", input="\n---\n".join(map(json.dumps, pods)))
    assert "emptyDir" in started("drain", "a100-0", "--ignore-daemonsets").err
    started(
        "patch", "pod", "done", "--subresource", "status", "--type", "merge", "-p", '{"status":{"phase":"Succeeded"}}'
    )
    done = started("drain", "a100-0", "--ignore-daemonsets", "--no-settle")
    assert done.code == 0, done.err
    assert [pod["metadata"]["name"] for pod in json.loads(started("get", "pods", "-o", "json").out)["items"]] == [
        "agent",
        "static",
    ]


def owner(version: str, kind: str, name: str) -> dict[str, object]:
    return {"apiVersion": version, "kind": kind, "name": name, "uid": f"u-{name}", "controller": True}


def test_a_node_fails_and_is_well_again(serving) -> None:
    home = held(serving)[0]
    assert serving("fail", home).out == f"node/{home} failed\n"
    assert serving("fail", f"node/{home}").out == f"node/{home} failed already\n"
    assert "NotReady" in serving("get", "nodes", home).out
    assert home in held(serving)
    serving("run", "--for", "6m")
    assert [node for node in held(serving) if node != home], "made anew elsewhere"
    assert serving("recover", home).out == f"node/{home} recovered\n"
    assert serving("recover", home).out == f"node/{home} is ready already\n"
    serving("run", "--for", "1m")
    assert len(held(serving)) == 2


def test_a_node_that_says_itself_that_it_can_run_nothing(started) -> None:
    started("fail", "a100-0", "--not-ready")
    there = nodes(started)["a100-0"]
    assert {taint["key"] for taint in there["spec"]["taints"]} == {"node.kubernetes.io/not-ready"}
    assert started("fail", "a100-0").out == "node/a100-0 failed\n"
    there = nodes(started)["a100-0"]
    assert {taint["key"] for taint in there["spec"]["taints"]} == {"node.kubernetes.io/unreachable"}


def test_taints_are_set_changed_and_taken_away(started) -> None:
    assert started("taint", "nodes", "a100-0", "team=red:NoSchedule").out == "node/a100-0 tainted\n"
    done = started("taint", "nodes", "a100-0", "team=blue:NoSchedule")
    assert done.code == 2
    assert "has the taint team=red:NoSchedule already; --overwrite changes it" in done.err
    assert started("taint", "nodes", "a100-0", "team=blue:NoSchedule", "--overwrite").code == 0
    (taint,) = (one for one in nodes(started)["a100-0"]["spec"]["taints"] if one["key"] == "team")
    assert (taint["value"], taint["effect"]) == ("blue", "NoSchedule")
    assert started("taint", "node", "a100-0", "team:NoSchedule-").out == "node/a100-0 untainted\n"
    assert all(one["key"] != "team" for one in nodes(started)["a100-0"].get("spec", {}).get("taints") or ())


@pytest.mark.parametrize(
    "command, said",
    [
        (["cordon", "nope"], "'nope' not found"),
        (["cordon"], "no Node is named"),
        (["fail", "nope"], "'nope' not found"),
        (["recover"], "no Node is named"),
        (["taint", "nodes", "a100-0"], "there is no taint to set"),
        (["taint", "nodes", "a100-0", "a:Never"], "with an effect of NoSchedule"),
        (["taint", "nodes", "a100-0", "nope:NoSchedule-"], "has no taint nope:NoSchedule"),
        (["drain", "a100-0", "nope"], "'nope' not found"),
    ],
)
def test_an_impossible_change_is_refused_and_changes_nothing(started, command, said) -> None:
    before = nodes(started)
    done = started(*command)
    assert done.code == 2
    assert said in done.err
    assert nodes(started) == before


def test_several_nodes_by_label(started) -> None:
    done = started("cordon", "-l", "nvidia.com/gpu.product=A100")
    assert done.out.splitlines() == ["node/a100-0 cordoned", "node/a100-1 cordoned"]


BUDGET = """\
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: b}
spec: {minAvailable: %s, selector: {matchLabels: {app: api}}}
"""


def test_a_drain_keeps_to_a_disruption_budget_and_says_which_pods_remain(serving, home) -> None:
    labels = json.loads(serving("get", "pods", "-o", "json").out)["items"][0]["metadata"]["labels"]
    assert labels["app"] == "api"
    serving("apply", "-f", "-", input=BUDGET % 2)
    node, before = held(serving)[0], pods_of(serving)
    foretold, done = serving("whatif", "--drain", node), serving("drain", node)
    assert "warning: PodDisruptionBudget default/b asks for 2 of 2 pods, and " in foretold.err
    assert (done.code, done.out) == (1, f"node/{node} cordoned\n")
    assert "remains: PodDisruptionBudget default/b asks for 2 ready pods, and there are 2" in done.err
    assert pods_of(serving) == before
    past = serving("drain", node, "--disable-eviction")
    assert (past.code, past.out) == (0, f"node/{node} drained\n")
    assert "here all go at once" in past.err


def test_a_drain_waits_for_the_pods_that_take_the_place_of_evicted_ones(serving, home) -> None:
    serving("apply", "-f", "-", input=BUDGET % 1)
    node = held(serving)[0]
    done = serving("drain", node)
    assert (done.code, done.out) == (0, f"node/{node} drained\n")


def pods_of(command) -> list[str]:
    return sorted(item["metadata"]["name"] for item in json.loads(command("get", "pods", "-o", "json").out)["items"])


@pytest.mark.parametrize("least", ["0", "0%"])
def test_a_budget_that_allows_a_drain_is_no_warning(serving, least: str) -> None:
    serving("apply", "-f", "-", input=BUDGET % least)
    assert "PodDisruptionBudget" not in serving("drain", held(serving)[0]).err


def test_a_preview_says_which_nodes_can_be_drained_without_evicting_training(busy, home) -> None:
    """One truth with the drain: its pods, its budgets, its refusals; and nothing is changed."""
    lone = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lone"}, "spec": {"containers": [{"name": "c"}]}}
    lone["spec"] |= {"nodeName": "h100-0", "volumes": [{"name": "v", "emptyDir": {}}]}
    mirror = json.loads(json.dumps(lone))
    mirror["metadata"] = {
        "name": "m",
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "h100-0", "uid": "1", "controller": True}],
    }
    for pod in (lone, mirror):
        assert busy("apply", "-f", "-", input=json.dumps(pod)).code == 0
    before = held(busy)
    previews = json.loads(busy("drain", "--preview", "-o", "json").out)
    assert {each["node"] for each in previews} == set(nodes(busy))
    assert [each["milli_gpus"] for each in previews] == sorted(each["milli_gpus"] for each in previews)
    for each in previews:
        lost = sum(node == each["node"] for node in before) - (each["node"] == "h100-0")
        assert sum(work["pods"] for work in each["work"]) == lost
    [last] = [each for each in previews if each["node"] == "h100-0"]
    assert len(last["obstacles"]) == 2
    text = busy("drain", "--preview", "h100-0")
    assert "Pod/lone of default" in text.out
    assert "of 1 node can be drained" in text.err
    alone = {each["node"]: each for each in previews}
    label = "nvidia.com/gpu.product"
    together = json.loads(busy("drain", "--preview", "--by", label, "-o", "json").out)
    models = {node["metadata"]["labels"][label] for node in nodes(busy).values()}
    assert {each["value"] for each in together} == models
    for each in together:
        assert each["label"] == label
        assert each["milli_gpus"] == sum(alone[name]["milli_gpus"] for name in each["nodes"])
        assert len(each["obstacles"]) == sum(len(alone[name]["obstacles"]) for name in each["nodes"])
    assert "\nH100 " in busy("drain", "--preview", "--by", label).out
    assert "has the label lab/none" in busy("drain", "--preview", "--by", "lab/none").err
    assert busy("drain", "--by", label, "h100-0").code == 2
    assert held(busy) == before
    assert not any(node["spec"].get("unschedulable") for node in nodes(busy).values())
