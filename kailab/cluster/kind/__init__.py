"""The backend ``kind``: a kind cluster, made through pytest-kind, with KWOK beside it.

kind_cluster    ``KindPlane``: make, attach, take down; its folder; ``with_fake_nodes``
kind_command    the kind program
options         kind binary, node image, configuration
docker          the Docker engine, and its images
nodes           real nodes, prepared for a lab
"""

from kailab.cluster.kind.kind_cluster import KindPlane, take_down, with_fake_nodes
from kailab.cluster.kind.options import check_kind, kind_reason

__all__ = ["KindPlane", "check_kind", "kind_reason", "take_down", "with_fake_nodes"]
