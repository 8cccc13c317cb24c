"""``components``: download, build, list and verify the programs of a real control plane."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

import click

from kailab.cli import options, terminal
from kailab.cli.error_messages import CommandGroup
from kailab.cli.options import TextOrJson
from kailab.cli.table import render_table
from kailab.errors import InputError


@click.group(cls=CommandGroup)
def group() -> None:
    """Download, build and verify the programs of a real control plane: etcd, Kubernetes, KWOK."""


def _addons(action: str) -> Callable[[Any], Any]:
    return click.option(
        "--with",
        "addons",
        multiple=True,
        metavar="ADDON",
        help=f"{action} also the programs of an add-on: another scheduler or an operator. May be repeated.",
    )


class GetMethod(StrEnum):
    """The values of ``kailab.components.AcquisitionMethod``, which is slow to import."""

    any = "any"
    download = "download"
    build = "build"


@group.command()
@options.kubernetes
@options.path_option("--from", "source", help="Copy programs from this folder; download and build nothing.")
@click.option(
    "--by",
    type=click.Choice(GetMethod),
    show_default="any",
    help="Download programs, build them with Go, or any: download, and build what can't be downloaded.",
)
@options.flag("--again", help="Get also programs that are in the cache already.")
@options.flag("--kind", help="Get also the program kind, for the backend kind.")
@options.flag("--helm", help="Get also the program helm, for schedulers installed by their chart.")
@options.flag("--vcluster", help="Get also the program vcluster, for the backend vcluster.")
@_addons("Get")
def get(
    kubernetes: str | None,
    source: Path | None,
    by: GetMethod | None,
    again: bool,
    kind: bool,
    helm: bool,
    vcluster: bool,
    addons: tuple[str, ...],
) -> None:
    """Download or build missing programs into the cache that all labs share."""
    import sys

    from kailab.components import (
        HELM,
        KIND,
        VCLUSTER,
        VCLUSTER_CHART,
        AcquisitionMethod,
        get_addon,
        get_components,
        get_program,
    )
    from kailab.components.pins import addon_pins

    if source is not None and (by is not None or kind or helm or vcluster or addons):
        raise InputError(
            "--from only copies the programs of a control plane; leave out --by, --kind, --helm, --vcluster and --with"
        )
    for name in addons:
        addon_pins(name)  # unknown names are refused before any download
    way = AcquisitionMethod((by or GetMethod.any).value)
    with terminal.progress_bars() as progress:
        component_set = get_components(
            kubernetes,
            way=way,
            adopt=source,
            again=again,
            tell=terminal.notice,
            progress=progress if sys.stderr.isatty() else None,
            use_folder=False,
        )
        paths = list(component_set.paths.values())
        shown_progress = progress if sys.stderr.isatty() else None
        tools = [
            pin
            for pin, selected in ((KIND, kind), (HELM, helm), (VCLUSTER, vcluster), (VCLUSTER_CHART, vcluster))
            if selected
        ]
        for pin in tools:
            paths.append(get_program(pin, way=way, again=again, tell=terminal.notice, progress=shown_progress))
        for name in addons:
            addon = get_addon(name, way=way, again=again, tell=terminal.notice, progress=shown_progress)
            paths += [*addon.programs.values(), addon.manifests.archive]
    for path in paths:
        terminal.say(str(path))


@group.command("list")
@options.kubernetes
@options.components
@_addons("List")
@options.output
def list_components(
    kubernetes: str | None, components: Path | None, addons: tuple[str, ...], output: TextOrJson
) -> None:
    """List the programs in the cache with their sources."""
    from kailab.components.lookup import addon_inventory, inventory

    items = [*inventory(kubernetes, components), *(item for name in addons for item in addon_inventory(name))]
    _show([item._asdict() for item in items], output)


@group.command()
@options.kubernetes
@_addons("Check")
@options.output
def verify(kubernetes: str | None, addons: tuple[str, ...], output: TextOrJson) -> None:
    """Verify the checksum of each program in the cache. Exit code 1 if one is wrong or missing."""
    from kailab.components.lookup import addon_inventory, verified_inventory

    items = [*verified_inventory(kubernetes), *(item for name in addons for item in addon_inventory(name, anew=True))]
    _show([item._asdict() for item in items], output)
    if wrong := [item.name for item in items if item.state != "ok"]:
        terminal.error(f"wrong or missing programs: {', '.join(wrong)}; `kailab components get --again` replaces them")
        raise click.exceptions.Exit(1)


def _show(items: list[dict[str, Any]], output: TextOrJson) -> None:
    if output is TextOrJson.json:
        terminal.say_json(items)
        return
    # The JSON output has the whole checksum.
    rows = [[str(value)[:12] if name == "sha256" else str(value) for name, value in item.items()] for item in items]
    terminal.say(render_table([name.upper() for name in items[0]], rows))
