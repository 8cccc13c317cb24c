"""Images of one layer, as archives that ``docker load`` and ``ctr images import`` read.

Source: the image specification of Docker, v1.2 (``manifest.json``, a configuration, layers as tar files).
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PIECE = 1 << 20
_GZIP = 31  # zlib's value for a gzip header
_LEVEL = 1


def write_image(
    archive: Path,
    name: str,
    root: Path,
    architecture: str,
    *,
    entrypoint: Sequence[str] = (),
    environment: Sequence[str] = (),
    stop_signal: str = "",
    labels: Mapping[str, str] | None = None,
    roots_own: bool = False,
) -> str:
    """Write an image with the files below ``root``. Returns the sha256 of its layer, unpacked, with ``sha256:`` in
    front.

    ``architecture``: in Go's terms. ``roots_own``: all files belong to root in the image. Raises OSError,
    subprocess.CalledProcessError.
    """
    with tempfile.TemporaryFile(dir=archive.parent) as layer:
        unpacked = _pack(root, layer, ("--owner=0", "--group=0") if roots_own else ())
        settings: dict[str, Any] = {
            "Env": [_PATH, *environment],
            "Entrypoint": list(entrypoint) or None,
            "StopSignal": stop_signal or None,
            "Labels": dict(labels or {}) or None,
        }
        described = {
            "architecture": architecture,
            "os": "linux",
            "config": {key: value for key, value in settings.items() if value is not None},
            "rootfs": {"type": "layers", "diff_ids": [unpacked]},
            "history": [{"created_by": "kailab"}],
        }
        config = json.dumps(described, sort_keys=True).encode()
        of_config = f"{hashlib.sha256(config).hexdigest()}.json"
        manifest = [{"Config": of_config, "RepoTags": [name], "Layers": ["layer.tar"]}]
        with tarfile.open(archive, "w") as out:
            _add(out, of_config, io.BytesIO(config))
            _add(out, "layer.tar", layer)
            _add(out, "manifest.json", io.BytesIO(json.dumps(manifest).encode()))
    return unpacked


def _pack(root: Path, out: IO[bytes], owner: Sequence[str]) -> str:
    """Write a compressed tar. Returns the digest of the uncompressed tar."""
    digest, packer = hashlib.sha256(), zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    # Without modification times, the same files make the same layer.
    command = ["tar", "--create", "--sort=name", "--numeric-owner", "--mtime=@0", *owner, "--directory", str(root), "."]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        while piece := process.stdout.read(_PIECE):
            digest.update(piece)
            out.write(packer.compress(piece))
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    out.write(packer.flush())
    return f"sha256:{digest.hexdigest()}"


def _add(out: tarfile.TarFile, name: str, content: IO[bytes]) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = content.seek(0, io.SEEK_END)
    content.seek(0)
    out.addfile(entry, content)
