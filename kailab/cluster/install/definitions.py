"""The CustomResourceDefinitions of Queue, PodGroup, BindRequest and Topology, and the schemas of KAI's other kinds.

Kept as YAML files in ``crds/``, as one would hand them to kubectl. They take every object that KAI's own take, but for
PodGroups of more than 700 subgroups, and refuse what a schema can tell is wrong where KAI leaves that to its webhooks. Those in
``schemas/`` are of kinds that KAI's operator acts on and nothing of ours does: objects are checked by them.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from kailab.cluster.protocol import Object
from kailab.model.validation.shapes import Check, shape_of_schema


def crds() -> list[Object]:
    """CustomResourceDefinition objects (apiextensions.k8s.io/v1), by name."""
    # Only where a cluster is set up: most commands never come here.
    import yaml

    folder = files("kailab.cluster.install").joinpath("crds")
    found: list[Object] = [
        yaml.safe_load(file.read_text(encoding="utf-8")) for file in folder.iterdir() if file.name.endswith(".yaml")
    ]
    return sorted(found, key=lambda crd: str(crd["metadata"]["name"]))


@cache
def schema(group: str, kind: str, version: str) -> Object | None:
    """The schema of a kind of KAI's in that version, or in the one that is stored; None for other kinds."""
    from kailab.model.yamltext import read_document

    home = files("kailab.cluster.install")
    for file in (*home.joinpath("crds").iterdir(), *home.joinpath("schemas").iterdir()):
        crd, _ = read_document(file.read_text(encoding="utf-8"), file.name, "one definition")
        if (crd["spec"]["group"], crd["spec"]["names"]["kind"]) == (group, kind):
            versions: list[Object] = crd["spec"]["versions"]
            chosen = next((one for one in versions if one["name"] == version), None)
            chosen = chosen or next(one for one in versions if one["storage"])
            found: Object = chosen["schema"]["openAPIV3Schema"]
            return found
    return None


def shape_of_bind_request() -> Check:
    return _shape("scheduling.run.ai", "BindRequest")


def shape_of_config() -> Check:
    return _shape("kai.scheduler", "Config")


def shape_of_scheduling_shard() -> Check:
    return _shape("kai.scheduler", "SchedulingShard")


def _shape(group: str, kind: str) -> Check:
    found = schema(group, kind, "")
    assert found is not None
    return shape_of_schema(found)
