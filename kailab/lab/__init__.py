"""One lab and its life: a cluster, a fleet and a scheduler under test, and the words to ask and expect with.

>>> from kailab.lab import Lab, expect
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kailab.exports import on_demand

if TYPE_CHECKING:
    from kailab.lab.expectations import at_least, at_most, between, expect
    from kailab.lab.explain.explanation import Explanation
    from kailab.lab.lab import Lab
    from kailab.lab.temporal import eventually, never, stays

__all__ = [
    "Explanation",
    "Lab",
    "at_least",
    "at_most",
    "between",
    "eventually",
    "expect",
    "never",
    "stays",
]


__getattr__ = on_demand(
    __name__,
    {
        "Explanation": "explain.explanation",
        "Lab": "lab",
        "at_least": "expectations",
        "at_most": "expectations",
        "between": "expectations",
        "eventually": "temporal",
        "expect": "expectations",
        "never": "temporal",
        "stays": "temporal",
    },
)
