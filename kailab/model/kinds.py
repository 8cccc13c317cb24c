"""The registry of kinds, and the names that users type for them.

A *kind key* names a kind in code: the bare kind (``Pod``, ``Queue``), or ``Kind.group`` where the bare name
belongs to another kind (``Service.serving.knative.dev``) or kailab does not know the kind. kailab reads all
versions of a kind and writes the first.

The list is built at its first use, which loads the modules of ``kailab.kinds`` by name, like extensions. So this module
imports no kind, and the module of a kind may import anything, including its controller and its grouping.
"""

from __future__ import annotations

import importlib
import pkgutil
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from kailab import extensions
from kailab.errors import ExtensionError, InputError, Where
from kailab.model.kind import Kind, check_form, field_of, resolve_part
from kailab.model.suggestions import closest_names

_HOME = "kailab.kinds"
_KUBERNETES_GROUPS = ("apps", "batch", "policy", "autoscaling")
_UNASKED = object()


class _Kinds(Mapping[str, Kind]):
    """Kinds by key, in order of registration."""

    def __init__(self) -> None:
        self.by_key: dict[str, Kind] = {}
        self.generation = 0
        self.by_group_kind: dict[tuple[str, str], str] = {}
        self.by_api_version: dict[tuple[str, str], str] = {}
        self.parts: dict[tuple[str, str], Any] = {}
        self._by_resource: dict[str, str] = {}
        self._names: dict[str, str] | None = None  # built when a user's name is first resolved
        self._loaded = self._loading = False
        self._lock = threading.RLock()

    def load(self) -> None:
        """Register kailab's own kinds, once."""
        if self._loaded:
            return
        with self._lock:
            if self._loading:  # loaded by another thread, or while the module of a kind is being imported
                return
            self._loading = True
            # The order decides which kind has the bare name as its key.
            for kind in sorted(_built_in(), key=_rank):
                self.add(kind)
            self._loaded = True

    def add(self, kind: Kind) -> Kind:
        """Add a well-formed kind. Raises InputError if the kind, its resource or its key is already known."""
        other = self.by_group_kind.get((kind.group, kind.kind))
        where = Where(object=f"kind {kind.kind}")
        if other is not None:
            group = f"the group {kind.group}" if kind.group else "the core group"
            raise InputError(f"is registered already in {group}", where)
        holder = self._by_resource.get(kind.resource)
        if holder is not None:
            at = Where(object=where.object, field="plural")
            raise InputError(f"{kind.resource} is the kind {holder} already", at)
        key = kind.key or (kind.kind if kind.kind not in self.by_key else f"{kind.kind}.{kind.group}")
        if key in self.by_key:
            raise InputError(f"the key {key} is another kind's already", Where(object=where.object, field="key"))
        kind = msgspec.structs.replace(kind, key=key)
        self.by_key[key] = kind
        self._by_resource[kind.resource] = key
        self.by_group_kind[kind.group, kind.kind] = key
        for version in kind.versions:
            self.by_api_version[f"{kind.group}/{version}" if kind.group else version, kind.kind] = key
        self._names = None
        self.generation += 1
        return kind

    def remove(self, kind: Kind) -> None:
        del self.by_key[kind.key], self.by_group_kind[kind.group, kind.kind], self._by_resource[kind.resource]
        self.by_api_version = {at: key for at, key in self.by_api_version.items() if key != kind.key}
        # Another kind may now be registered under this key.
        self.parts = {at: part for at, part in self.parts.items() if at[0] != kind.key}
        self.generation += 1
        self._names = None

    def names(self) -> dict[str, str]:
        """User-typed names to kind keys. Plural and singular names take precedence over short names of any kind."""
        self.load()
        if self._names is None:
            names: dict[str, str] = {}
            for long in (True, False):
                for key, kind in self.by_key.items():
                    for name in (kind.plural, kind.singular) if long else kind.short:
                        # The kind that was registered first keeps the name.
                        names.setdefault(name, key)
                        if kind.group:
                            names.setdefault(f"{name}.{kind.group}", key)
                            for version in kind.versions:
                                names.setdefault(f"{name}.{version}.{kind.group}", key)
            self._names = names
        return self._names

    def __getitem__(self, key: str) -> Kind:
        self.load()
        return self.by_key[key]

    def get(self, key: str, default: Any = None) -> Any:
        # Called for every object: avoids the KeyError that the inherited method raises internally for unknown kinds.
        if not self._loaded:
            self.load()
        return self.by_key.get(key, default)

    def __iter__(self) -> Iterator[str]:
        self.load()
        return iter(self.by_key)

    def __len__(self) -> int:
        self.load()
        return len(self.by_key)


