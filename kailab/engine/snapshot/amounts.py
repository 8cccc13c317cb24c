"""Engine amounts as text for messages."""

from __future__ import annotations

from math import inf

import numpy as np

from kailab.model.quantities import format_bytes, is_bytes


def format_thousandths(value: float) -> str:
    """Format with at most three decimals and no trailing zeros."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


def moment_text(seconds: float) -> str:
    """Format a moment, given in seconds since the epoch, to the second."""
    # Not by datetime, which contains a clock.
    return f"{np.datetime64(int(seconds), 's')}Z"


def gpus_text(milli: float) -> str:
    return "unlimited" if milli == inf else format_thousandths(milli / 1000)


def quantity_text(r: int, amount: float) -> str:
    """An amount of queue resource ``r`` (0 CPU, 1 memory, 2 GPU) with its unit."""
    if amount == inf:
        return "unlimited"
    if r == 2:
        return f"{format_thousandths(amount / 1000)} GPU"
    if r == 0:
        return f"{format_thousandths(amount / 1000)} CPU"
    return f"{format_thousandths(amount / 1e9)} GB memory"


def resource_text(name: str, amount: int) -> str:
    """An amount of a node resource, by the resource's name, in the unit of manifests."""
    if is_bytes(name):
        return format_bytes(amount)
    return format_thousandths(amount / 1000) if name in ("cpu", "nvidia.com/gpu") else str(amount)
