"""The mirror: watched objects as the engine's records.

``mirror.Mirror`` takes in watch events and updates the engine's working set. ``pod_shapes`` makes the shape of each pod;
``gpu_reservations`` counts the reservation pods of shared GPUs.
"""

from kailab.scheduler.mirror.mirror import COUNTED_KINDS, KINDS, Mirror

__all__ = ["COUNTED_KINDS", "KINDS", "Mirror"]
