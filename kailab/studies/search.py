"""What a study searches through, and what for; as its file says it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from kailab.errors import InputError
from kailab.model.schema_files import SchemaFault
from kailab.studies.target import read_subject, subject


class Range(msgspec.Struct, frozen=True):
    """Numbers from ``low`` to ``high``, both among them, in steps."""

    low: float
    high: float
    step: float


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """``over``: option -> the values that there are, a range, or ranges by queue. The ``measure`` of ``queue`` is to be as large as can be (``largest``), or as small.
    ``trials``: settings proposed in all, ``batch`` of them before the search is told what came of them."""

    over: Mapping[str, Any]
    measure: str
    queue: str
    largest: bool
    trials: int
    seed: int = 0
    batch: int = 4

    @property
    def subject(self) -> str:
        return subject(self.measure, self.queue)


def search_faults(told: Mapping[str, Any]) -> Iterator[SchemaFault]:
    """Of one that has the form."""
    if ("minimise" in told) == ("maximise" in told):
        yield SchemaFault("search", "expected one of minimise and maximise")
    for side in ("minimise", "maximise"):
        if side in told:
            try:
                read_subject(told[side])
            except InputError as error:
                yield SchemaFault(f"search.{side}", error.message)
    for option, values in told["over"].items():
        if isinstance(values, dict):
            for path, one in (
                [(option, values)] if "from" in values else [(f"{option}.{q}", v) for q, v in values.items()]
            ):
                if one["from"] >= one["to"]:
                    yield SchemaFault(
                        f"search.over.{path}", f"from {one['from']:g} to {one['to']:g}; expected the smaller first"
                    )
                elif one["to"] - one["from"] < one["step"]:
                    yield SchemaFault(f"search.over.{path}", f"a step of {one['step']:g} leaves only {one['from']:g}")


def read_search(told: Mapping[str, Any], placed: Any) -> Search:
    """Of one without faults. ``placed``: makes an option's value of what the file says."""
    side = "minimise" if "minimise" in told else "maximise"
    queue, measure = read_subject(told[side])
    over: dict[str, Any] = {}
    for option, values in told["over"].items():
        if not isinstance(values, dict):
            over[option] = tuple(placed(option, one) for one in values)
        elif "from" in values:
            over[option] = _range(values)
        else:
            over[option] = {name: _range(one) for name, one in values.items()}
    rest = {name: told[name] for name in ("seed", "batch") if name in told}
    return Search(over=over, measure=measure, queue=queue, largest=side == "maximise", trials=told["trials"], **rest)


def _range(told: Mapping[str, Any]) -> Range:
    # The last step may not reach the end: the sampler takes ranges of whole steps only.
    steps = int((told["to"] - told["from"]) / told["step"] + 1e-9)
    return Range(told["from"], told["from"] + steps * told["step"], told["step"])
