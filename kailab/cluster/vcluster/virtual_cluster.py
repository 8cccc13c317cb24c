"""A virtual cluster for labs: its control plane is a pod of a host cluster. Two processes run here beside it: a port
forward to its API server, and KWOK for the fake nodes.

Its folder holds everything known about it: ``vcluster.json``, the kubeconfig, and the files and logs of its processes.
It outlives the command that made it; ``down`` deletes it and removes the folder.

The nodes and pods of a lab exist only inside: the chart's values turn off every synchronization with the host. Source:
values.schema.json and pkg/controllers/resources/nodes of the pinned version. An image of the control plane that was
built here is used where the host's nodes have it or can be given it; otherwise the chart's own images are pulled.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import yaml

from kailab.cluster.built_images import VclusterImage, VclusterImageStore
from kailab.cluster.controlplane import kwok
from kailab.cluster.controlplane.cluster_folder import ClusterRecord, make_cluster_folder, resolve_folder
from kailab.cluster.controlplane.ports import LOOPBACK, free_ports
from kailab.cluster.controlplane.supervision import SupervisedCluster, new_process_record
from kailab.cluster.helm import missing_image
from kailab.cluster.kind.docker import docker_reason, node_containers
from kailab.cluster.kind.kind_command import KindCommand
from kailab.cluster.kind.nodes import real_nodes
from kailab.cluster.kind.options import find_kind, name_for
from kailab.cluster.polling import poll_until
from kailab.cluster.protocol import Cluster, Object
from kailab.cluster.vcluster.vcluster_command import (
    HostCluster,
    VclusterCommand,
    VclusterTools,
    find_tools,
    packed_chart,
)
from kailab.components import ComponentSet
from kailab.components.cache import exclusive_folder
from kailab.errors import ConnectError, KailabError, NotFound
from kailab.model.callbacks import Tell
from kailab.model.objects import is_ready, is_terminating, name_of
from kailab.model.private_files import replace_file, write_text

NO_NODE = {"kailab.dev/node-of-the-host": "none"}
"""No node of a host has this label. Nodes are synchronized with it as the selector: without any synchronization the
syncer makes and deletes fake nodes of its own, and a lab's nodes, too."""

_TO_HOST = (
    "services", "endpoints", "endpointSlices", "persistentVolumeClaims", "configMaps", "secrets", "pods", "ingresses",
    "priorityClasses", "networkPolicies", "volumeSnapshots", "volumeSnapshotContents", "podDisruptionBudgets", "serviceAccounts",
    "storageClasses", "persistentVolumes", "namespaces",
)  # fmt: skip
_FROM_HOST = (
    "events", "configMaps", "csiDrivers", "csiNodes", "csiStorageCapacities", "storageClasses", "ingressClasses", "runtimeClasses",
    "priorityClasses", "secrets", "volumeSnapshotClasses",
)  # fmt: skip
_SLICES = {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["get", "list", "watch"]}
_MEMORY = "2Gi"
"""Of the control plane's pod: an API server, its store and controllers, with some hundreds of pods."""


def vcluster_chart_values(kubernetes: str, image: str = "") -> dict[str, Any]:
    """``kubernetes``: the version of the virtual API server, with its ``v``. ``image``: the one for both containers,
    with its tag; empty: the chart's own."""
    off = {"enabled": False}
    repository, _, tag = image.rpartition(":")
    own = {"registry": "", "repository": repository, "tag": tag}
    return {
        "controlPlane": {
            "distro": {
                # kube-scheduler runs inside, not on the host, so that schedulers under test can be compared with it.
                "k8s": {
                    "enabled": True,
                    "scheduler": {"enabled": True},
                    **({"image": own} if image else {"version": kubernetes}),
                },
            },
            "coredns": off,
            "statefulSet": {
                # The build that is completely in the public repository.
                "image": own if image else {"repository": "loft-sh/vcluster-oss"},
                # The cluster is temporary: no volume outlives it.
                "persistence": {"volumeClaim": off},
                "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": _MEMORY}},
                # A host may have only control plane nodes; fake nodes have taints of their own.
                "scheduling": {
                    "tolerations": [
                        {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}
                    ]
                },
            },
        },
        "sync": {
            "toHost": dict.fromkeys(_TO_HOST, off),
            "fromHost": {
                **dict.fromkeys(_FROM_HOST, off),
                "nodes": {"enabled": True, "selector": {"all": False, "labels": NO_NODE}},
            },
        },
        # The syncer reads endpointslices before it starts, whether they are synchronized or not; the chart grants it
        # only if they are.
        "rbac": {"role": {"extraRules": [_SLICES]}},
        "telemetry": off,
    }


