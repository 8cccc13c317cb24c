"""Kueue as a scheduler under test: it admits work by quota, and kube-scheduler places what is admitted."""

from kailab.undertest.kueue.scheduler import Kueue

__all__ = ["Kueue"]