def _built_in() -> Iterator[Kind]:
    package = importlib.import_module(_HOME)
    for module in sorted(found.name for found in pkgutil.iter_modules(package.__path__)):
        yield from importlib.import_module(f"{_HOME}.{module}").KINDS


def _rank(kind: Kind) -> int:
    """Kubernetes' own kinds come first, so that they get their bare names."""
    if not kind.group:
        return 0
    return 1 if kind.group in _KUBERNETES_GROUPS or kind.group.endswith(".k8s.io") else 2


_KINDS = _Kinds()
KINDS: Mapping[str, Kind] = _KINDS
"""Every known kind by its key."""


def register(kind: Kind) -> Kind:
    """Register a kind beside kailab's own, and return it with its key. Register it before there are objects of it; an open lab
    picks it up.

    Raises InputError if it is not well formed or already known.
    """
    check_form(kind)
    _KINDS.load()
    return _KINDS.add(kind)


@contextmanager
def registered_kinds(*kinds: Kind) -> Iterator[tuple[Kind, ...]]:
    """Register kinds for the length of a ``with`` block. Raises InputError as ``register`` does."""
    done: list[Kind] = []
    try:
        for kind in kinds:
            done.append(register(kind))
        yield tuple(done)
    finally:
        for kind in done:
            _KINDS.remove(kind)


def kinds_generation() -> int:
    """A number that grows whenever a kind is registered or removed."""
    return _KINDS.generation


def part(key: str, name: str) -> Any:
    """Return a part of a kind (see ``kailab.model.kind``), or None if the kind is unknown or has no such part. Raises InputError if it
    can't be imported."""
    value = _KINDS.parts.get((key, name), _UNASKED)
    if value is _UNASKED:
        kind = KINDS.get(key)
        value = resolve_part(kind, name) if kind is not None else None
        if kind is not None:
            _KINDS.parts[key, name] = value
    return value


_LEFT_OUT: tuple[object, ...] = (None, [], {})