_KINDS = "kind://"


def provide_control_plane_image(host: Cluster, kubernetes: str, kubectl: Path, tell: Tell) -> VclusterImage | None:
    """The newest image of this Kubernetes release that was built here, if each node of the host has it or can be given
    it; else None. Only the nodes of a kind cluster in this machine's engine are given it. Raises StateError for a
    damaged archive, ConnectError."""
    store = VclusterImageStore()
    made = store.newest(kubernetes)
    if made is None:
        return None
    # Several virtual clusters may be made at once.
    with exclusive_folder(store.folder(made.name), made.name, tell):
        nodes = real_nodes(host)
        if nodes and all(_has(node, made.name) for node in nodes):
            return made
        cluster = _kinds_name(nodes)
        if not cluster:
            return None
        archive = store.checked(made)
        tell(f"giving {made.name} to the nodes of the kind cluster {cluster}")
        KindCommand(find_kind(), kubectl).load(cluster, archive)
    return made


def _has(node: Object, image: str) -> bool:
    """The kubelet reports names with the default registry in front."""
    images = (node.get("status") or {}).get("images") or ()
    return any(name in (image, f"docker.io/{image}") for entry in images for name in entry.get("names") or ())


def _kinds_name(nodes: list[Object]) -> str:
    """The kind cluster that all these nodes belong to, if it is in the Docker engine that answers here; else empty."""
    provider_ids = {str((node.get("spec") or {}).get("providerID", "")) for node in nodes}
    names = {
        provider_id.removeprefix(_KINDS).split("/")[1]
        for provider_id in provider_ids
        if provider_id.startswith(_KINDS) and provider_id.count("/") >= 4
    }
    if (
        len(names) != 1
        or not all(provider_id.startswith(_KINDS) for provider_id in provider_ids)
        or docker_reason() is not None
    ):
        return ""
    (name,) = names
    try:
        # Another machine's engine may have a kind cluster of the same name: the nodes' names tell them apart.
        here = set(node_containers(name, running=True))
        find_kind()
    except KailabError:
        return ""
    return name if set(map(name_of, nodes)) <= here else ""


FORWARD = "port-forward"
READY_SECONDS = 600.0
GONE_SECONDS = 180.0
_POLL_SECONDS = 1.0

# A port forward ends with its connection, for example when the control plane's pod restarts.
_AGAIN = 'while :; do "$@"; sleep 0.3; done'


class VclusterRecord(ClusterRecord, frozen=True, kw_only=True):
    """A virtual cluster on disk. ``name``: of it, and of its namespace in the host."""

    file: ClassVar[str] = "vcluster.json"
    noun: ClassVar[str] = "virtual cluster"

    name: str
    kubeconfig: str
    context: str | None

    @property
    def host(self) -> HostCluster:
        return HostCluster(Path(self.kubeconfig), self.context)


