"""What a node image is made of, and the name that follows from it: the same ingredients have the same name."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from kailab.components import ComponentCache, ComponentSet
from kailab.components.cache import sha256_of
from kailab.components.pins import KUBERNETES_PROGRAMS, NODE_FILES, node_pins

RECIPE = 1
"""To be raised whenever the same ingredients make another image."""

REPOSITORY = "kailab/node"
SUITE = "bookworm"
MIRROR = "http://deb.debian.org/debian"
PACKAGES = (
    "bash", "ca-certificates", "catatonit", "conntrack", "containerd", "containernetworking-plugins", "curl", "dbus",
    "ethtool", "iproute2", "iptables", "jq", "kmod", "libseccomp2", "mount", "nftables", "procps", "runc", "systemd",
    "systemd-sysv", "util-linux",
)  # fmt: skip
"""Beside Debian's minimal base. kind's entrypoint, containerd, kubelet and kube-proxy call them; catatonit is the pause program."""

_DIGITS = 12


class BuildInputs(msgspec.Struct, frozen=True, kw_only=True):
    """``programs``: paths by name; ``files``: the archive of kind's files; ``checksums``: sha256 of each of these; ``mirror``: where
    Debian packages come from."""

    kubernetes: str
    programs: Mapping[str, str]
    files: str
    checksums: Mapping[str, str]
    mirror: str = MIRROR
    suite: str = SUITE
    packages: tuple[str, ...] = PACKAGES

    @property
    def name(self) -> str:
        """Of the image, with its tag. Debian's packages are in it by their names: which versions the mirror has is its record's to
        say."""
        told = msgspec.json.encode([RECIPE, self.kubernetes, self.suite, self.packages, sorted(self.checksums.items())])
        return f"{REPOSITORY}:{self.kubernetes}-{hashlib.sha256(told).hexdigest()[:_DIGITS]}"


def gather_inputs(components: ComponentSet, mirror: str = MIRROR, cache: ComponentCache | None = None) -> BuildInputs:
    """From programs that are all here. Raises InputError, DamagedComponent, MissingComponents."""
    from kailab.components import MissingComponents

    cache = cache or ComponentCache()
    paths = {name: components.path(name) for name in ("etcd", *KUBERNETES_PROGRAMS)}
    for pin in node_pins(components.kubernetes):
        found = cache.checked(pin)
        if found is None:
            raise MissingComponents(f"{pin} is not here; `kailab kind image build` gets it", (pin,))
        paths[pin.name] = found
    checksums = {name: sha256_of(path) for name, path in paths.items()}
    files = str(paths.pop(NODE_FILES))
    return BuildInputs(
        kubernetes=components.kubernetes,
        programs={name: str(path) for name, path in paths.items()},
        files=files,
        checksums=checksums,
        mirror=mirror,
    )
