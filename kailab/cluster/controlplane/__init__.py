"""A real Kubernetes control plane as plain processes: no root, no containers."""

from kailab.cluster.controlplane.plane import ControlPlane, take_down
from kailab.cluster.controlplane.planefolder import running
from kailab.cluster.controlplane.supervised import ControlPlaneFailed
from kailab.cluster.controlplane.supervision import Process

__all__ = ["ControlPlane", "ControlPlaneFailed", "Process", "running", "take_down"]
