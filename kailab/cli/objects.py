"""Commands that change objects: ``apply``, ``delete``, ``scale``, ``label``, ``annotate``, ``patch`` and ``submit``. Each settles the lab afterwards
and reports what changed in it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from kailab.cli import completion, labfile, options, selection, terminal
from kailab.cli.selection import (
    ObjectKey,
    Targets,
    fetch_objects,
    kind_slash_name,
    resource_name,
    select_objects,
    suggest_name,
)
from kailab.errors import InputError, InputErrors, KailabError, NotFound, Where
from kailab.lab.change import new_queue_warnings
from kailab.lab.lab_changes import LabChanges
from kailab.model import labels
from kailab.model.files import read_text
from kailab.model.kinds import KINDS, is_namespaced
from kailab.model.objects import Object, metadata_of, name_of, namespace_of
from kailab.model.wording import count

if TYPE_CHECKING:
    from kailab.lab import Lab
    from kailab.lab.intake import Applied, NamedText
    from kailab.lab.unknown_fields import Validation
    from kailab.model.manifests import Notice
    from kailab.whatif.plan_files import ChangePlan


ObjectOutcome = tuple[ObjectKey, str]
"""An object, and what a command did with it, in kubectl's words."""


class LabChange(NamedTuple):
    """How a command changes the lab, and prints what it did."""

    settle: bool
    output: str
    state: Path

    def make(
        self,
        change: Callable[[Lab], Sequence[ObjectOutcome]],
        *,
        settles: Callable[[str], bool] = lambda outcome: True,
        shown: Callable[[ObjectKey], str] = lambda key: kind_slash_name(key.kind, key.name),
        notices: Callable[[], Sequence[Notice]] = tuple,
    ) -> None:
        """Open the lab, change it, and settle it after an outcome that ``settles``. ``change`` returns what it did with each object."""
        with labfile.change_lab(self.state) as lab:
            before = LabChanges(lab)
            outcomes = change(lab)
            report = settle_lab(lab, before, self.settle) if any(settles(outcome) for _, outcome in outcomes) else ""
        print_outcomes(outcomes, report, self.output, shown, notices())


def settle_lab(lab: Lab, before: LabChanges, settle: bool) -> str:
    """Settle the lab, unless ``settle`` is off. Returns a report for the user."""
    if not settle:
        return "not settled: the scheduler has not acted on the change yet; `kailab run` settles the lab"
    with terminal.spinner("settling"):
        lab.settle()
    return before.describe()


TIMEOUT_SECONDS = 120
_LOGGED = re.compile(r'err="((?:\\.|[^"\\])*)"')


def build_kustomization(folder: Path) -> str:
    """Build a kustomization and return its manifests as YAML. Raises InputError if kustomize is missing or fails."""
    if not folder.is_dir():
        raise InputError("is not a folder; expected a folder with a kustomization.yaml", Where(file=str(folder)))
    command = [*_kustomize_program(), str(folder)]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    except OSError as error:
        raise InputError(f"{command[0]} can't be run: {error.strerror or error}") from None
    except subprocess.TimeoutExpired:
        raise InputError(f"{command[0]} did not end in {TIMEOUT_SECONDS} s", Where(file=str(folder))) from None
    if process.returncode:
        # kubectl reports the error in a log line: ... "command failed" err="...".
        logged = _LOGGED.search(process.stderr)
        raise InputError(" ".join((logged[1] if logged else process.stderr).split()), Where(file=str(folder)))
    if not process.stdout.strip():
        raise InputError("the kustomization has no objects", Where(file=str(folder)))
    return process.stdout


def _kustomize_program() -> list[str]:
    from kailab.components.lookup import find_components

    if kustomize := shutil.which("kustomize"):
        return [kustomize, "build"]
    if kubectl := shutil.which("kubectl"):
        return [kubectl, "kustomize"]
    try:
        return [str(find_components().path("kubectl")), "kustomize"]
    except KailabError:
        raise InputError(
            "-k needs kustomize or kubectl, and neither is in PATH; `kailab components get` downloads kubectl"
        ) from None


