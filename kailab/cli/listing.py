"""Which objects are to be shown, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from kailab.cli import narrowing, terminal

if TYPE_CHECKING:
    from kailab.cli.naming import Target
    from kailab.lab import Lab

Object = dict[str, Any]
Found: TypeAlias = list[tuple[str, list[Object]]]
"""Kind keys with objects."""


class Asked:
    """What is asked for. ``namespace``: None: all."""

    def __init__(
        self,
        what: Sequence[str],
        namespace: str | None,
        selector: str,
        field_selector: str = "",
        sort_by: str = "",
        may_lack: bool = False,
    ) -> None:
        """``may_lack``: names that there are not are left out. Raises InputError."""
        self._what, self.namespace, self._selector, self._may_lack = what, namespace, selector, may_lack
        self._fields = narrowing.ByFields(field_selector)
        self._narrowed = [name for name, given in (("-l", selector), ("--field-selector", field_selector)) if given]
        self._warned: set[str] = set()
        self._order = None
        if sort_by:
            from kailab.cli.jsonpath import relaxed

            self._order = relaxed(sort_by)

    def of(self, lab: Lab) -> tuple[list[Target], Found]:
        """The kinds asked for, and for each the objects that there are. Raises InputError, NotFound."""
        from kailab.cli.naming import targets
        from kailab.errors import InputError

        wanted = targets(self._what, lab.cluster.kinds())
        if self._narrowed and any(target.names for target in wanted):
            raise InputError(f"names can't go with {' and '.join(self._narrowed)}")
        found: Found = []
        for target in wanted:
            there = self._objects(lab, target)
            self._warn_of(target.kind, there)
            objects = [obj for obj in there if self._fields(obj)]
            found.append((target.kind, objects if self._order is None else narrowing.in_order(objects, self._order)))
        return wanted, found

    def _warn_of(self, kind: str, there: Sequence[Object]) -> None:
        """Of fields that none of them has; once, as a watch looks again and again."""
        for field in self._fields.absent(there):
            said = f"--field-selector: no {kind} has the field {field}"
            if said not in self._warned:
                terminal.warn(said)
            self._warned.add(said)

    def _objects(self, lab: Lab, target: Target) -> list[Object]:
        from kailab.errors import InputError
        from kailab.model.kinds import is_namespaced

        kind, names = target
        if not names:
            return lab.cluster.list(kind, self.namespace if is_namespaced(kind) else None, self._selector or None)
        if self.namespace is None and is_namespaced(kind):
            raise InputError("names can't go with -A; say which namespace with -n")
        return [one for name in names if (one := self._named(lab, kind, name)) is not None]

    def _named(self, lab: Lab, kind: str, name: str) -> Object | None:
        from kailab.cli.selecting import in_full, perhaps
        from kailab.errors import NotFound

        space = lab.space_of(kind, name, self.namespace)
        try:
            found: Object = lab.get(kind, in_full(lab, kind, name, space), self.namespace)
        except NotFound as error:
            if self._may_lack:
                return None
            raise NotFound(f"{error}{perhaps(lab, kind, name, space)}") from None
        return found
