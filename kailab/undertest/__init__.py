"""Schedulers under test: one contract (``contract``), a table of those that there are (``registry``), and a room for each."""

from kailab.undertest.naming import chosen
from kailab.undertest.registry import SCHEDULERS, Clash, SchedulerKind

__all__ = ["SCHEDULERS", "Clash", "SchedulerKind", "chosen"]
