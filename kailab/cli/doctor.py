"""``doctor``: check what is installed: Python, packages, backends, extensions, tools."""

from __future__ import annotations

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
from kailab.cli.table import render_table
from kailab.errors import InputError, KailabError

PYTHON = (3, 11)
TOOLS = {
    "docker": ("--version",),
    "kind": ("--version",),
    "kubectl": ("version", "--client"),
    "kwok": ("--version",),
    "go": ("version",),
    "allure": ("--version",),
}
"""Optional programs with the arguments that print their versions."""

_USES_OF_EXTRAS = {
    "serve": "the live page",
    "cluster": "snapshots of clusters",
    "signing": "signed evidence",
    "figures": "figures",
    "parquet": "traces in Parquet",
    "dask": "studies on Dask",
    "optuna": "searches with Optuna",
}
_PATIENCE_SECONDS = 20.0


class InstallationFact(NamedTuple):
    """``there``: it is installed or present. ``told``: version, path or reason. ``needed``: kailab does not work without it."""

    area: str
    name: str
    there: bool
    told: str
    needed: bool = False


@click.command()
@options.output
@options.state
def doctor(output: TextOrJson, state: Path) -> None:
    """Check what is installed: Python, packages, backends, extensions, tools. Exit code 1 if something required is missing."""
    facts = [
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
        terminal.say_json([fact._asdict() for fact in facts])
    else:
        default = [fact for fact in facts if _is_for_default(fact)]
        terminal.say("Needed for labs on the embedded cluster, the default:\n")
        terminal.say(_table(default))
        terminal.say("\nOptional; neither the embedded cluster nor the course needs it:\n")
        terminal.say(_table([fact for fact in facts if not _is_for_default(fact)]))
        terminal.say(f"\nready for: {', '.join(_ready_for(facts))}")
    missing = [fact.name for fact in facts if fact.needed and not fact.there]
    if missing:
        terminal.error(f"required, but missing or too old: {', '.join(missing)}")
        raise click.exceptions.Exit(1)


def _is_for_default(fact: InstallationFact) -> bool:
    return (
        fact.needed or fact.area in ("python", "package", "place") or (fact.area, fact.name) == ("backend", "embedded")
    )


def _table(facts: list[InstallationFact]) -> str:
    rows = [(fact.area, fact.name, "yes" if fact.there else "no", fact.told) for fact in facts]
    return render_table(("WHAT", "NAME", "HERE", "ABOUT"), rows)


def _ready_for(facts: list[InstallationFact]) -> Iterator[str]:
    """What this installation can do, in words."""
    if any(fact.needed and not fact.there for fact in facts):
        yield "nothing yet; the last line says what is missing"
        return
    yield "labs and tests on the embedded cluster"
    programs = [fact for fact in facts if fact.area == "component"]
    for backend in facts:
        if backend.area == "backend" and backend.there and backend.name != "embedded":
            # A control plane is possible without its programs, because kailab can get them.
            first = backend.name == "controlplane" and not all(fact.there for fact in programs)
            yield f"labs on {backend.name}{' (first: kailab components get)' if first else ''}"
    yield from (use for extra, use in _USES_OF_EXTRAS.items() if _has_extra(extra))


def _has_extra(extra: str) -> bool:
    """Whether all packages of one of kailab's extras are installed."""
    from importlib import metadata

    from packaging.requirements import Requirement

    try:
        requirements = [Requirement(line) for line in metadata.requires("kailab") or ()]
    except metadata.PackageNotFoundError:
        return False
    names = [each.name for each in requirements if each.marker is not None and each.marker.evaluate({"extra": extra})]
    return bool(names) and all(_is_installed(name) for name in names)


def _is_installed(name: str) -> bool:
    from importlib import metadata

    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _python() -> Iterator[InstallationFact]:
    about = f"{platform.python_version()} ({sys.executable}); {'.'.join(map(str, PYTHON))} or newer is needed"
    yield InstallationFact("python", platform.python_implementation(), sys.version_info >= PYTHON, about, needed=True)


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
        about = version if fits else f"{version}; needed: {requirement.specifier}"
        yield InstallationFact("package", requirement.name, fits, about, needed=True)


def _backends() -> Iterator[InstallationFact]:
    from kailab.cluster.backends import BACKENDS
    from kailab.fleet.library import available_fleets
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
    """The extensions of other distributions. Each is loaded, to check that it can be used."""
    from kailab import extensions
    from kailab.cluster.backends import BACKENDS
    from kailab.lab.venues import provider_of
    from kailab.model.kinds import check_installed
    from kailab.scheduler.settings import policies
    from kailab.undertest.registry import SCHEDULERS, scheduler_class

    checked = [
        *extensions.check_extensions(
            extensions.SCHEDULERS, lambda extension: scheduler_class(extension.name), SCHEDULERS.own
        ),
        *extensions.check_extensions(extensions.BACKENDS, lambda extension: provider_of(extension.name), BACKENDS.own),
        *extensions.check_extensions(extensions.KINDS, check_installed),
        *extensions.check_extensions(extensions.POLICIES, policies.load_policy, policies.BUILT_IN),
    ]
    for extension, state in checked:
        name = f"{extension.group.removeprefix('kailab.')} {extension.name}"
        whose = f"{extension.distribution} {extension.version}"
        yield InstallationFact("extension", name, state == "ok", whose if state == "ok" else f"{whose}: {state}")
    for damaged in extensions.broken_distributions():
        yield InstallationFact("extension", damaged.distribution, False, damaged.why)
    if not checked and not extensions.broken_distributions():
        yield InstallationFact("extension", "any", False, "no installed distribution has one (docs/extending.md)")


def _components() -> Iterator[InstallationFact]:
    """The programs of a control plane; for missing ones, how `kailab components get` would get them."""
    from kailab.components.lookup import inventory

    try:
        items = list(inventory())
    except KailabError as error:
        yield InstallationFact("component", "any", False, str(error))
        return
    methods = _get_methods() if any(item.state == "missing" for item in items) else ""
    for item in items:
        present = item.state == "ok"
        about = f"{item.about} ({item.path})" if present else methods if item.state == "missing" else item.about
        yield InstallationFact("component", item.name, present, f"{item.version}; {about}")


def _addons() -> Iterator[InstallationFact]:
    """Other schedulers and operators; for missing ones, how to get them."""
    from kailab.components import ADDONS, find_addon

    for name in ADDONS:
        try:
            addon = find_addon(name)
        except KailabError as error:
            yield InstallationFact("add-on", name, False, str(error))
        else:
            yield InstallationFact(
                "add-on", name, True, f"{addon.version} ({', '.join(map(str, addon.programs.values()))})"
            )


def _get_methods() -> str:
    from kailab.components.build import find_go

    go = find_go()
    build = f"or builds it with {go} ({go.path})" if go else "but can't build it, because Go is missing"
    return f"`kailab components get` downloads it, {build}"


def _control_planes() -> Iterator[InstallationFact]:
    from kailab.cluster.controlplane import running

    planes = running()
    yield InstallationFact("control planes", "running", bool(planes), ", ".join(map(str, planes)) or "none runs")


def _places(state: Path) -> Iterator[InstallationFact]:
    about = f"{state}: a lab is up" if state.exists() else f"{state}: no lab is up"
    yield InstallationFact("lab", "state", state.exists(), about)
    for name, folder in (("state folder", state.parent), ("evidence folder", Path("evidence"))):
        yield InstallationFact("place", name, _writable(folder), os.path.realpath(folder))


def _writable(folder: Path) -> bool:
    existing = Path(os.path.realpath(folder))  # unlike Path.resolve, accepts a link to itself
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)


def _tools() -> Iterator[InstallationFact]:
    for name, arguments in TOOLS.items():
        path = shutil.which(name)
        about = "optional" if path is None else _version(path, arguments)
        yield InstallationFact("tool", name, path is not None, about)


def _version(path: str, arguments: tuple[str, ...]) -> str:
    try:
        process = subprocess.run(
            [path, *arguments],
            capture_output=True,
            text=True,
            timeout=_PATIENCE_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"{path}, which does not print its version ({type(error).__name__})"
    lines = (process.stdout or process.stderr).strip().splitlines()
    return f"{lines[0]:.80} ({path})" if lines else path
