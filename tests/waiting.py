"""Waiting for what is to come true on a real cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tenacity


def eventually(holds: Callable[[], Any]) -> None:
    """Fails only if something does not come true in the time that anything here could need."""
    tenacity.Retrying(
        wait=tenacity.wait_fixed(0.1),
        stop=tenacity.stop_after_delay(300),
        retry=tenacity.retry_if_result(lambda result: not result),
    )(holds)
