"""Where labs live: one contract, and a module for each backend, loaded when it is used."""

from kailab.lab.venues.contract import LabCluster, Place, Provider, Request, RunningProcess, Venue, silent
from kailab.lab.venues.opening import open_venue, provider_of, venue_for

__all__ = [
    "LabCluster",
    "Place",
    "Provider",
    "Request",
    "RunningProcess",
    "Venue",
    "open_venue",
    "provider_of",
    "silent",
    "venue_for",
]
