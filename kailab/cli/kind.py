"""``kind``: node images for the backend kind, made here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kailab.cli import options, terminal
from kailab.cli.options import TextOrJson

if TYPE_CHECKING:
    from kailab.cluster.kind.image.store import NodeImage


@click.group()
def group() -> None:
    """Make what the backend kind needs, without an image registry."""


@group.group()
def image() -> None:
    """Make, list, show and remove node images: a Debian base, the pinned Kubernetes programs, kind's own files."""


@image.command()
@options.kubernetes
@options.components
@click.option("--mirror", metavar="URL", help="Where Debian packages come from, if not from deb.debian.org.")
@click.option("--again", is_flag=True, help="Make it also if the same image is here already.")
@click.option("--check", is_flag=True, help="Only say what is missing. Exit code 2 if anything is.")
@click.option("--load/--no-load", default=True, help="Load it into the Docker engine, if there is one.")
def build(
    kubernetes: str | None, components: Path | None, mirror: str | None, again: bool, check: bool, load: bool
) -> None:
    """Make the node image of a Kubernetes release. What is missing is said before anything is got or made.

    Nothing is pulled from an image registry. It needs root, debootstrap and Go; no Docker engine. The archive is kept in the cache;
    `kailab up --backend kind` uses it by itself."""
    from kailab.cluster.kind.docker import docker_reason
    from kailab.cluster.kind.image import making
    from kailab.cluster.kind.image.ingredients import MIRROR

    if check:
        making.check(kubernetes, components, mirror=mirror or MIRROR)
        terminal.notice("nothing is missing: a node image can be made here")
        return
    made = making.build(kubernetes, components, mirror=mirror or MIRROR, again=again, tell=terminal.notice)
    if load:
        reason = docker_reason()
        if reason is None:
            _load(made)
        else:
            terminal.notice(f"not loaded: {reason}; `kailab up --backend kind` loads it where there is an engine")
    terminal.say(made.name)


@image.command("list")
@options.output
def list_images(output: TextOrJson) -> None:
    """List the node images that were made here, newest first."""
    from kailab.cli.made_images import tell_list
    from kailab.cluster.kind.image.store import NodeImageStore

    tell_list(NodeImageStore(), "kind", output)


@image.command()
@click.argument("name")
@options.output
def show(name: str, output: TextOrJson) -> None:
    """Show what is in a node image: programs with their checksums, Debian packages with their versions. Its archive is checked."""
    from kailab.cli.made_images import tell_one
    from kailab.cluster.kind.image.store import NodeImageStore

    tell_one(NodeImageStore(), name, output)


@image.command()
@click.argument("name")
def remove(name: str) -> None:
    """Remove a node image: its archive, and the image in the Docker engine if there is one."""
    from kailab.cluster.kind.docker import docker_reason, remove_image
    from kailab.cluster.kind.image.store import NodeImageStore

    store = NodeImageStore()
    found = store.get(name)
    if docker_reason() is None:
        # First: while a cluster uses it, all stays as it is.
        remove_image(found.name)
    store.remove(found)
    terminal.notice(f"{found.name} is removed")


@image.command()
@click.argument("name")
def load(name: str) -> None:
    """Load a node image into the Docker engine, as `kailab up --backend kind` does by itself."""
    from kailab.cluster.kind.docker import check_docker
    from kailab.cluster.kind.image.store import NodeImageStore

    check_docker()
    found = NodeImageStore().get(name)
    _load(found)
    terminal.say(found.name)


def _load(image: NodeImage) -> None:
    from kailab.cluster.kind.docker import load_built_image as load_into_engine

    load_into_engine(image, terminal.notice)
