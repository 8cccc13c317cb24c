"""Schedulers under test: one contract (``contract``), a table of those that there are (``registry``), and a room for each."""

from kailab.undertest.registry import SCHEDULERS, BackendConflict, SchedulerKind
from kailab.undertest.selection import choose_scheduler

__all__ = ["SCHEDULERS", "BackendConflict", "SchedulerKind", "choose_scheduler"]
