"""The data of the page as tests compare it: what was new taken in, and each reference followed to its entry."""

from __future__ import annotations

import gzip
import json
from bisect import bisect_right
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from kailab.report.page_data import NONE
from kailab.report.raw import SEPARATOR
from kailab.serve.view import PageView


def form_of(view: PageView) -> Any:
    """The lab as a browser has it that comes late."""
    form = json.loads(gzip.decompress(view.lab))
    since = view.since(view.showing, view.first)
    assert since is not None
    for new in json.loads(gzip.decompress(since)):
        taken_in(form, new)
    return form


class Entries:
    """Raw entries, by reference."""

    def __init__(self, form: Any, chunks: Mapping[str, bytes]) -> None:
        self._raw, self._chunks = form["raw"], chunks
        self._texts: dict[str, list[bytes]] = {}

    def at(self, ref: int) -> Any:
        """The file, and the entry as a value; None for no reference."""
        if ref == NONE:
            return None
        raw = self._raw
        if raw["each"]:
            chunk, first = f"{raw['name']}.{ref // raw['each']}", ref // raw["each"] * raw["each"]
        else:
            chunk, first = raw["chunks"][bisect_right([begin for _, begin in raw["chunks"]], ref) - 1]
        if chunk not in self._texts:
            self._texts[chunk] = gzip.decompress(self._chunks[chunk]).split(SEPARATOR)
        file = raw["parts"][bisect_right([begin for *_, begin in raw["parts"]], ref) - 1][0]
        return {"file": file.removesuffix(".gz"), "value": json.loads(self._texts[chunk][ref - first])}


def resolved(form: Any, chunks: Mapping[str, bytes]) -> Any:
    """With entries for references, and no word of where they stand: that is another in a file."""
    at, form = Entries(form, chunks).at, deepcopy(form)
    form["facts_ref"] = at(form["facts_ref"])
    for one in (*form["moments"], *form["steps"], *form["waits"]):
        one["ref"] = at(one["ref"])
    for part, place in (("nodes", 3), ("queues", 2)):
        form[part]["changes"] = [
            [[*change[:place], at(change[place]), *change[place + 1 :]] for change in changes]
            for changes in form[part]["changes"]
        ]
    form["groups"]["ref"] = [at(ref) for ref in form["groups"]["ref"]]
    for column in ("before", "after", "ref"):
        form["pods"][column] = [at(ref) for ref in form["pods"][column]]
    decisions = form["decisions"]
    first = decisions.pop("ref0")
    decisions["entries"] = [at(first + place) for place in range(len(decisions["moment"]))]
    first = form.pop("events_ref0")
    # A page of a lab that goes on has them as they came.
    told = [(about, json.dumps(at(first + place), sort_keys=True)) for place, about in enumerate(form["events"])]
    form["events"] = sorted(told)
    del form["raw"]
    return form


def taken_in(form: Any, new: Any) -> None:
    """What the page does with an increment."""
    for part in ("moments", "waits"):
        _put(form[part], new[part], new[part]["values"])
    form["steps"] += new["steps"]
    for part in ("nodes", "queues", "groups"):
        some = new[part]
        for column, values in some["values"].items():
            if column in ("racks", "models", "by"):
                form[part][column] = values
            else:
                _put(form[part][column], some, values)
    _pods(form["pods"], new["pods"])
    for column, values in new["decisions"].items():
        if column == "evictions":
            form["decisions"][column] += values
        elif column in ("kinds", "actions", "ref0"):
            form["decisions"][column] = values
        else:
            form["decisions"][column] += values
    form["events"] = form["events"][new["events_gone"] :] + new["events"]
    form["raw"]["parts"] += new["parts"]


def _put(column: list[Any], some: Any, values: list[Any]) -> None:
    del column[some["count"] :]
    column += [None] * (some["count"] - len(column))
    for place, value in zip(some["places"], values, strict=True):
        column[place] = value


def _pods(form: Any, some: Any) -> None:
    new, segments = some["values"], {}
    for columns, places in ((form, range(len(form["name"]))), (new, some["places"])):
        for at, place in enumerate(places):
            own = slice(columns["first"][at], columns["first"][at + 1])
            segments[place] = {name: columns[name][own] for name in SEGMENTS}
    for column in ("name", "group", "before", "after"):
        _put(form[column], some, new[column])
    for name in SEGMENTS:
        form[name] = []
    form["first"] = [0]
    for place in range(some["count"]):
        for name in SEGMENTS:
            form[name] += segments[place][name]
        form["first"].append(len(form["moment"]))
    form["sharing"] = new["sharing"]


SEGMENTS = ("moment", "state", "node", "milli", "shared", "ref")
