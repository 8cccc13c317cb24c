"""The kind backend: a kind cluster, made through pytest-kind, with KWOK beside it."""

from kailab.cluster.kind.choices import check_kind, kind_reason
from kailab.cluster.kind.external import with_fake_nodes
from kailab.cluster.kind.plane import KindPlane, take_down

__all__ = ["KindPlane", "check_kind", "kind_reason", "take_down", "with_fake_nodes"]
