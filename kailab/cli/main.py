"""The entry point ``kailab``: the group of all commands, with its own options. Commands import what they need when they run."""

from __future__ import annotations

import atexit
import gc
import os

import click

from kailab.cli import terminal
from kailab.cli.commands import CommandTable
from kailab.cli.error_messages import DEBUG
from kailab.version import __version__

# A lab creates many long-lived objects. With Python's default thresholds the garbage collector scans all of them every few hundred
# allocations, which costs more than the lab itself.
_COLLECT_AFTER = (100_000, 50, 100)


@click.group("kailab", cls=CommandTable, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, envvar=DEBUG, show_envvar=True, help="Show tracebacks of errors.")
@click.option("--verbose", "-v", is_flag=True, help="Log retries, lost answers, watch restarts and settling to stderr.")
def app(debug: bool, verbose: bool) -> None:
    """A lab for GPU-cluster scheduling on fake GPUs, compatible with NVIDIA's KAI scheduler."""
    if debug:
        os.environ[DEBUG] = "1"
    if verbose:
        terminal.log_to_stderr(debug=True)


def main() -> None:
    """Run the command line."""
    gc.set_threshold(*_COLLECT_AFTER)
    atexit.register(gc.freeze)  # the process ends: a last collection of garbage would only cost time
    app(prog_name="kailab")


if __name__ == "__main__":
    main()
