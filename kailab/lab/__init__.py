"""One lab and its life: a cluster, a fleet and a scheduler under test, and the words to ask and expect with.

>>> from kailab.lab import Lab, expect
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kailab.exports import on_demand

if TYPE_CHECKING:
    from kailab.explain.answer import Answer
    from kailab.lab.amounts import at_least, at_most, between
    from kailab.lab.expectations import Expectation, expect
    from kailab.lab.lab import Lab
    from kailab.lab.subjects import Subject
    from kailab.lab.temporal import eventually, never, stays
else:
    __getattr__ = on_demand(
        __name__,
        {
            "at_least": "amounts",
            "at_most": "amounts",
            "between": "amounts",
            "Expectation": "expectations",
            "expect": "expectations",
            "Answer": "kailab.explain.answer",
            "Lab": "lab",
            "Subject": "subjects",
            "eventually": "temporal",
            "never": "temporal",
            "stays": "temporal",
        },
    )

__all__ = [
    "Expectation",
    "Answer",
    "Lab",
    "Subject",
    "at_least",
    "at_most",
    "between",
    "eventually",
    "expect",
    "never",
    "stays",
]
