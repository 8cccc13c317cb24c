"""What a lab is made of, as its record tells it: enough to open the same again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kailab import __version__
from kailab.evidence.entries import LabFacts, Settings

if TYPE_CHECKING:
    from kailab.lab.lab import Lab

STAND_IN = "kube-scheduler (stood in for by kailab {version})"
ELSEWHERE = "{scheduler} unknown (it runs in a cluster that is somebody else's, and tells nobody its version)"


def told(lab: Lab, versions: Mapping[str, str]) -> LabFacts:
    """The facts of a lab with its settings and versions. ``versions``: of what runs on a real cluster, by program."""
    counted = lab.facts()
    known = {"kailab": __version__, "scheduler": _scheduler(lab), **versions}
    if lab.backend == "embedded":
        known["kubernetes"] = f"none (kailab {__version__} stands in for the API server)"
    return LabFacts(
        fleet=lab.fleet,
        backend=lab.backend,
        scheduler=lab.scheduler,
        nodes=counted["nodes"],
        gpus=counted["gpus"],
        settings=Settings(engine=lab.config, usage=lab.usage, adopt_default_scheduler=lab.adopt_default_scheduler),
        versions=known,
        devices=lab.devices,
    )


def _scheduler(lab: Lab) -> str:
    """What decided, where the cluster's programs do not say it."""
    if lab.scheduler == "kailab":
        return f"kailab {__version__}"
    if lab.backend == "embedded":
        return STAND_IN.format(version=__version__)
    return ELSEWHERE.format(scheduler=lab.scheduler)
