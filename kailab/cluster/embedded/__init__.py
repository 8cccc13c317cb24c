"""The embedded cluster: everything in this process, in virtual time."""

from kailab.cluster.embedded.cluster import EmbeddedCluster
from kailab.cluster.embedded.storage.state_file import StateLock

__all__ = ["EmbeddedCluster", "StateLock"]
