"""Changes that delete work."""

from __future__ import annotations

from kailab.cluster.selectors import parse_selector
from kailab.errors import ApiError, InputError, NotFound
from kailab.lab.change import Delete
from kailab.lab.lab import Lab
from kailab.lab.owners import top_of
from kailab.model.kinds import is_namespaced, kind_key


def deletion_of(lab: Lab, text: str, namespace: str = "default") -> Delete:
    """The deletion of ``KIND/NAME``. Raises InputError if it does not exist."""
    word, slash, name = text.partition("/")
    if not slash or not name:
        raise InputError(f"{text!r}: expected KIND/NAME, as in job/train")
    kind = lab.kind(word)
    try:
        lab.cluster.get(kind, name, namespace if is_namespaced(kind) else None)
    except NotFound as error:
        raise InputError(f"{text!r}: {error}") from None
    return Delete(kind, name, namespace)


def deletions_by_label(lab: Lab, selector: str) -> tuple[Delete, ...]:
    """The deletion of all workloads, in every namespace, with a pod that has these labels (``app=train``, ``team in (a, b)``). Raises
    InputError if there is none."""
    try:
        terms = parse_selector(selector)
    except ApiError as error:
        raise InputError(f"{selector!r}: {error}") from None
    if not terms:
        raise InputError("expected a label selector, as in app=train")
    tops = {}
    for pod in lab.cluster.list("Pod", None, selector):
        # The top owner, because lower ones would be replaced.
        top = top_of(lab.cluster, pod)
        tops[top["metadata"]["uid"]] = top
    if not tops:
        raise InputError(f"{selector!r}: no pod has these labels")
    return tuple(
        Delete(kind_key(top), top["metadata"]["name"], top["metadata"].get("namespace", "default"))
        for top in tops.values()
    )
