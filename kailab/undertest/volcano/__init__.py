"""Volcano: a folder of its programs, as processes beside a plane."""

from kailab.undertest.volcano.scheduler import Volcano

__all__ = ["Volcano"]
