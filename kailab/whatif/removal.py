"""Work that goes, as changes."""

from __future__ import annotations

from kailab.cluster.selectors import parse_selector
from kailab.errors import ApiError, InputError, NotFound
from kailab.lab.change import Delete
from kailab.lab.lab import Lab
from kailab.lab.owners import top_of
from kailab.model.kinds import is_namespaced, kind_key


def deleted(lab: Lab, text: str, namespace: str = "default") -> Delete:
    """``KIND/NAME``. Raises InputError where it is not there."""
    word, slash, name = text.partition("/")
    if not slash or not name:
        raise InputError(f"{text!r}: expected KIND/NAME, as in job/train")
    kind = lab.kind(word)
    try:
        lab.cluster.get(kind, name, namespace if is_namespaced(kind) else None)
    except NotFound as error:
        raise InputError(f"{text!r}: {error}") from None
    return Delete(kind, name, namespace)


def without(lab: Lab, selector: str) -> tuple[Delete, ...]:
    """All workloads, in every namespace, of which some pod has these labels (``app=train``, ``team in (a, b)``). Raises InputError where
    there is none."""
    try:
        terms = parse_selector(selector)
    except ApiError as error:
        raise InputError(f"{selector!r}: {error}") from None
    if not terms:
        raise InputError("expected a selector of labels, as in app=train")
    tops = {}
    for pod in lab.cluster.list("Pod", None, selector):
        # The topmost: whoever owns pods makes them anew.
        top = top_of(lab, pod)
        tops[top["metadata"]["uid"]] = top
    if not tops:
        raise InputError(f"{selector!r}: no pod has these labels")
    return tuple(
        Delete(kind_key(top), top["metadata"]["name"], top["metadata"].get("namespace", "default"))
        for top in tops.values()
    )
