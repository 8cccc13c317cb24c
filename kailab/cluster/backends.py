"""The table of backends. It is cheap to import (see ``kailab.cluster.registry``)."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from kailab import extensions
from kailab.cluster.registry import Registry, RegistryEntry


@dataclass(frozen=True)
class Backend(RegistryEntry):
    """A backend. ``provider``: ``module:class`` of its code (``kailab.lab.venues.contract.Provider``), loaded on first
    use. ``api_server``: its clusters are real API servers, in real time. ``own``: a cluster is made for each venue and
    ends with it, any number at once; otherwise there is one cluster, with room for one lab at a time. ``real_nodes``:
    its clusters have real nodes beside the fleet's fake ones. ``starts_schedulers``: a lab that outlives the command
    that opened it gets its scheduler under test started; otherwise the scheduler that runs in the cluster decides.
    ``calls_webhooks``: its API server can call webhooks on this machine.
    """

    provider: str = ""
    api_server: bool = True
    own: bool = True
    real_nodes: bool = False
    starts_schedulers: bool = True
    calls_webhooks: bool = True

    def load(self) -> Any:
        """The provider."""
        module, _, name = self.provider.partition(":")
        return getattr(import_module(module), name)()


_CHARTS = frozenset({"kai_release", "kai_chart"})
_NO_PODS = "its nodes are all fake, so a chart's pods would not run"
_PLANE = frozenset({"components", "kubernetes", "kai", "kai_crds", "devices", "venue", "labs", "kai_pods"})

BACKENDS: Registry[Backend] = Registry(
    "backend",
    Backend,
    {
        "embedded": Backend(
            "needs nothing but Python",
            frozenset({"devices"}),
            "kailab.lab.venues.embedded:EmbeddedProvider",
            api_server=False,
            why_not={
                "operators": "its controllers make the pods of the operators' kinds already",
                **dict.fromkeys(_CHARTS, _NO_PODS),
            },
        ),
        "controlplane": Backend(
            "a kube-apiserver with KWOK",
            _PLANE | {"operators"},
            "kailab.lab.venues.plane:ControlPlaneProvider",
            why_not=dict.fromkeys(_CHARTS, _NO_PODS),
        ),
        "kind": Backend(
            "a kind cluster with KWOK",
            _PLANE | _CHARTS | {"operators"},
            "kailab.lab.venues.kind:KindProvider",
            real_nodes=True,
            calls_webhooks=False,
        ),
        "vcluster": Backend(
            "a virtual cluster in a host cluster that a kubeconfig names, with KWOK",
            _PLANE | {"kubeconfig", "context"},
            "kailab.lab.venues.vcluster:VclusterProvider",
            why_not={
                "operators": "their webhooks are on this machine, where its API server can't call them",
                **dict.fromkeys(_CHARTS, "its pods are fake, and the host runs none of them"),
            },
        ),
        "kubeconfig": Backend(
            "any cluster that a kubeconfig names",
            frozenset({"kubeconfig", "context", "devices", "venue"}) | _CHARTS,
            "kailab.lab.venues.kubeconfig:KubeconfigProvider",
            own=False,
            real_nodes=True,
            starts_schedulers=False,
            why_not={"operators": "the owner of an existing cluster installs operators in it"},
        ),
    },
    extensions.BACKENDS,
)


def with_api_server() -> list[str]:
    """Names of the backends whose clusters are real API servers."""
    return [name for name, backend in BACKENDS.items() if backend.api_server]
