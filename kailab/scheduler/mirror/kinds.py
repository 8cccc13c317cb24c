"""The kinds of objects that a mirror looks at."""

from __future__ import annotations

from kailab.scheduler.reading import references

CLAIM_KINDS = ("DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")
KINDS = (
    "Namespace", "PriorityClass", "Topology", *CLAIM_KINDS, *references.KINDS, "NodeResourceTopology", "Node", "Queue",
    "PodGroup", "Pod",
)  # fmt: skip
"""What is watched, in the order in which it is taken in."""

COUNTED_KINDS = ("PriorityClass", *CLAIM_KINDS, "Node", "Queue", "PodGroup", "Pod")
"""What is enough to count who holds what, and to know whose turn it is; not to place anything."""
