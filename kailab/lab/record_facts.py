"""What a lab is made of, as its record tells it: enough to open the same again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kailab import __version__
from kailab.evidence.entries import LabFacts, Settings

if TYPE_CHECKING:
    from kailab.lab.lab import Lab


def told(lab: Lab) -> LabFacts:
    """The facts of a lab with its settings and versions."""
    counted, kind = lab.facts(), lab.under_test.kind
    return LabFacts(
        fleet=lab.fleet,
        backend=lab.backend,
        scheduler=lab.scheduler,
        nodes=counted["nodes"],
        gpus=counted["gpus"],
        settings=Settings(engine=lab.config, usage=lab.usage, adopt_default_scheduler=lab.adopt_default_scheduler),
        versions={"kailab": __version__, **lab.venue.versions(lab.under_test)},
        devices=lab.devices,
        scheduler_kind=kind if kind != lab.scheduler else "",
    )
