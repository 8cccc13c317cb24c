"""Versions of programs: asked from the program (``--version``), or read from the build information in a Go program's file."""

from __future__ import annotations

import mmap
import re
import subprocess
from pathlib import Path

from kailab.components.errors import WrongComponent
from kailab.components.pins import ADDONS, FILES, MANIFESTS, Pin
from kailab.components.process_group import run_command
from kailab.components.recipes import RECIPES

_MAGIC = b"\xff Go buildinf:"


def module_version(binary: Path, module: str) -> str:
    """The version of a module in a Go program, with its ``v``; empty if it is not in it, or the program is not Go's."""
    match = re.search(rf"^(?:mod|dep)\t{re.escape(module)}\t(v[^\t\n]+)", build_information(binary), re.MULTILINE)
    return match[1] if match else ""


def build_information(binary: Path) -> str:
    """Module and settings of a Go program, one a line; empty for other programs. Source: Go's debug/buildinfo."""
    try:
        with binary.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            at = content.find(_MAGIC)
            # After the magic: the pointer size, flags (2: strings are inline), and padding up to 32 bytes.
            if at < 0 or not content[at + 15] & 2:  # before Go 1.18 there are pointers
                return ""
            _, at = _string(content, at + 32)
            information, _ = _string(content, at)
    except (OSError, ValueError, IndexError):
        return ""
    # Go puts a marker of 16 bytes before and after it.
    return information[16:-16].decode("utf-8", "replace")


def _string(content: mmap.mmap, at: int) -> tuple[bytes, int]:
    """A string with its length in front, and its end."""
    length = shift = 0
    while True:
        byte = content[at]
        at += 1
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return content[at : at + length], at + length


_PATIENCE_SECONDS = 120.0  # for the first start of a program of 150 MB on a busy machine
_QUESTIONS = {
    "kubectl": ("version", "--client"),
    "kubeadm": ("version", "--output", "short"),
    "helm": ("version", "--template", "{{.Version}}"),
}
_SILENT = (*ADDONS, "kine", "u-root")
"""Most of their programs do not support ``--version``, or print another version than their module's."""
_VERSION = re.compile(r"\bv?(\d+\.\d+\.\d+[-+.\w]*)")


def reported_version(name: str, path: Path) -> str:
    """The version, with its ``v``. Raises WrongComponent."""
    try:
        done = run_command([str(path), *_QUESTIONS.get(name, ("--version",))], _PATIENCE_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        raise WrongComponent(f"{path}: it does not run here: {error}") from error
    match = _VERSION.search(done.stdout)
    if done.returncode or match is None:
        output = " ".join((done.stderr or done.stdout).split())[:200]
        raise WrongComponent(
            f"{path}: it does not report its version; it printed {output!r} (exit code {done.returncode})"
        )
    return f"v{match.group(1)}"


def check_version(pin: Pin, path: Path) -> None:
    """Raises WrongComponent."""
    if pin.name in (MANIFESTS, *FILES):
        return  # written by kailab, from the module of that version
    version = _built_version(pin, path) if pin.project in _SILENT else reported_version(pin.name, path)
    if version != pin.version:
        raise WrongComponent(f"{path}: it is {pin.name} {version}; {pin.version} was expected")


def _built_version(pin: Pin, path: Path) -> str:
    version = module_version(path, RECIPES[pin.project].module)
    if not version:
        raise WrongComponent(f"{path}: it does not say in its build information that it is {pin.name}")
    return version
