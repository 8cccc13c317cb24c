"""A kind cluster for labs: a real Kubernetes in containers, with KWOK as a local process beside it for the fake nodes.

Its folder holds everything known about it: ``kind.json``, the kubeconfig, and the files and logs of its processes.
Cluster and processes outlive the command that started them; ``down`` ends them and removes the folder. The user's own
kubeconfig and context are never touched. ``with_fake_nodes`` adds KWOK to a kind cluster that somebody else made.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar

import tenacity
import yaml

from kailab.cluster.connect import connect
from kailab.cluster.controlplane import kwok
from kailab.cluster.controlplane.cluster_folder import ClusterRecord, make_cluster_folder, resolve_folder
from kailab.cluster.controlplane.supervision import (
    ControlPlaneFailed,
    ProcessStatus,
    SupervisedCluster,
    Supervision,
)
from kailab.cluster.kind import nodes
from kailab.cluster.kind.docker import check_docker, node_containers, provide_image
from kailab.cluster.kind.kind_command import KindCommand, check_library, check_name
from kailab.cluster.kind.options import choose_options, cluster_config, name_for
from kailab.components import ComponentCache, ComponentSet, find_components
from kailab.errors import ConnectError, StateError
from kailab.model.callbacks import Tell
from kailab.model.private_files import make_folder, replace_file, write_text

KUBECONFIG = "kubeconfig"
CONFIG = "kind.yaml"
LOGS = "logs"
_KEPT_STARTS = 5


class KindRecord(ClusterRecord, frozen=True, kw_only=True):
    """A kind cluster on disk. ``kind``, ``kubectl``: the programs; ``image``: its nodes'; ``created``: seconds since
    the epoch."""

    file: ClassVar[str] = "kind.json"
    noun: ClassVar[str] = "kind cluster"

    name: str
    kind: str
    kubectl: str
    image: str
    created: float


def has_kubeconfig(folder: Path) -> bool:
    """True unless it is missing or empty."""
    try:
        return (folder / KUBECONFIG).stat().st_size > 0
    except OSError:
        return False


def save_failed_logs(folder: Path, name: str) -> Path | None:
    """Move the logs of a failed start out of the folder, beside those of the last few failed starts. Returns where they
    are; None: there are none, or they can't be moved."""
    place = ComponentCache().root.parent / "kind-logs" / name
    with suppress(OSError, shutil.Error):
        make_folder(place.parent)
        shutil.rmtree(place, ignore_errors=True)
        shutil.move(folder / LOGS, place)
        oldest_last = sorted(place.parent.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
        for old in oldest_last[_KEPT_STARTS:]:
            shutil.rmtree(old, ignore_errors=True)
    return place if place.is_dir() else None


SPAWNED_GRACE_SECONDS = 5.0
DELETE_TRIES = 3
DELETE_PAUSE_SECONDS = 1.0


class KindPlane(SupervisedCluster):
    """A kind cluster. Made by ``up`` and ``attach``. Used like ``kailab.cluster.controlplane.ControlPlane``."""

    own = (kwok.NAME,)

    def __init__(self, folder: Path, known: KindRecord) -> None:
        super().__init__(folder)
        self._known = known
        self._maker = KindCommand(Path(known.kind), Path(known.kubectl))

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
        """Make a cluster, and return when its nodes are Ready and KWOK is healthy.

        ``folder``: new, empty, or left over from an interrupted start. ``name``: kind's for the cluster, None: derived
        from the folder. ``kind``, ``image``, ``config``: see ``choose_options``. ``stages``: a file of KWOK stages,
        None: kailab's own. ``tell``: gets progress messages. Raises ConnectError (no Docker engine, no kind, no image,
        not Ready in time), StateError (folder or name in use), InputError; then nothing is left.
        """
        tell = tell or (lambda _: None)
        check_library()
        check_docker()
        choices = choose_options(kind, image, config, components.kubernetes)
        described = cluster_config(choices.config)
        folder = resolve_folder(folder)
        name = check_name(name or name_for(folder))
        kubectl = str(components.path("kubectl"))
        known = KindRecord(name=name, kind=str(choices.kind), kubectl=kubectl, image=choices.image, created=time.time())
        maker = KindCommand(choices.kind, components.path("kubectl"))
        # Before the name is claimed: an interrupted start may have left a cluster of this name.
        if (unfinished := KindRecord.unfinished(folder)) is not None:
            cls(folder, unfinished).down()
        with maker.claimed(name):
            make_cluster_folder(folder, "a kind cluster")
            plane = cls(folder, known)
            try:
                provide_image(choices.image, tell)
                # From here on ``take_down`` finds the cluster, even if this process is killed.
                known.with_starter().write(folder)
                tell(f"making the kind cluster {name}")
                write_text(folder / CONFIG, yaml.safe_dump(described, sort_keys=False))
                maker.create(name, folder, choices.image, folder / CONFIG)
                tell("waiting for its nodes")
                with connect(plane.kubeconfig, name="kind") as cluster:
                    nodes.prepare_nodes(cluster)
                kwok.start_kwok(plane._supervision, components.path("kwok"), plane.kubeconfig, stages)
                plane._known = known.as_ready()
                plane._known.write(folder)
            except BaseException as error:
                logs = plane._kept_logs() if isinstance(error, ConnectError) else None
                # Also on an interrupt: an incomplete cluster would hold its name and memory.
                plane.down()
                if logs is not None:
                    raise ConnectError(f"{error}; its logs are in {logs}") from error
                raise
        return plane

    @classmethod
    def attach(cls, folder: Path, name: str | None = None) -> KindPlane:
        """The cluster in a folder, whether it runs or not. A lost folder or kubeconfig is made again from the cluster
        of that name (None: the name derived from the folder), and KWOK is started again.

        Raises StateError if there is none or it is incomplete, ConnectError if it can't be recovered.
        """
        folder = resolve_folder(folder)
        known = KindRecord.complete(folder)
        if known is None:
            return cls._recovered(folder, name or name_for(folder))
        plane = cls(folder, known)
        if not has_kubeconfig(folder):
            plane._write_kubeconfig()
        return plane

    @classmethod
    def _recovered(cls, folder: Path, name: str) -> KindPlane:
        choices = choose_options()
        # Listing clusters needs no kubectl, which is looked up only if there is something to recover.
        maker_of = KindCommand(choices.kind, choices.kind)
        if name not in maker_of.clusters():
            raise StateError(f"{folder}: no kind cluster is here, and there is none of the name {name!r}")
        components = find_components()
        make_cluster_folder(folder, "a kind cluster")
        kubectl = str(components.path("kubectl"))
        known = KindRecord(
            name=name, kind=str(choices.kind), kubectl=kubectl, image="", created=time.time(), ready=True
        )
        plane = cls(folder, known)
        plane._write_kubeconfig()
        known.write(folder)
        kwok.start_kwok(plane._supervision, components.path("kwok"), plane.kubeconfig)
        return plane

    @property
    def name(self) -> str:
        """The name of the cluster in kind."""
        return self._known.name

    @property
    def kubeconfig(self) -> Path:
        """For an administrator, mode 0600."""
        return self.folder / KUBECONFIG

    @property
    def created(self) -> float:
        """Seconds since the epoch."""
        return self._known.created

    def containers(self) -> list[str]:
        """Names of the real nodes. Raises ConnectError."""
        return node_containers(self.name)

    def check(self, names: Sequence[str] | None = None) -> None:
        """Raises ControlPlaneFailed if one of these processes (None: any that was not stopped on purpose, or all nodes)
        has ended."""
        super().check(names)
        if names is None and not node_containers(self.name, running=True):
            raise ControlPlaneFailed(f"{self.folder}: no node of the kind cluster {self.name!r} runs")

    def start_kube_scheduler(self) -> None:
        """Return when kubeadm's kube-scheduler in the node is Ready. Raises ConnectError if that takes too long."""
        with connect(self.kubeconfig, name="kind") as cluster:
            nodes.await_kube_scheduler(cluster)

    def load_images(self, archives: Sequence[Path]) -> None:
        """Load the images of these archives into the nodes. Raises ConnectError."""
        for archive in archives:
            self._maker.load(self.name, archive.absolute())

    def down(self) -> None:
        """End all processes, delete the cluster, remove the folder. Calling it again does nothing. Raises ConnectError
        or StateError if something can't be removed; the record stays then."""
        if not self.folder.is_dir():
            self._supervision.end_all()
            return
        spawned = [record.name for record in self._supervision.records() if record.spawned]
        # Gracefully, while the API still answers.
        self._supervision.stop(spawned, SPAWNED_GRACE_SECONDS)
        self._supervision.end_all()
        if (self.folder / KindRecord.file).exists():
            self._delete()
        try:
            shutil.rmtree(self.folder)
        except OSError as error:
            what = f"{error.filename or ''} {error.strerror or error}"
            raise StateError(f"{self.folder}: can't be removed: {what}") from error

    def _delete(self) -> None:
        def delete() -> None:
            self._maker.delete(self.name, self.folder)
            left = self.containers()
            if left:
                raise ConnectError(f"kind cluster {self.name!r}: containers were left: {', '.join(left)}")

        # A killed kind may have asked for a container that appears late, and Docker sometimes says that a container
        # can't be removed while it is being removed.
        tenacity.Retrying(
            stop=tenacity.stop_after_attempt(DELETE_TRIES),
            wait=tenacity.wait_fixed(DELETE_PAUSE_SECONDS),
            retry=tenacity.retry_if_exception_type(ConnectError),
            reraise=True,
        )(delete)

    def _kept_logs(self) -> Path | None:
        """The logs of a failed start."""
        if (self.folder / KindRecord.file).exists():
            # If kubeadm failed, kind has removed the nodes and reported why.
            with suppress(ConnectError):
                self._maker.export_logs(self.name, self.folder / LOGS / "nodes")
        return save_failed_logs(self.folder, self.name)

    def _write_kubeconfig(self) -> None:
        replace_file(self.kubeconfig, f"{self._maker.kubeconfig(self.name).strip()}\n".encode())

    def _await(self, names: Sequence[str]) -> None:
        for record in map(self._supervision.record, names):
            kwok.await_healthy(self._supervision, record)


def take_down(folder: Path) -> None:
    """End and remove the kind cluster in a folder, in whatever state it is. Raises StateError if there is none."""
    folder = resolve_folder(folder)
    KindPlane(folder, KindRecord.existing(folder)).down()


@contextmanager
def with_fake_nodes(kubeconfig: Path, components: ComponentSet, context: str | None = None) -> Iterator[ProcessStatus]:
    """Run KWOK beside a kind cluster for fake nodes, until the block ends; before that, wait for its nodes to be Ready
    and keep lab pods off them.

    The taint of the control plane and the affinity of system pods stay afterwards.

        def test_mine(kind_cluster):
            with with_fake_nodes(kind_cluster.kubeconfig_path, find_components()):
                with Lab.open(backend="kubeconfig", kubeconfig=kind_cluster.kubeconfig_path) as lab: ...

    Raises ConnectError.
    """
    kubeconfig = Path(kubeconfig).resolve()
    # Only for the preparation: tests open connections of their own.
    with connect(kubeconfig, context) as cluster:
        nodes.prepare_nodes(cluster)
    with tempfile.TemporaryDirectory(prefix="kailab-kwok-") as made:
        # Processes are marked with the resolved path, which differs if the temporary folder is a link.
        supervision = Supervision(Path(made).resolve())
        try:
            yield kwok.start_kwok(supervision, components.path("kwok"), kubeconfig)
        finally:
            supervision.end_all()
