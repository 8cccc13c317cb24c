"""The CustomResourceDefinitions of Queue, PodGroup, BindRequest and Topology, and the schemas of KAI's other kinds.

They are YAML files in ``crds/``, as for kubectl. They accept every object that KAI's own accept, except PodGroups of
more than 700 subgroups, and refuse faults that a schema can detect where KAI leaves that to its webhooks. ``schemas/``
has kinds that only KAI's operator acts on: objects are checked against them.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from kailab.cluster.protocol import Object
from kailab.model.objects import name_of
from kailab.model.validation.shapes import Check, shape_of_schema


def crds() -> list[Object]:
    """CustomResourceDefinition objects (apiextensions.k8s.io/v1), by name."""
    # Only setting up a cluster needs it; most commands never come here.
    import yaml

    folder = files("kailab.cluster.install").joinpath("crds")
    definitions: list[Object] = [
        yaml.safe_load(file.read_text(encoding="utf-8")) for file in folder.iterdir() if file.name.endswith(".yaml")
    ]
    return sorted(definitions, key=name_of)


@cache
def schema(group: str, kind: str, version: str) -> Object | None:
    """The schema of one of KAI's kinds in that version, or in the stored one; None for other kinds."""
    from kailab.model.yamltext import read_document

    home = files("kailab.cluster.install")
    for file in (*home.joinpath("crds").iterdir(), *home.joinpath("schemas").iterdir()):
        crd, _ = read_document(file.read_text(encoding="utf-8"), file.name, "one definition")
        if (crd["spec"]["group"], crd["spec"]["names"]["kind"]) == (group, kind):
            versions: list[Object] = crd["spec"]["versions"]
            chosen = next((entry for entry in versions if entry["name"] == version), None)
            chosen = chosen or next(entry for entry in versions if entry["storage"])
            return chosen["schema"]["openAPIV3Schema"]
    return None


def shape_of_bind_request() -> Check:
    return _shape("scheduling.run.ai", "BindRequest")


def shape_of_config() -> Check:
    return _shape("kai.scheduler", "Config")


def shape_of_scheduling_shard() -> Check:
    return _shape("kai.scheduler", "SchedulingShard")


def _shape(group: str, kind: str) -> Check:
    definition = schema(group, kind, "")
    assert definition is not None
    return shape_of_schema(definition)
