"""The images inside a node image, which kubeadm runs as pods: each is made of a program, under the name that kubeadm asks for."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tools.images.debian import Root, files_of
from tools.images.layers import write_image

_PAUSE = "/usr/bin/catatonit"
_IPTABLES = (
    "usr/sbin/xtables-nft-multi",
    "usr/sbin/iptables-nft*",
    "usr/sbin/ip6tables-nft*",
    "usr/sbin/nft",
    "usr/sbin/conntrack",
    # Loaded when a rule needs them; one of them needs a library that the program itself does not.
    "usr/lib/*-linux-gnu/xtables/*.so",
)
_COMMANDS = ("iptables", "iptables-save", "iptables-restore")


class ImagePart(NamedTuple):
    """An image to build. ``program``: its path in the node's root, None: one of ``BuildInputs.programs`` by that name."""

    image: str
    program: str
    entrypoint: tuple[str, ...] = ()


def parts_of(root: Root, kubernetes: str, sandbox: str) -> list[ImagePart]:
    """The images that kubeadm names for a release, and containerd's sandbox. Raises ValueError for an image without a
    recipe here."""
    named = root.run("kubeadm", "config", "images", "list", "--kubernetes-version", kubernetes).split()
    return [_part(image) for image in dict.fromkeys((*named, sandbox))]


def _part(image: str) -> ImagePart:
    program = image.rpartition("/")[2].partition(":")[0]
    if program == "pause":
        return ImagePart(image, program, (_PAUSE, "-P"))
    if program == "coredns":
        return ImagePart(image, program, ("/usr/local/bin/coredns",))
    if program not in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"):
        raise ValueError(f"kubeadm asks for {image}, and nothing here makes it")
    return ImagePart(image, program)


def archives(
    parts: list[ImagePart], root: Root, programs: Mapping[str, str], folder: Path, architecture: str
) -> Iterator[Path]:
    """Build the images one by one. Each archive is removed when the next one is asked for."""
    for part in parts:
        staged, archive = folder / "part", folder / "part.tar"
        _stage(part, root, programs, staged)
        write_image(archive, part.image, staged, architecture, entrypoint=part.entrypoint)
        shutil.rmtree(staged)
        yield archive
        archive.unlink()


def _stage(part: ImagePart, root: Root, programs: Mapping[str, str], staged: Path) -> None:
    own = Root(staged)
    if part.program == "pause":
        own.put(_PAUSE.lstrip("/"), root.path / _PAUSE.lstrip("/"))
        return
    own.put(f"usr/local/bin/{part.program}", Path(programs[part.program]))
    if part.program == "kube-proxy":
        _stage_iptables(root, own)


def _stage_iptables(root: Root, own: Root) -> None:
    """Kube-proxy calls these programs."""
    put_with_libraries([f"/{path}" for path in files_of(root, _IPTABLES)], root, own)
    for command in _COMMANDS:
        own.link(f"usr/sbin/{command}", command.replace("tables", "tables-nft", 1))
        own.link(f"usr/sbin/ip6{command.removeprefix('ip')}", command.replace("iptables", "ip6tables-nft", 1))
    (own.path / "run").mkdir()
    (own.path / "tmp").mkdir()


def put_with_libraries(files: list[str], root: Root, own: Root) -> None:
    """Copy programs with their libraries from one root into another, empty one, where they run then."""
    for folder in ("bin", "sbin", "lib", "lib64"):
        (own.path / "usr" / folder).mkdir(parents=True, exist_ok=True)
        own.link(folder, f"usr/{folder}")
    for name in (*files, *_libraries(root, files)):
        # Resolved inside the root: links in it may lead to places that only it has.
        real = root.run("realpath", name).strip()
        own.put(real.lstrip("/"), root.path / real.lstrip("/"))
        # /lib is a link to /usr/lib, so /lib/x is /usr/lib/x.
        merged = name if name.startswith("/usr/") else f"/usr{name}"
        if real != merged:
            own.link(merged.lstrip("/"), real)


def _libraries(root: Root, programs: list[str]) -> list[str]:
    """The libraries that ldd lists."""
    words = (word for line in root.run("ldd", *programs).splitlines() for word in line.split())
    return list(dict.fromkeys(word for word in words if word.startswith("/") and not word.endswith(":")))
