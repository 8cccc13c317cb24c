"""The programs of a control plane, the versions that belong together, and where official builds and their checksums are
published.

Kubernetes is on dl.k8s.io, Helm on get.helm.sh, the rest in GitHub releases. A program without a published checksum is
not downloaded.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import NamedTuple

from kailab.errors import InputError

DEFAULT_KUBERNETES = "v1.35.4"
KUBERNETES = ("v1.34.4", "v1.35.4", "v1.36.3")
"""The releases known to work, oldest first."""
ETCD = "v3.6.8"
KWOK = "v0.7.0"

KUBERNETES_PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
PROGRAMS = ("etcd", *KUBERNETES_PROGRAMS, "kwok")


class Pin(NamedTuple):
    """A pinned program, or pinned files of a project. ``project``: ``kubernetes``, ``etcd``, ``kwok``, ``kind``,
    ``helm``, ``vcluster``, ``coredns``, ``kine``, ``u-root`` or an add-on's; ``version``: with its ``v``."""

    name: str
    project: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


KIND = Pin("kind", "kind", "v0.30.0")
"""For the backend ``kind``; not part of a control plane."""

HELM = Pin("helm", "helm", "v3.22.0")
"""For schedulers that are installed by their chart."""

VCLUSTER = Pin("vcluster", "vcluster", "v0.30.0")
"""For the backend ``vcluster``."""

CHART = "chart.zip"
"""The files of a project's chart, by path in its module, in one archive."""

VCLUSTER_CHART = Pin(CHART, "vcluster", VCLUSTER.version)

SYNCER = Pin("vcluster-syncer", "vcluster", VCLUSTER.version)
"""The program of a virtual control plane that starts the others."""

IMAGE_OF_VCLUSTER = (SYNCER, Pin("kine", "kine", "v0.16.4"), Pin("cp", "u-root", "v0.15.0"))
"""The contents of a virtual control plane's image, beside programs of Kubernetes and Helm: kine is its store, on
SQLite; the chart calls ``cp`` to copy the programs."""

NODE_FILES = "node-files.zip"
"""The files that kind needs in a node image, by path in its module, in one archive."""

FILES = (NODE_FILES, CHART)
"""Archives of a module's files, in place of a program."""

_NODE_PROGRAMS = ("kubeadm", "kubelet", "kube-proxy")
_COREDNS = {"v1.34": "v1.12.1", "v1.35": "v1.13.1"}
"""Minor release of Kubernetes -> the version that its kubeadm requires."""

MANIFESTS = "manifests.zip"
"""The YAML that a cluster needs for a project's programs, by path, in one archive."""


def _addon(name: str, version: str) -> tuple[Pin, ...]:
    return Pin(name, name, version), Pin(MANIFESTS, name, version)


FAKE_GPU_OPERATOR = "fake-gpu-operator"

ADDONS: Mapping[str, tuple[Pin, ...]] = {
    "kueue": _addon("kueue", "v0.19.2"),
    "scheduler-plugins": _addon("scheduler-plugins", "v0.35.4-devel"),
    "yunikorn": _addon("yunikorn", "v1.8.0"),
    "jobset": _addon("jobset", "v0.12.0"),
    "lws": _addon("lws", "v0.9.0"),
    "trainer": _addon("trainer", "v2.2.1"),
    "training-operator": _addon("training-operator", "v1.9.4"),
    "mpi-operator": _addon("mpi-operator", "v0.8.2"),
    "kuberay": _addon("kuberay", "v1.6.2"),
    FAKE_GPU_OPERATOR: (
        Pin("status-updater", FAKE_GPU_OPERATOR, "v0.2.0"),
        Pin("kwok-gpu-device-plugin", FAKE_GPU_OPERATOR, "v0.2.0"),
        Pin(MANIFESTS, FAKE_GPU_OPERATOR, "v0.2.0"),
    ),
}
"""Programs that run beside a control plane on request: project name -> its programs, then its manifests."""


def node_pins(kubernetes: str | None = None) -> tuple[Pin, ...]:
    """The contents of a kind node image beside the programs of a control plane. Raises InputError for an unknown
    release, or one without an image."""
    version = kubernetes_version(kubernetes)
    minor = version.rpartition(".")[0]
    if minor not in _COREDNS:
        raise InputError(
            f"no node image can be made of Kubernetes {version}: it needs containerd 2, which Debian 12 does not have; there "
            f"can be one of {', '.join(release for release in KUBERNETES if release.rpartition('.')[0] in _COREDNS)}"
        )
    return (
        *(Pin(name, "kubernetes", version) for name in _NODE_PROGRAMS),
        Pin("coredns", "coredns", _COREDNS[minor]),
        Pin(NODE_FILES, KIND.project, KIND.version),
    )


def for_nodes(pin: Pin) -> bool:
    """True if only node images contain it."""
    return pin.name in (*_NODE_PROGRAMS, "coredns", NODE_FILES)


def only_built(pin: Pin) -> bool:
    """True if nobody publishes it as a separate program, so that it can only be built with Go."""
    return pin.project in (*ADDONS, "coredns", "kine", "u-root") or pin.name in FILES or pin == SYNCER


def addon_pins(name: str) -> tuple[Pin, ...]:
    """Raises InputError for an unknown name."""
    if name not in ADDONS:
        raise InputError(f"{name!r} is no add-on; there are {', '.join(ADDONS)}")
    return ADDONS[name]


def pins(kubernetes: str | None = None) -> tuple[Pin, ...]:
    """The whole set for a Kubernetes release (None: the default). Raises InputError for an unknown one."""
    version = kubernetes_version(kubernetes)
    return (
        Pin("etcd", "etcd", ETCD),
        *(Pin(name, "kubernetes", version) for name in KUBERNETES_PROGRAMS),
        Pin("kwok", "kwok", KWOK),
    )


