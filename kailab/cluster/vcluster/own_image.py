"""Whether a host has the image that was made here, or can be given it; else the chart's own images are pulled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kailab.cluster.kind.choices import find_kind
from kailab.cluster.kind.creation import Maker
from kailab.cluster.kind.engine import containers, docker_reason
from kailab.cluster.kind.nodes import real_nodes
from kailab.cluster.protocol import Cluster, Object
from kailab.cluster.vcluster.image import Store, VclusterImage
from kailab.components.cache import alone_in
from kailab.errors import KailabError

_KINDS = "kind://"

Tell = Callable[[str], None]


def provided(host: Cluster, kubernetes: str, kubectl: Path, tell: Tell) -> VclusterImage | None:
    """The newest of this release of Kubernetes that was made here, once each node of the host has it; None: there is none, or these nodes can't
    be given it. The nodes of a kind cluster in this machine's engine are given it. Raises StateError for a damaged archive, ConnectError."""
    store = Store()
    made = store.newest(kubernetes)
    if made is None:
        return None
    # Several virtual clusters may be made at once.
    with alone_in(store.folder(made.name), made.name, tell):
        nodes = real_nodes(host)
        if nodes and all(_has(node, made.name) for node in nodes):
            return made
        cluster = _kinds_name(nodes)
        if not cluster:
            return None
        archive = store.checked(made)
        tell(f"giving {made.name} to the nodes of the kind cluster {cluster}")
        Maker(find_kind(), kubectl).load(cluster, archive)
    return made


def _has(node: Object, image: str) -> bool:
    """As the kubelet tells it: the registry that is meant where none is named stands in front."""
    there = (node.get("status") or {}).get("images") or ()
    return any(name in (image, f"docker.io/{image}") for one in there for name in one.get("names") or ())


def _kinds_name(nodes: list[Object]) -> str:
    """Of the kind cluster that all these nodes are of, if it is in the engine that answers here; else empty."""
    told = {str((node.get("spec") or {}).get("providerID", "")) for node in nodes}
    names = {one.removeprefix(_KINDS).split("/")[1] for one in told if one.startswith(_KINDS) and one.count("/") >= 4}
    if len(names) != 1 or not all(one.startswith(_KINDS) for one in told) or docker_reason() is not None:
        return ""
    (name,) = names
    try:
        # Another machine's engine may have a kind cluster of the same name: the nodes' names tell them apart.
        here = set(containers(name, running=True))
        find_kind()
    except KailabError:
        return ""
    return name if {node["metadata"]["name"] for node in nodes} <= here else ""
