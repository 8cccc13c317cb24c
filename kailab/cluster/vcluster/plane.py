"""A virtual cluster for labs: its control plane is a pod of a host cluster, all else of it is here, as processes beside: the way to its
API server, and KWOK for the fake nodes.

What is known of it is in its folder: ``vcluster.json``, the kubeconfig, the files and logs of the processes. It goes on when the command
that made it ends; ``down`` deletes it, and removes the folder.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import yaml

from kailab.cluster.controlplane.certificates import write_private
from kailab.cluster.controlplane.kwok import arguments
from kailab.cluster.controlplane.planefolder import made, resolved
from kailab.cluster.controlplane.ports import LOOPBACK, free_ports
from kailab.cluster.controlplane.supervised import Supervised
from kailab.cluster.controlplane.supervision import Record, record
from kailab.cluster.images import without_image
from kailab.cluster.kind import kwok
from kailab.cluster.kind.choices import name_for
from kailab.cluster.processes import find, this_process
from kailab.cluster.vcluster.creation import Maker
from kailab.cluster.vcluster.own_image import provided
from kailab.cluster.vcluster.tools import Host, Tools, find_tools, packed_chart
from kailab.cluster.vcluster.values import values
from kailab.cluster.waiting import look_until
from kailab.errors import ConnectError, NotFound, StateError
from kailab.model import decoding
from kailab.model.objects import is_ready
from kailab.model.private_files import write_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kailab.cluster.protocol import Cluster
    from kailab.components import ComponentSet

FILE = "vcluster.json"
FORWARD = "port-forward"
READY_SECONDS = 600.0
GONE_SECONDS = 180.0
_LOOK_SECONDS = 1.0

# It ends with the connection, as when the control plane's pod was restarted.
_AGAIN = 'while :; do "$@"; sleep 0.3; done'

Tell = Callable[[str], None]


class VclusterRecord(msgspec.Struct, frozen=True, kw_only=True):
    """``name``: of the virtual cluster, and of its namespace in the host. ``starter``, ``since``: the process that makes it."""

    name: str
    kubeconfig: str
    context: str | None
    starter: int = 0
    since: float = 0.0
    ready: bool = False
    format: int = 1

    @property
    def host(self) -> Host:
        return Host(Path(self.kubeconfig), self.context)


class VclusterPlane(Supervised):
    """Made by ``up`` and ``attach``. Used like ``kailab.cluster.controlplane.ControlPlane``."""

    own = (FORWARD, kwok.NAME)

    def __init__(self, folder: Path, known: VclusterRecord) -> None:
        super().__init__(folder)
        self._known = known

    @classmethod
    def up(cls, folder: Path, *, host: Host, components: ComponentSet, tell: Tell = lambda _: None) -> VclusterPlane:
        """Return when its API server answers and KWOK works. Raises ConnectError (no program, no host, an image that can't be had, not
        ready in time), StateError (folder in use); then nothing of it is left."""
        tools = find_tools()
        folder = resolved(folder)
        _clear_unfinished(folder)
        made(folder, "a virtual cluster")
        starter, since = this_process()
        context = host.context
        known = VclusterRecord(
            name=name_for(folder), kubeconfig=str(host.kubeconfig), context=context, starter=starter, since=since
        )
        plane = cls(folder, known)
        try:
            # From here on ``take_down`` can find it, whenever this process is killed.
            plane._write(known)
            plane._make(tools, components, tell)
            plane._known = msgspec.structs.replace(known, ready=True, starter=0, since=0.0)
            plane._write(plane._known)
        except BaseException:
            plane.down()
            raise
        return plane

    @classmethod
    def attach(cls, folder: Path) -> VclusterPlane:
        """Raises StateError: there is none, or it is not whole."""
        folder = resolved(folder)
        known = _read(folder)
        if known is None:
            raise StateError(f"{folder}: no virtual cluster is here")
        if not known.ready:
            raise StateError(f"{folder}: the start of a virtual cluster was cut short here; end it, or start it again")
        return cls(folder, known)

    @property
    def name(self) -> str:
        """What vCluster calls it; its namespace in the host has the same name."""
        return self._known.name

    @property
    def kubeconfig(self) -> Path:
        """Of somebody who may do everything in it, mode 0600."""
        return self.folder / "kubeconfig"

    def host_nodes(self) -> set[str]:
        """Names of the nodes of its host. Raises ConnectError."""
        with self._known.host.connected() as host:
            return {node["metadata"]["name"] for node in host.list("Node")}

    def start_kube_scheduler(self) -> None:
        """It runs within its control plane since it was made."""

    def down(self) -> None:
        """End all processes, delete it in the host, remove the folder. Done again it does nothing. Raises ConnectError if something of
        it can't be ended; what is known of it is kept then."""
        self._supervision.end_all()
        if not self.folder.is_dir():
            return
        if (self.folder / FILE).exists():
            self._delete()
        shutil.rmtree(self.folder)

    def _make(self, tools: Tools, components: ComponentSet, tell: Tell) -> None:
        name, maker = self.name, Maker(tools, self._known.host, self.folder)
        told = self.folder / "values.yaml"
        with self._known.host.connected() as host:
            image = provided(host, components.kubernetes, components.path("kubectl"), tell)
            described = values(components.kubernetes, image.name if image is not None else "")
            write_text(told, yaml.safe_dump(described, sort_keys=False))
            tell(f"making the virtual cluster {name}")
            maker.create(name, told, packed_chart(tools, self.folder / "chart"), partial(_has_images, host, name))
            tell("waiting for its control plane")
            self._await_ready(host)
            (port, health) = free_ports(2)
            self._forward(components.path("kubectl"), port)
            server = f"https://{LOOPBACK}:{port}"
            written = maker.kubeconfig(name, server, partial(_has_images, host, name))
        write_private(self.kubeconfig, written.encode())
        self._await_answer()
        kwok.prepare(self.folder, None)
        program: list[str | Path] = [components.path("kwok"), *arguments(self.kubeconfig, health)]
        self._supervision.start(record(kwok.NAME, program, port=health))
        self._await([kwok.NAME])

    def _forward(self, kubectl: Path, port: int) -> None:
        known = self._known
        command = [
            str(kubectl), f"--kubeconfig={known.kubeconfig}", *([f"--context={known.context}"] if known.context else []),
            "--namespace", known.name, "port-forward", f"--address={LOOPBACK}", f"service/{known.name}", f"{port}:443",
        ]  # fmt: skip
        self._supervision.start(record(FORWARD, ["/bin/sh", "-c", _AGAIN, FORWARD, *command], port=port))

    def _await_ready(self, host: Cluster) -> None:
        def missing() -> str:
            _has_images(host, self.name)
            pods = [one for one in host.list("Pod", self.name) if is_ready(one)]
            return "" if pods else f"no pod in its namespace {self.name} is ready"

        if why := look_until(missing, lambda found: not found, READY_SECONDS, pause=_LOOK_SECONDS):
            raise ConnectError(f"virtual cluster {self.name!r}: not ready after {READY_SECONDS:.0f} s: {why}")

    def _await_answer(self) -> None:
        def problem() -> str:
            try:
                with Host(self.kubeconfig).connected() as cluster:
                    cluster.get("Namespace", "default")
            except (ConnectError, NotFound) as error:
                return str(error)
            return ""

        if why := look_until(problem, lambda found: not found, READY_SECONDS, pause=_LOOK_SECONDS):
            raise ConnectError(f"virtual cluster {self.name!r}: its API server does not answer: {why}")

    def _await(self, names: Sequence[str]) -> None:
        for kept in map(self._supervision.record, names):
            if kept.name == kwok.NAME:
                kwok.await_healthy(kept.port, partial(self._why_not, kept))

    def _why_not(self, kept: Record) -> str:
        return self._supervision.look(kept).why

    def _delete(self) -> None:
        Maker(find_tools(), self._known.host, self.folder).delete(self.name)
        with self._known.host.connected() as host:

            def left() -> bool:
                try:
                    if "deletionTimestamp" not in host.get("Namespace", self.name)["metadata"]:
                        host.delete("Namespace", self.name)
                except NotFound:
                    return False
                return True

            if look_until(left, lambda there: not there, GONE_SECONDS, pause=_LOOK_SECONDS):
                raise ConnectError(f"virtual cluster {self.name!r}: its namespace is still there in the host")

    def _write(self, known: VclusterRecord) -> None:
        write_private(self.folder / FILE, msgspec.json.encode(known))


def take_down(folder: Path) -> None:
    """Delete the virtual cluster of a folder, in whatever state it is. Raises StateError for a folder that is not one's."""
    folder = resolved(folder)
    known = _read(folder)
    if known is None:
        raise StateError(f"{folder}: no virtual cluster is here")
    VclusterPlane(folder, known).down()


def _read(folder: Path) -> VclusterRecord | None:
    try:
        return decoding.decode_json((folder / FILE).read_bytes(), VclusterRecord)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise StateError(f"{folder / FILE}: the virtual cluster can't be read: {error}") from error


def _clear_unfinished(folder: Path) -> None:
    known = _read(folder)
    if known is None:
        return
    if known.ready:
        raise StateError(f"{folder}: a virtual cluster is here already; end it first, or choose another folder")
    if find(known.starter, known.since) is not None:
        raise StateError(f"{folder}: a virtual cluster is being made here by process {known.starter}")
    VclusterPlane(folder, known).down()


def _has_images(host: Cluster, namespace: str) -> None:
    """Raises ConnectError where a pod's image is not to be had."""
    for pod in host.list("Pod", namespace):
        if lacking := without_image(pod):
            raise ConnectError(f"namespace {namespace}: {lacking}")
