"""What a kind cluster is made with: the kind binary, the node image, kind's own configuration; and why it can't be made here.

Each is what the caller gives, else what the environment says, else the default.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import NamedTuple

from kailab.cluster.kind.creation import library_reason
from kailab.cluster.kind.engine import demand, docker_reason
from kailab.cluster.kind.node_image import node_image
from kailab.components import DEFAULT_KUBERNETES, KIND, find_program
from kailab.errors import InputError, KailabError

KIND_VARIABLE = "KAILAB_KIND"
IMAGE_VARIABLE = "KAILAB_KIND_IMAGE"
CONFIG_VARIABLE = "KAILAB_KIND_CONFIG"
_LONGEST = 30


class Choices(NamedTuple):
    """``config``: a file of kind (kind: Cluster, apiVersion: kind.x-k8s.io/...); None: one control-plane node."""

    kind: Path
    image: str
    config: Path | None


def choose(
    kind: Path | None = None,
    image: str | None = None,
    config: Path | None = None,
    kubernetes: str = DEFAULT_KUBERNETES,
) -> Choices:
    """``kubernetes``: the release whose node image is the default. Raises ConnectError where there is no kind, InputError for
    a file that is not there."""
    told = config or _path(CONFIG_VARIABLE)
    if told is not None and not told.is_file():
        raise InputError(f"{told}: there is no such file; it was named as kind's configuration")
    return Choices(find_kind(kind), image or os.environ.get(IMAGE_VARIABLE) or node_image(kubernetes), told)


def find_kind(path: Path | None = None) -> Path:
    """The kind program: this one, else KAILAB_KIND's, else PATH's, else the cache's. Raises ConnectError, DamagedComponent."""
    how = "`kailab components get --kind` downloads it, or builds it with Go"
    return find_program(KIND, KIND_VARIABLE, how, path)


def kind_reason() -> str | None:
    """Why no kind cluster can be made here; None if one can (its node image may still have to be pulled or made)."""
    reason = library_reason() or docker_reason()
    if reason is not None:
        return reason
    try:
        choose()
    except KailabError as error:
        return str(error)
    return None


def check_kind() -> None:
    """Raises ConnectError where no kind cluster can be made here."""
    demand(kind_reason())


def name_for(folder: Path) -> str:
    """A name for the cluster of a folder: always the same, and another one for another folder."""
    # With "kailab" and the digest it stays within what ``creation.NAME`` allows.
    slug = re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).strip("-")[:_LONGEST].strip("-")
    digest = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:6]
    return "-".join(part for part in ("kailab", slug.removeprefix("kailab").strip("-"), digest) if part)


def _path(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(value).expanduser() if value else None
