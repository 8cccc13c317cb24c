"""What would let work run: for each cause the changes that take it away, tried on copies of the lab."""

from kailab.explain.steps.search import steps_for

__all__ = ["steps_for"]
