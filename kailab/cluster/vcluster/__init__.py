"""Virtual clusters in a host cluster, made and deleted by the vcluster CLI."""

from kailab.cluster.vcluster.plane import VclusterPlane, take_down
from kailab.cluster.vcluster.tools import Host, Tools, find_tools, tools_reason

__all__ = ["Host", "Tools", "VclusterPlane", "find_tools", "take_down", "tools_reason"]
