"""The topology that a gang asks for: another name, a wider level, a preference instead of a must, none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from typing import Any

from kailab.cluster.protocol import Object
from kailab.explain.steps.edits import annotated, both, own_change
from kailab.explain.steps.proposal import Proposal, Way
from kailab.explain.steps.setting import Setting
from kailab.model import labels

_FIELDS = {
    labels.TOPOLOGY: "topology",
    labels.TOPOLOGY_REQUIRED: "requiredTopologyLevel",
    labels.TOPOLOGY_PREFERRED: "preferredTopologyLevel",
}


def existing_topology(setting: Setting) -> Iterator[Way]:
    """The topology, and the level of it, most alike to what is named."""
    asked = _asked(setting)
    topologies = _levels(setting)
    if not asked.get(labels.TOPOLOGY):
        return
    alike = sorted(topologies, key=lambda name: (-_ratio(name, asked[labels.TOPOLOGY]), name))
    for name in alike[:2]:
        change: dict[str, str | None] = {labels.TOPOLOGY: name}
        for key in (labels.TOPOLOGY_REQUIRED, labels.TOPOLOGY_PREFERRED):
            level = asked.get(key)
            if level and level not in topologies[name]:
                change[key] = _most_alike(topologies[name], level)
        told = ", ".join(f"{_FIELDS[key]} {value}" for key, value in change.items() if asked.get(key) != value)
        if told:
            yield Way.of(_changed(setting, f"Name a topology that there is: {told}", change))


def wider_level(setting: Setting) -> Iterator[Way]:
    """Levels above the one that is required, the nearest first."""
    asked = _asked(setting)
    required = asked.get(labels.TOPOLOGY_REQUIRED)
    levels = _levels(setting).get(asked.get(labels.TOPOLOGY, ""), [])
    if required not in levels:
        return
    proposals: list[Proposal] = []
    for level in reversed(levels[: levels.index(required)]):
        do = f"Require one {level} instead of one {required}"
        proposals += _changed(setting, do, {labels.TOPOLOGY_REQUIRED: level})
    if proposals:
        yield Way(tuple(proposals))


def prefer_level(setting: Setting) -> Iterator[Way]:
    """The level as a preference."""
    asked = _asked(setting)
    if required := asked.get(labels.TOPOLOGY_REQUIRED):
        do = f"Prefer one {required} instead of requiring it"
        change = {labels.TOPOLOGY_REQUIRED: None, labels.TOPOLOGY_PREFERRED: required}
        yield Way.of(_changed(setting, do, change))


def no_topology(setting: Setting) -> Iterator[Way]:
    """Nothing of a topology at all."""
    if asked := _asked(setting):
        do = f"Ask for no topology (remove {', '.join(sorted(asked))})"
        yield Way.of(_changed(setting, do, dict.fromkeys(_FIELDS)))


def _changed(setting: Setting, do: str, change: Mapping[str, str | None]) -> Iterator[Proposal]:
    edit = both(*(annotated(key, value) for key, value in change.items()))

    def group(one: Object) -> dict[str, Any]:
        if not one["spec"].get("topologyConstraint"):
            return {}
        if change.get(labels.TOPOLOGY, "") is None:
            return {"spec": {"topologyConstraint": None}}
        # None takes a field away: it is a merge patch.
        return {"spec": {"topologyConstraint": {_FIELDS[key]: value for key, value in change.items()}}}

    yield from own_change(setting, do, edit, group)


def _asked(setting: Setting) -> dict[str, str]:
    """Annotation -> value, of the workload or of the PodGroup that a user made."""
    for work in setting.works:
        notes = work["metadata"].get("annotations") or {}
        if found := {key: str(notes[key]) for key in _FIELDS if notes.get(key)}:
            return found
    for group in setting.groups:
        block = group["spec"].get("topologyConstraint") or {}
        if found := {key: str(block[field]) for key, field in _FIELDS.items() if block.get(field)}:
            return found
    return {}


def _levels(setting: Setting) -> dict[str, list[str]]:
    """Topology -> node labels of its levels, the widest first."""
    return {
        one["metadata"]["name"]: [
            level["nodeLabel"] for level in one["spec"].get("levels") or () if level.get("nodeLabel")
        ]
        for one in setting.lab.cluster.list("Topology")
    }


def _most_alike(names: Iterable[str], to: str) -> str | None:
    return max(names, key=lambda one: (_ratio(one, to), one), default=None)


def _ratio(one: str, other: str) -> float:
    return round(SequenceMatcher(None, one, other).ratio(), 2)
