"""Options of a kind cluster: the kind binary, the node image, kind's configuration file, and the reason why no cluster
can be made here.

Each is what the caller gives, else what the environment says, else the default.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from kailab.cluster.kind.docker import default_node_image, docker_reason, raise_if_unavailable
from kailab.cluster.kind.kind_command import library_reason
from kailab.components import DEFAULT_KUBERNETES, KIND, find_program
from kailab.errors import InputError, KailabError, Where
from kailab.model.files import read_text
from kailab.model.yamltext import load_foreign

KIND_VARIABLE = "KAILAB_KIND"
IMAGE_VARIABLE = "KAILAB_KIND_IMAGE"
CONFIG_VARIABLE = "KAILAB_KIND_CONFIG"
_LONGEST = 30


class KindOptions(NamedTuple):
    """``config``: a file of kind (kind: Cluster, apiVersion: kind.x-k8s.io/...); None: one control-plane node."""

    kind: Path
    image: str
    config: Path | None


def choose_options(
    kind: Path | None = None,
    image: str | None = None,
    config: Path | None = None,
    kubernetes: str = DEFAULT_KUBERNETES,
) -> KindOptions:
    """``kubernetes``: the release whose node image is the default. Raises ConnectError if there is no kind, InputError
    for a missing file."""
    file = config or _path(CONFIG_VARIABLE)
    if file is not None and not file.is_file():
        raise InputError(f"{file}: there is no such file; it was named as kind's configuration")
    return KindOptions(find_kind(kind), image or os.environ.get(IMAGE_VARIABLE) or default_node_image(kubernetes), file)


def find_kind(path: Path | None = None) -> Path:
    """The kind program: ``path``, else KAILAB_KIND, else in PATH, else in the cache. Raises ConnectError,
    DamagedComponent."""
    how = "`kailab components get --kind` downloads it, or builds it with Go"
    return find_program(KIND, KIND_VARIABLE, how, path)


def kind_reason() -> str | None:
    """Why no kind cluster can be made here; None if one can (its node image may still have to be pulled or loaded)."""
    reason = library_reason() or docker_reason()
    if reason is not None:
        return reason
    try:
        choose_options()
    except KailabError as error:
        return str(error)
    return None


def check_kind() -> None:
    """Raises ConnectError if no kind cluster can be made here."""
    raise_if_unavailable(kind_reason())


def name_for(folder: Path) -> str:
    """The name for the cluster of a folder, unique to the folder."""
    # With "kailab" and the digest it fits ``kind_command.NAME``.
    slug = re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).strip("-")[:_LONGEST].strip("-")
    digest = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:6]
    return "-".join(part for part in ("kailab", slug.removeprefix("kailab").strip("-"), digest) if part)


def _path(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(value).expanduser() if value else None


API = "kind.x-k8s.io/v1alpha4"
_MANY = {"kube-api-qps": "1000", "kube-api-burst": "2000"}
# A single control plane node needs no election: a lease renewed late on a busy machine would end the process.
_ALONE = {"leader-elect": "false"}


def cluster_config(path: Path | None) -> dict[str, Any]:
    """``path``: the user's configuration file, None: none. Raises InputError with the place of a fault."""
    described: dict[str, Any] = {"kind": "Cluster", "apiVersion": API} if path is None else _read(path)
    if path is not None:
        _settle_mounts(described, path)
    patches = described.setdefault("kubeadmConfigPatches", [])
    if not isinstance(patches, list):
        raise InputError("kubeadmConfigPatches: expected a list", Where(file=str(path)))
    # First, so that the user's patches override it.
    patches.insert(0, yaml.safe_dump(_patch(_control_planes(described)), sort_keys=False))
    return described


def _patch(control_planes: int) -> dict[str, Any]:
    arguments = {**_MANY, **(_ALONE if control_planes < 2 else {})}
    return {
        # The version that kind writes; a kind that writes another version ignores the patch.
        "apiVersion": "kubeadm.k8s.io/v1beta3",
        "kind": "ClusterConfiguration",
        "controllerManager": {"extraArgs": dict(arguments)},
        "scheduler": {"extraArgs": dict(arguments)},
        # The probes of its pods follow from it, too.
        "apiServer": {"timeoutForControlPlane": "15m0s"},
    }


def _control_planes(described: dict[str, Any]) -> int:
    nodes = described.get("nodes") or ()
    return sum(isinstance(node, dict) and node.get("role") == "control-plane" for node in nodes)


def _read(path: Path) -> dict[str, Any]:
    try:
        described = load_foreign(read_text(path))
    except yaml.YAMLError as error:
        raise InputError(f"no YAML: {error}", Where(file=str(path))) from error
    if not isinstance(described, dict) or described.get("kind") != "Cluster":
        raise InputError(
            f"no configuration of kind's: expected kind: Cluster, apiVersion: {API}", Where(file=str(path))
        )
    return described


def _settle_mounts(described: dict[str, Any], path: Path) -> None:
    """Resolve relative paths from the file's folder; kind would resolve them from its working directory."""
    for node in described.get("nodes") or ():
        for mount in (node.get("extraMounts") or ()) if isinstance(node, dict) else ():
            if isinstance(mount, dict) and isinstance(mount.get("hostPath"), str):
                mount["hostPath"] = str(path.resolve().parent / mount["hostPath"])
