"""Why something is as it is: a question for each kind that can be asked about, its answer an ``Explanation``.

A new question is a module with a function like those of ``QUESTIONS``, and a line there. Modules are imported when they are asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

from kailab.errors import InputError
from kailab.lab.explain.explanation import Explanation
from kailab.model.kinds import is_namespaced

if TYPE_CHECKING:
    from kailab.lab.lab import Lab

Answer: TypeAlias = Callable[["Lab", str, str, str], list[Explanation]]
"""(lab, kind key, name, namespace) -> explanations, one or more. Raises NotFound, InputError."""

QUESTIONS: Mapping[str, str] = {
    "Pod": "waiting:about_pod",
    "PodGroup": "waiting:about_podgroup",
    "Queue": "queues:about_queue",
}
"""Kind key -> ``module:function`` in this package."""

WORKLOAD = "waiting:about_workload"
"""For every other kind in namespaces: what owns pods."""


def explain(lab: Lab, kind: str, name: str, namespace: str) -> list[Explanation]:
    """Raises NotFound, and InputError for a kind that can't be explained."""
    question = QUESTIONS.get(kind, WORKLOAD if is_namespaced(kind) else "")
    if not question:
        raise InputError(f"{kind} can't be explained; expected a pod, a podgroup, a queue or a workload")
    module, _, function = question.partition(":")
    answer: Answer = getattr(import_module(f"{__name__}.{module}"), function)
    return answer(lab, kind, name, namespace)
