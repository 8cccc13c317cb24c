"""What events say of objects. An event tells what was once; whether it is still so is asked of the objects themselves."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from kailab.cluster.protocol import Object

if TYPE_CHECKING:
    from kailab.lab.lab import Lab


def latest_event(lab: Lab, uids: Container[str], reason: str = "") -> Object | None:
    """The event of these objects that happened last. ``reason``: of that reason alone."""
    found = [
        event
        for event in lab.cluster.list("Event")
        if (event.get("involvedObject") or {}).get("uid") in uids and reason in ("", event.get("reason"))
    ]
    return max(found, key=lambda event: str(event.get("lastTimestamp") or ""), default=None)
