"""The command line put together. Commands import what they need when they run, so that ``--help`` is quick."""

from __future__ import annotations

import gc
import os
from typing import Annotated

import typer

from kailab import __version__
from kailab.cli import (
    bench,
    components,
    conformance,
    evidence,
    explain,
    fleets,
    get,
    life,
    objects,
    scheduler,
    terminal,
)
from kailab.cli.doctor import doctor
from kailab.cli.faults import DEBUG, Faces

# A lab makes a great many objects that live as long as it does: looking through all of them for cycles every few
# hundred allocations, as Python does by default, costs more than the lab itself.
_COLLECT_AFTER = (100_000, 50, 100)

app = typer.Typer(
    name="kailab",
    cls=Faces,
    help="A lab for GPU-cluster scheduling on fake GPUs, compatible with NVIDIA's KAI scheduler.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        terminal.say(f"kailab {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", envvar=DEBUG, help="Show where errors come from.")] = False,
) -> None:
    if debug:
        os.environ[DEBUG] = "1"


for _command in (
    life.up,
    life.down,
    life.status,
    objects.apply,
    objects.delete,
    get.get,
    explain.explain,
    life.run,
    evidence.report,
    doctor,
):
    app.command()(_command)
for _name, _group in (
    ("fleet", fleets.app),
    ("evidence", evidence.app),
    ("components", components.app),
    ("conformance", conformance.app),
    ("bench", bench.app),
    ("scheduler", scheduler.app),
):
    app.add_typer(_group, name=_name)


def main() -> None:
    """The entry point ``kailab``."""
    gc.set_threshold(*_COLLECT_AFTER)
    app(prog_name="kailab")


if __name__ == "__main__":
    main()
