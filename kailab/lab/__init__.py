"""One lab and its life: a cluster, a fleet and a scheduler under test, and the words to ask and expect with.

>>> from kailab.lab import Lab, expect
"""

from __future__ import annotations

from kailab.lab.expect import at_least, at_most, between, expect
from kailab.lab.explain import Explanation
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
