"""Write the table of fields of operators' kinds from the definitions in their Go modules: ``python -m tools.operator_fields CHECKOUTS``.

It needs ``go mod download``, and checkouts of the operators in ``_CHECKOUTS`` in a folder that is given. The table has the names of fields, and
the values of fields that may have only some; pods, containers and the like are references to types of Kubernetes' own table.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from kailab.components.pins import ADDONS
from kailab.components.recipes import RECIPES
from kailab.model.kinds import key_of_group
from kailab.model.validation import core
from kailab.model.validation.core import OPERATORS_TABLE
from kailab.operators.registry import OPERATORS

Schema = dict[str, Any]

_OTHERS = {
    "Spark operator": ("github.com/kubeflow/spark-operator/v2", "v2.3.0", "config/crd/bases/*.yaml"),
    "Knative Serving": ("knative.dev/serving", "v0.51.0", "config/core/300-resources/*.yaml"),
    "Argo Workflows": ("github.com/argoproj/argo-workflows/v3", "v3.7.3", "manifests/base/crds/full/*.yaml"),
    "KServe": ("github.com/kserve/kserve", "v0.16.0", "config/crd/full/*.yaml"),
}
_CHECKOUTS = {
    "Grove": ("grove", "v0.1.0-alpha.11", "*/api/core/v1alpha1/crds/*.yaml"),
    "NVIDIA Dynamo": ("dynamo", "v1.2", "deploy/operator/config/crd/bases/nvidia.com_dynamographdeployments.yaml"),
    "Kubeflow Notebooks": ("notebooks", "v1.11.0", "components/notebook-controller/config/crd/bases/*.yaml"),
}
"""Operators that no module brings: the folder of a checkout of this version, and the pattern of the definitions there."""
_ALIKE = 0.6
"""A definition's object counts as a type of Kubernetes if all its fields are fields of the type, and it has at least this part of them."""


def made_table(checkouts: Path) -> dict[str, Any]:
    """``kinds``: (type, operator) by apiVersion and kind. ``values``: by the same, the values that each field may have. ``types``: as in
    Kubernetes' own table."""
    types = _Types()
    kinds: dict[str, list[str]] = {}
    values: dict[str, dict[str, list[Any]]] = {}
    for title, module, pattern in _manifests(checkouts):
        for definition in _definitions(module, pattern):
            spec = definition["spec"]
            kind = spec["names"]["kind"]
            if key_of_group(spec["group"], kind) is None:
                continue
            for version in spec["versions"]:
                schema = version["schema"]["openAPIV3Schema"]
                name = f"{spec['group']}/{version['name']} {kind}"
                kinds.setdefault(name, [types.of(schema, top=True), title])
                if found := dict(_values(schema.get("properties", {}).get("spec", {}), "spec")):
                    values.setdefault(name, found)
    return {"kinds": dict(sorted(kinds.items())), "values": dict(sorted(values.items())), "types": types.found}


def _values(schema: Schema, path: str) -> Iterator[tuple[str, list[Any]]]:
    """The path of each field that may have only some values, with them. Pods and the like have checks of their own."""
    if values := schema.get("enum"):
        yield path, values
    elif "items" in schema:
        yield from _values(schema["items"], f"{path}.*")
    elif isinstance(more := schema.get("additionalProperties"), dict):
        yield from _values(more, f"{path}.*")
    elif (properties := schema.get("properties")) and not _of_kubernetes(frozenset(properties)):
        for name, inner in sorted(properties.items()):
            yield from _values(inner, f"{path}.{name}")


def _manifests(checkouts: Path) -> Iterator[tuple[str, Path, str]]:
    """The title of each operator with its version, the folder of its module, and the pattern of its definitions there."""
    for name, operator in OPERATORS.items():
        if not operator.kinds:
            continue
        version = ADDONS[name][0].version
        yield f"{operator.title} {version}", _downloaded(RECIPES[name].module, version), operator.definitions
    for title, (module, version, pattern) in _OTHERS.items():
        yield f"{title} {version}", _downloaded(module, version), pattern
    for title, (folder, version, pattern) in _CHECKOUTS.items():
        yield f"{title} {version}", checkouts / folder, pattern


def _downloaded(module: str, version: str) -> Path:
    process = subprocess.run(
        ["go", "mod", "download", "-json", f"{module}@{version}"], check=True, capture_output=True, cwd="/"
    )
    return Path(json.loads(process.stdout)["Dir"])


def _definitions(module: Path, pattern: str) -> Iterator[Schema]:
    for file in sorted(module.glob(pattern)):
        for document in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            if isinstance(document, dict) and document.get("kind") == "CustomResourceDefinition":
                yield document


class _Types:
    """Numbered types; equal types have one number."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, str]] = {}
        self._names: dict[str, str] = {}

    def of(self, schema: Schema, top: bool = False) -> str:
        if "items" in schema:
            return f"[{inner}]" if (inner := self.of(schema["items"])) != "any" else "any"
        if isinstance(more := schema.get("additionalProperties"), dict):
            return "{" + inner + "}" if (inner := self.of(more)) != "any" else "any"
        properties = schema.get("properties")
        if not properties or schema.get("x-kubernetes-preserve-unknown-fields"):
            return "any"
        fields = {
            name: "V1ObjectMeta" if name == "metadata" else self.of(inner)
            for name, inner in sorted(properties.items())
            if not (top and name in ("apiVersion", "kind", "status"))
        }
        return _of_kubernetes(frozenset(fields)) or self._own(fields)

    def _own(self, fields: dict[str, str]) -> str:
        text = json.dumps(fields)
        if text not in self._names:
            self._names[text] = name = f"O{len(self.found)}"
            self.found[name] = fields
        return self._names[text]


def _of_kubernetes(names: frozenset[str]) -> str | None:
    if len(names) < 8:
        return None
    for type in core.types():
        fields = core.field_types(type).keys()
        if names <= fields and len(names) >= _ALIKE * len(fields):
            return type
    return None


def written(table: dict[str, Any]) -> str:
    """The text of the table: a line for each kind and type."""
    parts = []
    for name in ("kinds", "values", "types"):
        lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in table[name].items()]
        parts.append(f"{json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    OPERATORS_TABLE.write_text(written(made_table(Path(sys.argv[1]))), encoding="utf-8")
