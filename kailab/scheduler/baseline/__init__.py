"""The contrast: pods placed one by one, as kube-scheduler does."""

from kailab.scheduler.baseline.loop import Baseline

__all__ = ["Baseline"]
