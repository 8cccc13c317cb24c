"""A real Kubernetes control plane as plain processes: no root, no containers."""

from kailab.cluster.controlplane.cluster_folder import running
from kailab.cluster.controlplane.control_plane import ControlPlane, take_down
from kailab.cluster.controlplane.supervision import ControlPlaneFailed, ProcessStatus

__all__ = ["ControlPlane", "ControlPlaneFailed", "ProcessStatus", "running", "take_down"]
