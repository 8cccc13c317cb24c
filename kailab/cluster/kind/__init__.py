"""The kind backend: a kind cluster, made through pytest-kind, with KWOK beside it."""

from kailab.cluster.kind.kind_cluster import KindPlane, take_down, with_fake_nodes
from kailab.cluster.kind.options import check_kind, kind_reason

__all__ = ["KindPlane", "check_kind", "kind_reason", "take_down", "with_fake_nodes"]
