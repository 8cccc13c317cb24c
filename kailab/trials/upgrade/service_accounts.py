"""Processes that act as a service account, as pods do: each with a token of its own, which is worth nothing once the account is made anew.

A kubelet gives a starting container a fresh token, and a running one the next only when the old has little time left. So whoever deletes and
makes an account leaves what runs with a token that the API server refuses.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from kailab.cluster.controlplane.credentials import write_private
from kailab.cluster.kubernetes import KubernetesCluster
from kailab.cluster.protocol import Object
from kailab.errors import AlreadyExists, ConnectError, NotFound
from kailab.model.private_files import make_folder
from kailab.undertest.contract import Plane

if TYPE_CHECKING:
    from kailab.cluster.controlplane.supervision import ProcessStatus

NAMESPACE, ACCOUNT = "kai-scheduler", "scheduler"
TOKEN_SECONDS = 3607  # as the kubelet asks for it


class ActingPlane:
    """A plane of whose spawned processes some act as the service account ``kai-scheduler/scheduler``, which may do everything."""

    def __init__(self, plane: Plane, cluster: KubernetesCluster) -> None:
        self._plane = plane
        self._cluster = cluster
        self.folder = plane.folder
        self._tokens = Path(plane.folder) / "accounts"
        make_folder(self._tokens)
        self._acting: set[str] = set()

    def act(self, name: str) -> None:
        """From its next start on, the process of this name acts as the account."""
        self._acting.add(name)

    @property
    def own(self) -> Collection[str]:
        return self._plane.own

    @property
    def kubeconfig(self) -> Path:
        return self._plane.kubeconfig

    def processes(self) -> list[ProcessStatus]:
        return self._plane.processes()

    def log(self, name: str) -> Path:
        return self._plane.log(name)

    def stop(self, name: str) -> None:
        self._plane.stop(name)

    def start_kube_scheduler(self) -> None:
        self._plane.start_kube_scheduler()

    def spawn(
        self, name: str, argv: Sequence[str | Path], env: Mapping[str, str] | None = None, port: int = 0
    ) -> ProcessStatus:
        """One that acts gets a fresh token, and a kubeconfig with it."""
        if name not in self._acting:
            return self._plane.spawn(name, argv, env, port)
        self._provide()
        token = _token(self._cluster)
        write_private(self._token_file(name), token.encode())
        config = yaml.safe_load(self._plane.kubeconfig.read_text(encoding="utf-8"))
        config["users"] = [{"name": one["name"], "user": {"token": token}} for one in config["users"]]
        own = self._tokens / f"{name}.kubeconfig"
        write_private(own, yaml.safe_dump(config).encode())
        kubeconfig = str(self._plane.kubeconfig)
        # Those who were told of the plane's kubeconfig as an argument, too.
        told = [str(own) if str(one) == kubeconfig else one for one in argv]
        return self._plane.spawn(name, told, {**(env or {}), "KUBECONFIG": str(own)}, port)

    def renew(self) -> None:
        """Delete the account and make it anew, as an installer does that takes it for its own: same name, another identity."""
        with suppress(NotFound):
            self._cluster.delete("ServiceAccount", ACCOUNT, NAMESPACE)
        self._provide()

    def accepted(self, name: str) -> bool:
        """Whether the API server takes the token that this process was started with. It remembers an answer for some seconds."""
        told = self._token_file(name).read_text(encoding="utf-8")
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": told}}
        reviewed = _post(self._cluster, "/apis/authentication.k8s.io/v1/tokenreviews", asked)
        return bool(reviewed["status"].get("authenticated"))

    def _token_file(self, name: str) -> Path:
        return self._tokens / f"{name}.token"

    def _provide(self) -> None:
        account = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
        rights = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        for obj in (
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}},
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "kailab-trial-scheduler"},
                "roleRef": rights,
                "subjects": [account],
            },
        ):
            with suppress(AlreadyExists):
                self._cluster.create(obj)


def _token(cluster: KubernetesCluster) -> str:
    """Raises ConnectError."""
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token"
    asked = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_SECONDS},
    }
    return str(_post(cluster, path, asked)["status"]["token"])


def _post(cluster: KubernetesCluster, path: str, obj: Object) -> Object:
    answer = cluster.transport.call(cluster.transport.request("POST", path, json.dumps(obj).encode()))
    if answer.code >= 300:
        raise ConnectError(f"POST {path}: the API server says {answer.code}: {answer.body[:300]!r}")
    found: Object = json.loads(answer.body)
    return found
