"""The objects that a command is about: by name (``job.batch/train``, ``pod/a pod/b``, ``pods,queues``), by label, or all of a kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from kailab.cli import completion
from kailab.errors import InputError, InputErrors, NotFound
from kailab.model.kinds import KINDS, resolve

if TYPE_CHECKING:
    from kailab.lab import Lab


def kinds_in_all() -> list[str]:
    """The kinds that ``get all`` shows: workloads, and then the groups they are scheduled in."""
    from kailab.model.kinds import register_installed

    register_installed()
    shown = [key for key, kind in KINDS.items() if kind.in_all]
    return sorted(shown, key="PodGroup".__eq__)


class KindNames(NamedTuple):
    """A kind key and the names wanted of it; no names: all."""

    kind: str
    names: tuple[str, ...]


def resource_name(kind: str) -> str:
    """A kind key as kubectl prints it before a name: ``pod``, ``job.batch``, ``queue.scheduling.run.ai``."""
    known = KINDS.get(kind)
    if known is None:
        return kind.lower()
    return f"{known.singular}.{known.group}" if known.group else known.singular


def full_name(kind: str, name: str) -> str:
    """``job.batch/train``."""
    return f"{resource_name(kind)}/{name}"


def parse_targets(words: Sequence[str], others: Sequence[str] = ()) -> list[KindNames]:
    """What was typed after ``get``, ``delete`` or ``explain``: ``pods``, ``pods a b``, ``pods,jobs``, ``pod/a job/b``.

    ``others``: kinds in use that kailab does not know. Raises InputError.
    """
    if not words:
        raise InputError("say what: a kind such as pods, or kind/name")
    if any("/" in word for word in words):
        found: list[KindNames] = []
        for word in words:
            kind, slash, name = word.partition("/")
            if not slash or not kind or not name or "/" in name:
                raise InputError(f"{word!r}: where one argument is kind/name all have to be")
            found.append(KindNames(resolve(kind, others), (name,)))
        return found
    kinds, names = words[0].split(","), tuple(words[1:])
    if names and len(kinds) > 1:
        raise InputError("names can't go with several kinds; write kind/name for each")
    if kinds == ["all"]:
        if names:
            raise InputError("names can't go with all")
        return [KindNames(kind, ()) for kind in kinds_in_all()]
    return [KindNames(resolve(kind, others), names) for kind in kinds if kind] or parse_targets(())


CUT = "…"
Command = TypeVar("Command", bound=Callable[..., Any])

what_argument = click.argument(
    "what", nargs=-1, shell_complete=completion.objects, help="KIND NAME..., or KIND/NAME..."
)
all_option = click.option("--all", "everything", is_flag=True, help="All objects of the kind in the namespace.")


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
    """What the words say, whether it is there or not. Raises InputError."""
    from kailab.model.kinds import is_namespaced

    found: list[ObjectKey] = []
    for kind, names in parse_targets(words, lab.cluster.kinds()):
        space = namespace if is_namespaced(kind) else ""
        if names:
            if selector or everything:
                raise InputError("names can't go with -l or --all")
            for name in names:
                full = complete_name(lab, kind, name, namespace)
                found.append(ObjectKey(kind, full, lab.space_of(kind, full, namespace) or ""))
        elif selector or everything:
            listed = lab.cluster.list(kind, space or None, selector or None)
            found += [ObjectKey(kind, obj["metadata"]["name"], obj["metadata"].get("namespace", "")) for obj in listed]
        else:
            raise InputError(f"say which {kind}: by name, by label (-l) or --all")
    return found


def complete_name(lab: Lab, kind: str, name: str, namespace: str | None) -> str:
    """A name as tables shorten it (``pg-train-…001d``) in full, another one as it is. Raises InputError where not just one object fits."""
    from kailab.lab.wording import some
    from kailab.model.kinds import is_namespaced

    begin, cut, end = name.partition(CUT)
    if not cut:
        return name
    names = (obj["metadata"]["name"] for obj in lab.cluster.list(kind, namespace if is_namespaced(kind) else None))
    fitting = sorted(one for one in names if one.startswith(begin) and one.endswith(end))
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        raise InputError(f"no {kind} has a name that is shortened to {name!r}")
    raise InputError(f"{name!r} fits {len(fitting)} of {kind}, say which: {some(fitting, 4)}")


def suggest_name(lab: Lab, kind: str, name: str, namespace: str | None) -> str:
    """Of a name that there is not: the one that may have been meant, as the end of a sentence."""
    from kailab.model.suggestions import closest_names

    close = closest_names(name, (obj["metadata"]["name"] for obj in lab.cluster.list(kind, namespace or None)))
    return f"; did you mean {close[0]}?" if close else ""


def fetch_objects(lab: Lab, wanted: Sequence[ObjectKey]) -> list[dict[str, Any]]:
    """The objects. Raises InputError that names each that is not there, InputErrors for several."""
    found: list[dict[str, Any]] = []
    missing: list[InputError] = []
    for one in wanted:
        try:
            found.append(lab.cluster.get(one.kind, one.name, one.space))
        except NotFound as error:
            missing.append(InputError(f"{error}{suggest_name(lab, *one)}"))
    if missing:
        raise InputErrors.of(missing)
    return found
