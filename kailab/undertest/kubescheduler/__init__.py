"""kube-scheduler, the contrast: a stand-in on the embedded cluster, the real one elsewhere."""

from kailab.undertest.kubescheduler.scheduler import KubeScheduler, KubeSchedulerBeside

__all__ = ["KubeScheduler", "KubeSchedulerBeside"]
