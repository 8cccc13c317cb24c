"""Where its pods may go, as they say it themselves: selectors, affinity, tolerations, keeping apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from difflib import SequenceMatcher
from typing import Any

from kailab.cluster.protocol import Object
from kailab.explain.steps.edits import of_pods, own_change
from kailab.explain.steps.manifest import Edit
from kailab.explain.steps.nodechanges import some_of
from kailab.explain.steps.proposal import Way, patch
from kailab.explain.steps.setting import Setting
from kailab.lab.wording import some
from kailab.model.kind import field_of

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
# Labels that say what a node is. Written on another node they would be a lie, and the pods would fail there.
_OF_HARDWARE = ("nvidia.com/", "amd.com/", "kubernetes.io/", "node.kubernetes.io/", "beta.kubernetes.io/")
_OF_KUBERNETES = "node.kubernetes.io/"
VALUES = 3
"""Values of a label that are tried."""


def another_selector(setting: Setting) -> Iterator[Way]:
    """Values that nodes have, for each label of the node selector; without that label; without any."""
    if setting.pod is None:
        return
    selector: dict[str, str] = setting.pod["spec"].get("nodeSelector") or {}
    # A label that no node has as it is asked for is to blame by itself; otherwise it is how they go together.
    unmet = [key for key, value in selector.items() if _values(setting, key)[value] == 0]
    for key in unmet or selector:
        for value in _alike(_values(setting, key), selector[key])[:VALUES]:
            do = f"Select nodes by {key}={value} (now {selector[key]})"
            yield Way.of(own_change(setting, do, of_pods(_selecting({key: value}))))
        do = f"Remove {key}={selector[key]} from its node selector"
        yield Way.of(own_change(setting, do, of_pods(_selecting({key: None}))))
    if len(selector) > 1:
        do = "Remove its node selector"
        yield Way.of(own_change(setting, do, of_pods(_selecting(dict.fromkeys(selector)))))


def another_affinity(setting: Setting) -> Iterator[Way]:
    """Values that nodes have, for each required node affinity; as a preference; without it."""
    if setting.pod is None:
        return
    terms = _terms(setting.pod)
    for key, values in sorted(
        {
            one["key"]: tuple(one.get("values") or ()) for term in terms for one in term if one.get("operator") == "In"
        }.items()
    ):
        there = _values(setting, key)
        if any(there[value] for value in values):
            continue
        for value in _alike(there, values[0] if values else "")[:VALUES]:
            do = f"Require {key} in [{value}] by its node affinity (now [{', '.join(values)}])"
            yield Way.of(own_change(setting, do, of_pods(_requiring(key, value))))
    if terms:
        do = "Make its required node affinity a preference"
        yield Way.of(own_change(setting, do, of_pods(_preferring_nodes)))


def tolerate(setting: Setting) -> Iterator[Way]:
    """Tolerate the taints of nodes: those of the nodes that are most, then all there are."""
    sets = Counter(
        tuple(
            sorted(
                (one["key"], one.get("effect", "")) for one in field_of(node, "spec.taints") or () if _keeps_off(one)
            )
        )
        for node in setting.nodes.values()
    )
    found = [one for one in sorted(sets, key=lambda one: (-sets[one], one)) if one]
    every = tuple(sorted({one for taints in found for one in taints}))
    for taints in dict.fromkeys((*found[:VALUES], every)):
        if taints:
            do = f"Let it tolerate the taint {some([f'{key}:{effect}' for key, effect in taints])}"
            yield Way.of(own_change(setting, do, of_pods(_tolerating(taints))))


def apart_no_more(setting: Setting) -> Iterator[Way]:
    """Let it rather than have to keep apart, or keep near."""
    for field, what in (("podAntiAffinity", "anti-affinity"), ("podAffinity", "affinity to other pods")):
        if setting.pod is not None and field_of(setting.pod, f"spec.affinity.{field}.{_REQUIRED}"):
            do = f"Make its required {what} a preference"
            yield Way.of(own_change(setting, do, of_pods(_preferring_pods(field))))


def label_nodes(setting: Setting) -> Iterator[Way]:
    """Label nodes as the node selector says, as few as are enough; not with what tells of their hardware."""
    selector: dict[str, str] = (setting.pod or {}).get("spec", {}).get("nodeSelector") or {}
    if not selector or any(key.startswith(_OF_HARDWARE) for key in selector):
        return
    told = ", ".join(f"{key}={value}" for key, value in selector.items())
    change = {"metadata": {"labels": dict(selector)}}
    yield from some_of(list(setting.nodes.values()), f"Label node {{}} {told}", lambda node: (patch(node, change),))


def _keeps_off(taint: dict[str, Any]) -> bool:
    # Those of Kubernetes say that the node is not well: to tolerate them would not make it so.
    return taint.get("effect") in ("NoSchedule", "NoExecute") and not taint["key"].startswith(_OF_KUBERNETES)


def _values(setting: Setting, key: str) -> Counter[str]:
    """Values of a label, by the number of nodes that have it."""
    found = ((node["metadata"].get("labels") or {}).get(key) for node in setting.nodes.values())
    return Counter(value for value in found if value is not None)


def _alike(values: Counter[str], to: str) -> list[str]:
    """The most alike first, of equals those that most nodes have."""
    return sorted(
        (value for value in values if value != to),
        key=lambda one: (-round(SequenceMatcher(None, one.lower(), to.lower()).ratio(), 1), -values[one], one),
    )


def _terms(pod: Object) -> list[list[dict[str, Any]]]:
    found = field_of(pod, f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms") or ()
    return [list(term.get("matchExpressions") or ()) for term in found]


def _selecting(change: dict[str, str | None]) -> Edit:
    def edit(pod: Object) -> None:
        selector = {**(pod["spec"].get("nodeSelector") or {}), **change}
        kept = {key: value for key, value in selector.items() if value is not None}
        pod["spec"]["nodeSelector"] = kept
        if not kept:
            del pod["spec"]["nodeSelector"]

    return edit


def _requiring(key: str, value: str) -> Edit:
    def edit(pod: Object) -> None:
        for term in _terms(pod):
            for one in term:
                if one["key"] == key and one.get("operator") == "In":
                    one["values"] = [value]

    return edit


def _preferring_nodes(pod: Object) -> None:
    affinity = field_of(pod, "spec.affinity.nodeAffinity")
    required = affinity.pop(_REQUIRED, None) if isinstance(affinity, dict) else None
    for term in (required or {}).get("nodeSelectorTerms") or ():
        affinity.setdefault(_PREFERRED, []).append({"weight": 100, "preference": term})


def _preferring_pods(field: str) -> Edit:
    def edit(pod: Object) -> None:
        affinity = field_of(pod, f"spec.affinity.{field}")
        for term in affinity.pop(_REQUIRED, None) or () if isinstance(affinity, dict) else ():
            affinity.setdefault(_PREFERRED, []).append({"weight": 100, "podAffinityTerm": term})

    return edit


def _tolerating(taints: tuple[tuple[str, str], ...]) -> Edit:
    def edit(pod: Object) -> None:
        given = deepcopy(pod["spec"].get("tolerations") or [])
        new = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in taints]
        pod["spec"]["tolerations"] = given + [one for one in new if one not in given]

    return edit
