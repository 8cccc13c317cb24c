"""The command line put together. What commands need they import when they run, so that ``--help`` is quick."""

from __future__ import annotations

import atexit
import gc
import os

import click

from kailab import __version__
from kailab.cli.commands import CommandTable
from kailab.cli.error_messages import DEBUG

# A lab makes a great many objects that live as long as it does: looking through all of them for cycles every few
# hundred allocations, as Python does by default, costs more than the lab itself.
_COLLECT_AFTER = (100_000, 50, 100)


@click.group("kailab", cls=CommandTable, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, envvar=DEBUG, show_envvar=True, help="Show where errors come from.")
def app(debug: bool) -> None:
    """A lab for GPU-cluster scheduling on fake GPUs, compatible with NVIDIA's KAI scheduler."""
    if debug:
        os.environ[DEBUG] = "1"


def main() -> None:
    """The entry point ``kailab``."""
    gc.set_threshold(*_COLLECT_AFTER)
    atexit.register(gc.freeze)  # all memory goes back with the process: Python need not look through it first
    app(prog_name="kailab")


if __name__ == "__main__":
    main()