def kubernetes_version(wanted: str | None) -> str:
    """The known release of a minor version, given as ``1.35``, ``v1.35`` or ``v1.35.4``. Raises InputError."""
    if not wanted:
        return DEFAULT_KUBERNETES
    version = "v" + wanted.strip().removeprefix("v")
    for known in KUBERNETES:
        if version in (known, known.rpartition(".")[0]):
            return known
    raise InputError(f"Kubernetes {wanted!r} is not among the releases that kailab knows: {', '.join(KUBERNETES)}")


class Machine(NamedTuple):
    """The machine that programs are for, in Go's terms: ``linux`` or ``darwin``, ``amd64`` or ``arm64``."""

    system: str
    architecture: str

    def __str__(self) -> str:
        return f"{self.system}/{self.architecture}"


_ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


def this_machine() -> Machine:
    """Raises InputError on a system without programs."""
    system = {"linux": "linux", "darwin": "darwin"}.get(sys.platform, "")
    architecture = _ARCHITECTURES.get(platform.machine().lower(), "")
    if not system or not architecture:
        raise InputError(
            f"a control plane can't run here ({sys.platform}, {platform.machine()}): "
            "there are programs for Linux and macOS on amd64 and arm64"
        )
    return Machine(system, architecture)


_ETCD = "etcd-io/etcd"
_KWOK = "kubernetes-sigs/kwok"
_KIND = "kubernetes-sigs/kind"
_VCLUSTER = "loft-sh/vcluster"


class PublishedFile(NamedTuple):
    """A file to download. ``checksums``: the URL of its sha256; ``member``: the program's path in the file if that is
    an archive; ``name``: the file's own."""

    url: str
    checksums: str
    member: str = ""

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]


@dataclass(frozen=True)
class DownloadSources:
    """Base URLs; mirrors of the same layout may replace them."""

    kubernetes: str = "https://dl.k8s.io"
    github: str = "https://github.com"
    github_api: str = "https://api.github.com"
    helm: str = "https://get.helm.sh"

    @classmethod
    def chosen(cls) -> DownloadSources:
        """From the environment: KAILAB_DOWNLOAD_KUBERNETES, KAILAB_DOWNLOAD_GITHUB, KAILAB_DOWNLOAD_GITHUB_API,
        KAILAB_DOWNLOAD_HELM."""
        names = (field.name for field in fields(cls))
        urls = {name: os.environ.get(f"KAILAB_DOWNLOAD_{name.upper()}", "") for name in names}
        return cls(**{name: url.rstrip("/") for name, url in urls.items() if url})

    def published(self, pin: Pin, machine: Machine) -> PublishedFile | None:
        """None: nobody publishes it for this machine."""
        if only_built(pin):
            return None  # their projects publish images
        kind = f"{machine.system}-{machine.architecture}"
        if pin.project == "kubernetes":
            # For macOS Kubernetes publishes only kubectl.
            if machine.system != "linux" and pin.name != "kubectl":
                return None
            url = f"{self.kubernetes}/release/{pin.version}/bin/{machine.system}/{machine.architecture}/{pin.name}"
            return PublishedFile(url, f"{url}.sha256")
        if pin.name == "etcd":
            stem = f"etcd-{pin.version}-{kind}"
            ending = "tar.gz" if machine.system == "linux" else "zip"
            base = f"{self.github}/{_ETCD}/releases/download/{pin.version}"
            return PublishedFile(f"{base}/{stem}.{ending}", f"{base}/SHA256SUMS", f"{stem}/etcd")
        if pin.name == "helm":
            url = f"{self.helm}/helm-{pin.version}-{kind}.tar.gz"
            return PublishedFile(url, f"{url}.sha256sum", f"{kind}/helm")
        if pin.name == "vcluster":
            base = f"{self.github}/{_VCLUSTER}/releases/download/{pin.version}"
            return PublishedFile(f"{base}/vcluster-{kind}", f"{base}/checksums.txt")
        if pin.name == "kind":
            url = f"{self.github}/{_KIND}/releases/download/{pin.version}/{pin.name}-{kind}"
            return PublishedFile(url, f"{url}.sha256sum")
        # KWOK's releases have no file of checksums; GitHub's API has those of the uploads.
        return PublishedFile(
            f"{self.github}/{_KWOK}/releases/download/{pin.version}/{pin.name}-{kind}",
            f"{self.github_api}/repos/{_KWOK}/releases/tags/{pin.version}",
        )


def checksum_in(text: str, name: str) -> str | None:
    """The sha256 of a file: ``text`` is the checksum alone, lines of ``sha256sum``, or GitHub's description of a
    release."""
    if text.lstrip().startswith("{"):
        return _digest(text, name)
    for line in text.splitlines():
        parts = line.split()
        # ``sha256sum`` puts a star before the name of a file that was read as binary.
        if len(parts) == 1 or (len(parts) == 2 and parts[1].lstrip("*") == name):
            checksum = _hexadecimal(parts[0])
            if checksum:
                return checksum
    return None


def _digest(text: str, name: str) -> str | None:
    try:
        assets = json.loads(text)["assets"]
        digest = next(asset.get("digest") or "" for asset in assets if asset["name"] == name)
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration):
        return None
    return _hexadecimal(str(digest).removeprefix("sha256:"))


def _hexadecimal(text: str) -> str | None:
    text = text.lower()
    return text if len(text) == 64 and not text.strip("0123456789abcdef") else None
