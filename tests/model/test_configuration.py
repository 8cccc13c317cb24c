"""Keys of ConfigMaps and Secrets, what a type of Secret must hold, and values of Services, network policies and volumes."""

from __future__ import annotations

from typing import Any

import pytest

from kailab.model.kinds import kind_key
from kailab.model.validation import validate


def faults(kind: str, **fields: Any) -> list[tuple[str, str]]:
    return validate({"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}, **fields}, kind)


@pytest.mark.parametrize(
    ("kind", "fields", "field"),
    [
        ("ConfigMap", {"data": {"a/b": "x"}}, "data[a/b]"),
        ("ConfigMap", {"data": {"a": "x"}, "binaryData": {"a": "YQ=="}}, "data[a]"),
        ("ConfigMap", {"binaryData": {"a": "#"}}, "binaryData[a]"),
        ("Secret", {"data": {"a": "plain text!"}}, "data[a]"),
        ("Secret", {"stringData": {"..a": "x"}}, "stringData[..a]"),
        ("Secret", {"type": "kubernetes.io/tls", "data": {"tls.crt": "YQ=="}}, "data[tls.key]"),
        ("Secret", {"type": "kubernetes.io/basic-auth"}, "data[username]"),
        (
            "Secret",
            {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "[]"}},
            "stringData[.dockerconfigjson]",
        ),
        ("Secret", {"type": "kubernetes.io/service-account-token"}, "metadata.annotations[kubernetes.io/service-account.name]"),
    ],
)  # fmt: skip
def test_what_a_server_refuses_is_refused(kind: str, fields: dict[str, Any], field: str) -> None:
    assert [path for path, _ in faults(kind, **fields)] == [field]


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("ConfigMap", {"data": {"a.b_C-1": "x"}, "binaryData": {"b": "YQ==\n"}}),
        ("Secret", {"data": {"a": "YWJj\nZGVm"}, "stringData": {"a": "#"}}),
        ("Secret", {"type": "kubernetes.io/tls", "data": {"tls.crt": ""}, "stringData": {"tls.key": ""}}),
        ("Secret", {"type": "kubernetes.io/basic-auth", "data": {"password": ""}}),
        ("Secret", {"type": "example.com/mine"}),
    ],
)
def test_what_a_server_takes_is_taken(kind: str, fields: dict[str, Any]) -> None:
    assert faults(kind, **fields) == []


def test_the_value_of_a_secret_is_not_shown() -> None:
    ((_, message),) = faults("Secret", data={"a": "hunter2!"})
    assert "hunter2" not in message


@pytest.mark.parametrize(
    ("api_version", "kind", "spec", "field"),
    [
        ("v1", "Service", {"type": "ClusterIp", "ports": [{"port": 80}]}, "spec.type"),
        ("v1", "Service", {"ports": [{"port": 80}, {"port": 81, "name": "b"}]}, "spec.ports[0].name"),
        ("v1", "Service", {"ports": [{"port": 80, "targetPort": "A"}]}, "spec.ports[0].targetPort"),
        ("v1", "Service", {"type": "ExternalName"}, "spec.externalName"),
        ("v1", "Service", {}, "spec.ports"),
        ("networking.k8s.io/v1", "NetworkPolicy", {"podSelector": {}, "policyTypes": ["In"]}, "spec.policyTypes[0]"),
        ("networking.k8s.io/v1", "Ingress", {"ingressClassName": "a b"}, "spec.ingressClassName"),
        ("v1", "PersistentVolume", {"nfs": {"server": "s", "path": "p"}}, "spec.nfs.path"),
    ],
)
def test_odd_values_of_networks_and_volumes_are_refused(
    api_version: str, kind: str, spec: dict[str, Any], field: str
) -> None:
    obj = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, "spec": spec}
    assert [fault.field for fault in validate(obj, kind_key(obj))] == [field]
