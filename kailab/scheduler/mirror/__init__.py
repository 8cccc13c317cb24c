"""The scheduler's picture of the cluster: objects as they are watched, kept as the engine's records."""

from kailab.scheduler.mirror.mirror import COUNTED_KINDS, KINDS, Mirror

__all__ = ["COUNTED_KINDS", "KINDS", "Mirror"]
