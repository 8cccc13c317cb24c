"""What a lab is made of, as its record tells it: enough to open the same again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from kailab import __version__

if TYPE_CHECKING:
    from kailab.lab.lab import Lab

STAND_IN = "kube-scheduler (stood in for by kailab {version})"
ELSEWHERE = "{scheduler} unknown (it runs in a cluster that is somebody else's, and tells nobody its version)"


def told(lab: Lab, versions: Mapping[str, str]) -> dict[str, Any]:
    """The facts of a lab with its settings and versions. ``versions``: of what runs on a real cluster, by program."""
    facts = lab.facts()
    settings = {
        "engine": facts.pop("config"),
        "usage": msgspec.to_builtins(lab.usage),
        "adopt_default_scheduler": facts.pop("adopt_default_scheduler", False),
    }
    facts.pop("kubernetes", None)
    known = {"kailab": __version__, "scheduler": _scheduler(lab), **versions}
    if lab.backend == "embedded":
        known["kubernetes"] = f"none (kailab {__version__} stands in for the API server)"
    return {**facts, "settings": settings, "versions": known}


def _scheduler(lab: Lab) -> str:
    """What decided, where the cluster's programs do not say it."""
    if lab.scheduler == "kailab":
        return f"kailab {__version__}"
    if lab.backend == "embedded":
        return STAND_IN.format(version=__version__)
    return ELSEWHERE.format(scheduler=lab.scheduler)
