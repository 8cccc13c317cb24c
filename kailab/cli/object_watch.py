"""``get --watch``: a table, and then what changes, as it changes.

A lab in a file changes when another command acts on it; a lab on an API server goes on by itself.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kailab.cli import terminal
from kailab.cli.columns import View
from kailab.cli.object_tables import Shown, table
from kailab.cli.table import render, widths
from kailab.errors import InputError
from kailab.lab import kept

if TYPE_CHECKING:
    from kailab.cli.listing import Asked

PAUSE_SECONDS = 1.0
_TIMES = ("AGE", "DURATION", "LAST SEEN", "LAST SCHEDULE")  # these grow without a change


class Look(NamedTuple):
    """The table at one moment. ``rows``: by (namespace, name)."""

    headers: list[str]
    rows: dict[tuple[str, str], list[str]]
    embedded: bool

    def said(self, key: tuple[str, str]) -> list[str] | None:
        """A row but for how old things are."""
        row = self.rows.get(key)
        if row is None:
            return None
        return [cell for header, cell in zip(self.headers, row, strict=True) if header not in _TIMES]


def follow(state: Path, asked: Asked, shown: Shown) -> None:
    """Print the table; then the rows that are new or say something else, and what is gone, until the lab is down or Ctrl-C.
    Raises InputError for several kinds at once."""
    stamp, look = kept.stamp(state), _look(state, asked, shown)
    room = widths(look.headers, list(look.rows.values()))
    terminal.say(render(look.headers, list(look.rows.values()), no_headers=shown.no_headers))
    while True:
        time.sleep(PAUSE_SECONDS)
        now = kept.stamp(state)
        if now is None:
            terminal.notice(f"{state}: the lab is down")
            return
        # The file of a lab on an API server stays as it is while the lab changes.
        if now == stamp and look.embedded:
            continue
        stamp, before = now, look
        look = _look(state, asked, shown)
        changed = [row for key, row in look.rows.items() if look.said(key) != before.said(key)]
        if changed:
            terminal.say(render(look.headers, changed, no_headers=True, at_least=room))
        for namespace, name in before.rows.keys() - look.rows.keys():
            terminal.say(f"{namespace}/{name} deleted" if namespace else f"{name} deleted")


def _look(state: Path, asked: Asked, shown: Shown) -> Look:
    with kept.looked_at(state, again=True) as lab:
        _, found = asked.of(lab)
        if len(found) != 1:
            raise InputError("--watch shows one kind at a time")
        kind, objects = found[0]
        headers, rows = table(View(lab), kind, objects, shown)
        keys = [(obj["metadata"].get("namespace", ""), obj["metadata"]["name"]) for obj in objects]
        return Look(headers, dict(zip(keys, rows, strict=True)), lab.backend == "embedded")
