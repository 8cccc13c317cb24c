"""A field of a fleet file: what the schema knows is read, and written back under the same key."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

from kailab.fleet.fleet import KEY, Pool, fleet_definition
from kailab.fleet.reading import SCHEMA, load_fleet
from kailab.model.schema_files import read_schema

WITH_A_FORM_OF_THEIR_OWN = {"name", "count", "cpu", "memory", "mig", "taints", "layout"}
A_COMMENT = {"description"}


def test_each_key_of_the_schema_is_a_field_of_a_pool() -> None:
    keys = {each.metadata[KEY] for each in fields(Pool) if KEY in each.metadata}
    assert keys | WITH_A_FORM_OF_THEIR_OWN | A_COMMENT == set(read_schema(SCHEMA)["$defs"]["pool"]["properties"])


def test_what_is_read_is_written_under_the_same_keys(tmp_path: Path) -> None:
    pool = {
        "name": "a", "count": 2, "cpu": 8, "memory": "64Gi", "pods": 50, "gpus": 4, "gpuModel": "H100", "gpuMemory": "80Gi",
        "resources": {"example.com/nic": "2"}, "nameTemplate": "n-{index}", "startIndex": 3, "labels": {"x": "y"},
        "annotations": {"p": "q"},
    }  # fmt: skip
    described = {"apiVersion": "kailab.dev/v1", "kind": "Fleet", "name": "f", "pools": [pool]}
    path = tmp_path / "fleet.yaml"
    path.write_text(json.dumps(described))
    first = load_fleet(path)
    written = fleet_definition(first)
    assert set(written["pools"][0]) == set(pool)
    path.write_text(json.dumps(written))
    assert load_fleet(path) == first
