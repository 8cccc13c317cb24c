"""Where the official programs are published, and their checksums: dl.k8s.io for Kubernetes, get.helm.sh for Helm, GitHub releases for the
rest.

A program without a published checksum is not downloaded.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, fields
from typing import NamedTuple

from kailab.components.pins import Machine, Pin, only_built

_ETCD = "etcd-io/etcd"
_KWOK = "kubernetes-sigs/kwok"
_KIND = "kubernetes-sigs/kind"
_VCLUSTER = "loft-sh/vcluster"


class Published(NamedTuple):
    """A file to download. ``checksums``: the URL of what tells its sha256; ``member``: the program's path in the file if that is
    an archive; ``name``: the file's own."""

    url: str
    checksums: str
    member: str = ""

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]


@dataclass(frozen=True)
class Sources:
    """Base URLs; others may stand in for them, mirrors of the same layout."""

    kubernetes: str = "https://dl.k8s.io"
    github: str = "https://github.com"
    github_api: str = "https://api.github.com"
    helm: str = "https://get.helm.sh"

    @classmethod
    def chosen(cls) -> Sources:
        """As the environment says: KAILAB_DOWNLOAD_KUBERNETES, KAILAB_DOWNLOAD_GITHUB, KAILAB_DOWNLOAD_GITHUB_API,
        KAILAB_DOWNLOAD_HELM."""
        names = (field.name for field in fields(cls))
        said = {name: os.environ.get(f"KAILAB_DOWNLOAD_{name.upper()}", "") for name in names}
        return cls(**{name: url.rstrip("/") for name, url in said.items() if url})

    def published(self, pin: Pin, machine: Machine) -> Published | None:
        """None: nobody publishes it for this machine."""
        if only_built(pin):
            return None  # their projects publish images
        kind = f"{machine.system}-{machine.architecture}"
        if pin.project == "kubernetes":
            # Of Kubernetes only the client is published for macOS.
            if machine.system != "linux" and pin.name != "kubectl":
                return None
            url = f"{self.kubernetes}/release/{pin.version}/bin/{machine.system}/{machine.architecture}/{pin.name}"
            return Published(url, f"{url}.sha256")
        if pin.name == "etcd":
            stem = f"etcd-{pin.version}-{kind}"
            ending = "tar.gz" if machine.system == "linux" else "zip"
            base = f"{self.github}/{_ETCD}/releases/download/{pin.version}"
            return Published(f"{base}/{stem}.{ending}", f"{base}/SHA256SUMS", f"{stem}/etcd")
        if pin.name == "helm":
            url = f"{self.helm}/helm-{pin.version}-{kind}.tar.gz"
            return Published(url, f"{url}.sha256sum", f"{kind}/helm")
        if pin.name == "vcluster":
            base = f"{self.github}/{_VCLUSTER}/releases/download/{pin.version}"
            return Published(f"{base}/vcluster-{kind}", f"{base}/checksums.txt")
        if pin.name == "kind":
            url = f"{self.github}/{_KIND}/releases/download/{pin.version}/{pin.name}-{kind}"
            return Published(url, f"{url}.sha256sum")
        # KWOK's releases come without a file of checksums; GitHub tells those of what was uploaded.
        return Published(
            f"{self.github}/{_KWOK}/releases/download/{pin.version}/{pin.name}-{kind}",
            f"{self.github_api}/repos/{_KWOK}/releases/tags/{pin.version}",
        )


def checksum_in(text: str, name: str) -> str | None:
    """The sha256 of a file: the text is it alone, has lines of ``sha256sum``, or is what GitHub tells of a release."""
    if text.lstrip().startswith("{"):
        return _digest(text, name)
    for line in text.splitlines():
        parts = line.split()
        # ``sha256sum`` puts a star before the name of a file that was read as binary.
        if len(parts) == 1 or (len(parts) == 2 and parts[1].lstrip("*") == name):
            found = _hexadecimal(parts[0])
            if found:
                return found
    return None


def _digest(text: str, name: str) -> str | None:
    try:
        assets = json.loads(text)["assets"]
        found = next(asset.get("digest") or "" for asset in assets if asset["name"] == name)
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration):
        return None
    return _hexadecimal(str(found).removeprefix("sha256:"))


def _hexadecimal(text: str) -> str | None:
    text = text.lower()
    return text if len(text) == 64 and not text.strip("0123456789abcdef") else None
