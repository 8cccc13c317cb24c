"""Fleets: described sets of fake nodes, read from YAML (format: fleets/README.md, ``schema.json``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kailab.exports import on_demand

if TYPE_CHECKING:
    from kailab.fleet.fleet import Fleet, FleetSummary, ModelSummary, Pool, fleet_definition
    from kailab.fleet.library import available_fleets, find_fleet
    from kailab.fleet.reading import load_fleet, read_fleet

__all__ = [
    "Fleet",
    "FleetSummary",
    "ModelSummary",
    "Pool",
    "available_fleets",
    "fleet_definition",
    "find_fleet",
    "load_fleet",
    "read_fleet",
]


__getattr__ = on_demand(
    __name__,
    {
        "Fleet": "fleet",
        "FleetSummary": "fleet",
        "ModelSummary": "fleet",
        "Pool": "fleet",
        "available_fleets": "library",
        "fleet_definition": "fleet",
        "find_fleet": "library",
        "load_fleet": "reading",
        "read_fleet": "reading",
    },
)
