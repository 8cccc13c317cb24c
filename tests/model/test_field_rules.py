"""Single fields of pods on which nothing here acts, as an API server checks them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from kailab.model.manifests import from_objects
from kailab.model.validation import validate

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {
        "os": {"name": "linux"},
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["010.0.0.1", "::1"], "searches": ["_a.b.", "."], "options": [{"name": "ndots"}]},
        "hostAliases": [{"ip": "127.0.0.1", "hostnames": ["a.b"]}],
        "securityContext": {
            "runAsUser": 0,
            "fsGroup": 2**31 - 1,
            "supplementalGroups": [1],
            "sysctls": [{"name": "net.ipv4.ip_forward"}],
            "seccompProfile": {"type": "Localhost", "localhostProfile": "a/b.json"},
            "appArmorProfile": {"type": "RuntimeDefault"},
        },
        "volumes": [
            {"name": "claim", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "host", "hostPath": {"path": "/a", "type": ""}},
            {"name": "map", "configMap": {"name": "c", "defaultMode": 0o777, "items": [{"key": "k", "path": "a/b"}]}},
            {"name": "nfs", "nfs": {"server": "s", "path": "/p"}},
            {"name": "fc", "fc": {"targetWWNs": ["w"], "lun": 255}},
            {
                "name": "files",
                "projected": {
                    "sources": [
                        {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}},
                        {
                            "downwardAPI": {
                                "items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels['a/b']"}}]
                            }
                        },
                    ]
                },
            },
        ],
        "initContainers": [
            {"name": "side", "image": "i", "restartPolicy": "Always", "startupProbe": {"exec": {"command": ["a"]}}},
            {"name": "init", "image": "i"},
        ],
        "containers": [
            {
                "name": "main",
                "image": "i",
                "imagePullPolicy": "",
                "ports": [{"containerPort": 80, "protocol": ""}],
                "env": [
                    {"name": "A-b.c d", "value": "x"},
                    {"name": "B", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIPs"}}},
                    {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
                    {"name": "D", "valueFrom": {"secretKeyRef": {"name": "s", "key": ".k"}}},
                ],
                "envFrom": [{"prefix": "P_", "configMapRef": {"name": "c"}}],
                "livenessProbe": {"httpGet": {"port": "http", "httpHeaders": [{"name": "X-A"}]}},
                "lifecycle": {"preStop": {"sleep": {}}, "postStart": {"tcpSocket": {"port": 65535}}},
                "volumeDevices": [{"name": "claim", "devicePath": "/dev/x"}],
                "volumeMounts": [
                    {
                        "name": "host",
                        "mountPath": "/a",
                        "readOnly": True,
                        "recursiveReadOnly": "Enabled",
                        "subPath": "a",
                    }
                ],
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"add": ["NET_ADMIN"]}},
                "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
            }
        ],
    },
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The pod with this value at a path; None: without the field."""
    pod = deepcopy(POD)
    *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    at: Any = pod["spec"]
    for step in steps:
        if isinstance(at, dict) and step not in at:
            at[step] = {}
        at = at[step]
    if value is None:
        del at[last]
    else:
        at[last] = value
    return pod


def fields_of(pod: dict[str, Any]) -> list[str]:
    return [fault.field for fault in validate(pod, "Pod")]


