"""Venues: where the clusters of labs are. ``contract`` has the interfaces, ``opening`` finds the module of a backend by its name.

- ``embedded``: a cluster in this process.
- ``kubernetes``: a venue on an API server; ``kubeconfig``: one that somebody else runs.
- ``plane``: one whose processes are ours, for the backends ``controlplane``, ``kind`` and ``vcluster``; ``reaper`` ends it with the
  process that opened it.
"""

from kailab.lab.venues.contract import LabCluster, Place, Provider, Request, RunningProcess, Venue, ignore_message
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
    "ignore_message",
    "venue_for",
]
