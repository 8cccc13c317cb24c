"""Builds programs from source with the Go toolchain; modules come by the user's own Go settings.

The Go module proxy and its checksum database vouch for the source. Kubernetes' own modules are not taken from its
repository: each k8s.io module in it is replaced by the published one, v0.minor.patch for Kubernetes v1.minor.patch.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from kailab.components.errors import BuildFailed
from kailab.components.manifests import write_files, write_manifests
from kailab.components.pins import FILES, MANIFESTS, Pin, this_machine
from kailab.components.process_group import process_group, run_command
from kailab.components.recipes import RECIPES, usual_seconds
from kailab.model.callbacks import Progress

_STAGING = re.compile(r"^\s*(?:replace\s+)?(k8s\.io/\S+)(?:\s+\S+)?\s+=>\s+\./staging/", re.MULTILINE)
_GO_LINE = re.compile(r"^go\s+(\S+)", re.MULTILINE)
_ETCD_MAIN = """\
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
"""
_TELL_SECONDS = 1.0
_LAST_LINES = 12


class Go(NamedTuple):
    """``path``: of the command; ``version``: as ``1.26.8``."""

    path: str
    version: str

    def __str__(self) -> str:
        return f"go{self.version}"


class Git(NamedTuple):
    """``path``: of the command."""

    path: str

    def __str__(self) -> str:
        return self.path


def find_go() -> Go | None:
    """The Go toolchain; None if there is none that answers."""
    path = shutil.which("go")
    if path is None:
        return None
    try:
        done = run_command([path, "env", "GOVERSION"], 60)
    except (OSError, subprocess.SubprocessError):
        return None
    version = done.stdout.strip().removeprefix("go")
    return Go(path, version) if done.returncode == 0 and version else None


def build(pin: Pin, go: Go, folder: Path, progress: Progress) -> Path:
    """Build a program in ``folder``. ``progress``: gets, every second, the step, the seconds so far and the usual
    seconds. Raises BuildFailed."""
    recipe = RECIPES[pin.project]
    program = folder / pin.name
    with tempfile.TemporaryDirectory(prefix="kailab-build-") as made:
        place = Path(made)
        report = _BuildProgress(pin, progress)
        lender = (
            _checked_out(pin, place, report)
            if recipe.commit
            else _downloaded(pin, go, f"{recipe.module}@{pin.version}", place, report)
        )
        if pin.name == MANIFESTS:
            write_manifests(program, Path(lender["Dir"]), recipe.manifests)
            return program
        if pin.name in FILES:
            write_files(program, Path(lender["Dir"]), recipe.files)
            return program
        if recipe.commit:
            # Go takes the version of a program from the tag of its commit.
            flags = ["-mod=readonly", "-trimpath", "-buildvcs=true", f"-ldflags={_linked(pin)}"]
            _run(go, ["build", *flags, "-o", str(program), recipe.package(pin.name)], Path(lender["Dir"]), report)
            return program
        (place / "go.mod").write_text(_go_mod(pin, go, lender, place, report), encoding="utf-8")
        package = recipe.package(pin.name)
        if pin.project == "etcd":
            (place / "main.go").write_text(_ETCD_MAIN, encoding="utf-8")
            package = "."
        # -mod=mod: Go adds missing lines to our go.mod. -trimpath: the program has no paths of this machine.
        flags = ["-mod=mod", "-trimpath", "-buildvcs=false", f"-ldflags={_linked(pin)}"]
        _run(go, ["build", *flags, "-o", str(program), package], place, report)
    return program


class _BuildProgress:
    """Reports the progress of one build, which may take several commands."""

    def __init__(self, pin: Pin, progress: Progress) -> None:
        self.pin = pin
        self._progress = progress
        self._usual = usual_seconds(pin)
        self._began = time.monotonic()

    def now(self) -> None:
        seconds = int(time.monotonic() - self._began)
        # The total always exceeds the time so far: the usual time is only an estimate.
        self._progress(f"building {self.pin}", seconds, max(self._usual, seconds + 1))


def _downloaded(pin: Pin, go: Go, module: str, place: Path, report: _BuildProgress) -> dict[str, Any]:
    """Go's description of a module after its download: its ``Dir`` and its ``GoMod``."""
    output = _run(go, ["mod", "download", "-json", module], place, report)
    try:
        description: dict[str, Any] = json.loads(output)
        Path(description["GoMod"]), Path(description["Dir"])
    except (ValueError, KeyError, TypeError) as error:
        raise BuildFailed(f"{module}: Go does not say where it is: {error}") from error
    return description


def _checked_out(pin: Pin, place: Path, report: _BuildProgress) -> dict[str, Any]:
    """The repository of a module at the commit of the pin, with the version as its tag. Described as by ``_downloaded``."""
    recipe = RECIPES[pin.project]
    path = shutil.which("git")
    if path is None:
        raise BuildFailed(
            f"{pin} can't be built: no module proxy has it, and there is no git here to get its source (`git` in PATH)"
        )
    git, source = Git(path), place / "source"
    source.mkdir()
    # Git checks what it gets against the commit's own hash.
    for arguments in (
        ["init", "--quiet"],
        ["fetch", "--quiet", "--depth=1", f"https://{recipe.module}", recipe.commit],
        ["checkout", "--quiet", recipe.commit],
        ["tag", pin.version],
    ):
        _run(git, arguments, source, report)
    return {"Dir": str(source), "GoMod": str(source / "go.mod")}


