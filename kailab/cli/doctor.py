"""``doctor``: what of all that kailab can use is here."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click

from kailab.cli import options, terminal
from kailab.cli.options import TextOrJson

PYTHON = (3, 11)
TOOLS = {
    "docker": ("--version",),
    "kind": ("--version",),
    "kubectl": ("version", "--client"),
    "kwok": ("--version",),
    "go": ("version",),
    "allure": ("--version",),
}
"""Optional programs, and how each tells its version."""

_PATIENCE_SECONDS = 20.0


class InstallationFact(NamedTuple):
    """``needed``: kailab can't work without it."""

    area: str
    name: str
    there: bool
    told: str
    needed: bool = False


@click.command()
@options.output
@options.state
def doctor(output: TextOrJson, state: Path) -> None:
    """Say what is installed: Python, packages, backends, extensions, tools. Exit code 1 if something needed is missing."""
    from kailab.cli.table import render_table

    found = [
        *_python(),
        *_packages(),
        *_backends(),
        *_extensions(),
        *_components(),
        *_addons(),
        *_control_planes(),
        *_places(state),
        *_tools(),
    ]
    if output is TextOrJson.json:
        terminal.say(json.dumps([finding._asdict() for finding in found], indent=2))
    else:
        rows = [(one.area, one.name, "yes" if one.there else "no", one.told) for one in found]
        terminal.say(render_table(("WHAT", "NAME", "HERE", "ABOUT"), rows))
    missing = [one.name for one in found if one.needed and not one.there]
    if missing:
        terminal.error(f"needed and not here: {', '.join(missing)}")
        raise click.exceptions.Exit(1)


def _python() -> Iterator[InstallationFact]:
    wanted = ".".join(map(str, PYTHON))
    told = f"{platform.python_version()} ({sys.executable}); {wanted} or newer is needed"
    yield InstallationFact("python", platform.python_implementation(), sys.version_info >= PYTHON, told, needed=True)


def _packages() -> Iterator[InstallationFact]:
    from importlib import metadata

    from packaging.requirements import Requirement

    try:
        lines = metadata.requires("kailab") or []
    except metadata.PackageNotFoundError:
        yield InstallationFact("package", "kailab", False, "runs from its source, not installed", needed=False)
        return
    for requirement in map(Requirement, lines):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            yield InstallationFact(
                "package", requirement.name, False, f"needed: {requirement.specifier or 'any'}", needed=True
            )
            continue
        fits = requirement.specifier.contains(version, prereleases=True)
        told = version if fits else f"{version}; needed: {requirement.specifier}"
        yield InstallationFact("package", requirement.name, fits, told, needed=True)


def _backends() -> Iterator[InstallationFact]:
    from kailab.cluster.backends import BACKENDS
    from kailab.errors import InputError
    from kailab.fleet import available_fleets
    from kailab.lab.venues import provider_of

    fleets = ", ".join(available_fleets())
    for name, choice in BACKENDS.items():
        try:
            lacking = provider_of(name).lacking()
        except InputError as error:  # an extra is not installed
            lacking = str(error)
        yield InstallationFact(
            "backend", name, lacking is None, f"{choice.about}; {lacking}" if lacking else choice.about
        )
    yield InstallationFact("fleets", "fleets", bool(fleets), fleets or "none found", needed=True)


def _extensions() -> Iterator[InstallationFact]:
    """What other distributions bring. Loads each, to say whether it can be used."""
    from kailab import extensions
    from kailab.cluster.backends import BACKENDS
    from kailab.lab.venues import provider_of
    from kailab.model.kinds import check_installed
    from kailab.scheduler.settings import policies
    from kailab.undertest.registry import SCHEDULERS, scheduler_class

    found = [
        *extensions.check_extensions(extensions.SCHEDULERS, lambda one: scheduler_class(one.name), SCHEDULERS.own),
        *extensions.check_extensions(extensions.BACKENDS, lambda one: provider_of(one.name), BACKENDS.own),
        *extensions.check_extensions(extensions.KINDS, check_installed),
        *extensions.check_extensions(extensions.POLICIES, policies.load_policy, policies.BUILT_IN),
    ]
    for extension, state in found:
        name = f"{extension.group.removeprefix('kailab.')} {extension.name}"
        whose = f"{extension.distribution} {extension.version}"
        yield InstallationFact("extension", name, state == "ok", whose if state == "ok" else f"{whose}: {state}")
    for damaged in extensions.broken_distributions():
        yield InstallationFact("extension", damaged.distribution, False, damaged.why)
    if not found and not extensions.broken_distributions():
        yield InstallationFact("extension", "any", False, "no installed distribution brings one (docs/extending.md)")


def _components() -> Iterator[InstallationFact]:
    """The programs of a control plane, and for those that are missing how they would be got."""
    from kailab.components.lookup import inventory
    from kailab.errors import KailabError

    try:
        found = list(inventory())
    except KailabError as error:
        yield InstallationFact("component", "any", False, str(error))
        return
    ways = _ways() if any(item.state == "missing" for item in found) else ""
    for item in found:
        there = item.state == "ok"
        told = f"{item.about} ({item.path})" if there else ways if item.state == "missing" else item.about
        yield InstallationFact("component", item.name, there, f"{item.version}; {told}")


def _addons() -> Iterator[InstallationFact]:
    """Other schedulers and operators, each with what it would take to get it."""
    from kailab.components import ADDONS, find_addon
    from kailab.errors import KailabError

    for name in ADDONS:
        try:
            found = find_addon(name)
        except KailabError as error:
            yield InstallationFact("add-on", name, False, str(error))
        else:
            yield InstallationFact(
                "add-on", name, True, f"{found.version} ({', '.join(map(str, found.programs.values()))})"
            )


def _ways() -> str:
    from kailab.components.build import find_go

    go = find_go()
    built = f"else builds it with {go} ({go.path})" if go else "can't build it: there is no Go"
    return f"`kailab components get` downloads it, {built}"


def _control_planes() -> Iterator[InstallationFact]:
    from kailab.cluster.controlplane import running

    found = running()
    told = ", ".join(map(str, found)) or "none runs"
    yield InstallationFact("control planes", "running", bool(found), told)


def _places(state: Path) -> Iterator[InstallationFact]:
    told = f"{state}: a lab is up" if state.exists() else f"{state}: no lab is up"
    yield InstallationFact("lab", "state", state.exists(), told)
    for name, folder in (("state folder", state.parent), ("evidence folder", Path("evidence"))):
        yield InstallationFact("place", name, _writable(folder), f"{folder.resolve()}")


def _writable(folder: Path) -> bool:
    existing = folder.resolve()
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)


def _tools() -> Iterator[InstallationFact]:
    for name, question in TOOLS.items():
        path = shutil.which(name)
        yield InstallationFact("tool", name, path is not None, "optional" if path is None else _version(path, question))


def _version(path: str, question: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(
            [path, *question],
            capture_output=True,
            text=True,
            timeout=_PATIENCE_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"{path}, which does not answer ({type(error).__name__})"
    said = (done.stdout or done.stderr).strip().splitlines()
    return f"{said[0]:.80} ({path})" if said else path
