"""What would let work run: for each cause the changes that take it away, tried on copies of the lab."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kailab.lab.explain.answer import Step
from kailab.lab.explain.subject import Standing

if TYPE_CHECKING:
    from kailab.lab.explain.cause import Cause


def steps_for(standing: Standing, causes: Sequence[Cause]) -> tuple[Step, ...]:
    """The best first. ``causes``: of the whole subject, the first first."""
    return ()
