"""The objects that a command names: by name (``job.batch/train``, ``pod/a pod/b``, ``pods,queues``), by label, or all of a kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kailab.cli import completion, options
from kailab.errors import InputError, InputErrors, NotFound
from kailab.evidence.wording import some
from kailab.model.kinds import KINDS, is_namespaced, register_installed, resolve
from kailab.model.objects import name_of, namespace_of
from kailab.model.suggestions import closest_names

if TYPE_CHECKING:
    from kailab.lab import Lab


def kinds_in_all() -> list[str]:
    """The kinds that ``get all`` shows: workloads, then pod groups."""
    register_installed()
    return sorted((key for key, kind in KINDS.items() if kind.in_all), key="PodGroup".__eq__)


class KindNames(NamedTuple):
    """A kind key and names of its objects; no names: all objects."""

    kind: str
    names: tuple[str, ...]


def resource_name(kind: str) -> str:
    """A kind key as kubectl prints it before a name: ``pod``, ``job.batch``, ``queue.scheduling.run.ai``."""
    registered = KINDS.get(kind)
    if registered is None:
        return kind.lower()
    return f"{registered.singular}.{registered.group}" if registered.group else registered.singular


def kind_slash_name(kind: str, name: str) -> str:
    """``job.batch/train``."""
    return f"{resource_name(kind)}/{name}"


def parse_targets(words: Sequence[str], others: Sequence[str] = ()) -> list[KindNames]:
    """Parse the arguments of ``get``, ``delete`` or ``explain``: ``pods``, ``pods a b``, ``pods,jobs``, ``pod/a job/b``.

    ``others``: kinds in use that kailab does not know. Raises InputError.
    """
    if not words:
        raise InputError("no objects are named; expected a kind such as pods, or KIND/NAME")
    if "/" not in words[0] and (slashed := next((word for word in words if "/" in word), None)):
        namespace, _, name = slashed.partition("/")
        raise InputError(
            f"'{words[0]} {slashed}': a name contains no namespace; write `{words[0]} {name} -n {namespace}`, or KIND/NAME for each object"
        )
    if any("/" in word for word in words):
        targets: list[KindNames] = []
        for word in words:
            kind, slash, name = word.partition("/")
            if not slash or not kind or not name or "/" in name:
                raise InputError(f"{word!r}: expected KIND/NAME, as in the other arguments")
            targets.append(KindNames(resolve(kind, others), (name,)))
        return targets
    kinds, names = words[0].split(","), tuple(words[1:])
    if names and len(kinds) > 1:
        raise InputError("names can't follow several kinds; write KIND/NAME for each object")
    if kinds == ["all"]:
        if names:
            raise InputError("names can't follow all; name a kind instead of all")
        return [KindNames(kind, ()) for kind in kinds_in_all()]
    return [KindNames(resolve(kind, others), names) for kind in kinds if kind] or parse_targets(())


def parse_subject(words: Sequence[str]) -> KindNames | None:
    """Parse arguments that name at most one object; None without arguments. Raises InputError."""
    targets = parse_targets(words) if words else []
    if len(targets) > 1 or any(len(target.names) != 1 for target in targets):
        raise InputError("expected one subject: KIND NAME or KIND/NAME")
    return targets[0] if targets else None


CUT = "…"

what_argument = click.argument(
    "what", nargs=-1, shell_complete=completion.objects, help="KIND NAME..., or KIND/NAME..."
)
all_option = options.flag("--all", "everything", help="Select all objects of the kind in the namespace.")


class ObjectKey(NamedTuple):
    """``kind``: a kind key; ``namespace``: "" outside namespaces."""

    kind: str
    name: str
    namespace: str

    @property
    def space(self) -> str | None:
        return self.namespace or None


def select_objects(
    lab: Lab, words: Sequence[str], namespace: str, selector: str = "", everything: bool = False
) -> list[ObjectKey]:
    """Return the keys of the named or selected objects. A named object need not exist. Raises InputError."""
    keys: list[ObjectKey] = []
    for kind, names in parse_targets(words, lab.cluster.kinds()):
        space = namespace if is_namespaced(kind) else ""
        if names:
            if selector or everything:
                raise InputError("names can't be combined with -l or --all; use one of them")
            for name in names:
                full = complete_name(lab, kind, name, namespace)
                keys.append(ObjectKey(kind, full, lab.space_of(kind, full, namespace) or ""))
        elif selector or everything:
            listed = lab.cluster.list(kind, space or None, selector or None)
            keys += [ObjectKey(kind, name_of(obj), namespace_of(obj)) for obj in listed]
        else:
            raise InputError(f"no {kind} is named; give names, a label (-l) or --all")
    return keys


class Targets(NamedTuple):
    """The objects that a command names, as the user typed them."""

    what: tuple[str, ...]
    namespace: str
    selector: str
    everything: bool

    def keys(self, lab: Lab) -> list[ObjectKey]:
        """See ``select_objects``."""
        return select_objects(lab, *self)


def of_targets_and(others: str = "") -> Callable[[Any], Any]:
    """Add the options of a command that selects objects, which gets them as ``targets``. ``others``: what may stand behind the objects."""
    what = what_argument
    if others:
        what = click.argument("what", nargs=-1, shell_complete=completion.objects, help=f"KIND NAME... {others}")
    return options.grouped("targets", Targets, what, options.namespace, options.selector, all_option)


of_targets = of_targets_and()


def complete_name(lab: Lab, kind: str, name: str, namespace: str | None) -> str:
    """Return the full name for a name that a table has shortened (``pg-train-…001d``); other names unchanged. Raises InputError unless exactly
    one object matches."""
    begin, cut, end = name.partition(CUT)
    if not cut:
        return name
    names = (name_of(obj) for obj in lab.cluster.list(kind, namespace if is_namespaced(kind) else None))
    matching = sorted(full for full in names if full.startswith(begin) and full.endswith(end))
    if len(matching) == 1:
        return matching[0]
    if not matching:
        raise InputError(f"no {kind} has a name that is shortened to {name!r}")
    raise InputError(f"{name!r} matches {len(matching)} of {kind}; give the full name: {some(matching, 4)}")


def suggest_name(lab: Lab, kind: str, name: str, namespace: str | None) -> str:
    """Return the existing name closest to a name that does not exist, as the end of a sentence."""
    close = closest_names(name, (name_of(obj) for obj in lab.cluster.list(kind, namespace or None)))
    return f"; did you mean {close[0]}?" if close else ""


def fetch_objects(lab: Lab, keys: Sequence[ObjectKey]) -> list[dict[str, Any]]:
    """Return the objects. Raises InputError that names each missing object."""
    objects: list[dict[str, Any]] = []
    missing: list[InputError] = []
    for key in keys:
        try:
            objects.append(lab.cluster.get(key.kind, key.name, key.space))
        except NotFound as error:
            missing.append(InputError(f"{error}{suggest_name(lab, *key)}"))
    if missing:
        raise InputErrors.of(missing)
    return objects
