"""Facts of a lab for its record: enough to open the same lab again."""

from __future__ import annotations

from typing import Any

import msgspec

from kailab.engine.snapshot.records import GPU
from kailab.evidence.entries import LabFacts, LabSettings
from kailab.lab.open_lab import OpenLab
from kailab.scheduler.reading.accounts import GpuAccounts
from kailab.version import __version__


def describe_lab(lab: OpenLab) -> dict[str, Any]:
    """The lab's settings and the size of its fleet, as plain values."""
    nodes = lab.cluster.list("Node")
    # Without pods, because only the offers of nodes are needed.
    accounts = GpuAccounts(lab.cluster, (), {})
    gpus = sum(accounts.offered(node) for node in nodes) // GPU
    return {
        "fleet": lab.spec.fleet,
        "backend": lab.venue.backend,
        "scheduler": lab.scheduler,
        **({"kubernetes": lab.venue.kubernetes} if lab.venue.kubernetes else {}),
        "config": msgspec.to_builtins(lab.spec.config),
        **({"adopt_default_scheduler": True} if lab.spec.adopt_default_scheduler else {}),
        **({"devices": True} if lab.spec.devices else {}),
        "nodes": len(nodes),
        "gpus": gpus,
    }


def lab_facts(lab: OpenLab) -> LabFacts:
    """The facts of a lab with its settings and versions."""
    counted, kind = lab.facts(), lab.under_test.kind
    return LabFacts(
        fleet=lab.spec.fleet,
        backend=lab.venue.backend,
        scheduler=lab.scheduler,
        nodes=counted["nodes"],
        gpus=counted["gpus"],
        settings=LabSettings(
            engine=lab.spec.config, usage=lab.spec.usage, adopt_default_scheduler=lab.spec.adopt_default_scheduler
        ),
        versions={"kailab": __version__, **lab.venue.versions(lab.under_test)},
        devices=lab.spec.devices,
        scheduler_kind=kind if kind != lab.scheduler else "",
    )
