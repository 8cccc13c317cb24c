"""Commands for work on kailab itself: their packages are in its source, and not in what is installed from a wheel."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import click

from kailab.errors import InputError


class CheckoutGroup(click.Group):
    """A group of commands that use the package ``kailab.<name of the group>``."""

    def invoke(self, ctx: click.Context) -> Any:
        check(f"kailab.{ctx.info_name}", ctx)
        return super().invoke(ctx)


def check(package: str, ctx: click.Context) -> None:
    """Raises InputError where that package, which the command uses, is not installed."""
    if find_spec(package) is None:
        raise InputError(
            f"kailab {ctx.info_name} is for work on kailab itself: this installation is without {package}. "
            "Run it in a checkout of kailab's source, set up with `make setup` or `pip install -e .`"
        )
