"""Check manifests against rules of good practice. Each finding has its rule, its place, a reason and a cure.

``rules`` has the rules, ``checks`` and ``checking`` find.
"""

from __future__ import annotations

from kailab.advice.practice.checking import lint
from kailab.advice.practice.rules import RULES, PracticeFinding, PracticeRule

__all__ = ["RULES", "PracticeFinding", "PracticeRule", "lint"]
