"""Least attained service that is asked each second, so that a simulator knows when."""

from __future__ import annotations

from typing import ClassVar

from kailab.policies.orders import LeastAttained


class EverySecond(LeastAttained, frozen=True):
    refresh: ClassVar[float | None] = 1.0
