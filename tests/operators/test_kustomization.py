"""Webhooks as an operator's own kustomization makes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kailab.components import ComponentManifests, DamagedComponent
from kailab.components.manifests import write_manifests
from kailab.operators.processes import apply_kustomization, replace_fields


def manifests(tmp_path: Path, **files: object) -> ComponentManifests:
    """Of a folder ``hooks``, written as JSON, which is YAML."""
    (tmp_path / "module" / "hooks").mkdir(parents=True)
    for name, content in files.items():
        documents = content if isinstance(content, tuple) else (content,)
        text = "\n---\n".join(json.dumps(one) for one in documents)
        (tmp_path / "module" / "hooks" / f"{name}.yaml").write_text(text)
    write_manifests(tmp_path / "manifests.zip", tmp_path / "module", ("hooks",))
    return ComponentManifests(tmp_path / "manifests.zip")


def hook(kind: str) -> dict[str, object]:
    hooks = [{"name": "one"}, {"name": "pods", "rules": []}]
    return {"apiVersion": "x/v1", "kind": kind, "metadata": {"name": "hook"}, "webhooks": hooks}


def test_patches_go_to_whom_they_are_meant_for(tmp_path: Path) -> None:
    selected = {"name": "pods", "objectSelector": {"matchLabels": {"a": "b"}}}
    found = apply_kustomization(
        manifests(
            tmp_path,
            kustomization={
                "resources": ["all.yaml"],
                "patches": [{"path": "patch.yaml", "target": {"group": "x", "version": "v1", "kind": "Mutating"}}],
            },
            all=(hook("Mutating"), hook("Validating")),
            patch=[
                {"op": "replace", "path": "/webhooks/1", "value": selected},
                {"op": "replace", "path": "/metadata/name", "value": "own"},
            ],
        ),
        "hooks",
    )
    mutating, validating = found
    assert mutating["webhooks"] == [{"name": "one"}, selected]
    assert mutating["metadata"]["name"] == "own"
    assert validating == hook("Validating")


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/webhooks/1", "value": 1},
        {"op": "replace", "path": "/webhooks/9", "value": 1},
        {"op": "replace", "path": "/webhooks/x", "value": 1},
        {"op": "replace", "path": "/nothing/here", "value": 1},
        {"op": "replace", "path": "/metadata/name"},
        {"path": "/metadata/name", "value": 1},
        {},
    ],
)
def test_a_patch_that_would_be_passed_over_is_a_fault(operation: dict[str, object]) -> None:
    original = hook("Mutating")
    with pytest.raises(DamagedComponent, match=r"hooks/patch\.yaml: the patch .* can't be carried out"):
        replace_fields(original, [operation], "hooks/patch.yaml")
    assert original == hook("Mutating")


def test_a_slash_in_a_name_is_escaped() -> None:
    labelled = {"metadata": {"labels": {"a/b~c": "old"}}}
    operation = {"op": "replace", "path": "/metadata/labels/a~1b~0c", "value": "new"}
    assert replace_fields(labelled, [operation], "x")["metadata"]["labels"] == {"a/b~c": "new"}
