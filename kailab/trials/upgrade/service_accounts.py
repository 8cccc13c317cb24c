"""Run processes as a service account, as pods do: each with its own token, which is invalid once the account is
recreated.

A kubelet gives a new token to a container that starts, and to a running one only when the old token is about to expire.
So processes that run while the account is recreated are left with a token that the API server refuses.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from kailab.cluster.kubernetes import KubernetesCluster
from kailab.cluster.protocol import Object
from kailab.errors import AlreadyExists, ConnectError, NotFound
from kailab.model.private_files import make_folder, replace_file
from kailab.undertest.contract import Plane

if TYPE_CHECKING:
    from kailab.cluster.controlplane.supervision import ProcessStatus

NAMESPACE, ACCOUNT = "kai-scheduler", "scheduler"
TOKEN_SECONDS = 3607  # as the kubelet asks for it


class ActingPlane:
    """A control plane that starts some processes as the service account ``kai-scheduler/scheduler``, which has all
    rights."""

    def __init__(self, plane: Plane, cluster: KubernetesCluster) -> None:
        self._plane = plane
        self._cluster = cluster
        self.folder = plane.folder
        self._tokens = Path(plane.folder) / "accounts"
        make_folder(self._tokens)
        self._acting: set[str] = set()

    def act(self, name: str) -> None:
        """Run the process of this name as the account from its next start on."""
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
        """Start a process; one that runs as the account gets a new token and a kubeconfig with it."""
        if name not in self._acting:
            return self._plane.spawn(name, argv, env, port)
        self._provide()
        token = _token(self._cluster)
        replace_file(self._token_file(name), token.encode())
        config = yaml.safe_load(self._plane.kubeconfig.read_text(encoding="utf-8"))
        config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
        own_kubeconfig = self._tokens / f"{name}.kubeconfig"
        replace_file(own_kubeconfig, yaml.safe_dump(config).encode())
        kubeconfig = str(self._plane.kubeconfig)
        # Some processes get the kubeconfig as an argument.
        arguments = [str(own_kubeconfig) if str(argument) == kubeconfig else argument for argument in argv]
        return self._plane.spawn(name, arguments, {**(env or {}), "KUBECONFIG": str(own_kubeconfig)}, port)

    def renew(self) -> None:
        """Delete and recreate the account, as an installer does that owns it: the same name with a new identity."""
        with suppress(NotFound):
            self._cluster.delete("ServiceAccount", ACCOUNT, NAMESPACE)
        self._provide()

    def accepted(self, name: str) -> bool:
        """True if the API server accepts the token with which this process was started. The server caches answers for
        some seconds."""
        token = self._token_file(name).read_text(encoding="utf-8")
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        reviewed = _post(self._cluster, "/apis/authentication.k8s.io/v1/tokenreviews", review)
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
    """Request a token. Raises ConnectError."""
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token"
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_SECONDS},
    }
    return str(_post(cluster, path, request)["status"]["token"])


def _post(cluster: KubernetesCluster, path: str, obj: Object) -> Object:
    answer = cluster.transport.call(cluster.transport.request("POST", path, json.dumps(obj).encode()))
    if answer.code >= 300:
        raise ConnectError(f"POST {path}: the API server answered {answer.code}: {answer.body[:300]!r}")
    answer_object: Object = json.loads(answer.body)
    return answer_object
