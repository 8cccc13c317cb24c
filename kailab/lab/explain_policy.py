"""What a configured policy had to do with it: the score of a waiting job, its age, a victim that saves its state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kailab.cluster.protocol import Object
from kailab.model import labels
from kailab.model.times import format_time

_PARTS = ("priority", "waiting", "efficiency", "fairness")


def order_lines(numbers: Mapping[str, Any]) -> Iterable[str]:
    """For a job that waits: why it stands where it stands, under an order other than KAI's."""
    since = numbers.get("aged_since")
    if since is not None:
        yield f"Aged: it waits since {format_time(since)}, long enough to come before all others of its queue."
    score = numbers.get("score")
    if score:
        parts = " + ".join(f"{name} {score[name][0]:.3f} x {score[name][1]:g}" for name in _PARTS)
        yield f"Score: {score['total']:.3f} = {parts}."


def saving_lines(pod: Object) -> Iterable[str]:
    """For a pod that leaves: whether it was asked to save its state, and until when it may."""
    metadata = pod["metadata"]
    asked = (metadata.get("annotations") or {}).get(labels.CHECKPOINT_REQUESTED)
    if asked and "deletionTimestamp" in metadata:
        yield (
            f"It saves its state since {asked} and keeps its GPUs meanwhile, until {metadata['deletionTimestamp']} at the "
            "latest."
        )
