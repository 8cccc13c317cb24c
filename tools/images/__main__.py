"""The command line: ``python -m tools.images kind|vcluster build|list|show|load|remove``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import msgspec

from kailab.cli import options, terminal
from kailab.cli.error_messages import ReportingGroup
from kailab.cli.options import TextOrJson
from kailab.cli.table import render_table
from kailab.cluster.built_images import ImageStore, NodeImageStore, VclusterImageStore
from kailab.cluster.kind.docker import check_docker, docker_reason, load_built_image, remove_image
from tools.images import node_image, vcluster_image
from tools.images.build_inputs import MIRROR


@click.group(cls=ReportingGroup)
def app() -> None:
    """Build, list, show, load and remove images for kind nodes and virtual control planes."""


@app.group()
def kind() -> None:
    """Images of kind nodes: a Debian base, the pinned Kubernetes programs, kind's own files."""


@kind.command("build")
@options.kubernetes
@options.components
@click.option("--mirror", metavar="URL", help="Where Debian packages come from, if not from deb.debian.org.")
@click.option("--again", is_flag=True, help="Build it also if the same image is here already.")
@click.option("--check", is_flag=True, help="Only report what is missing. Exit code 2 if anything is.")
@click.option("--load/--no-load", default=True, help="Load it into the Docker engine, if there is one.")
def build_node_image(
    kubernetes: str | None, components: Path | None, mirror: str | None, again: bool, check: bool, load: bool
) -> None:
    """Build the node image of a Kubernetes release. What is missing is reported before anything is acquired or built.

    Nothing is pulled from an image registry. It needs root, debootstrap and Go; no Docker engine. The archive is kept
    in the cache; `kailab up --backend kind` uses it by itself."""
    if check:
        node_image.check(kubernetes, components, mirror=mirror or MIRROR)
        terminal.notice("nothing is missing: a node image can be built here")
        return
    image = node_image.build(kubernetes, components, mirror=mirror or MIRROR, again=again, tell=terminal.notice)
    if load:
        reason = docker_reason()
        if reason is None:
            load_built_image(image, terminal.notice)
        else:
            terminal.notice(f"not loaded: {reason}; `kailab up --backend kind` loads it where there is an engine")
    terminal.say(image.name)


@kind.command("list")
@options.output
def list_node_images(output: TextOrJson) -> None:
    """List the node images that were built here, newest first."""
    _list(NodeImageStore(), "kind", output)


@kind.command("show")
@click.argument("name")
@options.output
def show_node_image(name: str, output: TextOrJson) -> None:
    """Show what is in a node image: programs with their checksums, Debian packages with their versions. Its archive is checked."""
    _show(NodeImageStore(), name, output)


@kind.command("load")
@click.argument("name")
def load_node_image(name: str) -> None:
    """Load a node image into the Docker engine, as `kailab up --backend kind` does by itself."""
    check_docker()
    image = NodeImageStore().get(name)
    load_built_image(image, terminal.notice)
    terminal.say(image.name)


@kind.command("remove")
@click.argument("name")
def remove_node_image(name: str) -> None:
    """Remove a node image: its archive, and the image in the Docker engine if there is one."""
    store = NodeImageStore()
    image = store.get(name)
    if docker_reason() is None:
        # Docker first: it refuses while a cluster uses the image, and then the archive stays, too.
        remove_image(image.name)
    store.remove(image)
    terminal.notice(f"{image.name} is removed")


@app.group()
def vcluster() -> None:
    """Images of virtual control planes: the pinned programs of vCluster and Kubernetes."""


@vcluster.command("build")
@options.kubernetes
@options.components
@click.option("--again", is_flag=True, help="Build it also if the same image is here already.")
@click.option("--check", is_flag=True, help="Only report what is missing. Exit code 2 if anything is.")
def build_vcluster_image(kubernetes: str | None, components: Path | None, again: bool, check: bool) -> None:
    """Build the image for a Kubernetes release. What is missing is reported before anything is acquired or built.

    Nothing is pulled from an image registry. It needs Go; neither root nor a Docker engine. The archive is kept in the
    cache; `kailab up --backend vcluster` gives it to the nodes of a kind cluster by itself."""
    if check:
        missing = vcluster_image.check(kubernetes, components)
        pins = f"; to be acquired first: {', '.join(map(str, missing))}" if missing else ""
        terminal.notice(f"the image can be built here{pins}")
        return
    terminal.say(vcluster_image.build(kubernetes, components, again=again, tell=terminal.notice).name)


@vcluster.command("list")
@options.output
def list_vcluster_images(output: TextOrJson) -> None:
    """List the images that were built here, newest first."""
    _list(VclusterImageStore(), "vcluster", output)


@vcluster.command("show")
@click.argument("name")
@options.output
def show_vcluster_image(name: str, output: TextOrJson) -> None:
    """Show what is in an image: programs with versions and checksums. Its archive is checked."""
    _show(VclusterImageStore(), name, output)


@vcluster.command("remove")
@click.argument("name")
def remove_vcluster_image(name: str) -> None:
    """Remove an image's archive. Nodes that were given it keep it."""
    store = VclusterImageStore()
    image = store.get(name)
    store.remove(image)
    terminal.notice(f"{image.name} is removed")


def _list(store: ImageStore[Any], release: str, output: TextOrJson) -> None:
    """``release``: the field of a record with the release of kind or vCluster that the image is for."""
    rows = [
        {
            "name": image.name,
            "kubernetes": image.kubernetes,
            release: getattr(image, release),
            "megabytes": str(image.megabytes),
            "created": image.created,
            "path": str(store.archive(image)),
        }
        for image in store.images()
    ]
    if output is TextOrJson.json:
        terminal.say(json.dumps(rows, indent=2))
    elif rows:
        terminal.say(render_table([name.upper() for name in rows[0]], [list(row.values()) for row in rows]))
    else:
        terminal.notice(f"no {store.noun} was built here; `{store.command}` builds one")


def _show(store: ImageStore[Any], name: str, output: TextOrJson) -> None:
    """Raises InputError, StateError."""
    image = store.get(name)
    store.checked(image)
    fields: dict[str, Any] = {**msgspec.to_builtins(image), "path": str(store.archive(image))}
    if output is TextOrJson.json:
        terminal.say(json.dumps(fields, indent=2))
        return
    for key, value in fields.items():
        if isinstance(value, dict):
            terminal.say("\n".join([f"{key}:", *(f"  {item} {about}" for item, about in value.items())]))
        else:
            terminal.say(f"{key}: {', '.join(value) if isinstance(value, list | tuple) else value}")


if __name__ == "__main__":
    app(prog_name="python -m tools.images")
