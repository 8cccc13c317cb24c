"""Engine amounts as people write them, for messages."""

from __future__ import annotations

from math import inf


def number(value: float) -> str:
    """At most three decimals, no trailing zeros."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


def gpus_text(milli: float) -> str:
    return "unlimited" if milli == inf else number(milli / 1000)


def quantity_text(r: int, amount: float) -> str:
    """An amount of queue resource ``r`` (0 CPU, 1 memory, 2 GPU) with its unit."""
    if amount == inf:
        return "unlimited"
    if r == 2:
        return f"{number(amount / 1000)} GPU"
    if r == 0:
        return f"{number(amount / 1000)} CPU"
    return f"{number(amount / 1e9)} GB memory"
