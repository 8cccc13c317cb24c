"""Benchmarks of the whole lab: the time from Jobs to running pods, by phase. The set-ups are those of KAI's scale tests."""

from __future__ import annotations

from benchmarks.lab_runs.fill import fill
from benchmarks.lab_runs.gang import gang
from benchmarks.lab_runs.measured import BenchmarkResult, Measured
from benchmarks.lab_runs.mixed import mixed
from benchmarks.lab_runs.reclaim import reclaim
from benchmarks.lab_runs.unschedulable import unschedulable

__all__ = ["Measured", "BenchmarkResult", "fill", "gang", "mixed", "reclaim", "unschedulable"]
