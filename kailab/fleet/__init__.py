"""Fleets: described sets of fake nodes, read from YAML (format: fleets/README.md, ``schema.json``)."""

from kailab.fleet.definition import definition
from kailab.fleet.fleet import Fleet, FleetSummary, ModelSummary, Pool
from kailab.fleet.library import available_fleets, find_fleet
from kailab.fleet.reading import load_fleet, read_fleet

__all__ = [
    "Fleet",
    "FleetSummary",
    "ModelSummary",
    "Pool",
    "available_fleets",
    "definition",
    "find_fleet",
    "load_fleet",
    "read_fleet",
]
