"""What all schedulers have in common that are local programs beside a plane."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import tenacity

from kailab.undertest import programs
from kailab.undertest.contract import Beside, Plane

if TYPE_CHECKING:
    from kailab.components import Addon

_PORT_TRIES = 5


class ProgramsBeside(Beside):
    """Its processes are those that ``names`` lists."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    def check(self) -> None:
        programs.check(self._plane, self.names)

    def stop(self) -> None:
        programs.stop(self._plane, self.names)


class AddonBeside(ProgramsBeside):
    """One program, which ``kailab components get --with`` gets. ``name``: of the add-on, its program and the process."""

    name: ClassVar[str]

    @cached_property
    def _addon(self) -> Addon:
        """Raises MissingComponents where it was not got."""
        from kailab.components import find_addon

        return find_addon(self.name)

    @property
    def names(self) -> Sequence[str]:
        return (self.name,)

    def version(self) -> str:
        return f"{self.name} {self._addon.version}"


def on_free_ports(start: Callable[[], None]) -> None:
    """Call ``start`` until nobody takes a port from it; it is to choose its ports anew each time. Raises PortTaken after five tries, and what else
    it raises at once."""
    tenacity.Retrying(
        stop=tenacity.stop_after_attempt(_PORT_TRIES),
        retry=tenacity.retry_if_exception_type(programs.PortTaken),
        reraise=True,
    )(start)