_VALIDATE: Mapping[str, Validation] = {
    "strict": "strict", "true": "strict", "warn": "warn", "ignore": "ignore", "false": "ignore",
}  # fmt: skip


@click.command()
@click.argument("bare", nargs=-1)
@options.files
@options.recursive
@options.kustomize
@options.namespace
@options.settle
@click.option(
    "--dry-run",
    type=click.Choice(["none", "client", "server"]),
    is_flag=False,
    flag_value="server",
    default="none",
    show_default=False,
    help="Check the manifests and report the changes without making them. client and server are the same here.",
)
@options.flag("--force", help="Accept everything that KAI accepts, even a gang that can never start.")
@click.option(
    "--validate",
    type=click.Choice(["strict", "warn", "ignore", "true", "false"]),
    is_flag=False,
    flag_value="strict",
    default="strict",
    show_default=True,
    help="Unknown fields: strict (or true) refuses the manifests, warn reports the fields, ignore (or false) does neither.",
)
@options.flag("--strict", help="Apply nothing if there is a warning (exit code 2).")
@click.option(
    "--output",
    "-o",
    type=click.Choice(["text", "json", "name"]),
    default="text",
    help="Output for people or for programs; name: only the names of the objects.",
)
@options.state
def apply(
    bare: tuple[str, ...],
    files: tuple[str, ...],
    recursive: bool,
    kustomization: Path | None,
    namespace: str,
    settle: bool,
    dry_run: str,
    force: bool,
    validate: str,
    strict: bool,
    output: Literal["text", "json", "name"],
    state: Path,
) -> None:
    """Apply manifests, then run the lab until nothing changes any more. If any manifest is invalid, none is applied. A plan (`kailab diff
    --out PLAN`) is applied as `kailab apply PLAN`, unless the lab has changed since it was made.

    \b
    Exit code 0: the objects are applied; warnings name what does not act as in a cluster.
    Exit code 2: bad input, and nothing is applied. With -o json stdout has the errors, too."""
    dry = dry_run != "none"
    with _errors_in(output, dry):
        plan = _plan((*bare, *files), recursive, kustomization)
        if plan is not None:
            files, bare, namespace, force = (plan[0],), (), plan[1].namespace, not plan[1].strict
        if bare:
            for file in bare:
                if not Path(file).exists():
                    raise InputError(
                        f"there is no such file; expected a plan (`kailab diff --out PLAN`), or manifests as `kailab apply -f {file}`",
                        Where(file=file),
                    )
            raise InputError(f"files need -f: kailab apply {' '.join(f'-f {file}' for file in (*files, *bare))}")
        sources = list(plan[1].texts) if plan is not None else sources_of(files, recursive, kustomization)
        if not sources:
            raise InputError("there is nothing to apply; expected -f FILE, -f FOLDER, -f - or -k FOLDER")
        if strict:  # the manifests are applied to a copy first
            from kailab.lab.intake import named_texts

            sources = [text for source in sources for text in named_texts(source)]
        with labfile.change_lab(state, save=not dry) as lab:
            before = LabChanges(lab)
            if plan is not None:
                plan[1].check(lab, plan[0])
            if strict:
                _refuse_warnings(lab, sources, namespace, force, _VALIDATE[validate])
            if dry:
                lab.dry_run()
            applied = lab.apply(*sources, namespace=namespace, strict=not force, validate=_VALIDATE[validate])
            if not applied.changes:
                raise InputError(
                    f"no objects in {', '.join((*files, *([str(kustomization)] if kustomization else [])))}"
                )
            report = "" if dry else settle_lab(lab, before, settle)
    for warning in applied.warnings:
        terminal.warn(warning)
    if output == "json":
        terminal.say_json(_answer(_outcomes_of(applied), applied.notices, dry))
    else:
        for change in applied.changes:
            outcome = "" if output == "name" else f" {change.what}{' (dry run)' if dry else ''}"
            terminal.say(f"{kind_slash_name(change.kind, change.name)}{outcome}")
    if report:
        terminal.notice(report)


