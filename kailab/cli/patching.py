"""``patch``: any field of objects that are there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import click

from kailab.cli import labfile, options, selecting, terminal
from kailab.cli.editing import tell
from kailab.cli.selecting import chosen, there

Object = dict[str, Any]
Form = Literal["strategic", "merge", "json"]
Patched = Callable[[str, Object], Object]
"""(kind key, object) -> as the patch makes it."""


@click.command()
@selecting.what
@click.option("--patch", "-p", "text", default="", show_default=False, help="The patch, as JSON or YAML.")
@click.option("--patch-file", type=options.PATH, help="A file with the patch.")
@click.option(
    "--type",
    "form",
    type=click.Choice(["strategic", "merge", "json"]),
    help="strategic: lists such as containers are merged by name, as Kubernetes does it with its own kinds; merge: lists are replaced as a "
    "whole (RFC 7386); json: a list of operations (RFC 6902).  [default: strategic, merge for custom resources]",
)
@click.option("--subresource", type=click.Choice(["status"]), help="Change the status, and that alone.")
@options.namespace
@options.settle
@options.state
def patch(
    what: tuple[str, ...],
    text: str,
    patch_file: Path | None,
    form: Form | None,
    subresource: Literal["status"] | None,
    namespace: str,
    settle: bool,
    state: Path,
) -> None:
    """Change fields of objects, then run the lab until nothing changes: patch queue team-a -p '{"spec": {"priority": 5}}'."""
    from kailab.cli.lab_changes import LabChanges, settled
    from kailab.errors import InputError
    from kailab.model.files import read_text
    from kailab.model.patches import difference

    if bool(text) == bool(patch_file):
        raise InputError("say what to change: either -p PATCH or --patch-file FILE")
    given = read_text(patch_file) if patch_file else text
    patched_by = _patch(given, str(patch_file) if patch_file else "--patch", form)
    with labfile.changed(state) as lab:
        before = LabChanges(lab)
        wanted = chosen(lab, what, namespace)
        objects = there(lab, wanted)
        # All are worked out before the first is changed.
        patches = [patched_by(one.kind, obj) for one, obj in zip(wanted, objects, strict=True)]
        wished = [difference(obj, new) for obj, new in zip(objects, patches, strict=True)]
        outcomes = []
        for one, obj, wish in zip(wanted, objects, wished, strict=True):
            after = lab.patch(one.kind, one.name, wish, one.namespace or "default", subresource or "")
            same = after["metadata"].get("resourceVersion") == obj["metadata"].get("resourceVersion")
            outcomes.append((one, "patched (no change)" if same else "patched"))
        told = settled(lab, before, settle)
        embedded = lab.venue.exclusive
    for one, obj, new in zip(wanted, objects, patches, strict=True):
        _warn_of_fields(one.kind, obj, new, embedded)
    tell(outcomes, told)


def _warn_of_fields(kind: str, before: Object, after: Object, embedded: bool) -> None:
    """Of fields that come with a patch and that nothing acts on."""
    from kailab.lab.unknown_fields import unknown_fields
    from kailab.lab.unread_fields import sentence, unread_fields

    there = set(unknown_fields(before, kind))
    for path, text in unknown_fields(after, kind):
        if (path, text) not in there:
            terminal.warn(f"{path}: {text}")
    unread_before = {path for path, _ in unread_fields(before, kind)}
    for path, field in unread_fields(after, kind) if embedded else ():
        if path not in unread_before:
            terminal.warn(f"{path}: {sentence(field)}")


def _patch(text: str, file: str, form: Form | None) -> Patched:
    """Raises InputError for what is no patch of this form; so may what is returned."""
    from kailab.cluster.embedded.merge import merge_patch
    from kailab.errors import InputError, Where
    from kailab.model.kinds import KINDS
    from kailab.model.patches import json_patch, strategic_patch
    from kailab.model.yamltext import read_document

    value, _ = read_document(text, file, "one patch")
    where = Where(file=file)
    if form == "json":
        if not isinstance(value, list):
            example = '[{"op": "replace", "path": "/spec/priority", "value": 5}]'
            raise InputError(f"--type json: expected a list of operations, as in {example}, not {value!r:.60}", where)
    elif not isinstance(value, dict):
        hint = " (--type json takes a list of operations)" if isinstance(value, list) else ""
        raise InputError(f'expected a mapping, as in {{"spec": {{"priority": 5}}}}, not {value!r:.60}{hint}', where)

    def patched(kind: str, obj: Object) -> Object:
        known = KINDS.get(kind)
        of_kubernetes = known is not None and bool(known.schema)
        if form == "strategic" and not of_kubernetes:
            raise InputError(
                f"{kind} is a custom resource: --type strategic is for Kubernetes' own kinds; merge or json", where
            )
        try:
            if form == "json":
                after = json_patch(obj, value)
            else:
                strategic = of_kubernetes if form is None else form == "strategic"
                after = strategic_patch(obj, value) if strategic else merge_patch(obj, value)
        except InputError as error:
            raise InputError(error.message, where) from None
        _refuse_another(obj, after, where)
        return after

    return patched


def _refuse_another(obj: Object, after: Object, where: Any) -> None:
    """A patch that names another object than the one it is for, which an API server refuses."""
    from kailab.errors import InputError

    metadata = after.get("metadata")
    for field, holder, was in (
        ("apiVersion", after, obj),
        ("kind", after, obj),
        ("metadata.name", metadata, obj["metadata"]),
        ("metadata.namespace", metadata, obj["metadata"]),
        ("metadata.uid", metadata, obj["metadata"]),
    ):
        key = field.rpartition(".")[2]
        if isinstance(holder, dict) and holder.get(key) != was.get(key):
            raise InputError(f"{field}: is {was.get(key)!r} and can't be changed, to {holder.get(key)!r:.80}", where)
