"""kube-scheduler, the contrast, as a local process beside a control plane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kailab.cluster.controlplane.ports import free_ports
from kailab.undertest import programs
from kailab.undertest.programs import Program, answers

if TYPE_CHECKING:
    from kailab.cluster.controlplane import ControlPlane
    from kailab.components import ComponentSet

NAME = "kube-scheduler"


def start_kube_scheduler(plane: ControlPlane, components: ComponentSet) -> None:
    """Start it, and return when it says that it is ready, which it does once it knows all nodes and pods. Raises
    SchedulerFailed."""
    (port,) = free_ports(1)
    kubeconfig = str(plane.kubeconfig)
    arguments = (
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        # One process is its own leader; a lease left behind would make the next one wait.
        "--leader-elect=false",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
    )
    program = Program(NAME, components.path(NAME), arguments, answers(f"https://127.0.0.1:{port}/readyz"))
    programs.run(plane, [program])


def check_kube_scheduler(plane: ControlPlane) -> None:
    """Raises SchedulerFailed, with its last words, if it has ended."""
    programs.check(plane, [NAME])


def stop_kube_scheduler(plane: ControlPlane) -> None:
    programs.stop(plane, [NAME])
