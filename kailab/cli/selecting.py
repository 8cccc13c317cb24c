"""Which objects a command is about: named, chosen by label, or all of a kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from kailab.cli import completing
from kailab.errors import InputError, InputErrors, NotFound

if TYPE_CHECKING:
    from kailab.lab import Lab

CUT = "…"
Command = TypeVar("Command", bound=Callable[..., Any])

what = click.argument("what", nargs=-1, shell_complete=completing.objects, help="KIND NAME..., or KIND/NAME...")
everything = click.option("--all", "everything", is_flag=True, help="All objects of the kind in the namespace.")


class Chosen(NamedTuple):
    """``kind``: a kind key; ``namespace``: "" outside namespaces."""

    kind: str
    name: str
    namespace: str

    @property
    def space(self) -> str | None:
        return self.namespace or None


def chosen(
    lab: Lab, words: Sequence[str], namespace: str, selector: str = "", everything: bool = False
) -> list[Chosen]:
    """What the words say, whether it is there or not. Raises InputError."""
    from kailab.cli.naming import targets
    from kailab.model.kinds import is_namespaced

    found: list[Chosen] = []
    for kind, names in targets(words, lab.cluster.kinds()):
        space = namespace if is_namespaced(kind) else ""
        if names:
            if selector or everything:
                raise InputError("names can't go with -l or --all")
            for name in names:
                full = in_full(lab, kind, name, namespace)
                found.append(Chosen(kind, full, lab.space_of(kind, full, namespace) or ""))
        elif selector or everything:
            listed = lab.cluster.list(kind, space or None, selector or None)
            found += [Chosen(kind, obj["metadata"]["name"], obj["metadata"].get("namespace", "")) for obj in listed]
        else:
            raise InputError(f"say which {kind}: by name, by label (-l) or --all")
    return found


def in_full(lab: Lab, kind: str, name: str, namespace: str | None) -> str:
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


def perhaps(lab: Lab, kind: str, name: str, namespace: str | None) -> str:
    """Of a name that there is not: the one that may have been meant, as the end of a sentence."""
    from kailab.model.meant import meant

    close = meant(name, (obj["metadata"]["name"] for obj in lab.cluster.list(kind, namespace or None)))
    return f"; did you mean {close[0]}?" if close else ""


def there(lab: Lab, wanted: Sequence[Chosen]) -> list[dict[str, Any]]:
    """The objects. Raises InputError that names each that is not there, InputErrors for several."""
    found: list[dict[str, Any]] = []
    missing: list[InputError] = []
    for one in wanted:
        try:
            found.append(lab.cluster.get(one.kind, one.name, one.space))
        except NotFound as error:
            missing.append(InputError(f"{error}{perhaps(lab, *one)}"))
    if missing:
        raise InputErrors.of(missing)
    return found