def _go_mod(pin: Pin, go: Go, lender: Mapping[str, Any], place: Path, report: _BuildProgress) -> str:
    """The go.mod of our own module around the one that is built. It takes over that module's requirements, and its
    ``replace`` lines if the recipe asks for them."""
    recipe = RECIPES[pin.project]
    try:
        theirs = Path(lender["GoMod"]).read_text(encoding="utf-8")
    except OSError as error:
        raise BuildFailed(f"{recipe.module} {pin.version}: its go.mod can't be read: {error}") from error
    wanted = _GO_LINE.search(theirs)
    lines = [
        f"module kailab.invalid/{pin.project}",
        f"go {wanted.group(1) if wanted else '1.24'}",
        f"require {recipe.module} {pin.version}",
        *(f"require {other}" for other in recipe.beside),
    ]
    if pin.project == "kubernetes":
        staged = "v0" + pin.version.removeprefix("v1")
        lines += [f"replace {name} => {name} {staged}" for name in dict.fromkeys(_STAGING.findall(theirs))]
    if recipe.lent:
        output = _run(go, ["mod", "edit", "-json", str(lender["GoMod"])], place, report)
        lines += _lent_lines(json.loads(output))
        others = [_downloaded(pin, go, other.replace(" ", "@"), place, report) for other in recipe.beside]
        _lend_checksums([Path(module["Dir"]) for module in (lender, *others)], place)
    return "\n".join(lines) + "\n"


def _lent_lines(theirs: Mapping[str, Any]) -> Iterator[str]:
    """The ``replace`` and ``exclude`` lines of a go.mod: Go applies them only in the main module."""
    for replacement in theirs.get("Replace") or ():
        old, new = replacement["Old"], replacement["New"]
        # A folder of their repository does not exist here.
        if "Version" in new:
            yield f"replace {' '.join(old.values())} => {new['Path']} {new['Version']}"
    for replacement in theirs.get("Exclude") or ():
        yield f"exclude {replacement['Path']} {replacement['Version']}"


def _lend_checksums(modules: Sequence[Path], place: Path) -> None:
    """Copy the checksums that come with modules; the checksum database covers them like the modules' code."""
    files = [module / "go.sum" for module in modules]
    checksums = {
        line for file in files if file.is_file() for line in file.read_text(encoding="utf-8").splitlines() if line
    }
    (place / "go.sum").write_text("".join(f"{line}\n" for line in sorted(checksums)), encoding="utf-8")


def _linked(pin: Pin) -> str:
    """Linker flags: no debugging data; the version, which programs of Kubernetes, Helm and vCluster know in no other
    way."""
    flags = ["-s", "-w"]
    if pin.project == "kubernetes":
        major, minor, _ = pin.version.removeprefix("v").split(".", 2)
        values = {"gitVersion": pin.version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
            flags += [f"-X {package}.{name}={value}" for name, value in values.items()]
    if pin.project == "vcluster":
        where = "main.version" if pin.name == "vcluster" else "github.com/loft-sh/vcluster/pkg/telemetry.SyncerVersion"
        flags.append(f"-X {where}={pin.version.removeprefix('v')}")
    if pin.project == "helm":
        flags.append(f"-X helm.sh/helm/v3/internal/version.version={pin.version}")
    return " ".join(flags)


def _environment() -> Mapping[str, str]:
    """The user's Go settings, except those that would change the result."""
    machine = this_machine()
    own = {
        "CGO_ENABLED": "0",  # no C compiler and no libraries of this system
        "GOWORK": "off",  # a workspace above the folder would replace our go.mod
        "GOOS": machine.system,  # a user may build for other machines by default
        "GOARCH": machine.architecture,
        "GO111MODULE": "on",
    }
    return {**os.environ, **own}


def _run(tool: Go | Git, arguments: list[str], place: Path, report: _BuildProgress) -> str:
    """The output of a command. Raises BuildFailed; neither the command nor its compilers outlive this process."""
    with (
        # Files, not pipes: nobody reads meanwhile, and a full pipe would block the command.
        tempfile.TemporaryFile() as errors,
        tempfile.TemporaryFile() as output,
        process_group([tool.path, *arguments], cwd=place, env=_environment(), stdout=output, stderr=errors) as process,
    ):
        _await(process, report)
        if process.returncode:
            errors.seek(0)
            raise BuildFailed(_failure_message(report.pin, tool, arguments, errors.read().decode("utf-8", "replace")))
        output.seek(0)
        return output.read().decode("utf-8", "replace")


def _await(process: subprocess.Popen[bytes], report: _BuildProgress) -> None:
    while True:
        report.now()
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_TELL_SECONDS)
            return


def _failure_message(pin: Pin, tool: Go | Git, arguments: list[str], output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip() and not line.startswith("go: downloading ")]
    words = "\n".join(f"  {line[:300]}" for line in lines[-_LAST_LINES:])
    message = f"{pin} can't be built: `{Path(tool.path).name} {' '.join(arguments[:2])}` of {tool} failed:\n{words or '  (it printed nothing)'}"
    if "requires go >=" in output or "toolchain not available" in output:
        message += f"\n  {pin} needs a newer Go than {tool}"
    if "no space left" in output:
        message += "\n  a build needs about 5 GB for Go's caches"
    return message
