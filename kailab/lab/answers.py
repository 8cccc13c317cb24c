"""Explanations for ``Lab.explain`` and for failed expectations.

``kailab.explain`` is a layer above this package. This module is the only one here that imports it, each time that somebody asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kailab.evidence.entries import PodEvicted
    from kailab.explain.answer import Answer, Explanation
    from kailab.lab.lab import Lab
    from kailab.lab.picture import Picture


def explain(
    lab: Lab,
    kind: str,
    name: str,
    namespace: str = "default",
    *,
    tried: bool = True,
    everything: bool = False,
    picture: Picture | None = None,
) -> Answer:
    """See ``kailab.explain.questions.ask``."""
    from kailab.explain.questions import ask

    return ask(lab, kind, name, namespace, tried=tried, everything=everything, picture=picture)


def explain_eviction(entry: PodEvicted) -> Explanation:
    """When, by which action, for whom and why a pod was evicted."""
    from kailab.explain.answer import Explanation
    from kailab.explain.evictions import eviction_lines

    return Explanation("pod", entry.pod, tuple(eviction_lines(entry)))
