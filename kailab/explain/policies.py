"""What a configured policy had to do with it: the score of a waiting job, its age, a victim that saves its state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from kailab.cluster.protocol import Object
from kailab.engine.decisions import Numbers
from kailab.model import labels
from kailab.model.times import format_time

_PARTS: tuple[Literal["priority", "waiting", "efficiency", "fairness"], ...] = (
    "priority",
    "waiting",
    "efficiency",
    "fairness",
)


def policy_lines(numbers: Numbers) -> Iterable[str]:
    """For a job that waits: why it stands where it stands, under an order other than KAI's."""
    if "aged_since" in numbers:
        yield f"Aged: it waits since {format_time(numbers['aged_since'])}, long enough to come before all others of its queue."
    if "score" in numbers:
        score = numbers["score"]
        each = {part: score[part] for part in _PARTS}
        parts = " + ".join(f"{part} {value:.3f} x {weight:g}" for part, (value, weight) in each.items())
        yield f"Score: {score['total']:.3f} = {parts}."
    if "policy" in numbers:
        key = ", ".join(f"{part:g}" for part in numbers["policy"]["key"])
        yield f"Order of jobs: the policy {numbers['policy']['name']!r} gives it {key}; the smallest comes first."


def saving_lines(pod: Object) -> Iterable[str]:
    """For a pod that leaves: whether it was asked to save its state, and until when it may."""
    metadata = pod["metadata"]
    asked = (metadata.get("annotations") or {}).get(labels.CHECKPOINT_REQUESTED)
    if asked and "deletionTimestamp" in metadata:
        yield (
            f"It saves its state since {asked} and keeps its GPUs meanwhile, until {metadata['deletionTimestamp']} at the "
            "latest."
        )
