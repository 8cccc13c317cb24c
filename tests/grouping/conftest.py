"""Builders of owners and pods, and an ObjectReader over a few objects."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kailab.cluster.protocol import Object
from kailab.grouping import Grouping, GroupingConfig, group_pod


class Objects:
    """An ObjectReader over given objects."""

    def __init__(self, *objects: Object) -> None:
        self._objects = objects

    def get(self, api_version: str, kind: str, namespace: str | None, name: str) -> Object | None:
        for obj in self.list(api_version, kind, namespace):
            if obj["metadata"]["name"] == name:
                return obj
        return None

    def list(
        self,
        api_version: str,
        kind: str,
        namespace: str | None,
        labels: Mapping[str, str] | None = None,
    ) -> list[Object]:
        return [
            obj
            for obj in self._objects
            if (obj["apiVersion"], obj["kind"]) == (api_version, kind)
            and obj["metadata"].get("namespace") == namespace
            and (labels or {}).items() <= obj["metadata"].get("labels", {}).items()
        ]


def thing(api_version: str, kind: str, name: str, spec: Any = None, **metadata: Any) -> Object:
    """An object in namespace ``ns`` whose uid is made of its kind and name."""
    identity = {"name": name, "namespace": "ns", "uid": f"uid-{kind.lower()}-{name}"}
    obj: Object = {"apiVersion": api_version, "kind": kind, "metadata": {**identity, **metadata}}
    if spec is not None:
        obj["spec"] = spec
    return obj


def pod(name: str = "p-0", **metadata: Any) -> Object:
    return thing("v1", "Pod", name, {"schedulerName": "kai-scheduler", "containers": []}, **metadata)


def priority_class(name: str) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": 10,
    }


def grouped(
    member: Object, *owners: Object, reads: tuple[Object, ...] = (), config: GroupingConfig | None = None
) -> Grouping:
    """``group_pod`` over a cluster that only has ``reads``."""
    return group_pod(member, owners, Objects(*reads), config)


def sub_group_of(grouping: Grouping, name: str) -> str | None:
    """The subgroup that lists the pod of this name."""
    return next((each.name for each in grouping.sub_groups if name in each.pods), None)


@pytest.fixture(scope="session")
def make() -> SimpleNamespace:
    """The builders: ``thing``, ``pod``, ``priority_class``."""
    return SimpleNamespace(thing=thing, pod=pod, priority_class=priority_class)


@pytest.fixture(name="grouped", scope="session")
def _grouped() -> Callable[..., Grouping]:
    return grouped


@pytest.fixture(name="sub_group_of", scope="session")
def _sub_group_of() -> Callable[[Grouping, str], str | None]:
    return sub_group_of


@pytest.fixture(scope="session")
def shared() -> Callable[[str], Path]:
    """Paths in the folder of recorded cases and documents; skips if it is missing."""

    def path(name: str) -> Path:
        root = Path(os.environ.get("KAILAB_SHARED") or Path(__file__).resolve().parents[2].parent / "shared")
        found = root / name
        if not found.exists():
            pytest.skip(f"{name} is not there: KAILAB_SHARED names no folder of recorded cases")
        return found

    return path
