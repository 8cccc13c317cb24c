"""Choose a scheduler under test by name, and check that backend, scheduler and options go together.

A name is ``KIND``, ``KIND=DIR``, ``KIND@RELEASE`` or ``NAME@FILE``. ``kai=DIR`` is a real KAI with its programs in that folder, so that
one process can name several. ``kai@v0.16.8`` is a release installed by its chart. ``NAME@FILE`` is an entry of a YAML file; its name must
differ from all kinds:

    old:
      kind: kai
      folder: kai/v0.12.23        # paths are relative to the file
    new:
      kind: kai
      folder: kai/v0.16.8
      crds: kai/v0.16.8/crds
      config: packed.yaml         # the configuration of labs that are given no other one
    charted:
      kind: kai
      release: v0.16.8            # installed by its chart
      chart: kai/chart            # the folder with the chart and its images, where nothing can be pulled
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kailab.cluster.backends import BACKENDS, with_api_server
from kailab.cluster.registry import FLAGS, Spelt
from kailab.errors import InputError, InputErrors, Where
from kailab.undertest.registry import NO_API_SERVER, SCHEDULERS, BackendConflict, SchedulerKind, make_scheduler

if TYPE_CHECKING:
    from kailab.model.yamltext import Lines
    from kailab.undertest.contract import SchedulerUnderTest


_RELEASE = re.compile(r"v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?")
_ALMOST = re.compile(r"v?\d+(\.\d+){0,2}")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


class SchedulerReference(NamedTuple):
    """A parsed name. ``kind``: in the registry. ``name``: of the scheduler. ``options``: the options in the name, by their names in
    ``kailab.cluster.registry``, with absolute paths."""

    kind: str
    name: str
    options: Mapping[str, Any]


def choose_scheduler(name: str, given: Mapping[str, Any] | None = None) -> SchedulerUnderTest:
    """The scheduler under test that a user names. ``given``: further options by the names of ``FLAGS``; None counts as not given, and
    options of other schedulers are ignored. Raises InputError for an unknown name and for an option that is given twice."""
    kind, label, options = read_name(name)
    own_options = {own.option: (given or {}).get(own.option) for own in SCHEDULERS[kind].own}
    for option, value in own_options.items():
        if value is not None and option in options:
            raise InputError(f"{FLAGS.get(option, option)}: the name of the scheduler, {name}, contains it already")
    return make_scheduler(
        kind, label, {**options, **{option: value for option, value in own_options.items() if value is not None}}
    )


def read_name(text: str) -> SchedulerReference:
    """Parse the name of a scheduler under test. Raises InputError(s) for an unknown name and for an unusable file of names."""
    name, separator, path = split_name(text)
    if not separator:
        SCHEDULERS.check(text)
        return SchedulerReference(text, text, {})
    if separator == "=":
        return _with_folder(name, path)
    if name in SCHEDULERS and (_RELEASE.fullmatch(path) or _ALMOST.fullmatch(path)):
        return _release(name, path)
    release, plus, other = path.partition("+")
    if plus and f"{name}+{other}" in SCHEDULERS and not Path(path).exists():
        raise InputError(f"scheduler {text}: the release comes last, as in {name}+{other}@{release}")
    return _named(name, path)


def split_name(text: str) -> tuple[str, str, str]:
    """Split a name, unchecked, into KIND or NAME, ``=`` or ``@``, and path or release; the last two may be empty."""
    # The first separator counts, because a path may contain the other one.
    separator = next((sign for sign in text if sign in "=@"), "")
    return text.partition(separator) if separator else (text, "", "")


def absolute_name(text: str) -> str:
    """The name with an absolute path. Raises the errors of ``read_name``."""
    named = read_name(text)
    name, separator, path = split_name(text)
    if separator == "@" and name == named.kind:
        return text
    return f"{name}{separator}{Path(path).expanduser().absolute()}" if separator else text


def _with_folder(kind: str, folder: str) -> SchedulerReference:
    SCHEDULERS.check(kind)
    option = _keys(SCHEDULERS[kind]).get("folder")
    if option is None:
        takers = ", ".join(name for name, choice in SCHEDULERS.items() if "folder" in _keys(choice))
        raise InputError(f"scheduler {kind}={folder}: {kind} is no folder of programs; those that are: {takers}")
    if not folder:
        raise InputError(f"scheduler {kind}=: expected the folder of its programs after the =")
    return SchedulerReference(kind, kind, {option: Path(folder).expanduser().absolute()})


def _release(kind: str, release: str) -> SchedulerReference:
    option = _keys(SCHEDULERS[kind]).get("release")
    if option is None:
        takers = ", ".join(name for name, choice in SCHEDULERS.items() if "release" in _keys(choice))
        raise InputError(f"scheduler {kind}@{release}: {kind} is installed by no chart; those that are: {takers}")
    if not _RELEASE.fullmatch(release):
        raise InputError(f"scheduler {kind}@{release}: expected a whole release after the @, as in {kind}@v0.16.8")
    return SchedulerReference(kind, kind, {option: release})


def _named(name: str, path: str) -> SchedulerReference:
    if not name or not path:
        raise InputError(f"scheduler {name}@{path}: expected NAME@FILE, a name in a YAML file of names")
    from kailab.model.files import read_text
    from kailab.model.yamltext import read_documents

    file = Path(path).expanduser().absolute()
    documents = list(read_documents(read_text(file), str(file)))
    if len(documents) != 1 or not isinstance(documents[0][0], dict):
        raise InputError("expected one mapping: names of schedulers, each with its kind", Where(file=str(file)))
    content, lines = documents[0]
    if name not in content:
        raise InputError(
            f"there is no scheduler {name!r} in it; it names: {', '.join(map(str, content)) or 'none'}",
            Where(str(file)),
        )
    entry = _Entry(file, name, content[name], lines)
    faults = list(entry.faults())
    if faults:
        raise InputErrors.of(faults)
    return entry.reference()


class _Entry:
    """An entry of a file of names."""

    def __init__(self, file: Path, name: str, content: Any, lines: Lines) -> None:
        self._file = file
        self._name = name
        self._content = content
        inside = lines[1] if isinstance(lines, tuple) else {}
        self._lines: Any = inside.get(name, 0) if isinstance(inside, dict) else 0

    def faults(self) -> Iterator[InputError]:
        if not _NAME.fullmatch(self._name) or self._name in SCHEDULERS:
            yield self._fault(
                "", f"expected a name of small letters, digits, - and . that is none of: {', '.join(SCHEDULERS)}"
            )
        if not isinstance(self._content, dict):
            yield self._fault("", "expected a mapping with the key kind")
            return
        kind = str(self._content.get("kind", ""))
        # The kind decides which keys are valid.
        if kind not in SCHEDULERS:
            yield self._fault("kind", f"expected one of: {', '.join(SCHEDULERS)}")
            return
        keys = _keys(SCHEDULERS[kind])
        for key, value in self._content.items():
            if key != "kind" and key not in keys:
                known = ", ".join(["kind", *keys])
                yield self._fault(str(key), f"the kind {kind} does not understand it; it understands: {known}")
            elif not isinstance(value, str) or not value:
                yield self._fault(str(key), f"expected text, got {value!r}")

    def reference(self) -> SchedulerReference:
        kind = SCHEDULERS[self._content["kind"]]
        plain = {option.option for option in kind.own if not option.path}
        given = {option: self._content[key] for key, option in _keys(kind).items() if key in self._content}
        options = {
            # Relative to the file, so that the file and what it names can be moved together.
            option: value if option in plain else (self._file.parent / Path(value).expanduser())
            for option, value in given.items()
        }
        return SchedulerReference(self._content["kind"], self._name, options)

    def _fault(self, key: str, message: str) -> InputError:
        line: Any = self._lines
        if isinstance(line, tuple):
            whole, parts = line
            line = parts.get(key, whole) if isinstance(parts, dict) else whole
        return InputError(
            message, Where(str(self._file), line[0] if isinstance(line, tuple) else line, self._name, key)
        )


def _keys(kind: SchedulerKind) -> dict[str, str]:
    """Key of an entry to option."""
    own = {option.key: option.option for option in kind.own}
    return {**own, "config": "config"} if "config" in kind.options else own


# --- compatibility of backend, scheduler and options ------------------------------------------------------------------


def find_conflicts(backend: str, scheduler: str, given: Mapping[str, Any]) -> Iterator[BackendConflict]:
    """Conflicts between a scheduler with the given options and a backend. ``given``: see ``check_options``."""
    for clash in SCHEDULERS[read_name(scheduler).kind].clashes:
        if _is_on(clash, backend) and (not clash.option or given.get(clash.option) not in (None, False)):
            yield clash


def _is_on(clash: BackendConflict, backend: str) -> bool:
    if clash.backend == NO_API_SERVER:
        return backend not in with_api_server()
    return clash.backend == backend


def check_lab(backend: str, scheduler: str, given: Mapping[str, Any], spelt: Spelt = FLAGS.__getitem__) -> None:
    """Raises InputError(s) for an unknown backend or scheduler, for a pair that is not supported, and for unsupported options. See
    ``check_options``."""
    BACKENDS.check(backend)
    named = read_name(scheduler)
    clashes = list(find_conflicts(backend, scheduler, {**named.options, **given}))
    # Options matter only if backend and scheduler go together.
    for clash in clashes:
        if not clash.option:
            raise _conflict_error(clash, spelt)
    check_options(backend, named.kind, given, spelt)
    check_options(backend, None, named.options)
    for clash in clashes:
        raise _conflict_error(clash, spelt)


def _conflict_error(clash: BackendConflict, spelt: Spelt) -> InputError:
    what = f"{spelt(clash.option)}: {clash.why}" if clash.option else clash.why
    expected = f": expected one of the backends {', '.join(with_api_server())}" if clash.elsewhere else ""
    return InputError(what + expected)


def check_options(
    backend: str, scheduler: str | None, given: Mapping[str, Any], spelt: Spelt = FLAGS.__getitem__
) -> None:
    """Raises InputError(s) for options that the backend or the scheduler does not support. ``given``: option name to value; None and
    False count as not given. ``scheduler`` None: any, because each test chooses its own. ``spelt``: how the user writes an option."""
    names = [name for name, value in given.items() if value is not None and value is not False]
    problems = BACKENDS.not_understood(backend, names, spelt)
    if scheduler is not None:
        problems += SCHEDULERS.not_understood(scheduler, names, spelt)
    if problems:
        errors = [InputError(text) for text in problems]
        raise InputErrors.of(errors)
