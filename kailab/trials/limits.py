"""How many cells go side by side on this machine."""

from __future__ import annotations

from collections.abc import Iterable

from kailab.cluster.backends import BACKENDS
from kailab.cluster.processes import processors

GIB = 2**30
_EMBEDDED_BYTES = GIB // 2
_LIVE_BYTES = 2 * GIB
"""A kube-apiserver and what runs beside it, with a few hundred pods; measured 1 to 1.5 GiB."""
_LIVE_CORES = 2
_LEFT_FREE = 0.8
"""Of the memory that is free when a trial begins, as much may be taken."""


def jobs_that_fit(isolations: Iterable[str]) -> int:
    """At least one. A backend whose cluster is somebody else's, or a kind cluster, has room for one cell at a time."""
    import psutil

    cores = processors()
    free = psutil.virtual_memory().available * _LEFT_FREE
    most = []
    for name in isolations:
        backend = BACKENDS[name]
        if backend.api_server and (not backend.own or backend.real_nodes):
            most.append(1)
        elif backend.api_server:
            most.append(min(cores // _LIVE_CORES, int(free // _LIVE_BYTES)))
        else:
            most.append(min(cores, int(free // _EMBEDDED_BYTES)))
    return max(1, min(most))


def only_one(isolations: Iterable[str]) -> str:
    """The isolation with room for one cell at a time, whatever is asked for; empty: there is none."""
    return next((name for name in isolations if BACKENDS[name].api_server and not BACKENDS[name].own), "")
