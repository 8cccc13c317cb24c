"""The build of a node image: a process with its own mounts and process ids, so that it leaves nothing behind however it
ends.

Its standard output has a line for each step and, at the end, a line of JSON with the result. Everything else goes to
standard error.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec

from tools.images import control_plane_images, debian, node_files
from tools.images.build_inputs import BuildInputs
from tools.images.containerd import containerd
from tools.images.debian import Root
from tools.images.layers import write_image

RESULT = "result "
LABEL = "dev.kailab.node-image"
_ON_THE_NODE = ("kubeadm", "kubectl", "kubelet")


class NodeBuildTask(msgspec.Struct, frozen=True):
    """``folder``: an empty one, for the root filesystem; ``memory``: keep that in memory; ``archive``: the file to
    write; ``downloads``: where packages are kept."""

    wanted: BuildInputs
    folder: str
    memory: bool
    archive: str
    downloads: str
    architecture: str


class NodeBuildResult(msgspec.Struct, frozen=True):
    """See ``NodeImage``."""

    layer: str
    packages: dict[str, str]
    images: tuple[str, ...]


def make(task: NodeBuildTask) -> NodeBuildResult:
    """Build the image. Raises OSError, ValueError, subprocess.CalledProcessError."""
    wanted, folder = task.wanted, Path(task.folder)
    if task.memory:
        # dpkg flushes each of hundreds of packages, which takes minutes on a disk.
        _mount("tmpfs", folder, "-o", "mode=0700,size=100%")
    _say("installing Debian packages")
    root = debian.install(folder / "root", wanted, Path(task.downloads))
    packages = debian.installed(root)
    _say("putting kind's files and Kubernetes in place")
    for kind in ("proc", "sysfs"):
        _mount(kind, root.path / {"sysfs": "sys"}.get(kind, kind))
    for name in _ON_THE_NODE:
        root.put(f"usr/bin/{name}", Path(wanted.programs[name]))
    node_files.put_kinds_files(root, Path(wanted.files))
    sandbox = node_files.set_up(root, wanted.kubernetes)
    _check_versions(root, wanted)
    images = _import(root, control_plane_images.parts_of(root, wanted.kubernetes, sandbox), task)
    for name in ("proc", "sys"):
        subprocess.run(["umount", str(root.path / name)], check=True)
    debian.trim(root)
    for path in (*(root.path / "run").glob("*"), *(root.path / "tmp").glob("*")):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    _say("packing the image")
    layer = write_image(
        Path(task.archive),
        wanted.name,
        root.path,
        task.architecture,
        entrypoint=("/usr/local/bin/entrypoint", "/sbin/init"),
        environment=("container=docker",),
        # systemd shuts down on this signal; on SIGTERM it re-executes itself.
        stop_signal="SIGRTMIN+3",
        labels={LABEL: wanted.name},
    )
    return NodeBuildResult(layer, packages, images)


def _import(root: Root, wanted: list[control_plane_images.ImagePart], task: NodeBuildTask) -> tuple[str, ...]:
    with containerd(root) as importer:
        archives = control_plane_images.archives(
            wanted, root, task.wanted.programs, Path(task.folder), task.architecture
        )
        for part, archive in zip(wanted, archives, strict=True):
            _say(f"adding {part.image}")
            importer.put(archive)
        present = importer.names()
    missing = [part.image for part in wanted if part.image not in present]
    if missing:
        raise ValueError(f"containerd has not imported {', '.join(missing)}; it has {', '.join(present) or 'nothing'}")
    return tuple(part.image for part in wanted)


def _check_versions(root: Root, wanted: BuildInputs) -> None:
    """Run programs once in the root filesystem. Raises ValueError, subprocess.CalledProcessError."""
    version = root.run("kubelet", "--version").split()[-1]
    if version != wanted.kubernetes:
        raise ValueError(f"the node's kubelet is {version}; {wanted.kubernetes} was expected")
    for command in (("containerd", "--version"), ("runc", "--version"), ("iptables", "--version"), ("jq", "--version")):
        root.run(*command)


def _mount(kind: str, place: Path, *options: str) -> None:
    subprocess.run(["mount", "-t", kind, *options, kind, str(place)], check=True)


def _say(text: str) -> None:
    print(text, flush=True)


def main() -> None:
    """``sys.argv[1]``: the task."""
    task = msgspec.json.decode(sys.argv[1], type=NodeBuildTask)
    os.umask(0o022)
    try:
        result = make(task)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr, flush=True)
        raise SystemExit(1) from None
    _say(RESULT + msgspec.json.encode(result).decode())


if __name__ == "__main__":
    main()
