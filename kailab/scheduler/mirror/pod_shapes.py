"""The shape of each pod: the constraints and requests of its spec, with an overlay of what depends on other objects.

The overlay has namespace labels, resource claims, missing ConfigMaps and volume claims, and the pause after a failed binding. Few pods
need one, so the shape of the spec is made once and shared by many pods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kailab.cluster.protocol import Object, WatchEvent
from kailab.cluster.selectors import from_label_selector, matches
from kailab.engine.snapshot.records import PodTerm, Shape
from kailab.model.objects import labels_of, name_of, namespace_of
from kailab.scheduler.reading import references
from kailab.scheduler.reading.claims import ClaimIndex
from kailab.scheduler.reading.shapes import ShapeCache

_NOTHING: Mapping[str, Any] = {}


class PodShapes:
    """``shapes_lack`` is called when earlier shapes lack labels that a pod's affinity now selects; the caller then refreshes all pods."""

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
        self._pod_terms = False  # some pod has pod affinity: shapes then carry labels and namespace
        self._held_back: dict[str, str] = {}

    # --- overlays -----------------------------------------------------------------------------------------------------

    def take_namespace(self, event: WatchEvent) -> bool:
        """Returns whether earlier shapes may have become wrong."""
        name, labels = name_of(event.object), labels_of(event.object)
        before = self._namespaces.pop(name, None)
        if event.type != "DELETED":
            self._namespaces[name] = labels
        return self._namespace_selectors and before != self._namespaces.get(name)

    def take_reference(self, event: WatchEvent) -> bool:
        """Take in an object that pods may reference. Returns whether it was added or deleted."""
        reference = references.ObjectReference(event.kind, namespace_of(event.object), name_of(event.object))
        known = reference in self._existing
        if event.type == "DELETED":
            self._existing.discard(reference)
        else:
            self._existing.add(reference)
        return known != (reference in self._existing)

    def hold_back(self, uid: str, reason: str | None) -> None:
        """Count a pending pod as blocked for ``reason``; None: no longer."""
        if reason is None:
            self._held_back.pop(uid, None)
        else:
            self._held_back[uid] = reason

    def held_back_reason(self, uid: str) -> str | None:
        return self._held_back.get(uid)

    def is_held_back(self, uid: str) -> bool:
        return uid in self._held_back

    def take_pod(self, uid: str, pod: Object) -> None:
        """Note whether the pod has claims or references."""
        if pod["spec"].get("resourceClaims"):
            self._claiming[uid] = None
        if wanted := references.referenced_objects(pod):
            self._referring[uid] = wanted

    def forget_pod(self, uid: str) -> None:
        self._claiming.pop(uid, None)
        self._referring.pop(uid, None)

    def dependent_pods(self) -> list[str]:
        """Pods whose shape depends on claims or on referenced objects."""
        return [*self._claiming, *self._referring]

    def forget_all(self) -> None:
        """Make all shapes again, after a change of namespaces."""
        self._cache.forget()

    def _select_namespaces(self, selector: Mapping[str, Any]) -> tuple[str, ...]:
        self._namespace_selectors = True
        terms = from_label_selector(selector) or ()
        return tuple(sorted(name for name, labels in self._namespaces.items() if matches(terms, labels)))

    def __getstate__(self) -> dict[str, Any]:
        """Without the overlays, whose keys are identities of objects."""
        return {**self.__dict__, "_overlays": {}}

    # --- the shape ---------------------------------------------------------------------------------------------------

    def of(self, uid: str, pod: Object) -> Shape:
        shape = self._cache.of(pod)
        # The first pod that selects a label: all shapes must carry it from now on.
        if (shape.affinity or shape.anti_affinity) and self._note_terms(shape.affinity + shape.anti_affinity):
            self._shapes_lack()
        # A pod on a node is not held back.
        held_back = self._held_back.get(uid) if self._held_back and not pod["spec"].get("nodeName") else None
        if not self._pod_terms and uid not in self._claiming and uid not in self._referring and held_back is None:
            return shape
        labels: tuple[tuple[str, str], ...] = ()
        namespace = ""
        metadata = pod["metadata"]
        if self._pod_terms:
            namespace = metadata["namespace"]
            own = metadata.get("labels") or _NOTHING
            # Only labels that some term selects: with all labels nearly every pod would have a shape of its own.
            labels = tuple(sorted((key, own[key]) for key in own if key in self._watched_labels))
        dra, claims, blocked = self._claims.of_pod(pod) if uid in self._claiming else ((), (), ())
        missing = [ref for ref in self._referring.get(uid, ()) if ref not in self._existing]
        blocked += tuple(references.missing_message(ref) for ref in missing)
        if held_back is not None:
            blocked += (held_back,)
        key = (id(shape), labels, namespace, dra, claims, blocked)  # shapes are interned and never freed
        overlaid = self._overlays.get(key)
        if overlaid is None:
            gpu = shape.gpu.with_claims(dra) if dra else shape.gpu
            overlaid = self._overlays[key] = self._cache.intern(
                msgspec.structs.replace(
                    shape, gpu=gpu, labels=labels, namespace=namespace, claims=claims, blocked=blocked
                )
            )
        return overlaid

    def same_in(self, other: PodShapes, uid: str, shape: Shape) -> bool:
        """Whether the pod's shape in ``other`` is certainly its shape here too: it has no overlay and no pod affinity matters."""
        pod_terms = self._pod_terms or other._pod_terms or shape.affinity or shape.anti_affinity
        overlay = uid in other._claiming or uid in other._referring or uid in self._held_back
        return not (pod_terms or overlay or shape.blocked or shape.claims or shape.gpu.claimed)

    def _note_terms(self, terms: tuple[PodTerm, ...]) -> bool:
        """Note the labels that terms select. Returns whether earlier shapes lack some of them."""
        keys = {requirement.key for term in terms for requirement in term.requirements}
        lacking = not self._pod_terms or not keys <= self._watched_labels
        self._pod_terms = True
        self._watched_labels |= keys
        return lacking
