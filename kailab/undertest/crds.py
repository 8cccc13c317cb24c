"""Definitions of kinds that a scheduler under test brings, taken into use."""

from __future__ import annotations

from collections.abc import Sequence

from kailab.cluster.install import await_established
from kailab.cluster.protocol import Cluster, Object
from kailab.errors import ConnectError
from kailab.undertest.contract import SchedulerFailed


def bring_in(cluster: Cluster, crds: Sequence[Object], who: str) -> None:
    """Done again it changes nothing. Raises SchedulerFailed where the API server does not take them."""
    for crd in crds:
        cluster.apply(crd)
    try:
        # Before anything creates or watches objects of these kinds: until then the API server does not serve them.
        await_established(cluster, [crd["metadata"]["name"] for crd in crds])
    except ConnectError as error:
        raise SchedulerFailed(f"the API server does not take the definitions of {who}: {error}") from None