def test_a_sound_pod_has_no_faults():
    assert validate(POD, "Pod") == []


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("os.name", "beos", "os.name"),
        ("os.name", "windows", "securityContext.fsGroup"),
        ("dnsConfig.nameservers.0", "1.2.3.400", "dnsConfig.nameservers[0]"),
        ("dnsConfig.nameservers", ["1.1.1.1"] * 4, "dnsConfig.nameservers"),
        ("dnsConfig.searches.0", "A b", "dnsConfig.searches[0]"),
        ("dnsConfig.options.0.name", "", "dnsConfig.options[0].name"),
        ("hostAliases.0.ip", None, "hostAliases[0].ip"),
        ("hostAliases.0.hostnames.0", "a_b", "hostAliases[0].hostnames[0]"),
        ("securityContext.runAsUser", -1, "securityContext.runAsUser"),
        ("securityContext.fsGroup", 2**31, "securityContext.fsGroup"),
        ("securityContext.fsGroupChangePolicy", "Never", "securityContext.fsGroupChangePolicy"),
        ("securityContext.sysctls.0.name", "a b", "securityContext.sysctls[0].name"),
        ("securityContext.sysctls", [{"name": "a"}, {"name": "a"}], "securityContext.sysctls[1].name"),
        ("securityContext.seccompProfile.localhostProfile", None, "securityContext.seccompProfile.localhostProfile"),
        ("securityContext.seccompProfile.localhostProfile", "/a", "securityContext.seccompProfile.localhostProfile"),
        ("securityContext.appArmorProfile.localhostProfile", "a", "securityContext.appArmorProfile.localhostProfile"),
        ("securityContext.windowsOptions.runAsUserName", "a/b", "securityContext.windowsOptions.runAsUserName"),
        ("volumes.1.hostPath.type", "Folder", "volumes[1].hostPath.type"),
        ("volumes.1.hostPath.path", "/a/../b", "volumes[1].hostPath.path"),
        ("volumes.2.configMap.defaultMode", 0o1000, "volumes[2].configMap.defaultMode"),
        ("volumes.2.configMap.items.0.path", "..data", "volumes[2].configMap.items[0].path"),
        ("volumes.3.nfs.path", "p", "volumes[3].nfs.path"),
        ("volumes.4.fc.lun", 256, "volumes[4].fc.lun"),
        ("volumes.5.projected.sources.0.serviceAccountToken.expirationSeconds", 599, "volumes[5].projected.sources[0].serviceAccountToken.expirationSeconds"),
        ("volumes.5.projected.sources.0.serviceAccountToken.path", "l", "volumes[5].projected.sources[1].downwardAPI.items[0].path"),
        ("volumes.5.projected.sources.1.downwardAPI.items.0.fieldRef.fieldPath", "status.podIP", "volumes[5].projected.sources[1].downwardAPI.items[0].fieldRef.fieldPath"),
        ("volumes.0", {"name": "claim", "emptyDir": {}}, "containers[0].volumeDevices[0].name"),
        ("initContainers.1.startupProbe", {"exec": {"command": ["a"]}}, "initContainers[1].startupProbe"),
        ("containers.0.imagePullPolicy", "Sometimes", "containers[0].imagePullPolicy"),
        ("containers.0.env.0.name", "a=b", "containers[0].env[0].name"),
        ("containers.0.env.1.valueFrom.fieldRef.fieldPath", "metadata.labels", "containers[0].env[1].valueFrom.fieldRef.fieldPath"),
        ("containers.0.env.2.valueFrom.resourceFieldRef.resource", "limits.gpu", "containers[0].env[2].valueFrom.resourceFieldRef.resource"),
        ("containers.0.env.2.valueFrom.resourceFieldRef.divisor", "2Mi", "containers[0].env[2].valueFrom.resourceFieldRef.divisor"),
        ("containers.0.env.3.valueFrom.secretKeyRef.key", "a/b", "containers[0].env[3].valueFrom.secretKeyRef.key"),
        ("containers.0.envFrom.0.configMapRef.name", "", "containers[0].envFrom[0].configMapRef.name"),
        ("containers.0.livenessProbe.httpGet.port", 65536, "containers[0].livenessProbe.httpGet.port"),
        ("containers.0.livenessProbe.httpGet.scheme", "FTP", "containers[0].livenessProbe.httpGet.scheme"),
        ("containers.0.lifecycle.postStart.tcpSocket.port", "NAME", "containers[0].lifecycle.postStart.tcpSocket.port"),
        ("containers.0.lifecycle.preStop.sleep.seconds", 31, "containers[0].lifecycle.preStop.sleep.seconds"),
        ("containers.0.volumeDevices.0.devicePath", "/a", "containers[0].volumeMounts[0].mountPath"),
        ("containers.0.volumeMounts.0.readOnly", False, "containers[0].volumeMounts[0].recursiveReadOnly"),
        ("containers.0.volumeMounts.0.subPath", "/a", "containers[0].volumeMounts[0].subPath"),
        ("containers.0.volumeMounts.0.mountPropagation", "Bidirectional", "containers[0].volumeMounts[0].mountPropagation"),
        ("containers.0.securityContext.privileged", True, "containers[0].securityContext.allowPrivilegeEscalation"),
        ("containers.0.securityContext.procMount", "Unmasked", "containers[0].securityContext.procMount"),
        ("containers.0.resizePolicy.0.resourceName", "gpu", "containers[0].resizePolicy[0].resourceName"),
    ],
)  # fmt: skip
def test_an_odd_value_is_refused_where_it_is(path: str, value: Any, field: str) -> None:
    pod = changed(path, value)
    assert f"spec.{field}" in fields_of(pod)
    template = {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod["spec"]}}  # fmt: skip
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": template}
    assert f"spec.template.spec.{field}" in [fault.field for fault in validate(deployment, "Deployment")]


def test_a_stored_pod_may_keep_what_a_newer_server_takes() -> None:
    pod = changed("securityContext.seLinuxChangePolicy", "MountOption")
    assert fields_of(pod) == ["spec.securityContext.seLinuxChangePolicy"]
    assert validate(pod, "Pod", pod) == []


def test_wrong_types_are_reported_once() -> None:
    pod = changed("securityContext.runAsUser", "root")
    assert fields_of(pod) == ["spec.securityContext.runAsUser"]


def test_manifests_of_sound_pods_are_read() -> None:
    assert [manifest.object for manifest in from_objects([POD])] == [POD]
