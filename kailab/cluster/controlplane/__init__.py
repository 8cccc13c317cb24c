"""A real Kubernetes control plane as plain processes: no root, no containers.

control_plane     ``ControlPlane``: start, attach, restart, take down
cluster_folder    its folder on disk, and the mark by which it is recognized
programs          the arguments of each program, and when it is ready
credentials       certificates and kubeconfigs
supervision       processes that outlive the command that started them
kwok              KWOK, for control planes and for kind clusters
"""

from kailab.cluster.controlplane.cluster_folder import running
from kailab.cluster.controlplane.control_plane import ControlPlane, take_down
from kailab.cluster.controlplane.supervision import ControlPlaneFailed

__all__ = ["ControlPlane", "ControlPlaneFailed", "running", "take_down"]
