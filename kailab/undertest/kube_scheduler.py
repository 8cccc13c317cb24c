"""kube-scheduler, the contrast, as a process of a control plane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kailab.undertest import programs

if TYPE_CHECKING:
    from kailab.cluster.controlplane import ControlPlane

NAME = "kube-scheduler"


def start_kube_scheduler(plane: ControlPlane) -> None:
    """Start it, and return when it works. Raises ControlPlaneFailed, with its last words."""
    plane.start_kube_scheduler()


def check_kube_scheduler(plane: ControlPlane) -> None:
    """Raises SchedulerFailed, with its last words, if it has ended."""
    programs.check(plane, [NAME])


def stop_kube_scheduler(plane: ControlPlane) -> None:
    programs.stop(plane, [NAME])
