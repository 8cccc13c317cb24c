"""A real Kubernetes control plane as plain processes in a folder: etcd, kube-apiserver, kube-controller-manager, KWOK.

It needs no root and no containers. All its files are in its folder, and all its programs listen on the loopback
address; any number of control planes live side by side on one machine. The processes go on when the command that
started them ends or is killed; ``down`` ends them and removes the folder.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import tenacity

from kailab.cluster.controlplane import cluster_folder, programs
from kailab.cluster.controlplane.cluster_folder import ControlPlaneRecord
from kailab.cluster.controlplane.ports import free_ports
from kailab.cluster.controlplane.programs import APISERVER, CONTROLLERS, ETCD, KWOK, PORTS, SCHEDULER, Programs
from kailab.cluster.controlplane.supervision import (
    RESTART_GRACE_SECONDS,
    ControlPlaneFailed,
    ProcessStatus,
    SupervisedCluster,
    Supervision,
    tail,
)
from kailab.cluster.polling import wait_until
from kailab.cluster.processes import this_process
from kailab.errors import StateError
from kailab.model.callbacks import Tell

if TYPE_CHECKING:
    from kailab.components import ComponentSet

_log = logging.getLogger(__name__)

READY_SECONDS = 300.0  # a start takes seconds on a quiet machine
POLL_SECONDS = 0.05
SPAWNED_GRACE_SECONDS = 5.0
_PORT_TRIES = 5
_PORT_TAKEN = "address already in use"  # in the log of a Go program that could not listen


class _PortTaken(ControlPlaneFailed):
    """Somebody took a port between our check and the start of the process."""


class ControlPlane(SupervisedCluster):
    """A control plane. Made by ``up`` and ``attach``."""

    own = PORTS

    def __init__(self, folder: Path, known: ControlPlaneRecord) -> None:
        super().__init__(folder)
        self._known = known
        self._programs = Programs(folder, known.ports, {name: Path(path) for name, path in known.binaries.items()})

    @classmethod
    def up(
        cls,
        folder: Path,
        components: ComponentSet,
        *,
        kube_scheduler: bool = False,
        stages: Path | None = None,
        tell: Tell | None = None,
    ) -> ControlPlane:
        """Start one, and return when the API is ready and the namespace ``default`` has its ServiceAccount.

        ``folder``: new, empty, or left over from an interrupted start. ``stages``: a file of KWOK stages, None:
        kailab's own. ``tell``: gets progress messages. Raises StateError for a folder that can't be used,
        ControlPlaneFailed with the last log lines of the failed process; then nothing is left.
        """
        folder = cluster_folder.claim_folder(folder)
        tell = tell or (lambda _: None)
        try:
            binaries = {name: str(path) for name, path in programs.binaries_of(components).items()}
            names = [APISERVER, CONTROLLERS, KWOK, *([SCHEDULER] if kube_scheduler else [])]
            retry = tenacity.Retrying(
                stop=tenacity.stop_after_attempt(_PORT_TRIES),
                retry=tenacity.retry_if_exception_type(_PortTaken),
                before_sleep=tenacity.before_sleep_log(_log, logging.DEBUG),
                reraise=True,
            )
            # Each try has new ports, and clears what the previous one left.
            plane: ControlPlane = retry(cls._started, folder, components.kubernetes, binaries, names, stages, tell)
        except BaseException as error:
            cluster_folder.remove(folder)
            if isinstance(error, OSError):
                raise ControlPlaneFailed(f"{folder}: a control plane can't be made: {error}") from error
            raise
        return plane

    @classmethod
    def _started(
        cls,
        folder: Path,
        kubernetes: str,
        binaries: Mapping[str, str],
        names: Sequence[str],
        stages: Path | None,
        tell: Tell,
    ) -> ControlPlane:
        cluster_folder.clear(folder)
        known = ControlPlaneRecord(
            kubernetes=kubernetes,
            ports=dict(zip(PORTS, free_ports(len(PORTS)))),
            binaries=dict(binaries),
            starter=this_process(),
            created=time.time(),
        )
        known.write(folder)
        plane = cls(folder, known)
        plane._programs.prepare(stages)
        # The others are clients of the API server: started when it is ready, they need no retries.
        first, later = (ETCD, APISERVER), [name for name in names if name != APISERVER]
        tell(f"starting {' and '.join(first)}")
        plane._start(first)
        plane._await(first)
        tell(f"starting {', '.join(later)}")
        plane._start(later)
        plane._await(later, alive=[*first, *later])
        plane._known = known.as_ready()
        plane._known.write(folder)
        return plane

    @classmethod
    def attach(cls, folder: Path) -> ControlPlane:
        """The control plane in a folder, whether its processes run or not. Raises StateError if there is none, or it is
        incomplete."""
        folder = cluster_folder.resolve_folder(folder)
        known = cluster_folder.read_cluster_folder(folder)
        if not known.ready:
            known.refuse_if_used(folder, "started")
            raise StateError(f"{folder}: {known.interrupted}")
        return cls(folder, known)

    @property
    def kubeconfig(self) -> Path:
        """For an administrator, mode 0600."""
        return self._programs.kubeconfig

    @property
    def server(self) -> str:
        return self._programs.server

    @property
    def kubernetes(self) -> str:
        """The version, with its ``v``."""
        return self._known.kubernetes

    @property
    def created(self) -> float:
        """Seconds since the epoch."""
        return self._known.created

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig for another user of the API, with the rights that RBAC bindings give."""
        if not user:
            raise StateError("a user of the API needs a name")
        plain = "".join(sign if sign.isalnum() or sign in "-." else "-" for sign in user)[:40]
        # Names that are equal once shortened get files of their own.
        whole = hashlib.sha256("\n".join((user, *groups)).encode()).hexdigest()[:8]
        return self._programs.identity(f"user-{plain}-{whole}", user, tuple(groups))

    def missing(self, name: str) -> str | None:
        """Check a program once: None if it works, else what it lacks."""
        return self._programs.lack(name)

    def start_kube_scheduler(self) -> None:
        """Start kube-scheduler, and return when it works."""
        self._start([SCHEDULER])
        self._await([SCHEDULER])

    def restart(self, name: str, grace: float = RESTART_GRACE_SECONDS) -> None:
        """See ``SupervisedCluster``. KWOK restarts with the API server or its store: it gives up a change that was
        answered with 500 or cut off (KWOK v0.7.0, shouldRetry), so a pod just bound would never run; at its start it
        looks at all pods."""
        super().restart(name, grace)
        running = {process.name for process in self.processes() if process.running}
        if name in (ETCD, APISERVER) and {APISERVER, KWOK} <= running:
            self._await([APISERVER])
            self.restart(KWOK)

    def down(self) -> None:
        """End all processes, spawned ones gracefully; remove the folder. Calling it again does nothing."""
        take_down(self.folder)

    def _start(self, names: Sequence[str]) -> None:
        for name in names:
            self._supervision.start(self._programs.record(name))

    def _await(self, names: Sequence[str], alive: Sequence[str] = ()) -> None:
        """Wait until these work. Raises ControlPlaneFailed at once if one of them, or of ``alive``, ends."""
        lacking: dict[str, str] = {}

        def all_work() -> bool:
            lacking.clear()
            # A process that has ended is reported at once, with its last log lines, instead of after the whole wait.
            for record in self._supervision.records():
                if record.name in (*names, *alive) and not (process := self._supervision.status(record)).running:
                    raise self._failure(process)
            for name in names:
                if lack := self._programs.lack(name):
                    lacking[name] = lack
                    return False
            return True

        if not wait_until(all_work, READY_SECONDS, pause=POLL_SECONDS):
            name, lack = next(iter(lacking.items()))
            words = "\n".join(f"  {line[:300]}" for line in tail(self.log(name))[-5:])
            raise ControlPlaneFailed(
                f"{name} is not ready after {READY_SECONDS:g} s: {lack}; the last lines of its log:\n{words}"
            )

    def _failure(self, process: ProcessStatus) -> ControlPlaneFailed:
        taken = any(_PORT_TAKEN in line for line in tail(process.log))
        kind = _PortTaken if taken else ControlPlaneFailed
        return kind(f"{process.name} does not run: {process.why}")


def take_down(folder: Path) -> None:
    """End and remove the control plane in a folder, in whatever state it is. Raises StateError if the folder is not a
    control plane's, or if something can't be ended or removed."""
    folder = cluster_folder.resolve_folder(folder)
    supervision = Supervision(folder)
    if folder.is_dir():
        # Spawned ones first, gracefully: a scheduler writes its last data while the API still answers.
        supervision.stop([record.name for record in supervision.records() if record.spawned], SPAWNED_GRACE_SECONDS)
    cluster_folder.remove(folder)
