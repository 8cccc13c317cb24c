"""The oracle itself: it says what is wrong."""

from __future__ import annotations

from typing import Any

from tests.faults import oracle, work
from tests.faults.oracle import Picture


def placed(pod: Any, node: str, phase: str = "Running", **labels: str) -> Any:
    metadata = {**pod["metadata"], "labels": {**pod["metadata"]["labels"], **labels}}
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": node}, "status": {"phase": phase}}


def picture(*pods: Any, groups: dict[str, int] | None = None) -> Picture:
    nodes = {node["metadata"]["name"]: node for node in work.lesson().nodes()}
    podgroups = {name: {"spec": {"minMember": least}} for name, least in (groups or {}).items()}
    return Picture(nodes, list(pods), podgroups)


def test_gpus_given_twice() -> None:
    four, five = work.pod("four", "q", 4), work.pod("five", "q", 5)
    assert oracle.given_twice(picture(placed(four, "a100-0"), placed(four, "a100-0"))) == []
    assert oracle.given_twice(picture(placed(four, "a100-0"), placed(five, "a100-1"))) == []
    assert oracle.given_twice(picture(placed(four, "a100-0"), placed(five, "a100-0", "Succeeded"))) == []
    assert oracle.given_twice(picture(placed(four, "a100-0"), placed(five, "a100-0", "Pending"))) == [
        "a100-0: 9 GPUs taken of 8: four (a100-0, Running), five (a100-0, Pending)"
    ]


def test_shares_given_twice() -> None:
    share = work.pod("share", "q", 0, annotations={"gpu-fraction": "0.4"})
    group = {"runai-gpu-group": "g"}
    two = [placed(share, "a100-0", **group)] * 2
    assert oracle.given_twice(picture(*two)) == []
    assert oracle.given_twice(picture(*two, placed(share, "a100-0", **group))) == ["a100-0: 6/5 of the GPU g taken"]
    assert oracle.given_twice(picture(*two, placed(share, "a100-1", **group))) == [
        "the GPU g is on ['a100-0', 'a100-1']"
    ]


def test_half_bound() -> None:
    notes = {"pod-group-name": "gang"}
    member = placed(work.pod("m", "q", annotations=notes), "a100-0")
    assert oracle.half_bound(picture(groups={"gang": 2})) == []
    assert oracle.half_bound(picture(member, member, groups={"gang": 2})) == []
    assert oracle.half_bound(picture(member, groups={"gang": 2})) == ["gang: 1 of 2 run"]


def test_missing() -> None:
    one = placed(work.pod("one", "q", 2), "a100-0")
    assert oracle.missing(picture(one), {"one": 1}, 2) == []
    assert oracle.missing(picture(one), {"one": 2}, 4) == [
        "one: 1 run, 2 must; there are one (a100-0, Running)",
        "2 GPUs are in use of the 4 that can be",
    ]
