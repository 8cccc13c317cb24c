"""Kinds that an API server is slow to remove, or forgets to."""

from __future__ import annotations

from typing import Any

import pytest

from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.install import INSTALLED_BY, crds, installation, installed, uninstall
from kailab.cluster.protocol import Object
from kailab.errors import ConnectError

CRD = "CustomResourceDefinition"
MESSAGE = "could not list instances: storage is (re)initializing"


class Forgetful(EmbeddedCluster):
    """Its server failed once to list the objects of a kind that is to go, and looks again when the definition changes."""

    wakes = True

    def delete(self, kind: str, name: str, namespace: str | None = None, grace_seconds: float | None = None) -> None:
        super().delete(kind, name, namespace, grace_seconds)
        if kind == CRD:
            condition = {
                "type": "Terminating",
                "status": "True",
                "reason": "InstanceDeletionFailed",
                "message": MESSAGE,
            }
            super().patch(kind, name, None, {"status": {"conditions": [condition]}}, "status")

    def patch(self, kind: str, name: str, namespace: str | None, patch: Any, subresource: Any = "") -> Object:
        patched = super().patch(kind, name, namespace, patch, subresource)
        if kind == CRD and not subresource and self.wakes:
            super().patch(kind, name, None, {"metadata": {"finalizers": None}})
        return patched


def holding(labels: dict[str, str]) -> Forgetful:
    """A cluster with one definition, which a finalizer holds."""
    cluster = Forgetful()
    crd = crds()[0]
    held = {**crd["metadata"], "finalizers": ["customresourcecleanup.apiextensions.k8s.io"], "labels": labels}
    cluster.create({**crd, "metadata": held})
    return cluster


def test_a_server_that_forgot_is_woken() -> None:
    cluster = holding({INSTALLED_BY: "kailab"})
    assert len(installed(cluster)) == 1
    uninstall(cluster)
    assert cluster.list(CRD) == []


def test_what_does_not_go_is_told_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "GOING_SECONDS", 0.3)
    cluster = holding({INSTALLED_BY: "kailab"})
    cluster.wakes = False
    with pytest.raises(ConnectError) as refused:
        uninstall(cluster)
    name = crds()[0]["metadata"]["name"]
    assert str(refused.value) == f"embedded: not removed after 0 s: {CRD} {name} ({MESSAGE})"


def test_what_others_remove_is_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "GOING_SECONDS", 0.3)
    cluster = holding({})
    cluster.delete(CRD, crds()[0]["metadata"]["name"])
    before = cluster.list(CRD)
    with pytest.raises(ConnectError, match=r"its removal does not finish: .* remove its objects first"):
        installation.install(cluster)
    assert cluster.list(CRD) == before
