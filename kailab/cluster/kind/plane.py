"""A kind cluster for labs: a real Kubernetes in containers, with KWOK as a local process beside it for the fake nodes.

What is known of it is in its folder: ``kind.json``, the kubeconfig, the files and logs of the processes. Cluster and processes go
on when the command that started them ends or is killed; ``down`` ends them, and removes the folder. The user's own
kubeconfig and context are never touched.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import tenacity

from kailab.cluster.connected import connected
from kailab.cluster.controlplane.certificates import write_private
from kailab.cluster.controlplane.kwok import arguments
from kailab.cluster.controlplane.planefolder import resolved
from kailab.cluster.controlplane.ports import free_ports
from kailab.cluster.controlplane.supervised import ControlPlaneFailed, Supervised
from kailab.cluster.controlplane.supervision import Record, record
from kailab.cluster.kind import kindfolder, kwok, nodes
from kailab.cluster.kind.choices import choose, name_for
from kailab.cluster.kind.config import cluster_config
from kailab.cluster.kind.creation import Maker, check_library, check_name
from kailab.cluster.kind.engine import check_docker, containers
from kailab.cluster.kind.kindfolder import KindRecord
from kailab.cluster.kind.node_image import provide_image
from kailab.errors import ConnectError, StateError

if TYPE_CHECKING:
    from kailab.components import ComponentSet

SPAWNED_GRACE_SECONDS = 5.0
DELETE_TRIES = 3
DELETE_PAUSE_SECONDS = 1.0

Tell = Callable[[str], None]


class KindPlane(Supervised):
    """Made by ``up`` and ``attach``. Used like ``kailab.cluster.controlplane.ControlPlane``."""

    own = (kwok.NAME,)

    def __init__(self, folder: Path, known: KindRecord) -> None:
        super().__init__(folder)
        self._known = known
        self._maker = Maker(Path(known.kind), Path(known.kubectl))

    @classmethod
    def up(
        cls,
        folder: Path,
        name: str | None = None,
        *,
        components: ComponentSet,
        kind: Path | None = None,
        image: str | None = None,
        config: Path | None = None,
        stages: Path | None = None,
        tell: Tell | None = None,
    ) -> KindPlane:
        """Make a cluster, and return when its nodes are Ready and KWOK works.

        ``folder``: must be new, empty, or what a start that was cut short has left. ``name``: kind's for the cluster, None: one
        made from the folder. ``kind``, ``image``, ``config``: see ``choose``. ``stages``: a file of KWOK stages, None: kailab's
        own. ``tell``: gets what is being waited for. Raises ConnectError (no Docker engine, no kind, no image, not Ready in
        time), StateError (folder or name in use), InputError; then nothing of it is left.
        """
        tell = tell or (lambda _: None)
        check_library()
        check_docker()
        choices = choose(kind, image, config, components.kubernetes)
        described = cluster_config(choices.config)
        folder = resolved(folder)
        name = check_name(name or name_for(folder))
        known = KindRecord(
            name=name,
            kind=str(choices.kind),
            kubectl=str(components.path("kubectl")),
            image=choices.image,
            created=time.time(),
        )
        maker = Maker(choices.kind, components.path("kubectl"))
        # Before the name is claimed: a start that was cut short may have left a cluster of this very name.
        _clear_unfinished(folder)
        with maker.claimed(name):
            kindfolder.claim(folder)
            plane = cls(folder, known)
            try:
                provide_image(choices.image, tell)
                # From here on ``take_down`` can find the cluster, whenever this process is killed.
                known.begun().write(folder)
                tell(f"making the kind cluster {name}")
                maker.create(name, folder, choices.image, kindfolder.write_config(folder, described))
                tell("waiting for its nodes")
                with connected(plane.kubeconfig, name="kind") as cluster:
                    nodes.prepare(cluster)
                plane._start_kwok(components.path("kwok"), stages)
                plane._known = known.done()
                plane._known.write(folder)
            except BaseException as error:
                kept = plane._kept_logs() if isinstance(error, ConnectError) else None
                # Also for an interrupt: a cluster that is half made would hold its name and memory.
                plane.down()
                if kept is not None:
                    raise ConnectError(f"{error}; what was logged is in {kept}") from error
                raise
        return plane

    @classmethod
    def attach(cls, folder: Path, name: str | None = None) -> KindPlane:
        """The one in a folder, whether it runs or not. Where the folder or its kubeconfig was lost, they are made again from the
        cluster of that name (None: the name made from the folder), and KWOK is started again.

        Raises StateError: there is none, or it is not whole; ConnectError where what was lost can't be made again."""
        folder = resolved(folder)
        known = kindfolder.read(folder)
        if known is None:
            return cls._recovered(folder, name or name_for(folder))
        if not known.ready:
            raise StateError(f"{folder}: the start of a kind cluster was cut short here; end it, or start it again")
        plane = cls(folder, known)
        if not kindfolder.has_kubeconfig(folder):
            plane._write_kubeconfig()
        return plane

    @classmethod
    def _recovered(cls, folder: Path, name: str) -> KindPlane:
        from kailab.components import find_components

        choices = choose()
        # Listing clusters needs no kubectl, which is looked for only if there is something to recover.
        maker_of = Maker(choices.kind, choices.kind)
        if name not in maker_of.clusters():
            raise StateError(f"{folder}: no kind cluster is here, and there is none of the name {name!r}")
        components = find_components()
        kindfolder.claim(folder)
        known = KindRecord(
            name=name,
            kind=str(choices.kind),
            kubectl=str(components.path("kubectl")),
            image="",
            created=time.time(),
            ready=True,
        )
        plane = cls(folder, known)
        plane._write_kubeconfig()
        known.write(folder)
        plane._start_kwok(components.path("kwok"), None)
        return plane

    @property
    def name(self) -> str:
        """What kind calls the cluster."""
        return self._known.name

    @property
    def kubeconfig(self) -> Path:
        """Of somebody who may do everything, mode 0600."""
        return self.folder / kindfolder.KUBECONFIG

    @property
    def created(self) -> float:
        """Seconds since the epoch."""
        return self._known.created

    def containers(self) -> list[str]:
        """The real nodes. Raises ConnectError."""
        return containers(self.name)

    def check(self, names: Sequence[str] | None = None) -> None:
        """Raises ControlPlaneFailed if one of these processes (None: any that was not stopped on purpose, or all nodes) has
        ended."""
        super().check(names)
        if names is None and not containers(self.name, running=True):
            raise ControlPlaneFailed(f"{self.folder}: no node of the kind cluster {self.name!r} runs")

    def start_kube_scheduler(self) -> None:
        """Return when it works: the node has one, as kubeadm makes it. Raises ConnectError if that takes too long."""
        with connected(self.kubeconfig, name="kind") as cluster:
            nodes.await_kube_scheduler(cluster)

    def load_images(self, archives: Sequence[Path]) -> None:
        """Give the nodes the images of these archives. Raises ConnectError."""
        for archive in archives:
            self._maker.load(self.name, archive.absolute())

    def down(self) -> None:
        """End all processes, delete the cluster, remove the folder. Done again it does nothing. Raises ConnectError or
        StateError if something of it can't be ended; what is known of it is kept then."""
        if not self.folder.is_dir():
            self._supervision.end_all()
            return
        spawned = [one.name for one in self._supervision.records() if one.spawned]
        # With time to end in order, while the API still answers.
        self._supervision.stop(spawned, SPAWNED_GRACE_SECONDS)
        self._supervision.end_all()
        if (self.folder / kindfolder.FILE).exists():
            self._delete()
        kindfolder.remove(self.folder)

    def _delete(self) -> None:
        def delete() -> None:
            self._maker.delete(self.name, self.folder)
            left = self.containers()
            if left:
                raise ConnectError(f"kind cluster {self.name!r}: containers were left: {', '.join(left)}")

        # A container may be on its way, asked for by a kind that was killed; and Docker at times says that one can't be
        # removed, while it is being removed.
        tenacity.Retrying(
            stop=tenacity.stop_after_attempt(DELETE_TRIES),
            wait=tenacity.wait_fixed(DELETE_PAUSE_SECONDS),
            retry=tenacity.retry_if_exception_type(ConnectError),
            reraise=True,
        )(delete)

    def _kept_logs(self) -> Path | None:
        """Of a start that failed."""
        if (self.folder / kindfolder.FILE).exists():
            # Where kubeadm failed, kind has removed the nodes, and has said what there is to say.
            with suppress(ConnectError):
                self._maker.export_logs(self.name, self.folder / kindfolder.LOGS / "nodes")
        return kindfolder.keep_logs(self.folder, self.name)

    def _write_kubeconfig(self) -> None:
        write_private(self.kubeconfig, f"{self._maker.kubeconfig(self.name).strip()}\n".encode())

    def _start_kwok(self, program: Path, stages: Path | None) -> None:
        kwok.prepare(self.folder, stages)
        (port,) = free_ports(1)
        self._supervision.start(record(kwok.NAME, [program, *arguments(self.kubeconfig, port)], port=port))
        self._await([kwok.NAME])

    def _await(self, names: Sequence[str]) -> None:
        for kept in map(self._supervision.record, names):
            kwok.await_healthy(kept.port, partial(self._why_not, kept))

    def _why_not(self, kept: Record) -> str:
        return self._supervision.look(kept).why


def take_down(folder: Path) -> None:
    """End and remove the kind cluster in a folder, in whatever state it is. Raises StateError for a folder that is not one's."""
    folder = resolved(folder)
    known = kindfolder.read(folder)
    if known is None:
        raise StateError(f"{folder}: no kind cluster is here")
    KindPlane(folder, known).down()


def _clear_unfinished(folder: Path) -> None:
    known = kindfolder.read(folder)
    if known is None:
        return
    if known.ready:
        raise StateError(f"{folder}: a kind cluster is here already; end it first, or choose another folder")
    if kindfolder.starts(known):
        raise StateError(f"{folder}: a kind cluster is being made here by process {known.starter}")
    KindPlane(folder, known).down()
