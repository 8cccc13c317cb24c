"""Topologies for the releases that read Kueue's kind: the same levels in another API group.

KAI has had a kind of its own since v0.12. Before, from v0.7.8 on, its scheduler waits until ``topologies.kueue.x-k8s.io`` is served and
schedules nothing until then, even if nobody uses it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from kailab.cluster.protocol import Cluster
from kailab.errors import NotFound
from kailab.model.kinds import KINDS
from kailab.model.objects import Object, labels_of, name_of
from kailab.undertest.kai.folder import KaiFolder

KUEUE_GROUP, KUEUE_VERSION = "kueue.x-k8s.io", "v1alpha1"
_GROUP = KINDS["Topology"].group
_FOR = "kailab.dev/for"  # the label of a CRD that KAI needs and another project defines
_DEFINITION = f"topologies.{KUEUE_GROUP}"


def missing_definitions(kai: KaiFolder) -> list[dict[str, Any]]:
    """CRDs that this KAI needs and its folder lacks, because its installation leaves them to Kueue."""
    from kailab.cluster.install import crds

    if not kai.dialect.kueue_topology or any(name_of(crd) == _DEFINITION for crd in kai.crds):
        return []
    made = copy.deepcopy(next(crd for crd in crds() if name_of(crd) == "topologies.kai.scheduler"))
    made["metadata"]["name"] = _DEFINITION
    made["metadata"]["labels"] = {_FOR: "kai"}
    made["spec"]["group"] = KUEUE_GROUP
    made["spec"]["versions"][0]["name"] = KUEUE_VERSION
    return [made]


def translate_topologies(objects: Sequence[Object], there: Cluster) -> list[tuple[Object, ...]]:
    """The objects, with a Kueue Topology beside each of KAI's if the KAI in that cluster reads those of Kueue."""
    if not _reads_kueues(there):
        return [(obj,) for obj in objects]
    return [(obj, kueue_topology(obj)) if _is_kais(obj) else (obj,) for obj in objects]


def kueue_topology(topology: Object) -> Object:
    """KAI's Topology as Kueue's: levels without aliases, which only later versions have."""
    levels = [{"nodeLabel": level["nodeLabel"]} for level in topology["spec"]["levels"]]
    return {**topology, "apiVersion": f"{KUEUE_GROUP}/{KUEUE_VERSION}", "spec": {"levels": levels}}


def _is_kais(obj: Object) -> bool:
    return obj.get("kind") == "Topology" and str(obj.get("apiVersion")).startswith(f"{_GROUP}/")


def _reads_kueues(there: Cluster) -> bool:
    """True if the CRD has the label of ``missing_definitions``. Without the label it belongs to a Kueue, and KAI reads its own kind."""
    try:
        crd = there.get("CustomResourceDefinition", _DEFINITION)
    except NotFound:
        return False
    return bool(labels_of(crd).get(_FOR))
