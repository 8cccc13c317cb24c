"""What was done to a lab since it last settled."""

from __future__ import annotations

from typing import Any

from kailab.scheduler.observers import Observers


class LabActivity:
    """Reports each step to the observers. ``unsettled``: the lab has been changed since it last settled."""

    def __init__(self, observers: Observers) -> None:
        self._observers = observers
        self.unsettled = True

    def report_change(self, operation: str, text: str, **detail: Any) -> None:
        """Report a step that changed objects of the lab."""
        self.unsettled = True
        self._observers.on_step(operation, text, **detail)

    def report_settled(self) -> None:
        self.unsettled = False
        self._observers.on_step("settle", state=True)

    def report_advanced(self, seconds: float) -> None:
        self.unsettled = True
        self._observers.on_step("advance", f"{seconds:g} s", state=True, seconds=seconds)
