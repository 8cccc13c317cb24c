"""kailab's scheduler, with the stand-in of kube-scheduler beside it in the same embedded cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kailab.undertest.contract import Wiring, Within
from kailab.undertest.kailab import Kailab


@dataclass(frozen=True)
class Together(Kailab):
    """Each places the pods that name it, on nodes that both see. Neither knows what the other is about to do; what is placed only takes
    room. What the default scheduler decides is not among kailab's decisions."""

    title = "kailab and kube-scheduler"
    has_default = True

    def within(self, wiring: Wiring) -> Within:
        from kailab.scheduler.baseline import Baseline

        found = super().within(wiring)
        # First: it is never told to wait, while kailab's waits for a cycle.
        return replace(found, controllers=(*found.controllers, Baseline(wiring.cluster)))

    def version(self, live: bool) -> str:
        return f"{super().version(live)}, with a stand-in of kube-scheduler beside it"
