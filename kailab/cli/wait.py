"""``wait``: let the lab go on until objects are as they are wanted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kailab.cli import completion, labfile, options, selection, terminal
from kailab.cli.selection import ObjectKey, fetch_objects, select_objects
from kailab.model.objects import Object

if TYPE_CHECKING:
    from kailab.lab import Lab

State = Callable[[Object | None], str]
"""(the object, None if it is not there) -> what it lacks; "" where it is as it is wanted."""


@click.command()
@selection.what_argument
@click.option(
    "--for",
    "wanted",
    required=True,
    metavar="STATE",
    shell_complete=completion.states,
    help="condition=NAME, condition=NAME=False, delete, create, or jsonpath={.status.phase}=Running.",
)
@click.option("--timeout", default="30s", help="At most so long, in time of the lab: 30s, 5m, 1h30m, 2d.")
@options.namespace
@options.selector
@selection.all_option
@options.state
def wait(
    what: tuple[str, ...],
    wanted: str,
    timeout: str,
    namespace: str,
    selector: str,
    everything: bool,
    state: Path,
) -> None:
    """Let time pass in the lab until objects are as wanted. Exit code 1 if they are not when the time is up; the time has passed then,
    too."""
    from kailab.cli.options import parse_seconds
    from kailab.cli.selection import full_name
    from kailab.errors import InputError
    from kailab.lab.wording import elapsed

    lacking, done = reading(wanted)
    seconds = parse_seconds("--timeout", timeout)
    with labfile.change_lab(state) as lab:
        objects = select_objects(lab, what, namespace, selector, everything)
        if not objects:
            raise InputError("no objects to wait for")
        # What is gone already is what was waited for.
        if wanted not in ("create", "delete"):
            fetch_objects(lab, objects)
        left = _waited(lab, objects, lacking, seconds)
    for one in objects:
        if one not in left:
            terminal.say(f"{full_name(one.kind, one.name)} {done}")
    for one, lack in left.items():
        terminal.error(f"{full_name(one.kind, one.name)}: {lack}, after {elapsed(seconds)} of lab time")
    if left:
        raise SystemExit(1)


def reading(wanted: str) -> tuple[State, str]:
    """What an object lacks, and what is said of one that lacks nothing. Raises InputError."""
    from kailab.errors import InputError

    form, _, rest = wanted.partition("=")
    if wanted == "delete":
        return lambda obj: "" if obj is None else "is still there", "deleted"
    if wanted == "create":
        return lambda obj: "is not there" if obj is None else "", "created"
    if form == "condition" and rest:
        name, _, value = rest.partition("=")
        return _condition(name, value or "True"), "condition met"
    if form == "jsonpath" and rest:
        return _path(rest), "condition met"
    raise InputError(
        f"--for {wanted!r}: expected condition=NAME, condition=NAME=VALUE, delete, create, or jsonpath={{PATH}}=VALUE"
    )


def _condition(name: str, value: str) -> State:
    def lacking(obj: Object | None) -> str:
        if obj is None:
            return "is not there"
        conditions = {str(one.get("type")).lower(): one for one in (obj.get("status") or {}).get("conditions") or ()}
        found = conditions.get(name.lower())
        if found is None:
            told = ", ".join(sorted(str(one.get("type")) for one in conditions.values())) or "none"
            return f"has no condition {name} (it has: {told})"
        if str(found.get("status")).lower() == value.lower():
            return ""
        why = ": ".join(str(found[key]) for key in ("reason", "message") if found.get(key))
        return f"its condition {found['type']} is {found.get('status')}{f' ({why})' if why else ''}, not {value}"

    return lacking


def _path(text: str) -> State:
    from kailab.cli.jsonpath import format_values, parse_relaxed_path

    # In braces there may be an equals sign, too.
    end = text.rfind("}") + 1
    path, equals, value = (text[:end], text[end : end + 1], text[end + 1 :]) if end else text.partition("=")
    query = parse_relaxed_path(path)

    def lacking(obj: Object | None) -> str:
        if obj is None:
            return "is not there"
        values = query.values(obj)
        if not values:
            return f"has no {query.text}"
        if equals and any(format_values([one]) != value for one in values):
            return f"its {query.text} is {format_values(values)}, not {value}"
        return ""

    return lacking


def _look(lab: Lab, one: ObjectKey) -> Object | None:
    from kailab.errors import NotFound

    try:
        found: Object = lab.cluster.get(one.kind, one.name, one.space)
    except NotFound:
        return None
    return found


def _waited(lab: Lab, objects: list[ObjectKey], lacking: State, seconds: float) -> dict[ObjectKey, str]:
    """What still lacks what, when all is well or the time is up."""

    def left() -> dict[ObjectKey, str]:
        return {one: lack for one in objects if (lack := lacking(_look(lab, one)))}

    with terminal.spinner("waiting"):
        found = left()
        if not found:
            return {}
        begun = lab.now
        lab.settle_if_changed()
        for _ in lab.moments(max(0.0, seconds - (lab.now - begun))):
            found = left()
            if not found:
                break
    return left()
