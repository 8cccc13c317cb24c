"""How each operator is started here: its configuration or flags, where its certificates lie, and how it tells that it works.

All listen on the loopback address, elect no leader and ask as fast as the API server allows: the usual bounds are for clusters with
other users. Source: each operator's own flags and configuration API.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import yaml

from kailab.cluster.controlplane.ports import LOOPBACK, is_free
from kailab.undertest.programs import answers

_QPS, _BURST = 1000, 2000
_OFF = "0"  # controller-runtime: no server at all


class Site(NamedTuple):
    """Where one is started. ``folder``: its own, with ``tls.crt`` and ``tls.key`` of its webhook server. ``webhook`` and ``health``: its
    ports."""

    folder: Path
    webhook: int
    health: int


class Started(NamedTuple):
    """``works``: one look; None once it works, else what is still missing."""

    arguments: Sequence[str]
    works: Callable[[], str | None]
    environment: Mapping[str, str] = {}


Launch: TypeAlias = Callable[[Site], Started]


def jobset(site: Site) -> Started:
    config = _configuration("config.jobset.x-k8s.io/v1alpha1", site, internalCertManagement={"enable": False})
    return Started([_written(site, config)], _ready(site))


def leader_worker_set(site: Site) -> Started:
    config = _configuration("config.lws.x-k8s.io/v1alpha1", site, internalCertManagement={"enable": False})
    return Started([_written(site, config)], _ready(site))


def _configuration(version: str, site: Site, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": version,
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"{LOOPBACK}:{site.health}"},
        "metrics": {"bindAddress": _OFF},
        "webhook": {"host": LOOPBACK, "port": site.webhook, "certDir": str(site.folder)},
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"qps": _QPS, "burst": _BURST},
        **more,
    }


def _written(site: Site, config: dict[str, Any]) -> str:
    file = site.folder / "configuration.yaml"
    file.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    return f"--config={file}"


def _ready(site: Site) -> Callable[[], str | None]:
    """Its health endpoint says so, and somebody listens for the API server: not each of them waits for that itself."""
    healthy = answers(f"http://{LOOPBACK}:{site.health}/readyz")

    def look() -> str | None:
        if is_free(site.webhook):
            return f"nobody listens for its webhooks on port {site.webhook}"
        return healthy()

    return look
