"""Commands that change objects: ``apply``, ``delete``, ``scale``, ``label``, ``annotate``, ``patch`` and ``submit``. Each settles the lab afterwards and says what changed in it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from kailab.cli import completion, labfile, options, selection, terminal
from kailab.cli.selection import ObjectKey, fetch_objects, select_objects, suggest_name
from kailab.errors import InputError, KailabError, Where
from kailab.lab.lab_changes import LabChanges
from kailab.model.objects import Object

if TYPE_CHECKING:
    from kailab.lab import Lab
    from kailab.lab.intake import NamedText


def settle_lab(lab: Lab, before: LabChanges, settle: bool) -> str:
    """Settles the lab, unless ``settle`` is off; returns what to tell."""
    if not settle:
        return "not settled: nothing has acted on it yet; `kailab run` lets the lab go on"
    with terminal.spinner("settling"):
        lab.settle()
    return before.describe()


TIMEOUT_SECONDS = 120
_LOGGED = re.compile(r'err="((?:\\.|[^"\\])*)"')


def build_kustomization(folder: Path) -> str:
    """The manifests as YAML. Raises InputError where there is no program for it, or it refuses."""
    if not folder.is_dir():
        raise InputError("is no folder; expected one with a kustomization.yaml", Where(file=str(folder)))
    command = [*_kustomize_program(), str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    except OSError as error:
        raise InputError(f"{command[0]} can't be run: {error.strerror or error}") from None
    except subprocess.TimeoutExpired:
        raise InputError(f"{command[0]} did not end in {TIMEOUT_SECONDS} s", Where(file=str(folder))) from None
    if done.returncode:
        # kubectl's last line is one of its log: ... "command failed" err="what is wrong".
        said = _LOGGED.search(done.stderr)
        raise InputError(" ".join((said[1] if said else done.stderr).split()), Where(file=str(folder)))
    if not done.stdout.strip():
        raise InputError("the kustomization makes no objects", Where(file=str(folder)))
    return done.stdout


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
            "-k needs kustomize or kubectl: neither is in PATH; `kailab components get` gets kubectl"
        ) from None


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
    help="Check the manifests and say what would be done; change nothing. client and server, as kubectl has them, are the same here.",
)
@click.option("--force", is_flag=True, help="Accept what KAI accepts, even a gang that can never start.")
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
    state: Path,
) -> None:
    """Apply manifests, then run the lab until nothing changes. If anything is wrong with any of them, none is applied."""
    from kailab.cli.selection import full_name
    from kailab.errors import InputError
    from kailab.lab.lab_changes import LabChanges

    if bare:
        raise InputError(f"say -f before a file: kailab apply {' '.join(f'-f {one}' for one in (*files, *bare))}")
    sources = _sources(files, recursive, kustomization)
    if not sources:
        raise InputError("say what to apply: -f FILE, -f FOLDER, -f - or -k FOLDER")
    dry = dry_run != "none"
    end = " (dry run)" if dry else ""
    with labfile.change_lab(state, save=not dry) as lab:
        before = LabChanges(lab)
        if dry:
            lab.dry_run()
        applied = lab.apply(*sources, namespace=namespace, strict=not force)
        if not applied.changes:
            raise InputError(f"no objects in {', '.join((*files, *([str(kustomization)] if kustomization else [])))}")
        told = "" if dry else settle_lab(lab, before, settle)
    for warning in applied.warnings:
        terminal.warn(warning)
    for change in applied.changes:
        terminal.say(f"{full_name(change.kind, change.name)} {change.what}{end}")
    if told:
        terminal.notice(told)


@click.command()
@selection.what_argument
@options.files
@options.recursive
@options.kustomize
@options.namespace
@options.selector
@selection.all_option
@click.option("--ignore-not-found", is_flag=True, help="Do not fail if an object is not there.")
@options.settle
@options.state
def delete(
    what: tuple[str, ...],
    files: tuple[str, ...],
    recursive: bool,
    kustomization: Path | None,
    namespace: str,
    selector: str,
    everything: bool,
    ignore_not_found: bool,
    settle: bool,
    state: Path,
) -> None:
    """Delete objects, by name, by label or by manifest, then run the lab until nothing changes. If one of them is not
    there, none is deleted."""
    from kailab.cli.selection import resource_name
    from kailab.errors import InputError
    from kailab.lab.lab_changes import LabChanges

    sources = _sources(files, recursive, kustomization)
    if bool(what) == bool(sources):
        raise InputError("say what to delete: either KIND NAME... or -f FILE")
    if sources and (selector or everything):
        raise InputError("-f deletes what its manifests name; -l and --all go with a KIND")
    with labfile.change_lab(state) as lab:
        before = LabChanges(lab)
        doomed = (
            _in_files(lab, sources, namespace)
            if sources
            else select_objects(lab, what, namespace, selector, everything)
        )
        gone = _delete(lab, doomed, ignore_not_found)
        told = settle_lab(lab, before, settle) if gone else ""
    for kind, name, _ in gone:
        terminal.say(f'{resource_name(kind)} "{name}" deleted')
    if not gone:
        terminal.notice("No resources found")
    if told:
        terminal.notice(told)


def _sources(files: Sequence[str], recursive: bool, kustomization: Path | None) -> list[Path | str | NamedText]:
    """What ``Lab.apply`` takes. Raises InputError."""
    from kailab.errors import InputError
    from kailab.lab.intake import NamedText

    if recursive and not files:
        raise InputError("-R goes with -f FOLDER")
    if files.count("-") > 1:
        raise InputError("stdin (-f -) can be read once only")
    sources: list[Path | str | NamedText] = []
    for file in files:
        if file.startswith(("http://", "https://")):
            raise InputError(f"{file}: kailab fetches nothing: curl -sL {file} | kailab apply -f -")
        folder = Path(file)
        if recursive and folder.is_dir():
            sources += _below(folder)
        else:
            sources.append(file if file == "-" else folder)
    if kustomization is not None:
        sources.append(NamedText(str(kustomization), build_kustomization(kustomization)))
    return sources


def _below(folder: Path) -> list[Path]:
    """The manifests in a folder and in all folders in it, by name. Raises InputError where there are none."""
    from kailab.errors import InputError, Where
    from kailab.model.manifests import SUFFIXES

    found = sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file())
    if not found:
        raise InputError(
            f"neither the folder nor any in it holds manifests; expected {', '.join(f'*{one}' for one in SUFFIXES)}",
            Where(file=str(folder)),
        )
    return found


def _in_files(lab: Lab, sources: Sequence[Path | str | NamedText], namespace: str) -> list[ObjectKey]:
    from kailab.lab import intake
    from kailab.model.kinds import is_namespaced

    found: list[ObjectKey] = []
    for one in intake.read(sources, namespace=namespace).manifests:
        metadata = one.object["metadata"]
        spaced = is_namespaced(one.kind, one.object)
        space = (metadata.get("namespace") or namespace) if spaced else ""
        found.append(ObjectKey(one.kind, metadata.get("name", ""), space))
    return found


def _delete(lab: Lab, doomed: list[ObjectKey], ignore_not_found: bool) -> list[ObjectKey]:
    """Delete what is there; all of it must be unless ``ignore_not_found``. Raises InputError before anything is gone."""
    from kailab.errors import InputError, InputErrors, NotFound

    there: list[ObjectKey] = []
    missing: list[InputError] = []
    for target in doomed:
        try:
            lab.cluster.get(target.kind, target.name, target.space)
            there.append(target)
        except NotFound as error:
            missing.append(InputError(f"{error}{suggest_name(lab, *target)}"))
    if missing and not ignore_not_found:
        raise InputErrors.of(missing)
    for kind, name, space in there:
        try:
            lab.delete(kind, name, space or "default")
        except InputError:  # it went with an owner deleted before it
            continue
    return there


overwrite = click.option("--overwrite", is_flag=True, help="Change what has another value already.")


@click.command()
@selection.what_argument
@click.option("--replicas", type=click.IntRange(min=0), required=True, help="How many pods it is to have.")
@click.option("--current-replicas", type=click.IntRange(min=0), help="Only if it has so many now.")
@options.namespace
@options.selector
@selection.all_option
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
    from kailab.cli.selection import full_name
    from kailab.errors import InputError
    from kailab.lab.lab_changes import LabChanges

    with labfile.change_lab(state) as lab:
        before = LabChanges(lab)
        wanted = select_objects(lab, what, namespace, selector, everything)
        for one, obj in zip(wanted, fetch_objects(lab, wanted), strict=True):
            now = (obj.get("spec") or {}).get("replicas", 1)
            if current_replicas is not None and now != current_replicas:
                raise InputError(f"{full_name(one.kind, one.name)} has {now} replicas, not {current_replicas}")
        for one in wanted:
            lab.scale(one.kind, one.name, replicas, one.namespace or "default")
        told = settle_lab(lab, before, settle) if wanted else ""
    print_outcomes([(one, "scaled") for one in wanted], told)


def _metadata_command(field: str, done: str) -> Callable[..., None]:
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
        from kailab.lab.lab_changes import LabChanges

        if list_:
            with labfile.read_lab(state) as lab:
                wanted = select_objects(lab, what, namespace, selector, everything)
                _listed(wanted, fetch_objects(lab, wanted), field)
            return
        words, values = _split(what)
        with labfile.change_lab(state) as lab:
            before = LabChanges(lab)
            wanted = select_objects(lab, words, namespace, selector, everything)
            objects = fetch_objects(lab, wanted)
            if not overwrite:
                _refuse_overwriting(wanted, objects, field, values)
            outcomes = []
            for one, obj in zip(wanted, objects, strict=True):
                if changed := changed_keys(obj["metadata"].get(field) or {}, values):
                    lab.patch(one.kind, one.name, {"metadata": {field: dict(values)}}, one.namespace or "default")
                    taken = all(values[key] is None for key in changed)
                    outcomes.append((one, f"un{done}" if taken and field == "labels" else done))
                else:
                    outcomes.append((one, f"not {done}"))
            told = settle_lab(lab, before, settle) if any(not how.startswith("not ") for _, how in outcomes) else ""
        print_outcomes(outcomes, told)

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


def changed_keys(now: Mapping[str, str], values: Mapping[str, str | None]) -> list[str]:
    """The keys that are to have another value than they have."""
    return [key for key, value in values.items() if now.get(key) != value]


def _listed(wanted: Sequence[ObjectKey], objects: Sequence[Object], field: str) -> None:
    """Of each object what it has, as ``--list`` of kubectl."""
    from kailab.cli.selection import full_name

    for one, obj in zip(wanted, objects, strict=True):
        if len(wanted) > 1:
            terminal.say(f"Listing {field} for {full_name(one.kind, one.name)}:")
        for key, value in sorted((obj["metadata"].get(field) or {}).items()):
            terminal.say(f"{' ' if len(wanted) > 1 else ''}{key}={value}")


def _refuse_overwriting(
    wanted: Sequence[ObjectKey], objects: Sequence[Object], field: str, values: Mapping[str, str | None]
) -> None:
    from kailab.cli.selection import full_name
    from kailab.errors import InputError, InputErrors

    errors = []
    for one, obj in zip(wanted, objects, strict=True):
        now = obj["metadata"].get(field) or {}
        errors += [
            InputError(f"{full_name(one.kind, one.name)} has {key}={now[key]} already; --overwrite changes it")
            for key in changed_keys(now, values)
            if key in now and values[key] is not None
        ]
    if errors:
        raise InputErrors.of(errors)


def print_outcomes(outcomes: Sequence[tuple[ObjectKey, str]], told: str) -> None:
    from kailab.cli.selection import full_name

    for one, how in outcomes:
        terminal.say(f"{full_name(one.kind, one.name)} {how}")
    if not outcomes:
        terminal.notice("No resources found")
    if told:
        terminal.notice(told)


def _edit_command(field: str, done: str, name: str, help: str) -> click.Command:
    command = _metadata_command(field, done)
    for decorate in (
        options.state,
        options.settle,
        click.option("--list", "list_", is_flag=True, help="Show what objects have; change nothing."),
        overwrite,
        selection.all_option,
        options.selector,
        options.namespace,
        click.argument("what", nargs=-1, shell_complete=completion.objects, help="KIND NAME... KEY=VALUE KEY-"),
    ):
        command = decorate(command)
    return click.command(name=name, help=help)(command)


label = _edit_command(
    "labels",
    "labeled",
    "label",
    "Set labels of objects (KEY=VALUE) or take them away (KEY-), then run the lab until nothing changes.",
)
annotate = _edit_command(
    "annotations",
    "annotated",
    "annotate",
    "Set annotations of objects (KEY=VALUE) or take them away (KEY-), then run the lab until nothing changes.",
)


PatchType = Literal["strategic", "merge", "json"]
PatchFunction = Callable[[str, Object], Object]
"""(kind key, object) -> as the patch makes it."""


@click.command()
@selection.what_argument
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
    form: PatchType | None,
    subresource: Literal["status"] | None,
    namespace: str,
    settle: bool,
    state: Path,
) -> None:
    """Change fields of objects, then run the lab until nothing changes: patch queue team-a -p '{"spec": {"priority": 5}}'."""
    from kailab.errors import InputError
    from kailab.lab.lab_changes import LabChanges
    from kailab.model.files import read_text
    from kailab.model.patches import difference

    if bool(text) == bool(patch_file):
        raise InputError("say what to change: either -p PATCH or --patch-file FILE")
    given = read_text(patch_file) if patch_file else text
    patched_by = _patch(given, str(patch_file) if patch_file else "--patch", form)
    with labfile.change_lab(state) as lab:
        before = LabChanges(lab)
        wanted = select_objects(lab, what, namespace)
        objects = fetch_objects(lab, wanted)
        # All are worked out before the first is changed.
        patches = [patched_by(one.kind, obj) for one, obj in zip(wanted, objects, strict=True)]
        wished = [difference(obj, new) for obj, new in zip(objects, patches, strict=True)]
        outcomes = []
        for one, obj, wish in zip(wanted, objects, wished, strict=True):
            after = lab.patch(one.kind, one.name, wish, one.namespace or "default", subresource or "")
            same = after["metadata"].get("resourceVersion") == obj["metadata"].get("resourceVersion")
            outcomes.append((one, "patched (no change)" if same else "patched"))
        told = settle_lab(lab, before, settle)
        embedded = lab.venue.exclusive
    for one, obj, new in zip(wanted, objects, patches, strict=True):
        _warn_of_fields(one.kind, obj, new, embedded)
    print_outcomes(outcomes, told)


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


def _patch(text: str, file: str, form: PatchType | None) -> PatchFunction:
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


EVICTIONS = 1000
"""Kubernetes counts an evicted pod as a failure of its Job, and ends it after 6 of them."""


@click.command()
@click.argument("name", help="Of the Job.")
@click.option("--queue", "-q", required=True, shell_complete=completion.queues, help="The queue that it is work of.")
@click.option(
    "--pods", type=click.IntRange(1), default=1, help="So many pods: a gang, which starts whole or not at all."
)
@click.option("--gpus", type=click.IntRange(0), default=1, help="So many GPUs for each pod.")
@click.option("--each", "apart", is_flag=True, help="No gang: each pod starts when there is a place for it.")
@click.option("--priority", default="", show_default=False, help="A PriorityClass; that of training if not given.")
@click.option("--image", default="busybox:1.36", help="What the pods would run.")
@click.option("--output", "-o", type=click.Choice(("yaml",)), help="Print the manifest, and submit nothing.")
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
    output: str | None,
    namespace: str,
    settle: bool,
    state: Path,
) -> None:
    """Submit a Job without writing a manifest: the queue, the gang and the scheduler are said in KAI's words for you.

    \b
    kailab submit llama --queue team-a --pods 4 --gpus 8
    kailab submit llama --queue team-a --pods 4 --gpus 8 -o yaml > llama.yaml"""
    from kailab.cli.selection import full_name
    from kailab.lab.lab_changes import LabChanges
    from kailab.model.manifests import dump

    job = _job(name, queue, pods, gpus, image, gang=not apart)
    if priority:
        job["spec"]["template"]["spec"]["priorityClassName"] = priority
    if output:
        terminal.say(dump([job]).rstrip("\n"))
        return
    with labfile.change_lab(state) as lab:
        _check_submittable(lab, name, queue, priority, namespace)
        before = LabChanges(lab)
        applied = lab.apply(job, namespace=namespace)
        told = settle_lab(lab, before, settle)
    for warning in applied.warnings:
        terminal.warn(warning)
    for change in applied.changes:
        terminal.say(f"{full_name(change.kind, change.name)} {change.what}")
    terminal.notice(told)


def _check_submittable(lab: Lab, name: str, queue: str, priority: str, namespace: str) -> None:
    """Raises InputError for a queue or a class that is not there, and for a name that is taken."""
    from kailab.errors import InputError

    for option, kind, wanted in (("--queue", "Queue", queue), ("--priority", "PriorityClass", priority)):
        there = sorted(one["metadata"]["name"] for one in lab.cluster.list(kind))
        if wanted and wanted not in there:
            raise InputError(f"{option}: there is no {kind} {wanted!r}; there are: {', '.join(there) or 'none'}")
    if any(one["metadata"]["name"] == name for one in lab.cluster.list("Job", namespace)):
        raise InputError(f"there is a Job {name!r} already in namespace {namespace}; take another name")


def _job(name: str, queue: str, pods: int, gpus: int, image: str, gang: bool) -> Object:
    from kailab.model import labels

    shown = {labels.QUEUE: queue}
    metadata: Object = {"name": name, "labels": shown}
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
            "backoffLimit": EVICTIONS,
            "template": {
                "metadata": {"labels": {"app": name, **shown}},
                "spec": {"schedulerName": labels.SCHEDULER_NAME, "restartPolicy": "Never", "containers": [container]},
            },
        },
    }