def _outcomes_of(applied: Applied) -> list[ObjectOutcome]:
    """What applying did with each object."""
    return [(ObjectKey(change.kind, change.name, change.namespace), change.what) for change in applied.changes]


@contextmanager
def _errors_in(output: str, dry: bool = False) -> Iterator[None]:
    """With -o json, stdout has the errors of the block, too."""
    try:
        yield
    except KailabError as error:
        if output == "json":
            terminal.say_json(_answer((), (), dry, error))
        raise


def _answer(
    outcomes: Sequence[ObjectOutcome],
    notices: Sequence[Notice],
    dry: bool = False,
    error: KailabError | None = None,
) -> dict[str, Any]:
    """The answer of a command that changes objects, for programs: what it did with each object."""
    return {
        "dry_run": dry,
        "objects": [
            {"kind": key.kind, "namespace": key.namespace, "name": key.name, "action": action}
            for key, action in outcomes
        ],
        "notices": [notice.data() for notice in notices],
        "errors": [] if error is None else error.data(),
    }


def errors_as_json(command: Callable[..., None]) -> Callable[..., None]:
    """A command that tries manifests and has `-o json`: stdout then has its errors, too."""

    @wraps(command)
    def trying(*args: Any, output: options.TextOrJson, **given: Any) -> None:
        try:
            command(*args, output=output, **given)
        except KailabError as error:
            if output == "json":
                terminal.say_json({"errors": error.data()})
            raise

    return trying


