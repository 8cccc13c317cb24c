"""Load Kubernetes YAML from files, folders, stdin or text into objects with their place (file and line).

Objects stay as written: unknown fields survive, and unknown kinds are kept, with a notice. ``kailab.model.validation``
checks each object by itself. All problems of a load are reported together, each with file, line, object and field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from kailab.errors import InputError, InputErrors, Where
from kailab.model import yamltext
from kailab.model.defaults import strip_nulls
from kailab.model.files import STDIN, decode_text, read_stdin, read_text
from kailab.model.kinds import KINDS, is_namespaced, kind_key
from kailab.model.objects import Object, metadata_of
from kailab.model.validation import advise, validate
from kailab.model.validation.advice import pod_templates
from kailab.model.validation.fields import shown
from kailab.model.validation.once import remember_valid

SUFFIXES = (".yaml", ".yml", ".json")
MOST_ERRORS = 100  # the rest of a text is not read after this many
_API_VERSION = re.compile(r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_KIND = re.compile(r"[A-Za-z]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?")
LONGEST_API_VERSION = 253 + 1 + 63
_STEP = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


@dataclass(frozen=True, slots=True)
class Notice:
    """A remark about the input that is not an error. ``rule``: the rule of ``kailab.advice.practice`` that the input breaks, or "".
    ``in_cluster``: what a cluster does with the input, if that differs and is known."""

    message: str
    where: Where
    rule: str = ""
    in_cluster: str = ""

    @property
    def text(self) -> str:
        """The message, with what a cluster does."""
        return f"{self.message}; in a cluster {self.in_cluster}" if self.in_cluster else self.message

    def data(self) -> dict[str, Any]:
        """For programs."""
        return {
            "rule": self.rule,
            **self.where.data(),
            "message": self.message,
            "in_cluster": self.in_cluster,
        }

    def __str__(self) -> str:
        place = str(self.where)
        return f"{place}: {self.text}" if place else self.text


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object and its place. ``kind`` is the kind key; ``line`` is the object's first line in ``file``."""

    object: Object
    kind: str
    file: str = ""
    line: int = 0
    lines: Any = field(default=0, repr=False)

    @property
    def name(self) -> str:
        """``Queue/team-a``, ``Pod/lab/worker-0``; with a ``*`` for a generateName."""
        return object_name(self.object)

    def where(self, path: str = "") -> Where:
        """The place of a field (``spec.resources.gpu.quota``, ``spec.containers[0].name``,
        ``metadata.labels[kai.scheduler/queue]``), or of the nearest existing parent."""
        return Where(file=self.file, line=line_of(self.lines, path) or self.line, object=self.name, field=path)


_HELM_HOOK = "helm.sh/hook"
_IN_DOCUMENTS = "kai.nvidia.com/"
"""Documents about KAI show kinds of this group, which KAI does not have."""


class Manifests(list[Manifest]):
    """The objects of a load, in order, and its notices."""

    def __init__(self, items: Iterable[Manifest] = (), notices: Iterable[Notice] = ()) -> None:
        super().__init__(items)
        self.notices: list[Notice] = list(notices)

    @property
    def objects(self) -> list[Object]:
        return [manifest.object for manifest in self]


def load(paths: str | Path | Sequence[str | Path], *, namespace: str = "default", validated: bool = True) -> Manifests:
    """Load files, folders (``*.yaml``, ``*.yml``, ``*.json``, by name) and ``-`` (stdin), in order.

    ``namespace`` is the namespace of objects without one, which matters for finding duplicates. ``validated=False`` checks only
    that they are objects. Raises InputError, or InputErrors with every problem.
    """
    if isinstance(paths, (str, Path)):
        paths = [paths]
    return load_texts((text for path in paths for text in read_texts(path)), namespace=namespace, validated=validated)


FindStored: TypeAlias = Callable[[str, Object], Object | None]
"""(kind key, object of a manifest) -> the object as a cluster has it, or None."""


