"""The programs of a real control plane: the pinned set, found, downloaded or built."""

from kailab.components.pins import DEFAULT_KUBERNETES, KUBERNETES, PROGRAMS, Pin, pins
from kailab.components.sets import ComponentSet, MissingComponents, find_components

__all__ = [
    "DEFAULT_KUBERNETES",
    "KUBERNETES",
    "PROGRAMS",
    "ComponentSet",
    "MissingComponents",
    "Pin",
    "find_components",
    "pins",
]
