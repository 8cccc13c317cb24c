"""What goes into a node image, and the image name that follows from it: equal inputs give the same name."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from kailab.cluster.built_images import NODE_COMMAND, NODE_RECIPE
from kailab.components import ComponentCache, ComponentSet, MissingComponents
from kailab.components.cache import sha256_of
from kailab.components.pins import KUBERNETES_PROGRAMS, NODE_FILES, node_pins

REPOSITORY = "kailab/node"
SUITE = "bookworm"
MIRROR = "http://deb.debian.org/debian"
PACKAGES = (
    "bash", "ca-certificates", "catatonit", "conntrack", "containerd", "containernetworking-plugins", "curl", "dbus",
    "ethtool", "iproute2", "iptables", "jq", "kmod", "libseccomp2", "mount", "nftables", "procps", "runc", "systemd",
    "systemd-sysv", "util-linux",
)  # fmt: skip
"""Packages beside Debian's minimal base. kind's entrypoint, containerd, kubelet and kube-proxy call their programs; catatonit is the pause program."""

_DIGITS = 12


class BuildInputs(msgspec.Struct, frozen=True, kw_only=True):
    """``programs``: paths by name; ``files``: the archive of kind's files; ``checksums``: sha256 of each of these;
    ``mirror``: where Debian packages come from."""

    kubernetes: str
    programs: Mapping[str, str]
    files: str
    checksums: Mapping[str, str]
    mirror: str = MIRROR
    suite: str = SUITE
    packages: tuple[str, ...] = PACKAGES

    @property
    def name(self) -> str:
        """Of the image, with its tag. It depends on the names of Debian's packages, not on their versions, which the record has."""
        inputs = msgspec.json.encode(
            [NODE_RECIPE, self.kubernetes, self.suite, self.packages, sorted(self.checksums.items())]
        )
        return f"{REPOSITORY}:{self.kubernetes}-{hashlib.sha256(inputs).hexdigest()[:_DIGITS]}"


def gather_inputs(components: ComponentSet, mirror: str = MIRROR, cache: ComponentCache | None = None) -> BuildInputs:
    """Programs and files that are all here. Raises InputError, DamagedComponent, MissingComponents."""
    cache = cache or ComponentCache()
    paths = {name: components.path(name) for name in ("etcd", *KUBERNETES_PROGRAMS)}
    for pin in node_pins(components.kubernetes):
        path = cache.checked(pin)
        if path is None:
            raise MissingComponents(f"{pin} is not here; `{NODE_COMMAND}` acquires it", (pin,))
        paths[pin.name] = path
    checksums = {name: sha256_of(path) for name, path in paths.items()}
    files = str(paths.pop(NODE_FILES))
    return BuildInputs(
        kubernetes=components.kubernetes,
        programs={name: str(path) for name, path in paths.items()},
        files=files,
        checksums=checksums,
        mirror=mirror,
    )
