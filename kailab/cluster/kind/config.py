"""kind's configuration of a cluster: the user's, if there is one, with what labs need on top.

kubeadm lets the controller manager send 20 requests a second. A lab's Jobs and Deployments would get their pods so slowly, and so
mixed, that schedulers see other work than on the other backends. It also gives the control plane four minutes to get to work, which
a machine that is busy with other things may need longer for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from kailab.errors import InputError, Where
from kailab.model.files import read_text

API = "kind.x-k8s.io/v1alpha4"
_MANY = {"kube-api-qps": "1000", "kube-api-burst": "2000"}
# One that is alone loses its lease to nobody: it ends when a busy machine lets it renew that too late, and is started again later.
_ALONE = {"leader-elect": "false"}


def cluster_config(path: Path | None) -> dict[str, Any]:
    """``path``: the user's, None: none. Raises InputError with the place for what is no configuration of kind's."""
    described: dict[str, Any] = {"kind": "Cluster", "apiVersion": API} if path is None else _read(path)
    if path is not None:
        _settle_mounts(described, path)
    patches = described.setdefault("kubeadmConfigPatches", [])
    if not isinstance(patches, list):
        raise InputError("kubeadmConfigPatches: expected a list", Where(file=str(path)))
    # First: the user's own have the last word.
    patches.insert(0, yaml.safe_dump(_patch(_control_planes(described)), sort_keys=False))
    return described


def _patch(control_planes: int) -> dict[str, Any]:
    arguments = {**_MANY, **(_ALONE if control_planes < 2 else {})}
    return {
        # The version that kind writes; a kind that writes another one leaves the patch out.
        "apiVersion": "kubeadm.k8s.io/v1beta3",
        "kind": "ClusterConfiguration",
        "controllerManager": {"extraArgs": dict(arguments)},
        "scheduler": {"extraArgs": dict(arguments)},
        # Also what the probes of its pods go by.
        "apiServer": {"timeoutForControlPlane": "15m0s"},
    }


def _control_planes(described: dict[str, Any]) -> int:
    nodes = described.get("nodes") or ()
    return sum(isinstance(node, dict) and node.get("role") == "control-plane" for node in nodes)


def _read(path: Path) -> dict[str, Any]:
    try:
        described = yaml.safe_load(read_text(path))
    except yaml.YAMLError as error:
        raise InputError(f"no YAML: {error}", Where(file=str(path))) from error
    if not isinstance(described, dict) or described.get("kind") != "Cluster":
        raise InputError(
            f"no configuration of kind's: expected kind: Cluster, apiVersion: {API}", Where(file=str(path))
        )
    return described


def _settle_mounts(described: dict[str, Any], path: Path) -> None:
    """Relative paths are the file's: kind would take them from where it happens to run."""
    for node in described.get("nodes") or ():
        for mount in (node.get("extraMounts") or ()) if isinstance(node, dict) else ():
            if isinstance(mount, dict) and isinstance(mount.get("hostPath"), str):
                mount["hostPath"] = str(path.resolve().parent / mount["hostPath"])
