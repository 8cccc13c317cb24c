"""Installing into a real API server, and taking it out again."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from kailab.cluster.base_objects import KAI_NAMESPACES, KAI_PRIORITY_CLASSES, priority_class
from kailab.cluster.install import INSTALLED_BY, crds, install, installed, uninstall
from kailab.errors import ConnectError, Invalid, NotFound

pytestmark = pytest.mark.slow
QUEUES = "queues.scheduling.run.ai"
CRD = "CustomResourceDefinition"


@pytest.fixture
def empty(real: Any) -> Iterator[Any]:
    """The API server with nothing of a lab in it, before and after."""

    def clear() -> None:
        for kind, names in (
            ("PriorityClass", list(KAI_PRIORITY_CLASSES)),
            (CRD, [crd["metadata"]["name"] for crd in crds()]),
        ):
            for name in names:
                with suppress(NotFound):
                    real.patch(kind, name, None, {"metadata": {"labels": {INSTALLED_BY: "kailab"}}})
        uninstall(real)

    clear()
    yield real
    clear()


def foreign(version: str) -> dict[str, Any]:
    """The definition of Queue as somebody else has it: no rules, another version perhaps."""
    (crd,) = (copy.deepcopy(each) for each in crds() if each["metadata"]["name"] == QUEUES)
    crd["metadata"]["annotations"] = {"made-by": "another"}
    crd["spec"]["versions"][0].update(name=version, schema={"openAPIV3Schema": {"type": "object"}})
    return crd


def test_all_that_a_lab_needs_is_there_after_it_and_nothing_is_done_twice(empty: Any) -> None:
    told: list[str] = []
    install(empty, told.append)
    assert sorted(tuple(line.split()) for line in told) == sorted(("created", *each) for each in installed(empty))
    assert len(told) == len(installed(empty)) == 4 + len(KAI_PRIORITY_CLASSES) + len(KAI_NAMESPACES)
    for name, value in KAI_PRIORITY_CLASSES.items():
        found = empty.get("PriorityClass", name)
        assert found["value"] == value
        assert not found.get("globalDefault")
    for name in KAI_NAMESPACES:
        assert empty.get("Namespace", name)["status"]["phase"] == "Active"
    empty.create({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "team"}, "spec": {}})
    versions = [empty.get(CRD, crd["metadata"]["name"])["metadata"]["resourceVersion"] for crd in crds()]
    install(empty, told.append)
    assert len(told) == len(installed(empty))
    assert versions == [empty.get(CRD, crd["metadata"]["name"])["metadata"]["resourceVersion"] for crd in crds()]


def test_definitions_of_ours_are_brought_up_to_date(empty: Any) -> None:
    install(empty)
    versions = copy.deepcopy(empty.get(CRD, QUEUES)["spec"]["versions"])
    versions[0]["additionalPrinterColumns"] = []
    del versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["priority"]
    empty.patch(CRD, QUEUES, None, {"spec": {"versions": versions}})
    told: list[str] = []
    install(empty, told.append)
    assert told == [f"configured {CRD} {QUEUES}"]
    (version,) = empty.get(CRD, QUEUES)["spec"]["versions"]
    assert len(version["additionalPrinterColumns"]) == 4
    assert "priority" in version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]


def test_definitions_of_others_are_used_as_they_are(empty: Any) -> None:
    before = empty.create(foreign("v2"))
    install(empty)
    assert (CRD, QUEUES) not in installed(empty)
    after = empty.get(CRD, QUEUES)
    assert after["spec"] == before["spec"]
    assert after["metadata"]["annotations"] == {"made-by": "another"}
    uninstall(empty)
    assert empty.get(CRD, QUEUES)["metadata"]["uid"] == before["metadata"]["uid"]


def test_definitions_of_another_version_are_named_and_nothing_is_made(empty: Any) -> None:
    empty.create(foreign("v3"))
    with pytest.raises(ConnectError, match=rf"{QUEUES}: the cluster serves v3; expected v2"):
        install(empty)
    assert installed(empty) == []


def test_a_priority_class_of_others_is_kept_and_told_of(empty: Any) -> None:
    empty.create(priority_class("build", 1000))
    told: list[str] = []
    install(empty, told.append)
    assert "PriorityClass build has the value 1000 here; with KAI it is 100" in told
    uninstall(empty)
    assert empty.get("PriorityClass", "build")["value"] == 1000


def test_what_was_installed_goes_with_all_its_objects(empty: Any) -> None:
    install(empty)
    metadata = {"name": "group", "namespace": "default"}
    empty.create({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": metadata, "spec": {}})
    told: list[str] = []
    uninstall(empty, told.append)
    assert installed(empty) == []
    assert len(told) == 10
    for crd in crds():
        with pytest.raises(NotFound):
            empty.get(CRD, crd["metadata"]["name"])
    install(empty)
    assert empty.list("PodGroup") == []
    with pytest.raises(Invalid):
        empty.create({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "q"},
                      "spec": {"priority": "high"}})  # fmt: skip
