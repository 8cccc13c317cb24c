"""A fleet of the nodes that kubectl wrote of a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from kailab.errors import InputError
from kailab.fleet.fleet import Fleet, fleet_definition
from kailab.fleet.reading import load_fleet, read_fleet
from kailab.lab.lab import Lab
from kailab.model.times import format_time, parse_time


def node(
    name: str, offer: dict[str, str] | None = None, labels: dict[str, str] | None = None, **more: Any
) -> dict[str, Any]:
    amounts = {
        "cpu": "63770m",
        "memory": "257Gi",
        "pods": "250",
        "ephemeral-storage": "47233297124",
        "hugepages-2Mi": "0",
        **(offer or {}),
    }
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-03-01T09:00:00Z", **more.pop("ready", {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"u-{name}", "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": more,
        "status": {"allocatable": amounts, "capacity": amounts, "conditions": [ready], "images": [{"names": ["x"]}]},
    }


def written(*nodes: dict[str, Any]) -> str:
    return yaml.safe_dump({"apiVersion": "v1", "items": list(nodes), "kind": "List", "metadata": {}})


H100 = {
    "nvidia.com/gpu.product": "H100",
    "nvidia.com/gpu.memory": "81559",
    "nvidia.com/gpu.count": "8",
    "nvidia.com/gpu.present": "true",
}


def test_nodes_keep_what_they_offer_and_are() -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}
    fallen = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    given = node(
        "ip-10-0-0-1.ec2.internal",
        {"nvidia.com/gpu": "8", "rdma/hca": "4"},
        H100,
        taints=[taint, fallen],
        unschedulable=True,
    )
    fleet = read_fleet(written(given), "nodes.yaml")
    [made] = fleet.nodes()
    assert made["metadata"]["name"] == "ip-10-0-0-1.ec2.internal"
    assert made["metadata"]["labels"].items() >= {**H100, "kubernetes.io/hostname": "ip-10-0-0-1.ec2.internal"}.items()
    assert made["spec"] == {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}], "unschedulable": True}
    assert made["status"]["allocatable"] == {
        "cpu": "63770m", "memory": "257Gi", "pods": "250", "ephemeral-storage": "47233297124", "nvidia.com/gpu": "8", "rdma/hca": "4",
    }  # fmt: skip
    assert (str(fleet.summary()), fleet.summary().models[0].model) == ("8 GPUs on 1 node", "H100")


def test_numbered_nodes_make_one_pool() -> None:
    nodes = [node(f"gpu-{number}", {"nvidia.com/gpu": "8"}, H100) for number in (1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9)]
    others = [node(f"cpu-{number:03}.x") for number in range(8, 12)]
    fleet = read_fleet(written(*nodes, node("gpu-12", {"nvidia.com/gpu": "4"}, H100), *others), "n.yaml")
    assert [(pool.name, pool.count, pool.name_template) for pool in fleet.pools] == [
        ("cpu", 4, "cpu-{index:03}.x"), ("gpu", 11, "gpu-{index}"), ("gpu-12", 1, "gpu-12"),
    ]  # fmt: skip
    assert {made["metadata"]["name"] for made in fleet.nodes()} == {
        *(f"gpu-{number}" for number in range(1, 13)), *(f"cpu-{number:03}.x" for number in range(8, 12)),
    }  # fmt: skip


def test_split_devices_and_other_vendors() -> None:
    mixed = node("m", {"nvidia.com/mig-1g.10gb": "7", "nvidia.com/mig-3g.40gb": "0", "nvidia.com/gpu": "7"}, H100)
    amd = node("a", {"amd.com/gpu": "8"}, {"amd.com/gpu.product-name": "MI300X"})
    fleet = read_fleet(written(mixed, amd), "n.yaml")
    offers = {made["metadata"]["name"]: made["status"]["allocatable"] for made in fleet.nodes()}
    assert offers["m"].items() >= {"nvidia.com/mig-1g.10gb": "7", "nvidia.com/gpu": "7"}.items()
    assert offers["a"]["amd.com/gpu"] == "8"


def test_such_a_fleet_is_written_and_read_again(tmp_path: Path) -> None:
    text = written(
        node("g-1", {"nvidia.com/gpu": "8"}, H100, unschedulable=True), node("g-2", {"nvidia.com/gpu": "8"}, H100)
    )
    fleet = read_fleet(text, "n.yaml")
    again = read_fleet(json.dumps(fleet_definition(fleet)), "n.yaml")
    assert again.nodes() == fleet.nodes()
    assert again.start_time == fleet.start_time
    with Lab.open(again) as lab:
        assert format_time(lab.now) == "2026-03-01T09:00:00Z"
        assert len(lab.get("nodes")) == 2


def test_folders_and_json_are_taken_too(tmp_path: Path) -> None:
    (tmp_path / "nodes").mkdir()
    for name in ("a", "b"):
        (tmp_path / "nodes" / f"{name}.json").write_text(json.dumps(node(name)))
    (tmp_path / "pod.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n")
    fleet: Fleet = load_fleet(tmp_path)
    assert fleet.summary().nodes == 2
    assert any("1 other object is no part of a fleet" in text for text in fleet.notices)


def test_a_time_in_the_future_does_not_set_the_clock() -> None:
    early, late = node("a"), node("b", ready={"lastHeartbeatTime": "2299-01-01T00:00:00Z"})
    fleet = read_fleet(written(early, late), "nodes.yaml")
    assert fleet.start_time == parse_time("2026-03-01T09:00:00Z")
    assert fleet.notices[0].startswith("nodes.yaml: 1 object with a time in the future: Node/b (2299-01-01T00:00:00Z)")


def test_what_a_fleet_does_not_show_is_told() -> None:
    fleet = read_fleet(written(node("a", ready={"status": "Unknown"})), "n.yaml")
    assert any("not Ready in the cluster" in text and ": a" in text for text in fleet.notices)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("apiVersion: v1\nkind: Node\nmetadata: {name: gpu-1}\n", "gpu-1.*status.allocatable"),
        (written(node("a", {"nvidia.com/gpu": "many"})), "Node/a.*gpu"),
        (written(node("a")).partition("kind: List")[0], "list at its beginning never ends"),
    ],
)
def test_bad_nodes_are_named(text: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        read_fleet(text, "n.yaml")
