"""``wait``: advance the lab's clock until a condition of objects is met."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kailab.cli import completion, labfile, options, selection, terminal
from kailab.cli.options import parse_seconds
from kailab.cli.selection import ObjectKey, Targets, fetch_objects, kind_slash_name
from kailab.errors import InputError, NotFound
from kailab.evidence.wording import elapsed
from kailab.model.objects import Object

if TYPE_CHECKING:
    from kailab.lab import Lab

WaitCondition = Callable[[Object | None], str]
"""(the object, None if it does not exist) -> why the condition is not met; "" if it is met."""


@click.command()
@click.option(
    "--for",
    "wanted",
    required=True,
    metavar="STATE",
    shell_complete=completion.states,
    help="condition=NAME, condition=NAME=False, delete, create, or jsonpath={.status.phase}=Running.",
)
@click.option("--timeout", default="30s", help="Longest wait, in lab time: 30s, 5m, 1h30m, 2d.")
@selection.of_targets
@options.state
def wait(wanted: str, timeout: str, targets: Targets, state: Path) -> None:
    """Advance the lab's clock until a condition of objects is met. Exit code 1 if it is not met within the timeout; the lab's clock has advanced
    in that case, too."""
    condition, outcome = parse_condition(wanted)
    seconds = parse_seconds("--timeout", timeout)
    with labfile.change_lab(state) as lab:
        objects = targets.keys(lab)
        if not objects:
            raise InputError("no objects to wait for")
        # With create and delete, objects need not exist.
        if wanted not in ("create", "delete"):
            fetch_objects(lab, objects)
        unmet = _wait(lab, objects, condition, seconds)
    for key in objects:
        if key not in unmet:
            terminal.say(f"{kind_slash_name(key.kind, key.name)} {outcome}")
    for key, reason in unmet.items():
        terminal.error(f"{kind_slash_name(key.kind, key.name)}: {reason}, after {elapsed(seconds)} of lab time")
    if unmet:
        raise SystemExit(1)


def parse_condition(wanted: str) -> tuple[WaitCondition, str]:
    """Parse ``--for``. Returns the condition, and the report for an object that meets it. Raises InputError."""
    form, _, argument = wanted.partition("=")
    if wanted == "delete":
        return lambda obj: "" if obj is None else "still exists", "deleted"
    if wanted == "create":
        return lambda obj: "does not exist" if obj is None else "", "created"
    if form == "condition" and argument:
        name, _, value = argument.partition("=")
        return _status_condition(name, value or "True"), "condition met"
    if form == "jsonpath" and argument:
        return _path_condition(argument), "condition met"
    raise InputError(
        f"--for {wanted!r}: expected condition=NAME, condition=NAME=VALUE, delete, create, or jsonpath={{PATH}}=VALUE"
    )


def _status_condition(name: str, value: str) -> WaitCondition:
    def unmet(obj: Object | None) -> str:
        if obj is None:
            return "does not exist"
        conditions = {str(item.get("type")).lower(): item for item in (obj.get("status") or {}).get("conditions") or ()}
        condition = conditions.get(name.lower())
        if condition is None:
            types = ", ".join(sorted(str(item.get("type")) for item in conditions.values())) or "none"
            return f"has no condition {name} (it has: {types})"
        if str(condition.get("status")).lower() == value.lower():
            return ""
        why = ": ".join(str(condition[key]) for key in ("reason", "message") if condition.get(key))
        return (
            f"its condition {condition['type']} is {condition.get('status')}{f' ({why})' if why else ''}, not {value}"
        )

    return unmet


def _path_condition(text: str) -> WaitCondition:
    from kailab.cli.jsonpath import format_values, parse_relaxed_path

    # The path in braces may contain an equals sign.
    end = text.rfind("}") + 1
    path, equals, value = (text[:end], text[end : end + 1], text[end + 1 :]) if end else text.partition("=")
    query = parse_relaxed_path(path)

    def unmet(obj: Object | None) -> str:
        if obj is None:
            return "does not exist"
        values = query.values(obj)
        if not values:
            return f"has no {query.text}"
        if equals and any(format_values([item]) != value for item in values):
            return f"its {query.text} is {format_values(values)}, not {value}"
        return ""

    return unmet


def _get(lab: Lab, key: ObjectKey) -> Object | None:
    try:
        obj: Object = lab.cluster.get(key.kind, key.name, key.space)
    except NotFound:
        return None
    return obj


def _wait(lab: Lab, objects: list[ObjectKey], condition: WaitCondition, seconds: float) -> dict[ObjectKey, str]:
    """Advance the lab's clock until all objects meet the condition or the time is up. Returns the others with the reasons."""

    def unmet() -> dict[ObjectKey, str]:
        return {key: reason for key in objects if (reason := condition(_get(lab, key)))}

    with terminal.spinner("waiting"):
        if not unmet():
            return {}
        begun = lab.now
        lab.settle_if_changed()
        for _ in lab.moments(max(0.0, seconds - (lab.now - begun))):
            if not unmet():
                break
    return unmet()
