"""Rules for fields that come to the same whatever else is said: read for their form, or taken as a switch."""

from __future__ import annotations

from collections.abc import Callable

from kailab.advice.policykinds.building import Building
from kailab.advice.policykinds.meaning import Given, Meaning

Rule = Callable[[Given, Building], Meaning]
"""What a field comes to. Raises InputError for what it can't say."""


def always_means(meaning: Meaning, read: Callable[[Given], object] = lambda given: None) -> Rule:
    """The same for every value that can be ``read``."""

    def rule(given: Given, building: Building) -> Meaning:
        read(given)
        return meaning

    return rule


def switch(on: Meaning, off: Meaning) -> Rule:
    """Of true and false."""

    def rule(given: Given, building: Building) -> Meaning:
        return on if given.flag() else off

    return rule
