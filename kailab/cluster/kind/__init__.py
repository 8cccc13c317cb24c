"""The kind backend: a kind cluster, made through pytest-kind, with KWOK beside it."""

from kailab.cluster.kind.choices import NODE_IMAGE, kind_reason
from kailab.cluster.kind.plane import KindPlane, take_down

__all__ = ["NODE_IMAGE", "KindPlane", "kind_reason", "take_down"]
