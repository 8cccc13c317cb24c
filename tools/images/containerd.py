"""Imports images into the containerd of a root, with that containerd itself, as kind's own build does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kailab.cluster.polling import wait_until
from tools.images.debian import Root

_SOCKET = "/run/build/containerd.sock"
_CONFIG = "run/build/config.toml"
_READY_SECONDS = 300.0
_END_SECONDS = 60.0
# The CRI plugin would look for a network and for files that only a running node has.
_SETTINGS = 'version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n'
_NAMESPACE = "k8s.io"


class Importer:
    """Talks to a containerd that runs in the root."""

    def __init__(self, root: Root) -> None:
        self._root = root

    def put(self, archive: Path) -> None:
        """Import an archive from anywhere on this machine. Raises subprocess.CalledProcessError."""
        with archive.open("rb") as content:
            subprocess.run(
                ["chroot", str(self._root.path), *_ctr("images", "import", "--snapshotter", "overlayfs", "-")],
                stdin=content,
                stdout=sys.stderr,
                check=True,
            )

    def names(self) -> list[str]:
        return self._root.run(*_ctr("images", "list", "--quiet")).split()

    def answers(self) -> bool:
        command = ["chroot", str(self._root.path), *_ctr("version")]
        return subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL).returncode == 0


@contextmanager
def containerd(root: Root) -> Iterator[Importer]:
    """Run containerd until the block ends. Raises TimeoutError if it does not answer."""
    root.write(_CONFIG, _SETTINGS)
    command = [
        "chroot", str(root.path), "containerd", "--config", f"/{_CONFIG}", "--address", _SOCKET,
        "--root", "/var/lib/containerd", "--state", "/run/build/state",
    ]  # fmt: skip
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
        importer = Importer(root)
        try:
            if not wait_until(lambda: process.poll() is not None or importer.answers(), _READY_SECONDS):
                raise TimeoutError(f"containerd did not answer within {_READY_SECONDS:.0f} s")
            yield importer
        finally:
            # Gracefully: it has a database to close.
            process.terminate()
            process.wait(_END_SECONDS)


def _ctr(*arguments: str) -> tuple[str, ...]:
    return ("ctr", "--address", _SOCKET, "--namespace", _NAMESPACE, *arguments)