class VclusterPlane(SupervisedCluster):
    """A virtual cluster. Made by ``up`` and ``attach``. Used like ``kailab.cluster.controlplane.ControlPlane``."""

    own = (FORWARD, kwok.NAME)

    def __init__(self, folder: Path, known: VclusterRecord) -> None:
        super().__init__(folder)
        self._known = known

    @classmethod
    def up(
        cls, folder: Path, *, host: HostCluster, components: ComponentSet, tell: Tell = lambda _: None
    ) -> VclusterPlane:
        """Make one, and return when its API server answers and KWOK is healthy. Raises ConnectError (no program, no
        host, an unavailable image, not ready in time), StateError (folder in use); then nothing is left."""
        tools = find_tools()
        folder = resolve_folder(folder)
        if (unfinished := VclusterRecord.unfinished(folder)) is not None:
            cls(folder, unfinished).down()
        make_cluster_folder(folder, "a virtual cluster")
        known = VclusterRecord(name=name_for(folder), kubeconfig=str(host.kubeconfig), context=host.context)
        plane = cls(folder, known)
        try:
            # From here on ``take_down`` finds it, even if this process is killed.
            known.with_starter().write(folder)
            plane._make(tools, components, tell)
            plane._known = known.as_ready()
            plane._known.write(folder)
        except BaseException:
            plane.down()
            raise
        return plane

    @classmethod
    def attach(cls, folder: Path) -> VclusterPlane:
        """Raises StateError if there is none, or it is incomplete."""
        folder = resolve_folder(folder)
        return cls(folder, VclusterRecord.complete(folder) or VclusterRecord.existing(folder))

    @property
    def name(self) -> str:
        """The name of the virtual cluster, and of its namespace in the host."""
        return self._known.name

    @property
    def kubeconfig(self) -> Path:
        """For an administrator of the virtual cluster, mode 0600."""
        return self.folder / "kubeconfig"

    def host_nodes(self) -> set[str]:
        """Names of the host's nodes. Raises ConnectError."""
        with self._known.host.connected() as host:
            return set(map(name_of, host.list("Node")))

    def start_kube_scheduler(self) -> None:
        """It runs in the control plane's pod from the start."""

    def down(self) -> None:
        """End all processes, delete it in the host, remove the folder. Calling it again does nothing. Raises
        ConnectError if something can't be removed; the record stays then."""
        self._supervision.end_all()
        if not self.folder.is_dir():
            return
        if (self.folder / VclusterRecord.file).exists():
            self._delete()
        shutil.rmtree(self.folder)

    def _make(self, tools: VclusterTools, components: ComponentSet, tell: Tell) -> None:
        name, maker = self.name, VclusterCommand(tools, self._known.host, self.folder)
        values_file = self.folder / "values.yaml"
        with self._known.host.connected() as host:
            image = provide_control_plane_image(host, components.kubernetes, components.path("kubectl"), tell)
            described = vcluster_chart_values(components.kubernetes, image.name if image is not None else "")
            write_text(values_file, yaml.safe_dump(described, sort_keys=False))
            tell(f"making the virtual cluster {name}")
            maker.create(
                name, values_file, packed_chart(tools, self.folder / "chart"), partial(_has_images, host, name)
            )
            tell("waiting for its control plane")
            self._await_ready(host)
            (port,) = free_ports(1)
            self._forward(components.path("kubectl"), port)
            server = f"https://{LOOPBACK}:{port}"
            written = maker.kubeconfig(name, server, partial(_has_images, host, name))
        replace_file(self.kubeconfig, written.encode())
        self._await_answer()
        kwok.start_kwok(self._supervision, components.path("kwok"), self.kubeconfig)

    def _forward(self, kubectl: Path, port: int) -> None:
        known = self._known
        command = [
            str(kubectl), f"--kubeconfig={known.kubeconfig}", *([f"--context={known.context}"] if known.context else []),
            "--namespace", known.name, "port-forward", f"--address={LOOPBACK}", f"service/{known.name}", f"{port}:443",
        ]  # fmt: skip
        self._supervision.start(new_process_record(FORWARD, ["/bin/sh", "-c", _AGAIN, FORWARD, *command], port=port))

    def _await_ready(self, host: Cluster) -> None:
        def missing() -> str:
            _has_images(host, self.name)
            pods = [pod for pod in host.list("Pod", self.name) if is_ready(pod)]
            return "" if pods else f"no pod in its namespace {self.name} is ready"

        if why := poll_until(missing, lambda reason: not reason, READY_SECONDS, pause=_POLL_SECONDS):
            raise ConnectError(f"virtual cluster {self.name!r}: not ready after {READY_SECONDS:.0f} s: {why}")

    def _await_answer(self) -> None:
        def problem() -> str:
            try:
                with HostCluster(self.kubeconfig).connected() as cluster:
                    cluster.get("Namespace", "default")
            except (ConnectError, NotFound) as error:
                return str(error)
            return ""

        if why := poll_until(problem, lambda reason: not reason, READY_SECONDS, pause=_POLL_SECONDS):
            raise ConnectError(f"virtual cluster {self.name!r}: its API server does not answer: {why}")

    def _await(self, names: Sequence[str]) -> None:
        for record in map(self._supervision.record, names):
            if record.name == kwok.NAME:
                kwok.await_healthy(self._supervision, record)

    def _delete(self) -> None:
        VclusterCommand(find_tools(), self._known.host, self.folder).delete(self.name)
        with self._known.host.connected() as host:

            def left() -> bool:
                try:
                    if not is_terminating(host.get("Namespace", self.name)):
                        host.delete("Namespace", self.name)
                except NotFound:
                    return False
                return True

            if poll_until(left, lambda remaining: not remaining, GONE_SECONDS, pause=_POLL_SECONDS):
                raise ConnectError(f"virtual cluster {self.name!r}: its namespace is still there in the host")


def take_down(folder: Path) -> None:
    """Delete the virtual cluster of a folder, in whatever state it is. Raises StateError if there is none."""
    folder = resolve_folder(folder)
    VclusterPlane(folder, VclusterRecord.existing(folder)).down()


def _has_images(host: Cluster, namespace: str) -> None:
    """Raises ConnectError if a pod's image is unavailable."""
    for pod in host.list("Pod", namespace):
        if lacking := missing_image(pod):
            raise ConnectError(f"namespace {namespace}: {lacking}")