def immutable_change(key: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Return the first immutable field that a new state of a stored object changes, or ""."""
    kind = KINDS.get(key)
    if kind is None or not (kind.immutable or kind.immutable_while_set):
        return ""
    if (fixed := part(key, "fixed")) is not None:
        old, new = fixed(old, old), fixed(old, new)
    for path in kind.immutable:
        before, after = field_of(old, path), field_of(new, path)
        # As for an API server, an empty list or mapping is one that is left out.
        if before != after and not (before in _LEFT_OUT and after in _LEFT_OUT):
            return path
    for path in kind.immutable_while_set:
        before, after = field_of(old, path), field_of(new, path)
        if before is not None and after is not None and before != after:
            return path
    return ""


def key_of_group(group: str, kind: str) -> str | None:
    """The key of a known kind of any version, or None."""
    _KINDS.load()
    return _KINDS.by_group_kind.get((group, kind))


def key_of(api_version: str, kind: str) -> str:
    """The kind key of an apiVersion and a kind. Unknown ones get ``Kind.group`` (``Kind`` in the core group).

    >>> key_of("v1", "Service"), key_of("serving.knative.dev/v1", "Service"), key_of("example.com/v1", "Job")
    ('Service', 'Service.serving.knative.dev', 'Job.example.com')
    """
    _KINDS.load()
    key = _KINDS.by_api_version.get((api_version, kind))
    if key is not None:
        return key
    group = api_version.rpartition("/")[0]
    return _KINDS.by_group_kind.get((group, kind)) or (f"{kind}.{group}" if group else kind)


def kind_key(obj: Mapping[str, Any]) -> str:
    """The kind key of an object (a mapping with ``apiVersion`` and ``kind``)."""
    # The fast path, which nearly always succeeds. If the list is not loaded yet, ``key_of`` loads it.
    known = _KINDS.by_api_version.get((obj["apiVersion"], obj["kind"]))
    return known or key_of(obj["apiVersion"], obj["kind"])


def is_namespaced(key: str, obj: Mapping[str, Any] | None = None) -> bool:
    """True if objects of the kind are in a namespace. For an unknown kind: if its object names one."""
    kind = KINDS.get(key)
    if kind is not None:
        return kind.namespaced
    return bool(obj and (obj.get("metadata") or {}).get("namespace"))


def api_version_of(key: str) -> str:
    """The apiVersion to write for a known kind. Raises KeyError for others."""
    return KINDS[key].api_version


def resolve(text: str, others: Iterable[str] = ()) -> str:
    """Return the kind key of a user-typed name: ``pods``, ``po``, ``Pod``, ``queues.scheduling.run.ai``.

    ``others``: keys of unknown kinds in use that the name may also mean. Raises InputError with the closest
    names.
    """
    if text in KINDS:
        return text
    wanted = text.strip().lower()
    names = _KINDS.names()
    key = names.get(wanted)
    if key is not None:
        return key
    # Loaded last, because it runs code of extensions, which a known name does not need.
    register_installed()
    names = _KINDS.names()
    if wanted in names:
        return names[wanted]
    for other in sorted(others):
        bare = other.partition(".")[0].lower()
        if wanted in (other.lower(), bare, bare + "s"):
            return other
    lowered = {known.lower(): known for known in KINDS}
    if wanted in lowered:
        return lowered[wanted]
    close = closest_names(wanted, [*names, *lowered], 8)
    meant = list(dict.fromkeys(names.get(name) or lowered[name] for name in close))[:3]
    hint = f"; did you mean {', '.join(meant)}?" if meant else "; expected a kind such as pods, queues, podgroups, jobs"
    faults = "".join(f"\n{fault}" for fault in unusable_extensions())
    raise InputError(f"no kind is called {text!r:.80}{hint}{faults}")


_installing = threading.Lock()
_installed: set[extensions.Extension] = set()
_unusable: dict[extensions.Extension, str] = {}


def register_installed() -> None:
    """Register the kinds of other distributions, once: when a lab starts to work, and when a user types an unknown kind. A manifest
    does not trigger it. A kind that can't be used is skipped and reported by ``unusable_extensions``. Runs code of those distributions."""
    with _installing:
        for extension in extensions.extensions(extensions.KINDS):
            if extension in _installed:
                continue
            # Recorded before the attempt: a failed extension is not tried again, only reported (``unusable_extensions``).
            _installed.add(extension)
            try:
                for kind in kinds_of(extension):
                    register(kind)
            except InputError as error:
                _unusable[extension] = f"{extension.title}: {error}"
            except ExtensionError as error:
                _unusable[extension] = str(error)


def kinds_of(extension: extensions.Extension) -> tuple[Kind, ...]:
    """Return the kinds that an entry point names. Raises ExtensionError."""
    loaded = extension.load()
    kinds = (loaded,) if isinstance(loaded, Kind) else tuple(loaded) if isinstance(loaded, list | tuple) else ()
    if not kinds or not all(isinstance(kind, Kind) for kind in kinds):
        raise ExtensionError(f"{extension.title}: {loaded!r:.80} is no kailab.model.kind.Kind, nor a list of them")
    return kinds


def unusable_extensions() -> tuple[str, ...]:
    """One sentence for each installed extension that could not be registered."""
    return tuple(_unusable.values())


def check_installed(extension: extensions.Extension) -> None:
    """Raises ExtensionError if a kind could not be registered."""
    kinds_of(extension)
    register_installed()
    if extension in _unusable:
        raise ExtensionError(_unusable[extension])
