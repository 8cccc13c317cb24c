"""The shape of each pod: what its spec says of where it may go, and what stands beside the spec.

Beside it stand the labels of its namespace, its resource claims, the objects it names and the pause after a binding that failed.
Few pods have any of it, so the shape of the spec, which many share, is built once, and what is beside is laid over it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kailab.cluster.protocol import Object, WatchEvent
from kailab.cluster.selectors import from_label_selector, matches
from kailab.engine.snapshot.records import PodTerm, Shape
from kailab.scheduler.reading import references
from kailab.scheduler.reading.claims import ClaimIndex
from kailab.scheduler.reading.shapes import ShapeCache

_NOTHING: Mapping[str, Any] = {}


class PodShapes:
    """``shapes_lack``: called when shapes given so far lack labels that some pod looks at, so that all are asked for again."""

    def __init__(self, claims: ClaimIndex, shapes_lack: Callable[[], None]) -> None:
        self._claims = claims
        self._shapes_lack = shapes_lack
        self._cache = ShapeCache(self._select_namespaces)
        self._overlays: dict[tuple[Any, ...], Shape] = {}
        self._claiming: dict[str, None] = {}  # pods with resource claims
        self._existing: set[references.ObjectReference] = set()
        self._referring: dict[str, tuple[references.ObjectReference, ...]] = {}
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._namespace_selectors = False
        self._watched_labels: set[str] = set()
        self._pod_terms = False  # some pod looks at other pods: shapes then carry labels and namespace
        self._held_back: dict[str, str] = {}

    # --- what stands beside the spec ---------------------------------------------------------------------------------

    def take_namespace(self, event: WatchEvent) -> bool:
        """True if shapes given so far may not hold any more."""
        metadata = event.object["metadata"]
        name, labels = metadata["name"], metadata.get("labels") or {}
        before = self._namespaces.pop(name, None)
        if event.type != "DELETED":
            self._namespaces[name] = labels
        return self._namespace_selectors and before != self._namespaces.get(name)

    def take_reference(self, event: WatchEvent) -> bool:
        """An object that pods name. True if it has come or gone."""
        metadata = event.object["metadata"]
        reference = references.ObjectReference(event.kind, metadata.get("namespace", ""), metadata["name"])
        known = reference in self._existing
        if event.type == "DELETED":
            self._existing.discard(reference)
        else:
            self._existing.add(reference)
        return known != (reference in self._existing)

    def hold_back(self, uid: str, why: str | None) -> None:
        """Let a pod that waits count as blocked, ``why`` told; None: no longer."""
        if why is None:
            self._held_back.pop(uid, None)
        else:
            self._held_back[uid] = why

    def why_held_back(self, uid: str) -> str | None:
        return self._held_back.get(uid)

    def is_held_back(self, uid: str) -> bool:
        return uid in self._held_back

    def take_pod(self, uid: str, pod: Object) -> None:
        """Remember what a pod names."""
        if pod["spec"].get("resourceClaims"):
            self._claiming[uid] = None
        if wanted := references.referenced_objects(pod):
            self._referring[uid] = wanted

    def forget_pod(self, uid: str) -> None:
        self._claiming.pop(uid, None)
        self._referring.pop(uid, None)

    def naming_others(self) -> list[str]:
        """Pods whose shape depends on other objects: on claims, or on what they name."""
        return [*self._claiming, *self._referring]

    def forget_all(self) -> None:
        """Namespaces have changed: what was selected by their labels is selected anew."""
        self._cache.forget()

    def _select_namespaces(self, selector: Mapping[str, Any]) -> tuple[str, ...]:
        self._namespace_selectors = True
        terms = from_label_selector(selector) or ()
        return tuple(sorted(name for name, labels in self._namespaces.items() if matches(terms, labels)))

    def __getstate__(self) -> dict[str, Any]:
        """For a copy, in which objects have other identities: it knows no shapes by them."""
        return {**self.__dict__, "_overlays": {}}

    # --- the shape ---------------------------------------------------------------------------------------------------

    def of(self, uid: str, pod: Object) -> Shape:
        shape = self._cache.of(pod)
        # The first pod that looks at a label: the shapes of all others have to carry it from now on.
        if (shape.affinity or shape.anti_affinity) and self._note_terms(shape.affinity + shape.anti_affinity):
            self._shapes_lack()
        # Once a pod is on a node there is nothing to hold back.
        held_back = self._held_back.get(uid) if self._held_back and not pod["spec"].get("nodeName") else None
        if not self._pod_terms and uid not in self._claiming and uid not in self._referring and held_back is None:
            return shape
        labels: tuple[tuple[str, str], ...] = ()
        namespace = ""
        metadata = pod["metadata"]
        if self._pod_terms:
            namespace = metadata["namespace"]
            own = metadata.get("labels") or _NOTHING
            # Only labels that some term asks for: all of them would give nearly every pod a shape of its own.
            labels = tuple(sorted((key, own[key]) for key in own if key in self._watched_labels))
        dra, claims, blocked = self._claims.of_pod(pod) if uid in self._claiming else ((), (), ())
        missing = [ref for ref in self._referring.get(uid, ()) if ref not in self._existing]
        blocked += tuple(references.missing_message(ref) for ref in missing)
        if held_back is not None:
            blocked += (held_back,)
        key = (id(shape), labels, namespace, dra, claims, blocked)  # shapes are interned and never let go
        overlaid = self._overlays.get(key)
        if overlaid is None:
            gpu = msgspec.structs.replace(shape.gpu, dra=dra) if dra else shape.gpu
            overlaid = self._overlays[key] = self._cache.intern(
                msgspec.structs.replace(
                    shape, gpu=gpu, labels=labels, namespace=namespace, claims=claims, blocked=blocked
                )
            )
        return overlaid

    def as_in(self, before: PodShapes, uid: str, shape: Shape) -> bool:
        """Whether the shape that a pod has elsewhere is its shape here too: it depends on the pod alone, and nothing stands beside it."""
        looks = self._pod_terms or before._pod_terms or shape.affinity or shape.anti_affinity
        beside = uid in before._claiming or uid in before._referring or uid in self._held_back
        return not (looks or beside or shape.blocked or shape.claims or shape.gpu.dra)

    def _note_terms(self, terms: tuple[PodTerm, ...]) -> bool:
        """Remember which labels are looked at; True if shapes made so far lack some of them."""
        keys = {requirement.key for term in terms for requirement in term.requirements}
        news = not self._pod_terms or not keys <= self._watched_labels
        self._pod_terms = True
        self._watched_labels |= keys
        return news
