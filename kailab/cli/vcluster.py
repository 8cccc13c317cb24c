"""``vcluster``: the image of virtual control planes for the backend vcluster, made here."""

from __future__ import annotations

from pathlib import Path

import click

from kailab.cli import options, terminal
from kailab.cli.options import TextOrJson


@click.group()
def group() -> None:
    """Make what the backend vcluster needs, without an image registry."""


@group.group()
def image() -> None:
    """Make, list, show and remove images of virtual control planes: the pinned programs of vCluster and Kubernetes."""


@image.command()
@options.kubernetes
@options.components
@click.option("--again", is_flag=True, help="Make it also if the same image is here already.")
@click.option("--check", is_flag=True, help="Only say what is missing. Exit code 2 if anything is.")
def build(kubernetes: str | None, components: Path | None, again: bool, check: bool) -> None:
    """Make the image for a Kubernetes release. What is missing is said before anything is got or made.

    Nothing is pulled from an image registry. It needs Go; neither root nor a Docker engine. The archive is kept in the cache;
    `kailab up --backend vcluster` gives it to the nodes of a kind cluster by itself."""
    from kailab.cluster.vcluster import image as images

    if check:
        missing = images.check(kubernetes, components)
        told = f"; to be got first: {', '.join(map(str, missing))}" if missing else ""
        terminal.notice(f"the image can be made here{told}")
        return
    terminal.say(images.build(kubernetes, components, again=again, tell=terminal.notice).name)


@image.command("list")
@options.output
def list_images(output: TextOrJson) -> None:
    """List the images that were made here, newest first."""
    from kailab.cli.made_images import tell_list
    from kailab.cluster.vcluster.image import VclusterImageStore

    tell_list(VclusterImageStore(), "vcluster", output)


@image.command()
@click.argument("name")
@options.output
def show(name: str, output: TextOrJson) -> None:
    """Show what is in an image: programs with versions and checksums. Its archive is checked."""
    from kailab.cli.made_images import tell_one
    from kailab.cluster.vcluster.image import VclusterImageStore

    tell_one(VclusterImageStore(), name, output)


@image.command()
@click.argument("name")
def remove(name: str) -> None:
    """Remove an image's archive. Nodes that were given it keep it."""
    from kailab.cluster.vcluster.image import VclusterImageStore

    store = VclusterImageStore()
    found = store.get(name)
    store.remove(found)
    terminal.notice(f"{found.name} is removed")
