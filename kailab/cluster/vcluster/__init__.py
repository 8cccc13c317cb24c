"""Virtual clusters in a host cluster, made and deleted by the vcluster CLI."""

from kailab.cluster.vcluster.vcluster_command import HostCluster, find_tools, tools_reason
from kailab.cluster.vcluster.virtual_cluster import VclusterPlane, take_down

__all__ = ["HostCluster", "VclusterPlane", "find_tools", "take_down", "tools_reason"]