def load_texts(
    texts: Iterable[tuple[str, str]],
    *,
    namespace: str = "default",
    validated: bool = True,
    stored: FindStored | None = None,
) -> Manifests:
    """Load several texts, each with the file name for its errors. ``stored``: objects that it finds may keep what breaks a younger rule."""
    loading = _Loading(namespace, validated, stored)
    for file, text in texts:
        loading.add_text(text, file)
    return loading.result()


def load_text(text: str, name: str = "<text>", *, namespace: str = "default", validated: bool = True) -> Manifests:
    """Load a text; ``name`` is the file name in errors."""
    return load_texts([(name, text)], namespace=namespace, validated=validated)


def from_objects(
    objects: Iterable[Object], name: str = "", *, namespace: str = "default", stored: FindStored | None = None
) -> Manifests:
    """Check objects that do not come from a file, such as those of a scenario or a program. ``stored``: as for ``load_texts``."""
    loading = _Loading(namespace, True, stored)
    for obj in objects:
        wrong = yamltext.check_plain(obj)
        if wrong is not None:
            where = Where(file=name, object=object_name(obj), field=wrong[0])
            loading.errors.append(InputError(wrong[1], where))
        else:
            # The caller may change its objects later; the cluster keeps what was applied.
            loading.flatten(yamltext.copied(obj), 0, name)
    return loading.result()


def object_name(obj: Any) -> str:
    """``Kind/name`` or ``Kind/namespace/name``, for messages. Accepts any value."""
    if not isinstance(obj, dict):
        return ""
    kind = obj.get("kind")
    meta = obj.get("metadata")
    if not isinstance(kind, str):
        return ""
    if not isinstance(meta, dict):
        return f"{kind:.80}"
    name, generated = meta.get("name"), meta.get("generateName")
    shown = name if isinstance(name, str) else f"{generated}*" if isinstance(generated, str) else ""
    space = meta.get("namespace")
    parts = (kind, space if isinstance(space, str) else "", shown)
    return "/".join(f"{part:.253}" for part in parts if part)


def line_of(lines: Any, path: str) -> int:
    """The line of a field path in a tree of lines (``yamltext.Lines``), or of its nearest existing parent."""
    at = yamltext.first_line(lines)
    for bracket, plain in _STEP.findall(path):
        if isinstance(lines, int):
            break
        inside, step = lines[1], bracket or plain
        if isinstance(inside, list):
            if not step.isdecimal() or int(step) >= len(inside):
                break
            lines = inside[int(step)]
        elif step in inside:
            lines = inside[step]
        else:
            break
        at = yamltext.first_line(lines)
    return at


def value_at(value: Any, path: str) -> Any:
    """The value at a field path (in the form of ``line_of``), or None.

    >>> value_at({"spec": {"containers": [{"limits": {"nvidia.com/gpu": 2}}]}}, "spec.containers[0].limits[nvidia.com/gpu]")
    2
    """
    for bracket, plain in _STEP.findall(path):
        step = bracket or plain
        if isinstance(value, list):
            value = value[int(step)] if step.isdecimal() and int(step) < len(value) else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


