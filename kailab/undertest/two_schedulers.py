"""Two schedulers in one cluster: kailab or a real KAI, and the default scheduler of Kubernetes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kailab import __version__
from kailab.model.objects import Object
from kailab.undertest.contract import PROCESS_QUIET_SECONDS, InProcessScheduler, SchedulerUnderTest, SchedulerWiring
from kailab.undertest.kai import Kai
from kailab.undertest.kailab import Kailab
from kailab.undertest.kube_scheduler import KubeScheduler

_DEFAULT = KubeScheduler("kube-scheduler", "kube-scheduler")


@dataclass(frozen=True)
class TwoSchedulers(SchedulerUnderTest):
    """Each of the two places the pods that name it, on nodes that both see. Neither knows what the other is about to do; what is placed only
    takes room."""

    has_default = True

    @property
    def companion(self) -> SchedulerUnderTest:
        return _DEFAULT

    def answers(self, pod: Object) -> bool:
        return super().answers(pod) or _DEFAULT.answers(pod)


@dataclass(frozen=True)
class KailabAndKubeScheduler(TwoSchedulers, Kailab):
    """What the default scheduler decides is not among kailab's decisions. In the embedded cluster both take turns in this process."""

    title = "kailab and kube-scheduler"
    quiet_seconds = PROCESS_QUIET_SECONDS

    def within(self, wiring: SchedulerWiring) -> InProcessScheduler:
        found = super().within(wiring)
        if wiring.live:
            return found
        from kailab.scheduler.baseline import Baseline

        # First: it is never told to wait, while kailab's waits for a cycle.
        return replace(found, controllers=(*found.controllers, Baseline(wiring.cluster)))

    def version(self, live: bool) -> str:
        default = "kube-scheduler" if live else "a stand-in of kube-scheduler"
        return f"kailab {__version__}, with {default} beside it"


@dataclass(frozen=True)
class KaiAndKubeScheduler(TwoSchedulers, Kai):
    """A real KAI, as it is where it was installed beside the default scheduler."""

    title = "KAI and kube-scheduler"
