"""The table of the fields of operators' kinds belongs to the versions that are pinned."""

from __future__ import annotations

from kailab.components.pins import ADDONS
from kailab.model.kinds import KINDS, of_group
from kailab.model.validation import operator_fields
from tools.operator_fields import TITLES


def _definitions() -> dict[str, str]:
    """Kind key -> whose definition, of all kinds with a controller whose fields kailab has from nowhere else."""
    found = {}
    for key, kind in KINDS.items():
        if kind.controller is not None and not kind.schema:
            definition = operator_fields.definition(kind.api_version, kind.kind)
            found[key] = definition.whose if definition else ""
    return found


def test_each_operators_kind_that_has_a_controller_has_its_fields() -> None:
    assert [key for key, whose in _definitions().items() if not whose] == []


def test_fields_are_those_of_the_pinned_versions() -> None:
    """If a pin was raised: ``python -m tools.operator_fields``."""
    pinned = {f"{title} {ADDONS[name][0].version}" for name, title in TITLES.items()}
    assert pinned <= set(_definitions().values())


def test_types_that_fields_name_are_there() -> None:
    key = of_group("jobset.x-k8s.io", "JobSet")
    assert key is not None
    definition = operator_fields.definition(KINDS[key].api_version, "JobSet")
    assert definition is not None
    todo, seen = [definition.type], set()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        todo += [of.strip("[]{}") for of in operator_fields.typed(name).values() if of.strip("[]{}")[:1] in ("O", "V")]
    assert "V1JobSpec" in seen
