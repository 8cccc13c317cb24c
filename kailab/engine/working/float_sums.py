"""Sums of floats in which each addition is rounded, as in KAI. ``sum`` corrects the rounding from Python 3.12 on."""

from __future__ import annotations

from collections.abc import Iterable


def sum_in_turn(amounts: Iterable[float]) -> float:
    """The amounts added one after the other."""
    total = 0.0
    for amount in amounts:
        total += amount
    return total
