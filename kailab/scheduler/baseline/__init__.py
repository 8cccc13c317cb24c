"""The baseline for comparison: places pods one by one, as kube-scheduler does (``loop``), over arrays of nodes (``table``)."""

from kailab.scheduler.baseline.loop import Baseline

__all__ = ["Baseline"]
