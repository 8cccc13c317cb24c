"""An open lab as the modules see it that ``Lab`` calls: ``Lab`` imports them, so they can't import it. ``LabActivity`` reports their steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kailab.scheduler.observers import Observers

if TYPE_CHECKING:
    from kailab.cluster.protocol import Object
    from kailab.cluster.writes import Subresource
    from kailab.evidence.decision_log import DecisionLog
    from kailab.lab.answer import Answer
    from kailab.lab.intake import Applied, Source
    from kailab.lab.picture import Picture
    from kailab.lab.seen_names import SeenNames
    from kailab.lab.spec import LabSpec
    from kailab.lab.unknown_fields import Validation
    from kailab.lab.venues.contract import LabCluster, Venue
    from kailab.undertest.contract import SchedulerUnderTest


class OpenLab(Protocol):
    """A lab. ``kailab.lab.lab.Lab`` implements this and describes each member."""

    venue: Venue
    spec: LabSpec
    cluster: LabCluster
    base: Path | None
    observers: Observers
    log: DecisionLog
    seen_names: SeenNames
    last_expectation: str
    shares_pictures: bool

    @property
    def scheduler(self) -> str: ...

    @property
    def under_test(self) -> SchedulerUnderTest: ...

    @property
    def now(self) -> float: ...

    def facts(self) -> dict[str, Any]: ...

    def kind(self, text: str) -> str: ...

    def space_of(self, kind: str, name: str, namespace: str | None) -> str | None: ...

    def apply(
        self,
        *sources: Source,
        namespace: str = "default",
        strict: bool = False,
        validate: Validation = "strict",
        together: bool = False,
    ) -> Applied: ...

    def delete(self, kind: str | Path, name: str | None = None, namespace: str = "default") -> Applied: ...

    def patch(
        self,
        kind: str,
        name: str,
        patch: dict[str, Any],
        namespace: str = "default",
        subresource: Subresource = "",
    ) -> Object: ...

    def picture(self, like: Picture | None = None) -> Picture: ...

    def settle(self, between: Callable[[], None] | None = None) -> None: ...

    def settle_if_changed(self, between: Callable[[], None] | None = None) -> None: ...

    def advance(self, seconds: float) -> None: ...

    def moments(self, seconds: float, *, before: bool = False, rested: bool = False) -> Iterator[bool]: ...

    def explain(
        self,
        kind: str,
        name: str,
        namespace: str = "default",
        *,
        everything: bool = False,
        tried: bool = True,
        picture: Picture | None = None,
    ) -> Answer: ...

    def noted_expectation(self, subject: str, expected: str, seen: str, held: bool) -> None: ...


class LabActivity:
    """Reports each step to the observers. ``unsettled``: the lab has been changed since it last settled;
    ``applied``: something was applied since."""

    def __init__(self, observers: Observers) -> None:
        self._observers = observers
        self.unsettled = True
        self.applied = False

    def report_change(self, operation: str, text: str, **detail: Any) -> None:
        """Report a step that changed objects of the lab."""
        self.unsettled = True
        self.applied |= operation == "apply"
        self._observers.on_step(operation, text, **detail)

    def report_settled(self) -> None:
        self.unsettled = self.applied = False
        self._observers.on_step("settle", state=True)

    def report_advanced(self, seconds: float) -> None:
        self.unsettled = True
        self._observers.on_step("advance", f"{seconds:g} s", state=True, seconds=seconds)
