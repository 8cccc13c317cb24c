"""The programs of a control plane: their arguments, and when each is ready.

All listen on the loopback address only, with TLS unless they serve nothing secret. The arguments are valid for every
Kubernetes release that kailab knows.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from kailab.cluster.controlplane import kwok
from kailab.cluster.controlplane.credentials import ADMIN_GROUP, Authority, Pair, signing_key, write_kubeconfig
from kailab.cluster.controlplane.ports import LOOPBACK
from kailab.cluster.controlplane.supervision import ProcessRecord, new_process_record
from kailab.cluster.stages import HEARTBEAT_SECONDS
from kailab.model.private_files import make_folder

if TYPE_CHECKING:
    from kailab.components import ComponentSet

ETCD, APISERVER, CONTROLLERS, KWOK, SCHEDULER = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kwok",
    "kube-scheduler",
)
PORTS = (ETCD, "etcd-peer", APISERVER, CONTROLLERS, KWOK, SCHEDULER)
"""Purposes for which a control plane needs a port."""

ADMIN = "admin.kubeconfig"
_PKI = "pki"
_PROXY = "front-proxy-client"
_ISSUER = "https://kubernetes.default.svc.cluster.local"
_DEFAULT_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"
# A lab has no volumes to attach, no cloud and no network routes; leaving a controller out saves watches and memory.
_LEFT_OUT = ("node-ipam-controller", "persistentvolume-attach-detach-controller", "service-lb-controller")
# Some heartbeats may be late before a node counts as lost.
_NODE_GRACE_SECONDS = 4 * HEARTBEAT_SECONDS
_SYNCS = ("deployment", "replicaset", "statefulset", "daemonset", "job", "cron-job", "namespace", "ttl-after-finished",
          "serviceaccount-token", "resource-quota")  # fmt: skip


class Programs:
    """The programs in one folder, with its ports (by the names of ``PORTS``)."""

    def __init__(self, folder: Path, ports: Mapping[str, int], binaries: Mapping[str, Path]) -> None:
        self.folder = folder
        self.ports = ports
        self.binaries = binaries

    @property
    def server(self) -> str:
        return f"https://{LOOPBACK}:{self.ports[APISERVER]}"

    @property
    def kubeconfig(self) -> Path:
        return self.folder / ADMIN

    def prepare(self, stages: Path | None) -> None:
        """Write certificates, kubeconfigs, and KWOK's configuration."""
        pki = self.folder / _PKI
        make_folder(pki)
        # An authority of its own: certificates that the API accepts give no access to the store.
        store = Authority.made(pki, "etcd-ca")
        store.issue_server(pki, "etcd")
        store.issue_client(pki, "etcd-client", APISERVER)
        authority = Authority.made(pki, "ca")
        authority.issue_server(
            pki, "serving", ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
        )
        Authority.made(pki, "front-proxy-ca").issue_client(pki, "front-proxy", _PROXY)
        signing_key(pki, "service-accounts")
        self.identity("admin", "kubernetes-admin", (ADMIN_GROUP,))
        for name in (CONTROLLERS, SCHEDULER):
            self.identity(name, f"system:{name}", (ADMIN_GROUP,))
        self.identity(KWOK, "kwok-controller", (ADMIN_GROUP,))
        kwok.write_config(self.folder, stages)

    def identity(self, file: str, user: str, groups: tuple[str, ...]) -> Path:
        """A kubeconfig ``<file>.kubeconfig`` for a user of the API."""
        pki = self.folder / _PKI
        authority = Authority(self._pair("ca"))
        path = self.folder / f"{file}.kubeconfig"
        write_kubeconfig(path, self.server, authority, authority.issue_client(pki, file, user, groups), user)
        return path

    def record(self, name: str) -> ProcessRecord:
        arguments = {
            ETCD: self._etcd,
            APISERVER: self._apiserver,
            CONTROLLERS: self._controllers,
            KWOK: self._kwok,
            SCHEDULER: self._scheduler,
        }[name]()
        return new_process_record(name, [self.binaries[name], *arguments], port=self.ports[name])

    def lack(self, name: str) -> str | None:
        """Check a program once: None if it works, else what is missing."""
        base = f"https://{LOOPBACK}:{self.ports[name]}"
        if name == ETCD:
            text, problem = kwok.ask_local(f"{base}/health", self._store_tls)
            return problem or (None if json.loads(text or "{}").get("health") == "true" else f"it says {text}")
        if name == KWOK:
            return kwok.ask_local(f"http://{LOOPBACK}:{self.ports[name]}/healthz", None)[1]
        if name == APISERVER:
            return kwok.ask_local(f"{base}/readyz", self._tls)[1]
        problem = kwok.ask_local(f"{base}/healthz", self._tls)[1]
        if problem is None and name == CONTROLLERS:
            # A namespace without its service account refuses pods, so the lab is usable only now.
            missing = kwok.ask_local(f"{self.server}{_DEFAULT_ACCOUNT}", self._tls)[1]
            return missing and f"the ServiceAccount of the namespace default is not made yet ({missing})"
        return problem

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return _context(self._pair("ca").certificate, self._pair("admin"))

    @cached_property
    def _store_tls(self) -> ssl.SSLContext:
        return _context(self._pair("etcd-ca").certificate, self._pair("etcd-client"))

    def _pair(self, name: str) -> Pair:
        return Pair.named(self.folder / _PKI, name)

    def _etcd(self) -> list[str]:
        client, peer = (f"https://{LOOPBACK}:{self.ports[name]}" for name in (ETCD, "etcd-peer"))
        authority, own = self._pair("etcd-ca").certificate, self._pair("etcd")
        return [
            "--name=kailab",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=kailab={peer}",
            f"--trusted-ca-file={authority}",
            f"--cert-file={own.certificate}",
            f"--key-file={own.key}",
            "--client-cert-auth",
            f"--peer-trusted-ca-file={authority}",
            f"--peer-cert-file={own.certificate}",
            f"--peer-key-file={own.key}",
            "--peer-client-cert-auth",
            # A lab is temporary: safety against a power cut is not worth waiting for the disk at each write. The death
            # of the process itself loses nothing.
            "--unsafe-no-fsync",
            f"--quota-backend-bytes={8 * 1024**3}",
            "--log-level=warn",
        ]

    def _apiserver(self) -> list[str]:
        serving, store, accounts = self._pair("serving"), self._pair("etcd-client"), self._pair("service-accounts").key
        return [
            f"--bind-address={LOOPBACK}",
            f"--advertise-address={LOOPBACK}",
            f"--secure-port={self.ports[APISERVER]}",
            f"--etcd-servers=https://{LOOPBACK}:{self.ports[ETCD]}",
            f"--etcd-cafile={self._pair('etcd-ca').certificate}",
            f"--etcd-certfile={store.certificate}",
            f"--etcd-keyfile={store.key}",
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            f"--client-ca-file={self._pair('ca').certificate}",
            # How API servers behind this one, and its own controllers, know that it passes on a request.
            f"--requestheader-client-ca-file={self._pair('front-proxy-ca').certificate}",
            f"--requestheader-allowed-names={_PROXY}",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={self._pair('front-proxy').certificate}",
            f"--proxy-client-key-file={self._pair('front-proxy').key}",
            f"--service-account-issuer={_ISSUER}",
            f"--service-account-key-file={accounts}",
            f"--service-account-signing-key-file={accounts}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=Node,RBAC",
            # As kubeadm sets it: device plugins, drivers and storage run privileged.
            "--allow-privileged=true",
            "--anonymous-auth=false",
            "--enable-bootstrap-token-auth=false",
            # No pod here can reach the API by the address of its Service.
            "--endpoint-reconciler-type=none",
            # Priority and fairness share these seats. One lab uses the server alone, with hundreds of requests under
            # way.
            "--max-requests-inflight=2000",
            "--max-mutating-requests-inflight=1000",
            "--event-ttl=1h",
            "--profiling=false",
            "--delete-collection-workers=8",
        ]

    def _controllers(self) -> list[str]:
        return [
            *self._client(CONTROLLERS),
            f"--root-ca-file={self._pair('ca').certificate}",
            f"--service-account-private-key-file={self._pair('service-accounts').key}",
            f"--controllers=*,{','.join('-' + name for name in _LEFT_OUT)}",
            "--kube-api-qps=2000",
            "--kube-api-burst=4000",
            *(f"--concurrent-{kind}-syncs=20" for kind in _SYNCS),
            # Fake nodes have no leases (see kwok.kwok_arguments): only their heartbeat says that they live.
            f"--node-monitor-grace-period={_NODE_GRACE_SECONDS:.0f}s",
            "--profiling=false",
        ]

    def _kwok(self) -> list[str]:
        return kwok.kwok_arguments(self.folder / "kwok.kubeconfig", self.ports[KWOK], leases=False)

    def _scheduler(self) -> list[str]:
        return [*self._client(SCHEDULER), "--kube-api-qps=1000", "--kube-api-burst=2000"]

    def _client(self, name: str) -> list[str]:
        """How a client of the API server reaches it, and where it serves its own health."""
        own, serving = self.folder / f"{name}.kubeconfig", self._pair("serving")
        return [
            f"--kubeconfig={own}",
            f"--authentication-kubeconfig={own}",
            f"--authorization-kubeconfig={own}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={self.ports[name]}",
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            # A single process needs no election; a lease left behind would make the next one wait.
            "--leader-elect=false",
        ]


def binaries_of(components: ComponentSet) -> dict[str, Path]:
    return {name: components.path(name) for name in (ETCD, APISERVER, CONTROLLERS, KWOK, SCHEDULER)}


def _context(authority: Path, client: Pair) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority))
    context.load_cert_chain(client.certificate, client.key)
    return context
