"""KAI's own webhook for pods: in releases before v0.15 nothing binds a pod with a part of a GPU that has not been through it.

It leaves the annotation ``runai/shared-gpu-configmap`` on the pod, a name that is this pod's alone, by which the binder makes a ConfigMap.
Pods of one template would share what their template said, so no manifest can say it instead. Whole GPUs need none of this, and their
pods are not sent to it.
"""

from __future__ import annotations

from contextlib import suppress

from kailab.cluster.connected import connected
from kailab.cluster.protocol import Cluster, Object
from kailab.errors import KailabError, NotFound
from kailab.model import labels
from kailab.undertest.contract import Plane
from kailab.undertest.webhooks import WebhookServer

NAME = "kailab-kai-shared-gpus"
_KIND = "MutatingWebhookConfiguration.admissionregistration.k8s.io"
_PATH = "/mutate--v1-pod"
_API_SERVER = "kube-apiserver"
_SHARES = " || ".join(f"'{one}' in object.metadata.annotations" for one in (labels.GPU_FRACTION, labels.GPU_MEMORY))
_CONDITIONS = (
    ("kais", f"object.spec.schedulerName == '{labels.SCHEDULER_NAME}'"),
    ("shares-a-gpu", f"has(object.metadata.annotations) && ({_SHARES})"),
)


def can_be_called(plane: Plane) -> bool:
    """Whether the API server is a process of this machine: that of a kind cluster can't call a program here."""
    return _API_SERVER in plane.own


def registered(cluster: Cluster, server: WebhookServer) -> None:
    """Have the API server send it what it is for. As KAI's chart has it, a pod is refused while the program is away."""
    for one in server.called([_configuration()], ""):
        cluster.apply(one)


def _configuration() -> Object:
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
    webhook = {
        "name": "shared-gpus.kai.kailab.dev",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "rules": [{**pods, "scope": "Namespaced"}],
        "matchConditions": [{"name": name, "expression": expression} for name, expression in _CONDITIONS],
        "clientConfig": {"service": {"path": _PATH}},
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": [webhook],
    }


def forgotten(cluster: Cluster) -> None:
    """Send it nothing more."""
    with suppress(NotFound):
        cluster.delete(_KIND, NAME)


def forgotten_by(plane: Plane) -> None:
    """The same by a plane's own credentials; nothing happens where its API server is away, and with it all that could ask."""
    with suppress(KailabError), connected(plane.kubeconfig, name=NAME) as cluster:
        forgotten(cluster)
