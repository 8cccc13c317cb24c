"""``scale``, ``label``, ``annotate``: what is changed most often of objects that are there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from kailab.cli import completing, labfile, options, selecting, terminal
from kailab.cli.selecting import Chosen, chosen, there

Object = dict[str, Any]
overwrite = click.option("--overwrite", is_flag=True, help="Change what has another value already.")


@click.command()
@selecting.what
@click.option("--replicas", type=click.IntRange(min=0), required=True, help="How many pods it is to have.")
@click.option("--current-replicas", type=click.IntRange(min=0), help="Only if it has so many now.")
@options.namespace
@options.selector
@selecting.everything
@options.settle
@options.state
def scale(
    what: tuple[str, ...],
    replicas: int,
    current_replicas: int | None,
    namespace: str,
    selector: str,
    everything: bool,
    settle: bool,
    state: Path,
) -> None:
    """Set how many replicas a Deployment, StatefulSet or the like has, then run the lab until nothing changes."""
    from kailab.cli.lab_changes import LabChanges, settled
    from kailab.cli.naming import full_name
    from kailab.errors import InputError

    with labfile.changed(state) as lab:
        before = LabChanges(lab)
        wanted = chosen(lab, what, namespace, selector, everything)
        for one, obj in zip(wanted, there(lab, wanted), strict=True):
            now = (obj.get("spec") or {}).get("replicas", 1)
            if current_replicas is not None and now != current_replicas:
                raise InputError(f"{full_name(one.kind, one.name)} has {now} replicas, not {current_replicas}")
        for one in wanted:
            lab.scale(one.kind, one.name, replicas, one.namespace or "default")
        told = settled(lab, before, settle) if wanted else ""
    tell([(one, "scaled") for one in wanted], told)


def _metadata(field: str, done: str) -> Callable[..., None]:
    """The command that changes a map in the metadata: ``labels`` or ``annotations``."""

    def command(
        what: tuple[str, ...],
        namespace: str,
        selector: str,
        everything: bool,
        overwrite: bool,
        list_: bool,
        settle: bool,
        state: Path,
    ) -> None:
        from kailab.cli.lab_changes import LabChanges, settled

        if list_:
            with labfile.looked_at(state) as lab:
                wanted = chosen(lab, what, namespace, selector, everything)
                _listed(wanted, there(lab, wanted), field)
            return
        words, values = _split(what)
        with labfile.changed(state) as lab:
            before = LabChanges(lab)
            wanted = chosen(lab, words, namespace, selector, everything)
            objects = there(lab, wanted)
            if not overwrite:
                _refuse_overwriting(wanted, objects, field, values)
            outcomes = []
            for one, obj in zip(wanted, objects, strict=True):
                if changed := differing(obj["metadata"].get(field) or {}, values):
                    lab.patch(one.kind, one.name, {"metadata": {field: dict(values)}}, one.namespace or "default")
                    taken = all(values[key] is None for key in changed)
                    outcomes.append((one, f"un{done}" if taken and field == "labels" else done))
                else:
                    outcomes.append((one, f"not {done}"))
            told = settled(lab, before, settle) if any(not how.startswith("not ") for _, how in outcomes) else ""
        tell(outcomes, told)

    return command


def _split(words: Sequence[str]) -> tuple[list[str], dict[str, str | None]]:
    """Objects, and what is to be set (``key=value``) or taken away (``key-``: None)."""
    from kailab.errors import InputError

    values: dict[str, str | None] = {}
    objects: list[str] = []
    for word in words:
        key, equals, value = word.partition("=")
        if not equals and not word.endswith("-"):
            if values:
                raise InputError(f"{word!r}: what is changed comes last: KIND NAME KEY=VALUE KEY-")
            objects.append(word)
            continue
        key = key if equals else word[:-1]
        if not key or key in values:
            raise InputError(f"{word!r}: expected KEY=VALUE or KEY-, each key once")
        values[key] = value if equals else None
    if not values:
        raise InputError("say what to change: KEY=VALUE sets it, KEY- takes it away")
    return objects, values


def differing(now: Mapping[str, str], values: Mapping[str, str | None]) -> list[str]:
    """The keys that are to have another value than they have."""
    return [key for key, value in values.items() if now.get(key) != value]


def _listed(wanted: Sequence[Chosen], objects: Sequence[Object], field: str) -> None:
    """Of each object what it has, as ``--list`` of kubectl."""
    from kailab.cli.naming import full_name

    for one, obj in zip(wanted, objects, strict=True):
        if len(wanted) > 1:
            terminal.say(f"Listing {field} for {full_name(one.kind, one.name)}:")
        for key, value in sorted((obj["metadata"].get(field) or {}).items()):
            terminal.say(f"{' ' if len(wanted) > 1 else ''}{key}={value}")


def _refuse_overwriting(
    wanted: Sequence[Chosen], objects: Sequence[Object], field: str, values: Mapping[str, str | None]
) -> None:
    from kailab.cli.naming import full_name
    from kailab.errors import InputError, InputErrors

    errors = []
    for one, obj in zip(wanted, objects, strict=True):
        now = obj["metadata"].get(field) or {}
        errors += [
            InputError(f"{full_name(one.kind, one.name)} has {key}={now[key]} already; --overwrite changes it")
            for key in differing(now, values)
            if key in now and values[key] is not None
        ]
    if errors:
        raise InputErrors.of(errors)


def tell(outcomes: Sequence[tuple[Chosen, str]], told: str) -> None:
    from kailab.cli.naming import full_name

    for one, how in outcomes:
        terminal.say(f"{full_name(one.kind, one.name)} {how}")
    if not outcomes:
        terminal.notice("No resources found")
    if told:
        terminal.notice(told)


def _command(field: str, done: str, name: str, help: str) -> click.Command:
    command = _metadata(field, done)
    for decorate in (
        options.state,
        options.settle,
        click.option("--list", "list_", is_flag=True, help="Show what objects have; change nothing."),
        overwrite,
        selecting.everything,
        options.selector,
        options.namespace,
        click.argument("what", nargs=-1, shell_complete=completing.objects, help="KIND NAME... KEY=VALUE KEY-"),
    ):
        command = decorate(command)
    return click.command(name=name, help=help)(command)


label = _command(
    "labels",
    "labeled",
    "label",
    "Set labels of objects (KEY=VALUE) or take them away (KEY-), then run the lab until nothing changes.",
)
annotate = _command(
    "annotations",
    "annotated",
    "annotate",
    "Set annotations of objects (KEY=VALUE) or take them away (KEY-), then run the lab until nothing changes.",
)
