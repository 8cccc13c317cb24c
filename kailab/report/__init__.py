"""A run told to people: what was expected, what was seen, and why."""

from kailab.report.summary import FORMATS, render

__all__ = ["FORMATS", "render"]
