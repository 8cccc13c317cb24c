"""The Debian root filesystem of a node image."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.images.build_inputs import BuildInputs

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_OF_NO_USE = ("var/cache/apt", "var/lib/apt/lists", "usr/share/man", "usr/share/locale", "var/log")


class Root:
    """A root filesystem at ``path``, in which commands can run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(self, *command: str) -> str:
        """The output of a command in it. Raises subprocess.CalledProcessError."""
        done = subprocess.run(
            ["chroot", str(self.path), *command],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            stdin=subprocess.DEVNULL,
        )
        return done.stdout

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """``path``: relative to the root."""
        file = self.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        # A package may have put a link there that leads out of this root.
        file.unlink(missing_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(mode)

    def link(self, path: str, target: str) -> None:
        """``target``: as seen inside the root."""
        link = self.path / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(target)

    def put(self, path: str, program: Path) -> None:
        """Copy a program into it."""
        file = self.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(program, file)
        file.chmod(0o755)


def install(root: Path, wanted: BuildInputs, downloads: Path) -> Root:
    """Install Debian's minimal base and the packages. ``downloads``: a folder that keeps downloads. Raises
    subprocess.CalledProcessError."""
    downloads.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [
            "debootstrap", "--variant=minbase", f"--include={','.join(wanted.packages)}", f"--cache-dir={downloads}",
            # Without the option, debootstrap would skip verification if there is no keyring.
            f"--keyring={KEYRING}", "--force-check-gpg", wanted.suite, str(root), wanted.mirror,
        ],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
    )  # fmt: skip
    return Root(root)


def installed(root: Root) -> dict[str, str]:
    """Package -> version."""
    lines = root.run("dpkg-query", "--show", "--showformat", "${Package} ${Version}\n").splitlines()
    return dict(line.split(" ", 1) for line in sorted(lines))


def trim(root: Root) -> None:
    """Remove what a node never reads. The packages' copyright files stay."""
    for folder in _OF_NO_USE:
        for path in (root.path / folder).glob("*"):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def files_of(root: Root, patterns: Sequence[str]) -> list[Path]:
    """Paths relative to the root, links included."""
    return sorted({path.relative_to(root.path) for pattern in patterns for path in root.path.glob(pattern)})