class _Loading:
    """Collects the manifests, notices and errors of one load."""

    def __init__(self, namespace: str, validated: bool, stored: FindStored | None = None) -> None:
        self.namespace = namespace
        self.validated = validated
        self.stored = stored
        self.manifests: list[Manifest] = []
        self.notices: list[Notice] = []
        self.errors: list[InputError] = []
        self.seen: dict[tuple[str, str, str], Manifest] = {}

    def add_text(self, text: str, file: str) -> None:
        has_documents = False
        try:
            for value, lines in yamltext.read_documents(text, file):
                has_documents = True
                self.flatten(value, lines, file)
                if len(self.errors) >= MOST_ERRORS:
                    self.errors.append(InputError(f"{MOST_ERRORS} errors; the rest was not read", Where(file=file)))
                    return
        except InputError as error:
            self.errors.append(error)
            return
        if not has_documents:
            self.notices.append(Notice("holds no objects", Where(file=file)))

    def flatten(self, value: Any, lines: Any, file: str) -> None:
        """A list (``v1`` List, or ``PodList`` and similar) is replaced by its items."""
        if not isinstance(value, dict):
            shown = "a list" if isinstance(value, list) else f"{value!r:.60}"
            message = f"{shown} is not an object; expected a mapping with apiVersion, kind and metadata"
            self.errors.append(InputError(message, Where(file=file, line=yamltext.first_line(lines))))
            return
        items = list_items(value)
        if items is not None:
            inside = lines[1].get("items") if isinstance(lines, tuple) and isinstance(lines[1], dict) else None
            for index, item in enumerate(items):
                if len(self.errors) >= MOST_ERRORS:
                    return
                # An object made by a program has no lines.
                at = inside[1][index] if isinstance(inside, tuple) else line_of(lines, "items")
                self.flatten(item, at, file)
            return
        self.add(value, lines, file)

    def add(self, obj: Object, lines: Any, file: str) -> None:
        line = yamltext.first_line(lines)
        # An API server treats null as absent, so nulls go before the checks.
        obj = strip_nulls(obj)
        draft = Manifest(obj, "", file, line, lines)
        # The kind comes first, because it decides which rules apply.
        wrong = _unidentified(obj)
        if wrong is not None:
            self.errors.append(InputError(wrong[1], draft.where(wrong[0])))
            return
        manifest = self.in_its_scope(Manifest(obj, kind_key(obj), file, line, lines))
        obj = manifest.object
        if self.validated:
            faults = validate(obj, manifest.kind)
            if faults and self.stored is not None and (before := self.stored(manifest.kind, obj)) is not None:
                faults = validate(obj, manifest.kind, before)
            self.errors.extend(InputError(message, manifest.where(path)) for path, message in faults)
            # Advice requires the right shape.
            if not faults:
                remember_valid(obj, manifest.kind)
                self.notices.extend(
                    Notice(text, manifest.where(path), "not-meant") for path, text in advise(obj, manifest.kind)
                )
        self.note_unknown(manifest)
        self.note_hook(manifest)
        self.check_duplicate(manifest)
        # A faulty object is added too, so that duplicate names are found. ``done`` raises if there are errors.
        self.manifests.append(manifest)

    def in_its_scope(self, manifest: Manifest) -> Manifest:
        """The manifest without a namespace if its kind lives outside namespaces. An API server leaves it out, too."""
        known = KINDS.get(manifest.kind)
        if known is None or known.namespaced or not metadata_of(manifest.object).get("namespace"):
            return manifest
        text = f"is left out, because {known.kind} objects live outside namespaces"
        self.notices.append(Notice(text, manifest.where("metadata.namespace"), "not-meant"))
        metadata = {key: value for key, value in metadata_of(manifest.object).items() if key != "namespace"}
        return replace(manifest, object={**manifest.object, "metadata": metadata})

    def note_unknown(self, manifest: Manifest) -> None:
        known = KINDS.get(manifest.kind)
        api_version = manifest.object["apiVersion"]
        if known is None:
            text = f"kind {manifest.object['kind']} of {api_version} is not known to kailab: kept, and nothing of kailab's acts on it"
            if any(pod_templates(manifest.object)):
                text += ", so it makes no pods for it"
            if api_version.startswith(_IN_DOCUMENTS):
                text += " (`kailab translate` says what of KAI's would)"
            refused = "the object is refused, unless a definition of the kind is installed"
            self.notices.append(Notice(text, manifest.where(), "unknown-kind", refused))
        elif api_version.rpartition("/")[2] not in known.versions:
            text = f"{api_version} is not a version kailab knows; read as {known.api_version}"
            refused = f"the object is refused, unless the kind {known.kind} is served in this version"
            self.notices.append(Notice(text, manifest.where("apiVersion"), "unknown-version", refused))

    def note_hook(self, manifest: Manifest) -> None:
        notes = metadata_of(manifest.object).get("annotations")
        hook = notes.get(_HELM_HOOK) if isinstance(notes, dict) else None
        if isinstance(hook, str):
            text = f"is a hook of Helm ({hook:.80}), which Helm makes only at that time; here it is applied, as kubectl would"
            self.notices.append(Notice(text, manifest.where(f"metadata.annotations[{_HELM_HOOK}]")))

    def check_duplicate(self, manifest: Manifest) -> None:
        meta = metadata_of(manifest.object)
        # A generated name can't be a duplicate.
        if not isinstance(meta.get("name"), str):
            return
        space = ""
        if is_namespaced(manifest.kind, manifest.object):
            given = meta.get("namespace")
            space = given if isinstance(given, str) else self.namespace
        # By kind key, so that two versions of a kind count as the same object.
        first = self.seen.setdefault((manifest.kind, space, meta["name"]), manifest)
        if first is not manifest:
            place = Where(file=first.file, line=first.line)
            self.errors.append(
                InputError(f"the same name twice: first given at {place}", manifest.where("metadata.name"))
            )

    def result(self) -> Manifests:
        if self.errors:
            raise InputErrors.of(self.errors)
        return Manifests(self.manifests, self.notices)


