"""Fake nodes on a real control plane with KWOK."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.slow


def node(name: str, annotated: bool = True, **more: Any) -> dict[str, Any]:
    annotations = {"kwok.x-k8s.io/node": "fake"} if annotated else {}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "annotations": annotations}, **more}


def ready(found: dict[str, Any]) -> str | None:
    conditions = (found.get("status") or {}).get("conditions") or ()
    return next((each["status"] for each in conditions if each["type"] == "Ready"), None)


def is_ready(found: dict[str, Any]) -> bool:
    return ready(found) == "True" and bool(found["status"].get("addresses"))


def set_ready(real: Any, name: str, status: str) -> None:
    conditions = [{"type": "Ready", "status": status, "reason": "Told", "message": ""}]
    real.cluster.patch("Node", name, None, {"status": {"conditions": conditions}}, "status")


def test_a_fake_node_gets_ready_and_an_address_and_keeps_what_it_offers(real: Any) -> None:
    offers = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
    real.cluster.create(node("bare", status={"capacity": offers, "allocatable": offers}))
    found = real.node("bare", is_ready)
    assert found["status"]["capacity"] == found["status"]["allocatable"] == offers
    kinds = {each["type"]: each["address"] for each in found["status"]["addresses"]}
    assert kinds["Hostname"] == "bare"
    assert kinds["InternalIP"].startswith("172.16.")
    assert {each["type"]: each["status"] for each in found["status"]["conditions"]} == {
        "Ready": "True", "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False",
    }  # fmt: skip


def test_a_node_without_the_annotation_is_left_alone_and_so_are_its_pods(real: Any) -> None:
    real.cluster.create(node("foreign", annotated=False))
    real.start("abroad", node="foreign")
    # What comes later is done: had it been KWOK's, it would be, too.
    real.cluster.create(node("after-foreign"))
    real.node("after-foreign", is_ready)
    real.start("at-home", node="after-foreign")
    real.until("at-home", lambda pod: pod["status"]["phase"] == "Running")
    assert real.pod("abroad")["status"]["phase"] == "Pending"
    assert ready(real.cluster.get("Node", "foreign")) is None
    real.cluster.delete("Pod", "abroad", "default", 0)


def test_a_node_that_failed_stays_failed_and_one_given_up_on_comes_back(real: Any) -> None:
    real.cluster.create(node("failed"))
    real.node("failed", is_ready)
    set_ready(real, "failed", "False")
    real.cluster.create(node("lost"))
    real.node("lost", is_ready)
    set_ready(real, "lost", "Unknown")
    real.node("lost", is_ready)
    assert ready(real.cluster.get("Node", "failed")) == "False"


def test_the_heartbeat_is_renewed_when_it_is_old(real: Any) -> None:
    real.cluster.create(node("beats"))
    found = real.node("beats", is_ready)
    old = "2026-01-01T00:00:00Z"
    conditions = [{**each, "lastHeartbeatTime": old} for each in found["status"]["conditions"]]
    real.cluster.patch("Node", "beats", None, {"status": {"conditions": conditions}}, "status")
    found = real.node(
        "beats", lambda seen: all(each["lastHeartbeatTime"] != old for each in seen["status"]["conditions"])
    )
    assert {each["type"]: each["lastTransitionTime"] for each in found["status"]["conditions"]} == {
        each["type"]: each["lastTransitionTime"] for each in conditions
    }