def changing(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a command that changes the lab, which gets them as ``change``. With `-o json` stdout has its errors, too."""

    @wraps(command)
    def answering(*args: Any, change: LabChange, **given: Any) -> None:
        with _errors_in(change.output):
            command(*args, change=change, **given)

    return options.grouped("change", LabChange, options.settle, options.output, options.state)(answering)


def _plan(files: Sequence[str], recursive: bool, kustomization: Path | None) -> tuple[str, ChangePlan] | None:
    """The plan that is to be applied, with its path; None if there is none. Raises InputError for a plan beside other files."""
    from kailab.whatif.plan_files import is_plan, read_plan

    plans = [file for file in files if is_plan(Path(file))]
    if not plans:
        return None
    if len(files) > 1 or recursive or kustomization is not None:
        raise InputError("is a plan, which is applied alone; leave the other files out", Where(file=plans[0]))
    return plans[0], read_plan(Path(plans[0]))


def _refuse_warnings(
    lab: Lab, sources: Sequence[Path | str | NamedText], namespace: str, force: bool, validate: Validation
) -> None:
    """Try the manifests on a copy. Raises InputError(s) for warnings."""
    with lab.fork() as copy:
        notices = copy.apply(*sources, namespace=namespace, strict=not force, validate=validate).notices
    if notices:
        raise InputErrors.of(
            [InputError(f"{notice.text} (a warning is an error with --strict)", notice.where) for notice in notices]
        )


@click.command()
@options.files
@options.recursive
@options.kustomize
@selection.of_targets
@options.flag("--ignore-not-found", help="Do not fail if an object does not exist.")
@changing
def delete(
    files: tuple[str, ...],
    recursive: bool,
    kustomization: Path | None,
    targets: Targets,
    ignore_not_found: bool,
    change: LabChange,
) -> None:
    """Delete objects by name, by label or by manifest, then run the lab until nothing changes any more. If one of them does
    not exist, none is deleted."""
    sources = sources_of(files, recursive, kustomization)
    if bool(targets.what) == bool(sources):
        raise InputError("expected either KIND NAME... or -f FILE to delete")
    if sources and (targets.selector or targets.everything):
        raise InputError("-f deletes the objects of its manifests; -l and --all need a KIND instead")

    def delete_all(lab: Lab) -> list[ObjectOutcome]:
        keys = _keys_in_files(sources, targets.namespace) if sources else targets.keys(lab)
        return [(key, "deleted") for key in _delete(lab, keys, ignore_not_found)]

    change.make(delete_all, shown=lambda key: f'{resource_name(key.kind)} "{key.name}"')


def sources_of(files: Sequence[str], recursive: bool, kustomization: Path | None) -> list[Path | str | NamedText]:
    """Return the sources of manifests as arguments for ``Lab.apply``. Raises InputError."""
    from kailab.lab.intake import NamedText

    if recursive and not files:
        raise InputError("-R needs -f FOLDER")
    options.check_stdin(files.count("-"), "-f -")
    sources: list[Path | str | NamedText] = []
    for file in files:
        if file.startswith(("http://", "https://")):
            raise InputError(f"{file}: kailab does not download files; use: curl -sL {file} | kailab apply -f -")
        folder = Path(file)
        if recursive and folder.is_dir():
            sources += _manifest_files(folder)
        else:
            sources.append(file if file == "-" else folder)
    if kustomization is not None:
        sources.append(NamedText(str(kustomization), build_kustomization(kustomization)))
    return sources


def _manifest_files(folder: Path) -> list[Path]:
    """Return the manifest files in a folder and all folders below it, sorted. Raises InputError if there are none."""
    from kailab.model.manifests import SUFFIXES

    files = sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file())
    if not files:
        raise InputError(
            f"the folder and those below it have no manifests; expected {', '.join(f'*{suffix}' for suffix in SUFFIXES)}",
            Where(file=str(folder)),
        )
    return files


def _keys_in_files(sources: Sequence[Path | str | NamedText], namespace: str) -> list[ObjectKey]:
    from kailab.lab import intake

    keys: list[ObjectKey] = []
    for manifest in intake.load_sources(sources, namespace=namespace).manifests:
        obj = manifest.object
        space = (namespace_of(obj) or namespace) if is_namespaced(manifest.kind, obj) else ""
        keys.append(ObjectKey(manifest.kind, name_of(obj), space))
    return keys


def _delete(lab: Lab, targets: list[ObjectKey], ignore_not_found: bool) -> list[ObjectKey]:
    """Delete objects. Raises InputError before anything is deleted if one is missing, unless ``ignore_not_found``."""
    existing: list[ObjectKey] = []
    missing: list[InputError] = []
    for target in targets:
        try:
            lab.cluster.get(target.kind, target.name, target.space)
            existing.append(target)
        except NotFound as error:
            missing.append(InputError(f"{error}{suggest_name(lab, *target)}"))
    if missing and not ignore_not_found:
        raise InputErrors.of(missing)
    for kind, name, space in existing:
        try:
            lab.delete(kind, name, space or "default")
        except InputError:  # deleted together with its owner
            continue
    return existing


overwrite = options.flag("--overwrite", help="Change keys that already have another value.")


@click.command()
@click.option("--replicas", type=click.IntRange(min=0), required=True, help="New number of replicas.")
@click.option("--current-replicas", type=click.IntRange(min=0), help="Fail unless this is the present number.")
@selection.of_targets
@changing
def scale(replicas: int, current_replicas: int | None, targets: Targets, change: LabChange) -> None:
    """Set the replicas of a Deployment, StatefulSet or another scalable kind, then run the lab until nothing changes any more."""

    def scale_all(lab: Lab) -> list[ObjectOutcome]:
        keys = targets.keys(lab)
        for key, obj in zip(keys, fetch_objects(lab, keys), strict=True):
            now = (obj.get("spec") or {}).get("replicas", 1)
            if current_replicas is not None and now != current_replicas:
                raise InputError(
                    f"{kind_slash_name(key.kind, key.name)} has {count(now, 'replica')}, not {current_replicas}"
                )
        for key in keys:
            lab.scale(key.kind, key.name, replicas, key.namespace or "default")
        return [(key, "scaled") for key in keys]

    change.make(scale_all)


def _metadata_command(field: str, verb: str) -> Callable[..., None]:
    """Return the function of a command that changes ``labels`` or ``annotations``. ``verb``: for the output, ``labeled``."""

    def command(targets: Targets, overwrite: bool, list_: bool, change: LabChange) -> None:
        if list_:
            if change.output == "json":
                raise InputError(f"--list has no -o json; use kailab get -o jsonpath={{.metadata.{field}}}")
            with labfile.read_lab(change.state) as lab:
                keys = targets.keys(lab)
                _print_values(keys, fetch_objects(lab, keys), field)
            return
        words, values = _split(targets.what)

        def set_all(lab: Lab) -> list[ObjectOutcome]:
            keys = targets._replace(what=tuple(words)).keys(lab)
            objects = fetch_objects(lab, keys)
            if not overwrite:
                _refuse_overwriting(keys, objects, field, values)
            outcomes = []
            for key, obj in zip(keys, objects, strict=True):
                if changed := changed_keys(metadata_of(obj).get(field) or {}, values):
                    lab.patch(key.kind, key.name, {"metadata": {field: dict(values)}}, key.namespace or "default")
                    removed = all(values[name] is None for name in changed)
                    outcomes.append((key, f"un{verb}" if removed and field == "labels" else verb))
                else:
                    outcomes.append((key, f"not {verb}"))
            return outcomes

        change.make(set_all, settles=lambda outcome: not outcome.startswith("not "))

    return command


def _split(words: Sequence[str]) -> tuple[list[str], dict[str, str | None]]:
    """Split arguments into objects and values: to set (``key=value``) or to remove (``key-``: None)."""
    values: dict[str, str | None] = {}
    objects: list[str] = []
    for word in words:
        key, equals, value = word.partition("=")
        if not equals and not word.endswith("-"):
            if values:
                raise InputError(f"{word!r}: expected objects before changes: KIND NAME KEY=VALUE KEY-")
            objects.append(word)
            continue
        key = key if equals else word[:-1]
        if not key or key in values:
            raise InputError(f"{word!r}: expected KEY=VALUE or KEY-, each key once")
        values[key] = value if equals else None
    if not values:
        raise InputError("there is nothing to change; KEY=VALUE sets a key, KEY- removes it")
    return objects, values


def changed_keys(now: Mapping[str, str], values: Mapping[str, str | None]) -> list[str]:
    """Return the keys whose new value differs from the present one."""
    return [key for key, value in values.items() if now.get(key) != value]


def _print_values(keys: Sequence[ObjectKey], objects: Sequence[Object], field: str) -> None:
    """Print the labels or annotations of each object, as kubectl's ``--list``."""
    for key, obj in zip(keys, objects, strict=True):
        if len(keys) > 1:
            terminal.say(f"Listing {field} for {kind_slash_name(key.kind, key.name)}:")
        for name, value in sorted((metadata_of(obj).get(field) or {}).items()):
            terminal.say(f"{' ' if len(keys) > 1 else ''}{name}={value}")


def _refuse_overwriting(
    keys: Sequence[ObjectKey], objects: Sequence[Object], field: str, values: Mapping[str, str | None]
) -> None:
    errors = []
    for key, obj in zip(keys, objects, strict=True):
        now = metadata_of(obj).get(field) or {}
        errors += [
            InputError(f"{kind_slash_name(key.kind, key.name)} has {name}={now[name]} already; --overwrite changes it")
            for name in changed_keys(now, values)
            if name in now and values[name] is not None
        ]
    if errors:
        raise InputErrors.of(errors)


def print_outcomes(
    outcomes: Sequence[ObjectOutcome],
    report: str,
    output: str,
    shown: Callable[[ObjectKey], str] = lambda key: kind_slash_name(key.kind, key.name),
    notices: Sequence[Notice] = (),
) -> None:
    """Print what a command did with each object, for people or for programs. ``report``: of the lab that ran after it."""
    for notice in notices:
        terminal.warn(str(notice))
    if output == "json":
        terminal.say_json(_answer(outcomes, notices))
    else:
        for key, outcome in outcomes:
            terminal.say(f"{shown(key)} {outcome}")
    if not outcomes:
        terminal.notice("No resources found")
    if report:
        terminal.notice(report)


def _edit_command(field: str, verb: str, name: str, help: str) -> click.Command:
    command = _metadata_command(field, verb)
    for decorate in (
        changing,
        options.flag("--list", "list_", help=f"List the {field} of the objects; change nothing."),
        overwrite,
        selection.of_targets_and("KEY=VALUE KEY-"),
    ):
        command = decorate(command)
    return click.command(name=name, help=help)(command)


label = _edit_command(
    "labels",
    "labeled",
    "label",
    "Set labels of objects (KEY=VALUE) or remove them (KEY-), then run the lab until nothing changes any more.",
)
annotate = _edit_command(
    "annotations",
    "annotated",
    "annotate",
    "Set annotations of objects (KEY=VALUE) or remove them (KEY-), then run the lab until nothing changes any more.",
)


PatchType = Literal["strategic", "merge", "json"]
PatchFunction = Callable[[str, Object], Object]
"""(kind key, object) -> the patched object."""


@click.command()
@selection.what_argument
@options.text_option("--patch", "-p", "text", help="The patch, as JSON or YAML.")
@options.path_option("--patch-file", help="A file with the patch.")
@click.option(
    "--type",
    "form",
    type=click.Choice(["strategic", "merge", "json"]),
    help="strategic: merge lists such as containers by name, as Kubernetes does for its own kinds; merge: replace whole lists "
    "(RFC 7386); json: a list of operations (RFC 6902).  [default: strategic, merge for custom resources]",
)
@click.option("--subresource", type=click.Choice(["status"]), help="Change only the status.")
@options.namespace
@changing
def patch(
    what: tuple[str, ...],
    text: str,
    patch_file: Path | None,
    form: PatchType | None,
    subresource: Literal["status"] | None,
    namespace: str,
    change: LabChange,
) -> None:
    """Update fields of objects, then run the lab until nothing changes any more: patch queue team-a -p '{"spec": {"priority": 5}}'."""
    from kailab.lab.unknown_fields import new_field_notices
    from kailab.model.patches import difference

    if bool(text) == bool(patch_file):
        raise InputError("expected either -p PATCH or --patch-file FILE")
    content = read_text(patch_file) if patch_file else text
    patched_by = _patch(content, str(patch_file) if patch_file else "--patch", form)
    notices: list[Notice] = []

    def patch_all(lab: Lab) -> list[ObjectOutcome]:
        keys = select_objects(lab, what, namespace)
        objects = fetch_objects(lab, keys)
        # All patches are computed before the first object is changed, so that an error changes nothing.
        patched = [patched_by(key.kind, obj) for key, obj in zip(keys, objects, strict=True)]
        differences = [difference(obj, new) for obj, new in zip(objects, patched, strict=True)]
        outcomes = []
        queues = [key.name for key in keys if key.kind == "Queue" and not subresource]
        with new_queue_warnings(lab, queues) as warnings:
            for key, obj, changes in zip(keys, objects, differences, strict=True):
                after = lab.patch(key.kind, key.name, changes, key.namespace or "default", subresource or "")
                same = metadata_of(after).get("resourceVersion") == metadata_of(obj).get("resourceVersion")
                outcomes.append((key, "patched (no change)" if same else "patched"))
        for key, obj, new in zip(keys, objects, patched, strict=True):
            notices.extend(new_field_notices(key.kind, obj, new, lab.venue.exclusive))
        notices.extend(warnings)
        return outcomes

    change.make(patch_all, notices=lambda: notices)


def _patch(text: str, file: str, form: PatchType | None) -> PatchFunction:
    """Parse a patch and return the function that applies it. Both raise InputError."""
    from kailab.cluster.embedded.merge import merge_patch
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
        registered = KINDS.get(kind)
        of_kubernetes = registered is not None and bool(registered.schema)
        if form == "strategic" and not of_kubernetes:
            raise InputError(
                f"{kind} is a custom resource: --type strategic is for Kubernetes' own kinds; use merge or json", where
            )
        try:
            if form == "json":
                after = json_patch(obj, value)
            else:
                strategic = of_kubernetes if form is None else form == "strategic"
                after = strategic_patch(obj, value) if strategic else merge_patch(obj, value)
        except InputError as error:
            raise InputError(error.message, where) from None
        _check_identity(obj, after, where)
        return after

    return patched


def _check_identity(obj: Object, after: Object, where: Any) -> None:
    """Refuse a patch that changes the identity of its object, as an API server does. Raises InputError."""
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
            raise InputError(f"{field}: is {was.get(key)!r} and can't be changed to {holder.get(key)!r:.80}", where)


BACKOFF_LIMIT = 1000
"""Kubernetes counts an evicted pod as a failure of its Job, and by default fails the Job after 6 of them."""


@click.command()
@click.argument("name", help="Name of the Job.")
@click.option("--queue", "-q", required=True, shell_complete=completion.queues, help="Queue of the Job.")
@click.option(
    "--pods",
    type=click.IntRange(1),
    default=1,
    help="Number of pods. They are a gang, which starts whole or not at all.",
)
@click.option("--gpus", type=click.IntRange(0), default=1, help="GPUs of each pod.")
@options.flag("--each", "apart", help="No gang: each pod starts as soon as it fits.")
@options.text_option("--priority", help="PriorityClass of the Job instead of that of training.")
@click.option("--image", default="busybox:1.36", help="Image of the pods.")
@click.option(
    "--output",
    "-o",
    type=click.Choice(("text", "json", "yaml")),
    default="text",
    help="Output for people or for programs; yaml: print the manifest without submitting it.",
)
@options.namespace
@options.settle
@options.state
def submit(
    name: str,
    queue: str,
    pods: int,
    gpus: int,
    apart: bool,
    priority: str,
    image: str,
    output: str,
    namespace: str,
    settle: bool,
    state: Path,
) -> None:
    """Submit a Job without writing a manifest: kailab adds KAI's labels for the queue, the gang and the scheduler.

    \b
    kailab submit llama --queue team-a --pods 4 --gpus 8
    kailab submit llama --queue team-a --pods 4 --gpus 8 -o yaml > llama.yaml"""
    from kailab.model.yamltext import write_documents

    job = _job(name, queue, pods, gpus, image, gang=not apart)
    if priority:
        job["spec"]["template"]["spec"]["priorityClassName"] = priority
    if output == "yaml":
        terminal.say(write_documents([job]).rstrip("\n"))
        return
    with _errors_in(output), labfile.change_lab(state) as lab:
        _check_submittable(lab, name, queue, priority, namespace)
        before = LabChanges(lab)
        applied = lab.apply(job, namespace=namespace)
        report = settle_lab(lab, before, settle)
    print_outcomes(_outcomes_of(applied), report, output, notices=applied.notices)


def _check_submittable(lab: Lab, name: str, queue: str, priority: str, namespace: str) -> None:
    """Raises InputError if the queue or the class does not exist, or the Job does."""
    for option, kind, value in (("--queue", "Queue", queue), ("--priority", "PriorityClass", priority)):
        existing = sorted(name_of(obj) for obj in lab.cluster.list(kind))
        if value and value not in existing:
            raise InputError(f"{option}: there is no {kind} {value!r}; there are: {', '.join(existing) or 'none'}")
    if any(name_of(obj) == name for obj in lab.cluster.list("Job", namespace)):
        raise InputError(f"the Job {name!r} exists already in namespace {namespace}; choose another name")


def _job(name: str, queue: str, pods: int, gpus: int, image: str, gang: bool) -> Object:
    queue_label = {labels.QUEUE: queue}
    metadata: Object = {"name": name, "labels": queue_label}
    if gang:
        metadata["annotations"] = {labels.BATCH_MIN_MEMBER: str(pods)}
    container: Object = {"name": "work", "image": image, "command": ["sleep", "infinity"]}
    if gpus:
        container["resources"] = {"limits": {labels.GPU_RESOURCE: gpus}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "completionMode": "Indexed",
            "backoffLimit": BACKOFF_LIMIT,
            "template": {
                "metadata": {"labels": {"app": name, **queue_label}},
                "spec": {"schedulerName": labels.SCHEDULER_NAME, "restartPolicy": "Never", "containers": [container]},
            },
        },
    }
