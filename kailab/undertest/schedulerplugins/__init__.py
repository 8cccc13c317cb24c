"""Kubernetes SIG scheduler-plugins: kube-scheduler with coscheduling and capacity scheduling, as a process beside a plane."""

from kailab.undertest.schedulerplugins.scheduler import SchedulerPlugins

__all__ = ["SchedulerPlugins"]
