"""Benchmarks of the whole lab: jobs in, pods running, time per phase out. The shapes are those of KAI's scale tests."""

from __future__ import annotations

from kailab.bench.fill import fill
from kailab.bench.gang import gang
from kailab.bench.measured import Measured, Outcome
from kailab.bench.mixed import mixed
from kailab.bench.reclaim import reclaim
from kailab.bench.unschedulable import unschedulable

__all__ = ["Measured", "Outcome", "fill", "gang", "mixed", "reclaim", "unschedulable"]