def list_items(whole: Object) -> list[Any] | None:
    """The items of a list (``v1`` List, or ``PodList`` and similar); None if an object is no list. Items of a ``PodList`` may omit apiVersion and kind, which the
    list implies."""
    kind, items = whole.get("kind"), whole.get("items", "")
    if items is None:
        items = []  # as programs in Go write a list without items
    if not isinstance(kind, str) or not kind.endswith("List") or not isinstance(items, list):
        return None
    return [_typed_item(whole, kind, item) for item in items]


def _typed_item(whole: Object, kind: str, item: Any) -> Any:
    if kind == "List" or not isinstance(item, dict) or ("kind" in item and "apiVersion" in item):
        return item
    return {"apiVersion": whole.get("apiVersion"), "kind": kind.removesuffix("List"), **item}


def _unidentified(obj: Object) -> tuple[str, str] | None:
    """Faults of an object's apiVersion, kind and name: (field, message)."""
    for key in ("apiVersion", "kind"):
        value = obj.get(key)
        if not isinstance(value, str) or not value.strip():
            return (
                key,
                "is missing; expected text" if value is None else f"must be text, not {value!r:.60}",
            )
    if not _KIND.fullmatch(obj["kind"]):
        return "kind", f"{obj['kind']!r:.80} is not valid; expected a name such as Pod"
    if not _API_VERSION.fullmatch(obj["apiVersion"]) or len(obj["apiVersion"]) > LONGEST_API_VERSION:
        return "apiVersion", f"{obj['apiVersion']!r:.80} is not valid; expected group/version, or v1"
    # A common mistake: ``v1`` for a kind of another group.
    if "/" not in obj["apiVersion"] and (named := KINDS.get(obj["kind"])) is not None and named.group:
        known = named.api_version
        return "apiVersion", f"{obj['apiVersion']} has no kind {obj['kind']}; expected {known}"
    meta = obj.get("metadata")
    if not isinstance(meta, dict):
        return "metadata", "is missing; expected a mapping with a name"
    key = "name" if "name" in meta else "generateName"
    name = meta.get(key)
    if name is not None and not isinstance(name, str):
        hint = "" if isinstance(name, dict | list) else "; put it in quotes"
        return f"metadata.{key}", f"must be text, not {shown(name)}{hint}"
    if not name:
        return "metadata.name", "is missing; expected text (or metadata.generateName)"
    return None


def read_texts(path: str | Path) -> Iterator[tuple[str, str]]:
    """(file, text) of each file that a path stands for: a file, a folder, or ``-`` (stdin). Raises InputError."""
    path = str(path)
    if path == "-":
        yield STDIN, decode_text(read_stdin(), STDIN)
        return
    place = Where(file=path)
    try:
        target = Path(path)
        if target.is_dir():
            # Sorted by name, as in kubectl: numeric prefixes of names give the order in which files are applied.
            files = sorted(f for f in target.iterdir() if f.suffix in SUFFIXES and f.is_file())
            if not files:
                raise InputError(
                    f"the folder holds no manifests; expected {', '.join('*' + s for s in SUFFIXES)}", place
                )
        else:
            files = [target]
        for file in files:
            yield str(file), read_text(file)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InputError(f"can't be read: {reason}", place) from None
