"""One thing taken away from the input of a cycle."""

from __future__ import annotations

from dataclasses import dataclass

from kailab.engine.relaxing.draft import Draft


@dataclass(frozen=True)
class Relaxation:
    """A value: equal ones change the same. Those of queue rules are in ``queue_rules``, those of other work in ``others``."""

    def change(self, draft: Draft) -> None:
        """Make the change in the draft."""
        raise NotImplementedError
