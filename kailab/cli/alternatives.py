"""A command whose arguments come in several groups, with a word between them: what one could do, ``--or`` what else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from click.core import ParameterSource

SEPARATOR = "--or"


class WithAlternatives(click.Command):
    """``own``: the names of parameters that each group has for itself; the callback gets them by group, as ``alternatives``. All
    others are said once, in any group."""

    def __init__(self, *given: Any, own: Sequence[str] = (), **named: Any) -> None:
        super().__init__(*given, **named)
        self.own = tuple(own)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        groups: list[list[str]] = [[]]
        for word in args:
            if word == SEPARATOR:
                groups.append([])
            else:
                groups[-1].append(word)
        alternatives: list[dict[str, Any]] = []
        shared: dict[str, Any] = {}
        for group in groups:
            one = click.Context(
                self, parent=ctx.parent, info_name=ctx.info_name, resilient_parsing=ctx.resilient_parsing
            )
            super().parse_args(one, group)
            alternatives.append({name: one.params[name] for name in self.own if name in one.params})
            for name, value in one.params.items():
                if name in self.own:
                    continue
                if name not in shared or one.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                    shared[name] = value
        ctx.params = {**shared, "alternatives": alternatives}
        return []
