"""The backends by name. Cheap to import: see ``kailab.cluster.choices``."""

from __future__ import annotations

from dataclasses import dataclass

from kailab.cluster.choices import Choice, Registry


@dataclass(frozen=True)
class Backend(Choice):
    """``real_nodes``: a cluster of this backend has such beside the fleet's fake ones."""

    real_nodes: bool = False


_PLANE = frozenset({"components", "kubernetes", "kai", "kai_crds", "devices", "home", "labs", "kai_pods"})

BACKENDS: Registry[Backend] = Registry(
    "backend",
    {
        "embedded": Backend("needs nothing but Python", frozenset({"devices"})),
        "controlplane": Backend("a kube-apiserver with KWOK", _PLANE),
        "kind": Backend("a kind cluster with KWOK", _PLANE, real_nodes=True),
        "kubeconfig": Backend(
            "any cluster that a kubeconfig names",
            frozenset({"kubeconfig", "context", "devices", "home"}),
            real_nodes=True,
        ),
    },
)
LIVE_BACKENDS = tuple(name for name in BACKENDS if name != "embedded")
