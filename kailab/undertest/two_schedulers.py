"""Two schedulers in one cluster: kailab or a real KAI, and the default scheduler of Kubernetes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kailab.model.objects import Object
from kailab.undertest.contract import PROCESS_QUIET_SECONDS, InProcessScheduler, SchedulerUnderTest, SchedulerWiring
from kailab.undertest.kai import Kai
from kailab.undertest.kailab import Kailab
from kailab.undertest.kube_scheduler import KubeScheduler
from kailab.version import __version__

_DEFAULT = KubeScheduler("kube-scheduler", "kube-scheduler")


@dataclass(frozen=True)
class TwoSchedulers(SchedulerUnderTest):
    """Each scheduler places the pods that name it, on the same nodes. Neither knows the plans of the other; pods that it has placed only
    take room."""

    has_default = True

    @property
    def companion(self) -> SchedulerUnderTest:
        return _DEFAULT

    def answers(self, pod: Object) -> bool:
        return super().answers(pod) or _DEFAULT.answers(pod)


@dataclass(frozen=True)
class KailabAndKubeScheduler(TwoSchedulers, Kailab):
    """The default scheduler's decisions are not among kailab's. In the embedded cluster the two take turns in this process."""

    title = "kailab and kube-scheduler"
    quiet_seconds = PROCESS_QUIET_SECONDS

    def within(self, wiring: SchedulerWiring) -> InProcessScheduler:
        result = super().within(wiring)
        if wiring.live:
            return result
        from kailab.scheduler.baseline import Baseline

        # The default scheduler first, because only kailab's scheduler waits for a cycle.
        return replace(result, controllers=(*result.controllers, Baseline(wiring.cluster)))

    def version(self, live: bool) -> str:
        default = "kube-scheduler" if live else "a stand-in of kube-scheduler"
        return f"kailab {__version__}, with {default} beside it"


@dataclass(frozen=True)
class KaiAndKubeScheduler(TwoSchedulers, Kai):
    """A real KAI, as installed beside the default scheduler."""

    title = "KAI and kube-scheduler"
