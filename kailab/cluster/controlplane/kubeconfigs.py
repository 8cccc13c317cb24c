"""Kubeconfigs of a control plane: complete in one file each, for their owner only."""

from __future__ import annotations

import base64
from pathlib import Path

import yaml

from kailab.cluster.controlplane.certificates import Authority, Pair, write_private

ADMIN_GROUP = "system:masters"
"""Allowed everything, and never made to wait for others by the API server."""
CONTEXT = "kailab"


def write_kubeconfig(path: Path, server: str, authority: Authority, pair: Pair, user: str) -> None:
    """``server``: its URL. The file has mode 0600, and certificates and key within."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": CONTEXT,
        "clusters": [
            {
                "name": CONTEXT,
                "cluster": {"server": server, "certificate-authority-data": _encoded(authority.certificate)},
            }
        ],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": _encoded(pair.certificate),
                    "client-key-data": _encoded(pair.key),
                },
            }
        ],
        "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": user}}],
    }
    # Certificates stand in the file itself, so that it can be handed on or moved.
    write_private(path, yaml.safe_dump(config, sort_keys=False).encode())


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode("ascii")
